"""Promise D8: full visits to a survey (page, query, answer) beside the same server with empty handlers, in one run.

    python benchmarks/survey_server.py [--seconds 8] [--rounds 3] [--at-once 128] [--workers 2] [--store postgresql://...]

    empty      the same server process by process: uvicorn, as many workers, three routes that return nothing
    survey     signing, limits, the durable store (SQLite with group commit), and the learner beside the workers
    half load  visits begun at half the survey's rate, whatever becomes of the earlier ones: their times

Both servers are up all the time and are visited in turns, so that whatever else the machine does meets both. Visitors
come from one more process on the same cores, so figures by the clock say little, and their ratio is that of an idle
machine only: where others work beside it, a visit that waits for a disk and a lock queues behind them many times, an
empty one hardly. So the processor time of the server's processes for each visit is told, too (where /proc has it), the
learner's apart. The learner's lag (lines of the log that are not learnt yet) is read each second while the load lasts.
"""

from __future__ import annotations

import argparse
import asyncio
import bisect
import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from fractions import Fraction
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
PEOPLE = 46.0, 18.0  # mean and sd of the visitors
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Visit = Callable[[Connection], Awaitable[None]]


# ---- the two servers ----


async def nothing(_: Request) -> Response:
    return Response(b"")


def empty_worker(port: int) -> None:
    routes = [Route("/", nothing), *(Route(path, nothing, methods=["POST"]) for path in ("/api/query", "/api/answer"))]
    own = bound_socket("127.0.0.1", port, is_shared=True)
    uvicorn.Server(server_config(Starlette(routes=routes))).run(sockets=[own])


def empty_server(port: int, workers: int) -> None:
    """A parent with so many workers; they end with it."""
    context = multiprocessing.get_context("spawn")
    running = [context.Process(target=empty_worker, args=(port,), daemon=True) for _ in range(workers)]
    for worker in running:
        worker.start()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    for worker in running:
        worker.join()


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
    kind = f"Host: load\r\nAccept-Encoding: gzip\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
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
    body = {"id": query["id"], "value": noisy(query, random.gauss(*PEOPLE))}
    await asked(connection, "POST", "/api/answer", json.dumps(body).encode())


def noisy(query: dict, value: float) -> int:
    """What a person of this value sends, by floating-point noise that costs the visitors next to nothing.

    It must have the law of the query: answers that no population gives keep the learner chasing it.
    """
    law = query["law"]
    if "edges" in query:
        cell = bisect.bisect_right(query["edges"], value)
        if random.random() < float(Fraction(law["keep"])):
            return cell
        return (cell + random.randrange(1, law["cells"])) % law["cells"]
    sent = min(max(value, query["low"]), query["high"]) + random.choice((-1, 1)) * random.expovariate(
        1 / law["scale"][0]
    )
    return round(sent / law["step"][0])


async def empty_visit(connection: Connection) -> None:
    await asked(connection, "GET", "/")
    await asked(connection, "POST", "/api/query", b"{}")
    await asked(connection, "POST", "/api/answer", b'{"id": "x", "value": 1}')


def processor_seconds(parent: int) -> list[float]:
    """Processor time so far of a process's children, in their order of birth; nothing where /proc is not there."""
    found = []
    for place in sorted(Path("/proc").glob("[0-9]*/stat"), key=lambda one: int(one.parent.name)):
        try:
            fields = place.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            found.append((int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"))
    return found


class Measured(NamedTuple):
    """What a load came to."""

    per_second: float
    processor_ms: float  # of the server's processes, for each visit
    learner_ms: float  # of that, the process that was born first: a survey's learner


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
    elapsed = time.perf_counter() - begun
    each = [1e3 * (now - then) / max(done, 1) for now, then in zip(processor_seconds(parent), before, strict=True)]
    return Measured(done / elapsed, sum(each), each[0] if each else float("nan"))


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


async def measured(
    empty: tuple[int, int], survey: tuple[int, int], where: str, given: argparse.Namespace
) -> tuple[list[Measured], list[Measured], np.ndarray, list[int]]:
    """Both servers in turns (each by its port and its parent's id), then the survey at half of its load."""
    for port in (empty[0], survey[0]):
        await up(port)
    load = {"at_once": given.at_once, "seconds": given.seconds}
    await rate(empty[0], empty_visit, empty[1], at_once=given.at_once, seconds=2)
    await rate(survey[0], full_visit, survey[1], at_once=given.at_once, seconds=4)  # compiled and warm
    stop = asyncio.Event()
    watching = asyncio.create_task(lags(where, stop))
    nothing, whole = [], []
    for _ in range(given.rounds):
        nothing.append(await rate(empty[0], empty_visit, empty[1], **load))
        whole.append(await rate(survey[0], full_visit, survey[1], **load))
    usual = float(np.median([one.per_second for one in whole]))
    half = await times(survey[0], full_visit, per_second=usual / 2, seconds=given.seconds)
    stop.set()
    return nothing, whole, half, await watching


def free_port() -> int:
    with bound_socket("127.0.0.1", 0) as free:
        return int(free.getsockname()[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--at-once", type=int, default=128)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--store", default=None)
    given = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as name:
        where = given.store or str(Path(name) / "load.survey")
        new_store(where)
        empty_port, port = free_port(), free_port()
        listening = Listening(port=port, workers=given.workers, settings=ServerSettings(rate=10_000_000))
        servers = [
            context.Process(target=empty_server, args=(empty_port, given.workers)),
            context.Process(target=serve, args=(where, listening)),
        ]
        for server in servers:
            server.start()
        try:
            empty, survey = ((one, server.pid or 0) for one, server in zip((empty_port, port), servers, strict=True))
            nothing, whole, half, lag = asyncio.run(measured(empty, survey, where, given))
        finally:
            for server in servers:
                server.terminate()
                server.join()
        answers = replay(open_store(where)).answers
    for one, other in zip(nothing, whole, strict=True):
        print(
            f"empty {one.per_second:7.1f} visits/s, {one.processor_ms:.2f} ms of processor for each; survey "
            f"{other.per_second:6.1f} visits/s ({other.per_second / one.per_second:.2f}), {other.processor_ms:.2f} ms "
            f"({one.processor_ms / other.processor_ms:.2f}), of which the learner {other.learner_ms:.2f} ms"
        )
    median, late = np.quantile(half, [0.5, 0.99])
    print(
        f"survey of {given.at_once} at once to empty handlers, median of {given.rounds}: "
        f"{np.median([b.per_second / a.per_second for a, b in zip(nothing, whole, strict=True)]):.2f} by the clock "
        "(promised: at least .25, on idle cores), "
        f"{np.median([a.processor_ms / b.processor_ms for a, b in zip(nothing, whole, strict=True)]):.2f} by processor"
    )
    print(
        f"at half of that  median {1e3 * median:.1f} ms, 99 % below {1e3 * late:.1f} ms: {late / median:.1f} (below 20)"
    )
    print(f"learner's lag    median {np.median(lag):.0f}, at most {max(lag)} lines; {answers} answers replayed")


if __name__ == "__main__":
    main()
