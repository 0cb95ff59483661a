"""One process of a survey, by its role: a worker that answers for simulated people, or the learner; made to be killed.

collector_worker.py STORE worker SEED PEOPLE RECEIPTS      appends "id value receipt" to RECEIPTS, one line each
collector_worker.py STORE learner                          until it is killed
"""

from __future__ import annotations

import os
import sys

import numpy as np

from noisewise.collector.desk import Desk
from noisewise.collector.learner import Learner
from noisewise.collector.store import open_store
from noisewise.errors import SurveyError
from noisewise.online.simulate import simulated_answer


def work(where: str, seed: int, people: int, receipts: str) -> None:
    rng = np.random.default_rng(seed)
    with Desk(open_store(where)) as desk, open(receipts, "ab", buffering=0) as told:
        for _ in range(people):
            try:
                query = desk.ask()
                answer = simulated_answer(rng, query, float(rng.normal(50, 20)))
                receipt = desk.answer(query.id, answer.value)
            except SurveyError as error:  # the store was away: this person gives up
                print(error, file=sys.stderr)
                continue
            os.write(told.fileno(), f"{query.id} {answer.value} {receipt.receipt}\n".encode())


def learn(where: str) -> None:
    learner = Learner(open_store(where), snapshot_every=20)
    learner.run(lambda: False)


if __name__ == "__main__":
    if sys.argv[2] == "worker":
        work(sys.argv[1], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
    else:
        learn(sys.argv[1])
