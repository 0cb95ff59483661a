"""The processes of a survey: several web workers at one port, one learner, and a parent that starts them again.

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
from noisewise.collector.store import Session, open_store
from noisewise.collector.web import Front, ServerSettings, application
from noisewise.errors import NoisewiseError, SurveyError
from noisewise.online.stopping import Stop

try:
    import uvicorn
    from starlette.applications import Starlette
except ImportError:  # pragma: no cover
    raise NoisewiseError("A survey server needs more packages: pip install 'noisewise[survey]'.") from None

__all__ = ["Listening", "bound_socket", "follow", "reserved_port", "serve", "server_config"]

IDLE_SECONDS = 0.02
EXPIRE_SECONDS = 60.0
RESTART_SECONDS = 1.0
LOOK_SECONDS = 0.5
LEAVE_SECONDS = 10.0
POLITENESS = 5  # of the learner: those who wait for an answer come first


@dataclass(frozen=True, slots=True)
class Listening:
    """Where a server listens, with how many workers."""

    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 2
    settings: ServerSettings = field(default_factory=ServerSettings)


def bound_socket(host: str, port: int, *, is_shared: bool = False) -> socket.socket:
    """A socket at a port; `is_shared`: one of several there, among which the system deals out who comes.

    Workers that wait at one socket take whole bursts of visitors each; at sockets of their own they get equal shares.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP, so that asyncio switches Nagle's algorithm off: a response is written in two pieces, and without
    # that the second waits 40 ms for the first to be acknowledged.
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if is_shared:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        found.bind((host, port))
    except OSError as error:
        found.close()
        raise SurveyError(
            f"Nobody can listen at {host}:{port}: {error.strerror}. Choose another port in [server].", reason="port"
        ) from None
    return found


def reserved_port(host: str, port: int) -> socket.socket:
    """A socket that keeps a port for our workers and takes no visitor; refused where others listen there already."""
    with bound_socket(host, port) as free:  # not shared: so somebody else's server is noticed
        taken = int(free.getsockname()[1])
    return bound_socket(host, taken, is_shared=True)


def serve(where: str, listening: Listening, *, ready: Callable[[int], None] = lambda _: None) -> None:
    """Run workers and learner until told to stop; `ready` is called with the port once the first visitor gets in."""
    reserved = reserved_port(listening.host, listening.port)
    port = int(reserved.getsockname()[1])
    context = multiprocessing.get_context("spawn")
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())

    def started(role: int) -> multiprocessing.process.BaseProcess:
        target, given = (learn, (where,)) if role == 0 else (work, (where, listening.host, port, listening.settings))
        process = context.Process(target=target, args=given, daemon=True)
        process.start()
        return process

    roles = range(listening.workers + 1)
    running = {role: started(role) for role in roles}
    is_told = False
    try:
        while not stopping.wait(RESTART_SECONDS if is_told else LOOK_SECONDS):
            if not is_told and is_heard(listening.host, port):
                is_told = True
                ready(port)
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
        reserved.close()


def is_heard(host: str, port: int) -> bool:
    """Whether somebody listens there by now."""
    with suppress(OSError), socket.create_connection((host, port), timeout=1):
        return True
    return False


def work(where: str, host: str, port: int, settings: ServerSettings) -> None:
    """One web worker, at a socket of its own."""
    front = Front(open_store(where), settings)
    server = uvicorn.Server(server_config(application(front)))
    parent, own = os.getppid(), bound_socket(host, port, is_shared=True)

    async def watched() -> None:
        serving = asyncio.create_task(server.serve(sockets=[own]))
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
    with suppress(OSError, AttributeError):
        os.nice(POLITENESS)
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
            # What is written here can be made again, so nobody who waits for a receipt waits for this, too.
            with suppress(SurveyError, *store.database.failures), store.session(is_durable=False) as session:
                while not until():
                    crowd.look(session)
                    lines = learner.learn(session, most=crowd.lines)
                    crowd.freshen(session)
                    bulletin.look(is_closed=_is_closed(session))
                    if time.monotonic() > expired + EXPIRE_SECONDS:
                        expired = time.monotonic()
                        desk.expire(older_than=words.expiry)
                    if not lines:
                        time.sleep(IDLE_SECONDS)
            time.sleep(IDLE_SECONDS)


def _is_closed(session: Session) -> bool:
    return bool(int(session.rows("SELECT closed FROM head")[0][0]))
