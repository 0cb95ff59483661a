"""noisewise survey demo: a server in a temporary folder, and simulated people in this process who answer over HTTP.

The people are drawn here and draw their own noise here, simulated; the server never sees a value, and what it exports
says that its respondents were simulated.
"""

from __future__ import annotations

import http.client
import json
import multiprocessing
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from noisewise.cli.actions import console
from noisewise.cli.survey_actions import announcement, begin
from noisewise.cli.survey_spec import SurveySpec, template
from noisewise.collector.serving import Listening, bound_socket, serve
from noisewise.errors import SurveyError
from noisewise.online.simulate import simulated_answer
from noisewise.query import Query

MEAN, SD = 46.0, 18.0  # of the simulated people
START_SECONDS = 60.0
TRIES = 20


def run_demo(*, people: int, port: int, at_once: int, pause: float, stay: bool) -> None:
    """Serve, answer, and stay until interrupted."""
    with tempfile.TemporaryDirectory(prefix="noisewise-survey-") as name:
        spec = _spec(Path(name), port)
        token = begin(spec, simulated=True, wants_token=True)
        server = multiprocessing.get_context("spawn").Process(target=serve, args=(spec.where, _listening(spec)))
        server.start()
        try:
            _wait(spec.server.port)
            console.print(announcement(spec, token), markup=False)
            console.print(f"{people} simulated people answer now; their mean is {MEAN:g}.", markup=False)
            _answer_all(spec.server.port, people, at_once, pause)
            console.print("All have answered.", markup=False)
            while stay:
                time.sleep(1)
        except KeyboardInterrupt:
            console.print("Stopped.", markup=False)
        finally:
            server.terminate()
            server.join()


def _spec(folder: Path, port: int) -> SurveySpec:
    path = folder / "demo.toml"
    path.write_text(template({}).replace("port = 8000", f"port = {port or _free_port()}"))
    return SurveySpec.read(path)


def _free_port() -> int:
    with bound_socket("127.0.0.1", 0) as found:
        return int(found.getsockname()[1])


def _listening(spec: SurveySpec) -> Listening:
    """Simulated people share one address, so the limit by address would stop them."""
    found = spec.listening()
    settings = type(found.settings)(rate=1_000_000)
    return Listening(found.host, found.port, found.workers, settings)


def _wait(port: int) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        try:
            if _call(http.client.HTTPConnection("127.0.0.1", port, timeout=5), "GET", "/healthz")[0] == 200:
                return
        except OSError:
            time.sleep(0.2)
    raise SurveyError("The server did not start.", reason="start")


def _call(connection: http.client.HTTPConnection, method: str, path: str, body: object = None) -> tuple[int, bytes]:
    headers = {"Content-Type": "application/json"}
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    response = connection.getresponse()
    return response.status, response.read()


def _answer_all(port: int, people: int, at_once: int, pause: float) -> None:
    shares = [people // at_once + (k < people % at_once) for k in range(at_once)]
    threads = [threading.Thread(target=_answer, args=(port, share, pause), daemon=True) for share in shares]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _answer(port: int, people: int, pause: float) -> None:
    """Some people, one after the other."""
    rng = np.random.default_rng()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    for _ in range(people):
        for attempt in range(TRIES):
            status, body = _call(connection, "POST", "/api/query", {})
            if status == 410:  # the closing rule is met
                return
            if status == 200:
                query = Query.from_dict(json.loads(body)["query"])
                answer = simulated_answer(rng, query, float(rng.normal(MEAN, SD)))
                _call(connection, "POST", "/api/answer", {"id": query.id, "value": answer.value})
                break
            time.sleep(0.1 * (attempt + 1))
        time.sleep(pause * 2 * float(rng.random()))
