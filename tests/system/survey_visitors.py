"""Simulated people who answer a survey over HTTP, some at a time; made to meet servers that are killed.

survey_visitors.py URL PEOPLE AT_ONCE RECEIPTS      appends "id value receipt" to RECEIPTS, one line each

A person who gets no receipt sends the same answer again until there is one, as the page does.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
import threading
import time

import numpy as np

from noisewise.online.simulate import simulated_answer
from noisewise.query import Query

MOST_SECONDS = 300.0


def main(url: str, people: int, at_once: int, receipts: str) -> None:
    host, _, port = url.partition("://")[2].partition(":")
    shares = [people // at_once + (k < people % at_once) for k in range(at_once)]
    with open(receipts, "ab", buffering=0) as told:
        threads = [threading.Thread(target=visit, args=(host, int(port), share, told.fileno())) for share in shares]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def visit(host: str, port: int, people: int, told: int) -> None:
    rng = np.random.default_rng()
    for _ in range(people):
        plain = posted(host, port, "/api/query", {})["query"]
        query = Query.from_dict(plain)
        value = simulated_answer(rng, query, float(rng.normal(46, 18))).value
        receipt = posted(host, port, "/api/answer", {"id": query.id, "value": value})["receipt"]
        os.write(told, f"{query.id} {value} {receipt}\n".encode())


def posted(host: str, port: int, path: str, body: object) -> dict[str, str]:
    """What the server answers, asked again until it does."""
    end = time.monotonic() + MOST_SECONDS
    while time.monotonic() < end:
        connection = http.client.HTTPConnection(host, port, timeout=30)
        try:
            connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            response = connection.getresponse()
            data = response.read()
            if response.status == 200:
                return json.loads(data)
        except (OSError, http.client.HTTPException):
            pass
        finally:
            connection.close()
        time.sleep(0.1)
    raise SystemExit(f"{path} was not answered within {MOST_SECONDS} s")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
