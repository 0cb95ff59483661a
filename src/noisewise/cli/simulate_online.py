"""noisewise simulate-online: try a survey on simulated people before real ones are asked.

[population]     what is believed, one column
[survey]         guarantee, n, and optionally queries, score, n_particles, truth, compare
People are drawn from the population at `truth` (or at a draw from its prior), each answers with simulated noise, and
the estimates are shown beside the truth. Nobody is asked and nothing is private here.
"""

from __future__ import annotations

import json as json_format
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from noisewise.cli.actions import check_outputs, console
from noisewise.cli.spec import Spec
from noisewise.errors import InvalidSpec, NoisewiseError
from noisewise.exact import integer
from noisewise.files import write_whole
from noisewise.printable import shown
from noisewise.privacy.guarantee import Guarantee, guarantee_from_spec

if TYPE_CHECKING:
    from noisewise.online.collect import Asker, Collected
    from noisewise.query import Query

ENTRIES = ("guarantee", "n", "queries", "score", "n_particles", "truth", "compare")
CLOUDS = 50  # of particles, over a survey's course
MOST_PEOPLE, MOST_RUNS = 1_000_000, 10_000


@dataclass(frozen=True, slots=True)
class Described:
    """What [population] and [survey] say."""

    population: Any
    guarantee: Guarantee
    n: int
    ways: Mapping[str, Any]  # label -> queries
    score: str
    n_particles: int
    truth: Mapping[str, float] | None


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One survey of one run."""

    truth: Mapping[str, float]
    survey: Any
    course: Collected
    least: Mapping[str, float]  # standard error, by Cramér and Rao


def simulate_online(
    spec: Path, *, n: int | None, runs: int, seed: int | None, json: Path | None, plot: Path | None, quiet: bool
) -> None:
    """Simulate the survey of a spec `runs` times and say how it went."""
    check_outputs(json=json, plot=plot)
    described = read_survey(spec, n)
    integer(runs, "runs", minimum=1, maximum=MOST_RUNS)
    if seed is not None:
        integer(seed, "seed", minimum=0)
    seeds = np.random.SeedSequence(seed).spawn(runs)
    found: list[dict[str, Run]] = []
    for k, one in enumerate(seeds):
        found.append(_run(described, one, f"run {k + 1} of {runs}, " if runs > 1 else "", keep=k == 0, quiet=quiet))
    console.print(_told(described, found), markup=False)
    _write(described, found, json, plot)


def read_survey(path: Path, n: int | None) -> Described:
    """The survey of a spec; each mistake is named with its place."""
    spec = Spec.read(path)
    population = spec.population()
    section = spec.sections.get("survey")
    if not isinstance(section, Mapping):
        raise InvalidSpec(f"{path} needs a section [survey] with guarantee and n.", where="survey")
    try:
        return _described(population, section, n)
    except NoisewiseError as error:
        raise InvalidSpec(f"In [survey] of {path}: {error}", where="survey") from None


def _described(population: Any, section: Mapping[str, Any], n: int | None) -> Described:
    unknown = sorted(set(section) - set(ENTRIES))
    if unknown:
        raise InvalidSpec(f"unknown entry {unknown[0]!r}; there are {', '.join(ENTRIES)}.", where="survey")
    if "guarantee" not in section or (n is None and "n" not in section):
        raise InvalidSpec("guarantee and n are needed.", where="survey")
    guarantee = guarantee_from_spec(section["guarantee"])
    people = integer(section["n"] if n is None else n, "n", minimum=1, maximum=MOST_PEOPLE)
    ways = {"survey": question_families(section.get("queries", "auto"), guarantee)}
    if "compare" in section:
        ways["compared"] = question_families(section["compare"], guarantee)
    found = Described(
        population, guarantee, people, ways, section.get("score", "logdet"), section.get("n_particles", 1000), None
    )
    for queries in ways.values():
        _survey(found, queries, seed=0)  # so that nothing is wrong any more when the first person is asked
    if len(population.columns) > 1 or any(support.size for support in population.supports.values()):
        raise InvalidSpec(
            "simulate-online tries surveys about one number; [population] has levels, or several columns.",
            where="survey",
        )
    return replace(found, truth=_truth(population, section["truth"])) if "truth" in section else found


def _truth(population: Any, given: Any) -> dict[str, float]:
    """One number for each unknown parameter."""
    from noisewise.design.coordinates import given_rows

    try:
        rows = given_rows(population, given)
    except NoisewiseError:
        rows = {}
    if not rows or any(np.size(row) != 1 for row in rows.values()):
        wanted = ", ".join(f"{name} in {support}" for name, support in population.supports.items())
        raise InvalidSpec(
            f"truth = {shown(given)}: give one number for each of {', '.join(population.free)} ({wanted}).",
            where="survey",
        )
    return {name: float(np.ravel(row)[0]) for name, row in rows.items()}


def question_families(given: Any, guarantee: Guarantee) -> str | Query | list[Any]:
    """A family, a fixed question { clip = [low, high] } or { cells = [edges] }, or a list of these."""
    from noisewise.query import Query

    if isinstance(given, list):
        return [question_families(one, guarantee) for one in given]
    if isinstance(given, str):
        return given
    if isinstance(given, Mapping) and len(given) == 1:
        (kind, numbers), is_clip = next(iter(given.items())), "clip" in given
        is_listed = isinstance(numbers, list) and all(
            isinstance(one, int | float) and not isinstance(one, bool) for one in numbers
        )
        if is_clip and is_listed and len(numbers) == 2:
            return Query.clip(numbers[0], numbers[1], guarantee=guarantee)
        if kind == "cells" and is_listed and numbers:
            return Query.cells(numbers, guarantee=guarantee)
    raise InvalidSpec(
        f'{shown(given)} is no question; give a family such as "clip", or {{ clip = [low, high] }}, or '
        "{ cells = [edge, ...] }.",
        where="survey",
    )


def _survey(described: Described, queries: Any, seed: int) -> Any:
    from noisewise.online.survey import Survey

    return Survey(
        described.population, guarantee=described.guarantee, queries=queries, score=described.score,
        n_particles=described.n_particles, seed=seed,
    )  # fmt: skip


def _run(described: Described, seeds: np.random.SeedSequence, words: str, *, keep: bool, quiet: bool) -> dict[str, Run]:
    """Every way of asking, on the same people."""
    from noisewise.online.collect import collect, cramer_rao

    rng = np.random.default_rng(seeds)
    population = described.population
    truth = described.truth
    if truth is None:
        truth = {name: float(value[0]) for name, value in population.sample_prior(rng, 1).items()}
    people = population.sample(rng, described.n, {name: np.array([value]) for name, value in truth.items()})[0]
    found = {}
    for label, queries in described.ways.items():
        survey = _survey(described, queries, int(rng.integers(2**31)))
        with _live(f"{words}{label}", described.n, quiet) as progress:
            every = max(1, described.n // CLOUDS) if keep else 0
            course = collect(survey, people, rng, every=every, progress=progress)
        found[label] = Run(truth, survey, course, cramer_rao(population, course.questions, truth))
    return found


@contextmanager
def _live(what: str, total: int, quiet: bool) -> Iterator[Any]:
    """A bar with the posterior so far; nothing where the output is not a terminal."""
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TextColumn("{task.fields[posterior]}"),
    )  # fmt: skip
    with Bars(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as bars:
        task = bars.add_task(what, total=total, posterior="")

        def advance(done: int, survey: Asker) -> None:
            if done % 20 == 0 or done == total:
                mean, sd = survey.mean, survey.sd
                bars.update(task, completed=done, posterior="  ".join(f"{k} {mean[k]:.4g} ± {sd[k]:.2g}" for k in mean))

        yield None if bars.disable else advance


def _told(described: Described, found: list[dict[str, Run]]) -> str:
    """What came out, in words and numbers."""
    lines = [f"{described.n} simulated people, each under {described.guarantee}."]
    names = list(found[0]["survey"].truth)
    for label in described.ways:
        runs = [run[label] for run in found]
        kinds = ", ".join(f"{kind} {count}" for kind, count in runs[0].course.kinds.most_common())
        lines += ["", f"{label}: asked {kinds}" + (" (first run)." if len(runs) > 1 else ".")]
        if len(runs) == 1:
            lines += _table(("parameter", "truth", "mean", "sd", "5 %", "95 %", "cramer-rao"), _one_run(runs[0]))
            lines.append(str(runs[0].survey.verdict))
        else:
            lines += _table(("parameter", "bias", "rmse", "cramer-rao", "in 90 %"), _many_runs(runs, names))
    return "\n".join(lines)


def _one_run(run: Run) -> list[tuple[str, ...]]:
    posterior, rows = run.survey.posterior(), []
    for name, truth in run.truth.items():
        low, high = np.quantile(posterior.draws[name], [0.05, 0.95])
        numbers = (truth, run.survey.mean[name], run.survey.sd[name], low, high, run.least[name])
        rows.append((name, *(f"{number:.5g}" for number in numbers)))
    return rows


def _many_runs(runs: list[Run], names: list[str]) -> list[tuple[str, ...]]:
    rows = []
    for name in names:
        off = np.array([run.survey.mean[name] - run.truth[name] for run in runs])
        least = np.sqrt(np.mean([run.least[name] ** 2 for run in runs]))
        numbers = (off.mean(), np.sqrt(np.mean(off**2)), least)
        rows.append(
            (name, *(f"{number:.4g}" for number in numbers), f"{np.mean([_covers(r, name) for r in runs]):.2f}")
        )
    return rows


def _covers(run: Run, name: str) -> bool:
    low, high = np.quantile(run.survey.posterior().draws[name], [0.05, 0.95])
    return bool(low <= run.truth[name] <= high)


def _table(titles: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    table = [titles, *rows]
    widths = [max(len(row[k]) for row in table) for k in range(len(titles))]
    return [
        "  " + "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
        for row in table
    ]


def _write(described: Described, found: list[dict[str, Run]], json: Path | None, plot: Path | None) -> None:
    if json is not None:
        plain = {"n": described.n, "guarantee": described.guarantee.to_dict(), "runs": [_plain(run) for run in found]}
        write_whole(json, (json_format.dumps(plain, indent=1) + "\n").encode())
        console.print(f"Written to {json}.", markup=False)
    if plot is None:
        return
    from noisewise.report.survey_plots import course_plot, runs_plot

    first = found[0]
    course_plot({label: _course(run.course) for label, run in first.items()}, first["survey"].truth, plot)
    console.print(f"Written to {plot}.", markup=False)
    if len(found) > 1 and described.truth is not None:
        boxes = plot.with_stem(f"{plot.stem}-runs")
        runs_plot(
            {
                label: {name: [run[label].survey.mean[name] for run in found] for name in described.truth}
                for label in described.ways
            },
            described.truth,
            boxes,
        )
        console.print(f"Written to {boxes}.", markup=False)


def _course(course: Collected) -> dict[str, Any]:
    edges = [(q.low, q.high) if q.edges is None else q.edges for q in course.questions]
    clouds = [(cloud.answers, cloud.particles) for cloud in course.clouds]
    return {"mean": course.mean, "clouds": clouds, "edges": edges}


def _plain(run: Mapping[str, Run]) -> dict[str, Any]:
    return {
        label: {
            "truth": dict(one.truth),
            "mean": one.survey.mean,
            "sd": one.survey.sd,
            "cramer_rao": {name: value if np.isfinite(value) else None for name, value in one.least.items()},
            "asked": dict(one.course.kinds),
            "log_evidence": one.survey.log_evidence,
            "rejuvenations": one.course.rejuvenations,
            "seconds": one.course.seconds,
        }
        for label, one in run.items()
    }
