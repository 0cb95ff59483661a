"""What a survey costs: answers per second, growth with n, the longest pause, and the published method beside it.

    OMP_NUM_THREADS=1 python benchmarks/online.py [PART ...]
        [n=1000] [n_particles=1000] [epsilon=5] [sizes=1000,4000,16000] [longest=100000] [queries=auto]
    parts: speed growth latent design; `pause` only by name (about two minutes)

People are N(50, 10), the prior is the published one (mean N(0, 100^2), variance inverse gamma(1, 1)). Times are of the
processor and leave out the respondents' side. `latent` runs the algorithm of Yıldırım (2024, Algorithms 2 to 4) at the
same n and number of particles, in NumPy over all particles and values at once, and the posterior of both. Nothing
fails because a machine is slow.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from command import asked, say_load

import noisewise as nw
from noisewise.online.collect import Collected, collect
from noisewise.online.interval import best_interval
from noisewise.online.latent_particles import LatentSurvey
from noisewise_papers.online import published_population

MEAN, SD, SEED = 50.0, 10**0.5, 1
SETTINGS = {
    "n": "1000", "n_particles": "1000", "epsilon": "5", "sizes": "1000,4000,16000", "longest": "100000",
    "queries": "auto",
}  # fmt: skip
ON_REQUEST = ("pause",)


def surveyed(settings: dict[str, str], n: int, queries: str | None = None) -> tuple[Any, Collected]:
    """One survey of n people."""
    survey = nw.Survey(
        published_population(), guarantee=nw.PureDP(settings["epsilon"]), queries=queries or settings["queries"],
        n_particles=int(settings["n_particles"]), seed=SEED,
    )  # fmt: skip
    rng = np.random.default_rng(SEED)
    return survey, collect(survey, rng.normal(MEAN, SD, n), rng)


def estimates(survey: Any) -> str:
    return ", ".join(f"{name} {survey.mean[name]:.3f} +- {survey.sd[name]:.3f}" for name in survey.mean)


def part_speed(settings: dict[str, str]) -> None:
    """Answers per second of each query family."""
    n = int(settings["n"])
    print(f"\nanswers per second, n = {n}, {settings['n_particles']} particles, epsilon = {settings['epsilon']}")
    for queries in ("auto", "clip", "sign", "cells"):
        survey, found = surveyed(settings, n, queries)
        print(f"  {queries:<6} {n / found.seconds:8.0f}   {found.rejuvenations:3} rejuvenations, "
              f"{survey.distinct_queries} different questions; {estimates(survey)}", flush=True)  # fmt: skip


def part_growth(settings: dict[str, str]) -> None:
    """Total time against n: at most 5 times as long for 4 times as many people."""
    print(f"\ntotal seconds by n, queries = {settings['queries']}")
    before: tuple[int, float] | None = None
    for n in (int(size) for size in settings["sizes"].split(",")):
        survey, found = surveyed(settings, n)
        growth = "" if before is None else f"   {found.seconds / before[1]:.2f} times for {n / before[0]:g} times n"
        print(f"  n = {n:<7} {found.seconds:8.2f} s   longest pause {found.longest:.3f} s   {found.rejuvenations} "
              f"rejuvenations, {survey.distinct_queries} different questions{growth}", flush=True)  # fmt: skip
        before = n, found.seconds


def part_pause(settings: dict[str, str]) -> None:
    """The longest time that one answer takes at n = 10^5 (aim: below 2 s)."""
    part_growth(settings | {"sizes": settings["longest"]})


def part_latent(settings: dict[str, str]) -> None:
    """The published method on the same people, by the published score."""
    n = int(settings["n"])
    guarantee = nw.PureDP(settings["epsilon"])
    for name, values in (("latent-x", None), ("latent-x, 100 values a step", 100)):
        rng = np.random.default_rng(SEED)
        latent = LatentSurvey(
            published_population(), guarantee, n_particles=int(settings["n_particles"]), values=values, seed=SEED
        )
        theirs = collect(latent, rng.normal(MEAN, SD, n), rng)
        survey, ours = surveyed(settings, n, "clip")
        print(f"\n{name}: {theirs.seconds:.1f} s ({estimates(latent)})\n"
              f"survey, clip: {ours.seconds:.2f} s ({estimates(survey)}): "
              f"{theirs.seconds / ours.seconds:.0f} times as fast (aim: 20)", flush=True)  # fmt: skip


def part_design(_: dict[str, str]) -> None:
    """The best interval for a base distribution (aim: below 50 ms)."""
    print("\nbest interval for the normal, milliseconds")
    for score in ("location", "harmonic"):
        best_interval("normal", guarantee=nw.PureDP(3), score=score)
        for epsilon in (1, 5):
            begun = time.process_time()
            found = best_interval("normal", guarantee=nw.PureDP(epsilon), score=score)
            spent = 1e3 * (time.process_time() - begun)
            print(f"  {score:<9} epsilon = {epsilon}  [{found.low:.4f}, {found.high:.4f}]  {spent:.1f}")


PARTS = {
    "speed": part_speed, "growth": part_growth, "latent": part_latent, "design": part_design, "pause": part_pause
}  # fmt: skip


def main() -> None:
    chosen, settings = asked(PARTS, SETTINGS, on_request=ON_REQUEST)
    surveyed(settings | {"n_particles": "20"}, 30)  # loads what is compiled
    for name in chosen:
        PARTS[name](settings)
    say_load()


if __name__ == "__main__":
    main()
