"""Promise D8: full visits to a survey (page, query, answer) beside the same server with empty handlers, in one run.

    python benchmarks/survey_server.py [--seconds 10] [--at-once 32] [--workers 2] [--store postgresql://...]

    empty      the same server process by process: uvicorn, as many workers, three routes that return nothing
    survey     signing, limits, the durable store (SQLite with group commit), and the learner beside the workers
    half load  visits begun at half the survey's rate, whatever becomes of the earlier ones: their times

Visitors come from one more process on the same cores, so figures by the clock say little; the ratio is of one run, on
an idle machine. Where others work beside it, a visit that waits for a disk and a lock queues behind them many times,
an empty one hardly; so the processor time of the server's processes for each visit is told, too (where /proc has it).
The learner's lag (lines of the log that are not learnt yet) is read each second while the load lasts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import uvicorn
from scipy import stats
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import noisewise as nw
from noisewise.collector.board import Board, Words
from noisewise.collector.bulletin import operator_numbers
from noisewise.collector.learner import Learner, replay
from noisewise.collector.serving import Listening, bound_socket, serve, server_config
from noisewise.collector.store import create, open_store
from noisewise.collector.web import ServerSettings

POPULATION = nw.Normal(mean=stats.norm(40, 30), sd=stats.halfnorm(scale=30))
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Visit = Callable[[Connection], Awaitable[None]]


# ---- the two servers ----


async def nothing(_: Request) -> Response:
    return Response(b"")


def empty_worker(shared) -> None:
    routes = [Route("/", nothing), *(Route(path, nothing, methods=["POST"]) for path in ("/api/query", "/api/answer"))]
    uvicorn.Server(server_config(Starlette(routes=routes))).run(sockets=[shared])


def new_store(where: str) -> None:
    survey = nw.Survey(POPULATION, guarantee=nw.PureDP(1), n_particles=1000)
    board = Board.open(create(where, survey, simulated=True))
    board.put_words(Words(title="Load", question="How long was your way to work today?", unit="minutes"))
    board.new_admin_token()
    Learner(board.store).step()


# ---- the visitors ----


async def asked(connection: Connection, method: str, path: str, body: bytes = b"") -> bytes:
    """One request on a kept connection."""
    reader, writer = connection
    kind = f"Host: load\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    writer.write(f"{method} {path} HTTP/1.1\r\n{kind}\r\n\r\n".encode() + body)
    told = await reader.readuntil(b"\r\n\r\n")
    status, length = told.split(b" ", 2)[1], 0
    for line in told.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = int(line[15:])
    data = await reader.readexactly(length)
    if status != b"200":
        raise RuntimeError(f"{path}: {status.decode()} {data[:200]!r}")
    return data


async def full_visit(connection: Connection) -> None:
    await asked(connection, "GET", "/")
    query = json.loads(await asked(connection, "POST", "/api/query", b"{}"))["query"]
    # Any answer that the question can have: what is measured is the server, and noise would be the visitor's work.
    value = 0 if "edges" in query else round(0.5 * (query["low"] + query["high"]) / query["law"]["step"][0])
    await asked(connection, "POST", "/api/answer", json.dumps({"id": query["id"], "value": value}).encode())


async def empty_visit(connection: Connection) -> None:
    await asked(connection, "GET", "/")
    await asked(connection, "POST", "/api/query", b"{}")
    await asked(connection, "POST", "/api/answer", b'{"id": "x", "value": 1}')


def processor_seconds(parent: int) -> dict[str, float]:
    """Processor time so far of a process's children, by their order of birth; nothing where /proc is not there."""
    found = {}
    for place in sorted(Path("/proc").glob("[0-9]*/stat"), key=lambda one: int(one.parent.name)):
        try:
            fields = place.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            found[place.parent.name] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return found


def spent(parent: int, before: dict[str, float]) -> float:
    return sum(now - before.get(name, 0.0) for name, now in processor_seconds(parent).items())


class Measured(NamedTuple):
    """What a load came to."""

    per_second: float
    processor_ms: float  # of the server's processes, for each visit


