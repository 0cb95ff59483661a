"""What it costs in precision that many are asked before anybody has learnt from them.

    python benchmarks/survey_crowd.py [--people 3000] [--runs 5] [--at-once 16 64 256 512]

    one by one       a question for each person, designed after everybody before has answered
    own questions    so many people hold a question at a time, each one designed for its number (a pool of that size)
    the crowd's      the server's policy (`collector.crowd`): the pool grows with copies of few questions

People come as fast as they are let in: whoever has answered is followed by another, half of the crowd between two
looks of the learner, in one process and without a clock. So this is the worst case of a crowd that never ends. Told is
the asymptotic standard deviation under the questions as they were asked (from their information at the truth, which
hardly varies from run to run) beside that of one by one, and the posterior's own, which varies by a tenth.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter, deque
from json import loads
from pathlib import Path

import numpy as np
from scipy import stats

import noisewise as nw
from noisewise.collector import crowd as room
from noisewise.collector.crowd import Crowd
from noisewise.collector.desk import Desk
from noisewise.collector.learner import Learner
from noisewise.collector.store import create
from noisewise.online.answer_information import informations, stencil, units
from noisewise.online.asked import Question, asked_by, question_of
from noisewise.online.engine import Engine
from noisewise.online.simulate import simulated_answer
from noisewise.query import Query

TRUTH = {"mean": 50.0, "sd": 20.0}
POPULATION = nw.Normal(mean=stats.norm(50, 50), sd=stats.halfnorm(scale=50))
Sds = dict[int, tuple[np.ndarray, np.ndarray]]  # after so many answers: asymptotic, and the posterior's


def asymptotic(engine: Engine, asked: Counter[Question]) -> np.ndarray:
    """The standard deviations that these questions lead to, on the walking scale, at the truth."""
    law, transform = engine.law.parts[None].honest, engine.target.transform
    position = transform.position({name: np.array([value]) for name, value in TRUTH.items()})[0]
    unit = units(law, transform, position)
    found = informations(
        law, [asked_by(question) for question in asked], stencil(law, transform, position, np.diag(unit))
    )
    total = np.einsum("m,mpq->pq", np.array(list(asked.values()), float), found) / np.outer(unit, unit)
    return np.sqrt(np.diag(np.linalg.inv(total)))


def survey_of(seed: int, people: int, at_once: int, *, is_crowd: bool, told_at: list[int]) -> Sds:
    """One survey through a store."""
    survey = nw.Survey(POPULATION, guarantee=nw.PureDP(2), n_particles=1000, seed=seed)
    rng, now, found, asked = np.random.default_rng([5, seed, at_once]), [0.0], Sds(), Counter[Question]()
    with tempfile.TemporaryDirectory() as folder:
        store = create(Path(folder) / "crowd.survey", survey, simulated=True)
        learner = Learner(store, pool=room.POOL if is_crowd else at_once)
        crowd = Crowd(learner, clock=lambda: now[0])
        held: deque[tuple[Query, int]] = deque()
        with Desk(store) as desk, store.session(is_durable=False) as session:

            def look() -> None:
                now[0] += 0.05
                if is_crowd:
                    crowd.look(session)
                while learner.learn(session, most=crowd.lines):
                    if is_crowd:
                        crowd.freshen(session)

            def ask(count: int) -> None:
                while count:
                    with session.transaction():
                        handed = [one for one in (desk.hand_out(session) for _ in range(count)) if one is not None]
                    held.extend((Query.from_dict(loads(text)), 0) for _, text in handed)
                    count -= len(handed)
                    if count:
                        look()

            look()
            ask(at_once)
            answered, turn = 0, max(at_once // 2, 1)
            while answered < people:
                with session.transaction():
                    for _ in range(min(turn, people - answered)):
                        query, _ = held.popleft()
                        asked[question_of(query)] += 1
                        desk.take(session, str(query.id), simulated_answer(rng, query, float(rng.normal(50, 20))).value)
                        answered += 1
                look()
                if told_at and answered >= told_at[len(found)]:
                    sd = learner.posterior().sd
                    found[told_at[len(found)]] = asymptotic(learner.engine, asked), np.array([sd["mean"], sd["sd"]])
                ask(turn)
    return found


def told(name: str, rows: list[Sds], beside: list[Sds]) -> None:
    for answers in rows[0]:
        ratios = [
            np.mean([row[answers][k] for row in rows], axis=0) / np.mean([row[answers][k] for row in beside], axis=0)
            for k in (0, 1)
        ]
        each = [row[answers][0] / np.mean([other[answers][0] for other in beside], axis=0) for row in rows]
        print(
            f"  {name:22s} {answers:6d} answers: sd of mean and sd {ratios[0][0]:.3f} {ratios[0][1]:.3f} of one by one "
            f"(single surveys up to {np.max(each):.3f}); posterior's {ratios[1][0]:.2f} {ratios[1][1]:.2f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, default=3000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--at-once", type=int, nargs="*", default=[16, 64, 256, 512])
    given = parser.parse_args()
    told_at = [n for n in (600, 1000, 3000, 10_000) if n <= given.people]
    seeds = range(1, given.runs + 1)
    kept = {"told_at": told_at}
    alone = [survey_of(seed, given.people, 1, is_crowd=False, **kept) for seed in seeds]
    print(f"{given.people} people, {given.runs} surveys of each kind, epsilon = 2")
    told("one by one", alone, alone)
    for at_once in given.at_once:
        for name, is_crowd in (("own questions", False), ("the crowd's", True)):
            some = [survey_of(seed, given.people, at_once, is_crowd=is_crowd, **kept) for seed in seeds]
            told(f"{name}, {at_once}", some, alone)


if __name__ == "__main__":
    main()
