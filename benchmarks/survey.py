"""Many people at once: what a visit costs through the collector's store, beside saving the survey for each answer.

    python benchmarks/survey.py [--people 600] [--desks 16]
    python benchmarks/survey.py --people 10000 --runs 5         what asking 16 at a time costs in precision

Each way asks and answers for simulated people and keeps every answer on disk before it is acknowledged:
    save-per-answer   one Survey object; survey.save(path) after each answer (the way before there was a store)
    store             a SQLite store, `--desks` people at a time on one desk, the learner beside them in this process
Figures are seconds by the clock and ratios within this run. The store's time includes learning everything that came.
With `--runs` saving for each answer is left out (it costs the square of the people), and the mean of the posterior's
standard deviations over so many surveys is set beside that of surveys that ask one person after another; every run
checks that all were counted and that a replay of the log gives the same posterior, bit for bit.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from scipy import stats

import noisewise as nw
from noisewise.collector.desk import Desk
from noisewise.collector.learner import Learner, replay
from noisewise.collector.store import create
from noisewise.online.simulate import simulated_answer

POPULATION = nw.Normal(mean=stats.norm(50, 50), sd=stats.halfnorm(scale=50))


def new_survey(seed: int = 1) -> nw.Survey:
    return nw.Survey(POPULATION, guarantee=nw.PureDP(2), n_particles=1000, seed=seed)


def saved_for_each_answer(folder: Path, people: int) -> tuple[float, float]:
    """Seconds for all, and of these for saving."""
    survey, rng, saving = new_survey(), np.random.default_rng(2), 0.0
    begun = time.perf_counter()
    for _ in range(people):
        survey.learn(simulated_answer(rng, survey.ask(), float(rng.normal(50, 20))))
        at = time.perf_counter()
        survey.save(folder / "old.survey")
        saving += time.perf_counter() - at
    return time.perf_counter() - begun, saving


def one_by_one(people: int, seed: int) -> tuple[float, dict[str, float]]:
    """Seconds of a survey in memory, and the posterior's sds."""
    survey, rng = new_survey(seed), np.random.default_rng([4, seed])
    begun = time.perf_counter()
    for _ in range(people):
        survey.learn(simulated_answer(rng, survey.ask(), float(rng.normal(50, 20))))
    return time.perf_counter() - begun, survey.sd


def through_the_store(folder: Path, people: int, at_once: int, seed: int = 1) -> tuple[float, dict[str, float]]:
    """Seconds until the last answer is learnt, and the posterior's sds."""
    learner = Learner(create(folder / f"new-{seed}.survey", new_survey(seed), simulated=True))
    learner.step()
    stop = threading.Event()
    following = threading.Thread(target=learner.run, args=(stop.is_set,))
    following.start()

    def visits(place: int, count: int) -> None:
        rng = np.random.default_rng([3, seed, place])
        for _ in range(count):
            query = desk.ask()
            desk.answer(query.id, simulated_answer(rng, query, float(rng.normal(50, 20))).value)

    begun = time.perf_counter()
    with Desk(learner.store) as desk:
        shares = [people // at_once + (place < people % at_once) for place in range(at_once)]
        threads = [threading.Thread(target=visits, args=each) for each in enumerate(shares)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    while learner.state.answers < people:
        time.sleep(0.005)
    spent = time.perf_counter() - begun
    stop.set()
    following.join()
    again = replay(learner.store)
    assert again.answers == people
    assert again.particles.position.tobytes() == learner.state.particles.position.tobytes()
    return spent, {name: float(sd) for name, sd in learner.posterior().sd.items()}


def several_runs(people: int, at_once: int, runs: int) -> None:
    """The mean sds of surveys one by one and at once."""
    apart, together = [], []
    with tempfile.TemporaryDirectory() as name:
        for seed in range(1, runs + 1):
            alone, sd = one_by_one(people, seed)
            apart.append(sd)
            spent, sd = through_the_store(Path(name), people, at_once, seed)
            together.append(sd)
            told = f"{alone:.1f} s one by one, {spent:.1f} s through the store, ratio {spent / alone:.2f}"
            print(f"  run {seed}: {told}; all counted, equal to the replay", flush=True)
            ratios = ", ".join(f"{key} {together[-1][key] / apart[-1][key]:.3f}" for key in sd)
            print(f"         sd at once beside one by one: {ratios}", flush=True)
    for key in apart[0]:
        one, other = (float(np.mean([sd[key] for sd in some])) for some in (apart, together))
        print(f"  sd of {key}: {one:.4f} one by one, {other:.4f} with {at_once} at a time, ratio {other / one:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, default=600)
    parser.add_argument("--desks", type=int, default=16)
    parser.add_argument("--runs", type=int, default=0)
    given = parser.parse_args()
    if given.runs:
        print(f"{given.people} people, {given.desks} at a time, {given.runs} runs")
        several_runs(given.people, given.desks, given.runs)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        saved_for_each_answer(folder, 20)  # compiled before the clock runs
        bare, alone = one_by_one(given.people, 1)
        old, saving = saved_for_each_answer(folder, given.people)
        new, sd = through_the_store(folder, given.people, given.desks)
    print(f"{given.people} people")
    print(f"  in memory, nothing kept   {bare:8.2f} s   1.00")
    print(f"  saved for each answer     {old:8.2f} s   {old / bare:.2f}   ({saving:.2f} s of it saving)")
    print(
        f"  store, {given.desks:3d} at a time      {new:8.2f} s   {new / bare:.2f}   all counted, equal to the replay"
    )
    print(f"  store beside saving: {old / new:.1f} times as fast")
    print("  sd one by one  " + ", ".join(f"{key} {value:.3f}" for key, value in alone.items()))
    print("  sd at once     " + ", ".join(f"{key} {value:.3f}" for key, value in sd.items()))


if __name__ == "__main__":
    main()