async def rate(port: int, visit: Visit, parent: int, *, at_once: int, seconds: float) -> Measured:
    """Visits a second with so many visitors who begin again at once."""
    before = processor_seconds(parent)
    done, end = 0, time.perf_counter() + seconds

    async def visitor() -> None:
        nonlocal done
        connection = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() < end:
            await visit(connection)
            done += 1
        connection[1].close()

    begun = time.perf_counter()
    await asyncio.gather(*(visitor() for _ in range(at_once)))
    return Measured(done / (time.perf_counter() - begun), 1e3 * spent(parent, before) / max(done, 1))


async def times(port: int, visit: Visit, *, per_second: float, seconds: float) -> np.ndarray:
    """How long each visit takes when they begin at this rate."""
    found: list[float] = []

    async def visitor() -> None:
        begun = time.perf_counter()
        connection = await asyncio.open_connection("127.0.0.1", port)
        await visit(connection)
        connection[1].close()
        found.append(time.perf_counter() - begun)

    tasks, begun = [], time.perf_counter()
    for k in range(int(per_second * seconds)):
        await asyncio.sleep(max(0.0, begun + k / per_second - time.perf_counter()))
        tasks.append(asyncio.create_task(visitor()))
    await asyncio.gather(*tasks)
    return np.array(found)


async def lags(where: str, stop: asyncio.Event) -> list[int]:
    store = open_store(where)
    board, found = Board(store), []
    while not stop.is_set():
        found.append(int((await asyncio.to_thread(operator_numbers, board, store))["lag"]))
        await asyncio.sleep(1.0)
    return found


async def up(port: int) -> None:
    while True:
        try:
            connection = await asyncio.open_connection("127.0.0.1", port)
            await asked(connection, "GET", "/")
            connection[1].close()
            return
        except OSError:
            await asyncio.sleep(0.1)


async def measured_empty(port: int, given: argparse.Namespace) -> Measured:
    await up(port)
    await rate(port, empty_visit, os.getpid(), at_once=given.at_once, seconds=2)
    return await rate(port, empty_visit, os.getpid(), at_once=given.at_once, seconds=given.seconds)


async def measured_survey(
    port: int, where: str, parent: int, given: argparse.Namespace
) -> tuple[Measured, np.ndarray, list[int]]:
    await up(port)
    await rate(port, full_visit, parent, at_once=given.at_once, seconds=3)  # compiled and warm
    stop = asyncio.Event()
    watching = asyncio.create_task(lags(where, stop))
    whole = await rate(port, full_visit, parent, at_once=given.at_once, seconds=given.seconds)
    half = await times(port, full_visit, per_second=whole.per_second / 2, seconds=given.seconds)
    stop.set()
    return whole, half, await watching


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--at-once", type=int, default=32)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--store", default=None)
    given = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as name:
        where = given.store or str(Path(name) / "load.survey")
        with bound_socket("127.0.0.1", 0) as shared:
            workers = [context.Process(target=empty_worker, args=(shared,)) for _ in range(given.workers)]
            for worker in workers:
                worker.start()
            empty = asyncio.run(measured_empty(shared.getsockname()[1], given))
            for worker in workers:
                worker.terminate()
                worker.join()
        new_store(where)
        with bound_socket("127.0.0.1", 0) as free:
            port = int(free.getsockname()[1])
        settings = ServerSettings(rate=10_000_000)
        server = context.Process(
            target=serve, args=(where, Listening(port=port, workers=given.workers, settings=settings))
        )
        server.start()
        try:
            whole, half, lag = asyncio.run(measured_survey(port, where, server.pid or 0, given))
        finally:
            server.terminate()
            server.join()
        answers = replay(open_store(where)).answers
    median, late = np.quantile(half, [0.5, 0.99])
    print(
        f"empty handlers   {empty.per_second:8.1f} visits/s   1.00   {empty.processor_ms:.2f} ms of processor for each"
    )
    share, work = whole.per_second / empty.per_second, empty.processor_ms / whole.processor_ms
    print(f"survey           {whole.per_second:8.1f} visits/s   {share:.2f}   (promised: at least .25, on idle cores)")
    print(
        f"  with learner   {whole.processor_ms:8.2f} ms of processor for each visit: {work:.2f} visits for an empty one"
    )
    print(
        f"at half of that  median {1e3 * median:.1f} ms, 99 % below {1e3 * late:.1f} ms: {late / median:.1f} (below 20)"
    )
    print(f"learner's lag    median {np.median(lag):.0f}, at most {max(lag)} lines; {answers} answers replayed")


if __name__ == "__main__":
    main()
