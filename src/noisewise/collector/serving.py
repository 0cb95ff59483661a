"""The processes of a survey: several web workers on one socket, one learner, and a parent that starts them again.

    serve(where, Listening(...))      until SIGINT or SIGTERM; a process that ends is started again

All of them may be killed at any instant: what was receipted is on disk, and the learner's state is a function of the
log (`learner`). Workers and the learner end by themselves when their parent is gone.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from noisewise.collector.board import Board
from noisewise.collector.bulletin import Bulletin
from noisewise.collector.crowd import Crowd
from noisewise.collector.desk import Desk
from noisewise.collector.learner import Learner
from noisewise.collector.store import Store, open_store
from noisewise.collector.web import Front, ServerSettings, application
from noisewise.errors import NoisewiseError, SurveyError
from noisewise.online.stopping import Stop

try:
    import uvicorn
    from starlette.applications import Starlette
except ImportError:  # pragma: no cover
    raise NoisewiseError("A survey server needs more packages: pip install 'noisewise[survey]'.") from None

__all__ = ["Listening", "bound_socket", "follow", "serve", "server_config"]

BACKLOG = 2048
IDLE_SECONDS = 0.02
EXPIRE_SECONDS = 60.0
RESTART_SECONDS = 1.0
LOOK_SECONDS = 0.5
LEAVE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Listening:
    """Where a server listens, with how many workers."""

    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 2
    settings: ServerSettings = field(default_factory=ServerSettings)


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket that all workers listen on."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise SurveyError(
            f"Nobody can listen at {host}:{port}: {error.strerror}. Choose another port in [server].", reason="port"
        ) from None
    listening.listen(BACKLOG)
    listening.set_inheritable(True)
    return listening


def serve(where: str, listening: Listening, *, ready: Callable[[int], None] = lambda _: None) -> None:
    """Run workers and learner until told to stop; `ready` is called with the port once they are started."""
    shared = bound_socket(listening.host, listening.port)
    context = multiprocessing.get_context("spawn")
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())

    def started(role: int) -> multiprocessing.process.BaseProcess:
        target, given = (learn, (where,)) if role == 0 else (work, (where, shared, listening.settings))
        process = context.Process(target=target, args=given, daemon=True)
        process.start()
        return process

    roles = range(listening.workers + 1)
    running = {role: started(role) for role in roles}
    try:
        ready(shared.getsockname()[1])
        while not stopping.wait(RESTART_SECONDS):
            for role in roles:
                if not running[role].is_alive():
                    running[role] = started(role)
    finally:
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.join(LEAVE_SECONDS)
            if process.is_alive():
                process.kill()
        shared.close()


def work(where: str, shared: socket.socket, settings: ServerSettings) -> None:
    """One web worker."""
    front = Front(open_store(where), settings)
    server = uvicorn.Server(server_config(application(front)))
    parent = os.getppid()

    async def watched() -> None:
        serving = asyncio.create_task(server.serve(sockets=[shared]))
        while not serving.done():
            await asyncio.wait([serving], timeout=LOOK_SECONDS)
            server.should_exit |= os.getppid() != parent
            front.is_leaving = server.should_exit
        await serving

    asyncio.run(watched())


def server_config(app: Starlette) -> uvicorn.Config:
    """No access log, nobody's word about addresses taken here, no name of the server, small headers."""
    return uvicorn.Config(
        app,
        access_log=False,
        log_level="warning",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=3,
        h11_max_incomplete_event_size=16_384,
    )


def learn(where: str) -> None:
    """The learner's process."""
    parent, stopping = os.getppid(), threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    signal.signal(signal.SIGINT, lambda *_: stopping.set())
    follow(where, lambda: stopping.is_set() or os.getppid() != parent)


def follow(where: str, until: Callable[[], bool]) -> None:
    """Learn, refill the pool, draw the public picture and give up on queries that nobody will answer."""
    store = open_store(where)
    board = Board(store)
    words = board.words
    learner = Learner(store, stop=None if words.close is None else Stop.read(words.close))
    bulletin, crowd = Bulletin(board, learner, words), Crowd(learner)
    expired = time.monotonic()
    with Desk(store) as desk:
        while not until():
            with suppress(SurveyError, *store.database.failures):
                with store.session() as session:
                    crowd.look(session)
                lines = learner.step()
                bulletin.look(is_closed=_is_closed(store))
                if time.monotonic() > expired + EXPIRE_SECONDS:
                    expired = time.monotonic()
                    desk.expire(older_than=words.expiry)
                if lines:
                    continue
            time.sleep(IDLE_SECONDS)


def _is_closed(store: Store) -> bool:
    with store.session() as session:
        return bool(int(session.rows("SELECT closed FROM head")[0][0]))
