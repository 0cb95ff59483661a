"""What each budget would buy, in words: how well an answer will be known, and what the price means for one person.

For each planned release and a range of budgets (epsilon, rho or mu) the expected half-width of a 90 % interval

    with a population    of each of its unknowns: 1.645 times `precision.predicted_sd`, sampling and noise together
    without one          of the noise on each component: the smallest h with P(|noise| <= h) >= 0.9; of means of
                         groups at an equal share of the records each, whatever the mean is (`group_mean.py`)

and, with a population, what would be left without noise (the same plan at a very large budget): the noise part is the
root of the difference of their squares. The unknowns are taken in the middle of what is believed, or as given: over a
vague prior the average would tell of values that nobody expects. No record is touched and nothing is spent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from fractions import Fraction
from os import PathLike
from typing import Any, cast

import numpy as np

from noisewise.design.belief import believe, middle
from noisewise.design.blank import checked_plan
from noisewise.design.curve import design_curve
from noisewise.design.group_mean import mean_half_width
from noisewise.design.precision import MOST
from noisewise.errors import InvalidArgument, NoisewiseError
from noisewise.exact import fraction, integer
from noisewise.inference.progress import shown
from noisewise.laws import additive_law
from noisewise.models.protocol import population_for
from noisewise.planning import Plan, plan
from noisewise.populations.text import population_to_spec
from noisewise.printable import printable, printable_lines
from noisewise.privacy.odds import budget_of, caution, meaning, with_budget
from noisewise.schema import Schema
from noisewise.statistics.enclosure import feature_ranges
from noisewise.statistics.protocol import Average
from noisewise.statistics.units import component_units, feature_unit

LEVEL = 0.9
NORMAL = 1.6448536269514722  # of a normal law, 90 % lie within so many sd
STEPS = tuple(Fraction(text) for text in ("1/10", "1/5", "1/2", "1", "2", "5", "10"))
MOST_BUDGETS, MOST_ANSWERS, SHOWN_ANSWERS = 100, 100, 6
# Parameters that are told in the unit of their column, by the population they belong to.
IN_THEIR_UNIT = {"normal": ("mean", "sd"), "uniform": ("low", "high"), "location_scale": ("loc", "scale")}


@dataclass(frozen=True, slots=True)
class Expected:
    """One answer at one budget: a row of the table."""

    release: str  # the plan's statistic and mechanism
    guarantee: str
    budget: str  # epsilon, rho or mu
    number: float
    is_planned: bool  # the budget that the plan has
    answer: str  # an unknown of the population, or a component of the statistic
    unit: str
    half_width: float | None  # None where the noise depends on the records, or is no number
    sampling: float | None  # without noise; None without a population, or where it cannot be computed
    before: float | None  # before any release

    def words(self) -> str:
        return "unknown" if self.half_width is None else _within(self.half_width)

    def to_dict(self) -> dict[str, object]:
        return {**asdict(self), "unit": self.unit.strip() or None}


@dataclass(frozen=True, slots=True, eq=False)
class Precision:
    """What each budget would buy. Made by `precision`; print it, `.plot(path)` it, or take its `.rows`.

    Attributes
    ----------
    rows
        One for each answer and budget.
    sentences
        One for each release at its own budget.
    meanings
        What each planned guarantee means for one person.
    cautions
        What the reader should know of it.
    words
        The table as it is printed.

    Examples
    --------
    >>> schema = nw.Schema({"income": nw.Bounded(0, 250)}, n=4000, neighbours="change-one")
    >>> made = nw.plan(nw.Mean("income"), schema, guarantee=nw.PureDP(1))
    >>> sorted(nw.precision(made, budgets=[1], progress=False).to_dict())
    ['cautions', 'level', 'meanings', 'rows', 'sentences']
    """

    rows: tuple[Expected, ...]
    sentences: tuple[str, ...]  # one for each release at its own budget
    meanings: tuple[str, ...]  # what each planned guarantee means for one person
    cautions: tuple[str, ...]
    words: str

    def __str__(self) -> str:
        blocks = [self.words, *(_table(rows) for rows in _grouped(self.rows).values()), "\n".join(self.sentences)]
        blocks += [*self.meanings, *self.cautions]
        return printable_lines("\n\n".join(block for block in blocks if block))

    def to_dict(self) -> dict[str, object]:
        """Plain data, for JSON."""
        return {
            "level": LEVEL,
            "rows": [row.to_dict() for row in self.rows],
            "sentences": list(self.sentences),
            "meanings": list(self.meanings),
            "cautions": list(self.cautions),
        }

    def plot(self, path: str | PathLike[str] | None = None) -> bytes:
        """Half-width against budget, one panel for each answer, one line for each release."""
        from noisewise.report.plots import curve_plot

        known = [row for row in self.rows if row.half_width is not None]
        if not known:
            raise InvalidArgument("There is nothing to draw: no interval is known in advance.", argument="plot")
        answers = list(dict.fromkeys((row.answer, row.unit) for row in known))[:SHOWN_ANSWERS]
        releases = list(_grouped(self.rows))
        several = len(releases) > 1
        series: list[dict[str, Any]] = []
        for answer, unit in answers:
            panel = {"panel": f"{printable(answer)},{printable(unit)}" if unit else printable(answer)}
            for release, rows in _grouped([row for row in known if row.answer == answer]).items():
                name = printable(release) if several else "expected"
                points = {"x": [row.number for row in rows], "y": [row.half_width for row in rows]}
                colour = releases.index(release)
                series.append({"name": name, "marks": True, "colour": colour, **points, **panel})
                if not several and rows[0].sampling is not None:
                    without = {"x": points["x"], "y": [row.sampling for row in rows]}
                    series.append({"name": "without noise", "dashed": True, "colour": 1, **without, **panel})
        budget = " or ".join(dict.fromkeys(row.budget for row in known))
        return curve_plot(
            series, path, x_label=budget, y_label="90 % interval, ±", log_x=True, log_y=True, plain_numbers=True
        )


def precision(
    plans: Plan | Sequence[Plan],
    population: object | None = None,
    *,
    budgets: Sequence[object] | None = None,
    at: Mapping[str, Sequence[float]] | None = None,
    n: int | None = None,
    seed: int | None = None,
    progress: bool = True,
) -> Precision:
    """What each budget would buy: expected 90 % intervals of the answers, before any record is touched.

    Parameters
    ----------
    plans
        What would be released, each on its own, with the kind of guarantee (and delta) it has.
    population
        What is believed of the records, for intervals of its unknowns. Default None: of the noise alone.
    budgets
        Values of epsilon, rho or mu. Default None: a tenth to ten times what each plan has.
    at
        Values of the unknowns to look at. Default None: the middle of what is believed.
    n
        The number of records to reckon with; needed for unknowns and for means of groups where it is private.
    seed
        Of what is simulated. Default None.
    progress
        Whether progress is shown. Default True.

    Returns
    -------
    Precision
        Print it, `.plot(path)` it, or take its `.rows`.

    Examples
    --------
    >>> schema = nw.Schema({"income": nw.Bounded(0, 250)}, n=4000, neighbours="change-one")
    >>> made = nw.plan(nw.Mean("income"), schema, guarantee=nw.PureDP(1))
    >>> len(nw.precision(made, budgets=["0.5", 1, 2], progress=False).rows)
    3
    """
    listed = [checked_plan(one) for one in (plans if isinstance(plans, Sequence) else [plans])]
    if not listed:
        raise InvalidArgument("plans must list at least one plan.", argument="plans")
    numbers = None if budgets is None else _checked_budgets(budgets)
    records = None if n is None else integer(n, "n", minimum=1)
    rows: list[Expected] = []
    words = "Expected 90 % intervals of the noise alone; with a population, of the answer."
    if any(_has_hidden_means(made, records) for made in listed):
        words += " The number of records is private: state one (--n, or n= in Python) to see means."
    if population is not None:
        population = population_for(population, listed)
        values = middle(believe(population)) if at is None else at
        words = f"Expected 90 % intervals of the unknowns, sampling and noise together, {_told(values)}."
    with shown(progress, "Predicting precision") as report:
        for k, made in enumerate(listed):
            own = Fraction(budget_of(made.guarantee)[1]).limit_denominator(10**12)
            asked = sorted({own, *([own * step for step in STEPS] if numbers is None else numbers)})
            found = (
                _noise_rows(made, own, asked, records)
                if population is None
                else _answer_rows(made, own, asked, population, at=values, n=records, seed=seed)
            )
            rows.extend(found)
            if report is not None:
                report(k + 1, len(listed))
    planned = [row for row in rows if row.is_planned]
    guarantees = list(dict.fromkeys((made.guarantee, made.schema.neighbours) for made in listed))
    cautions = [caution(guarantee) for guarantee, _ in guarantees]
    return Precision(
        tuple(rows),
        tuple(_sentence(row) for row in planned[: 4 * SHOWN_ANSWERS]),
        tuple(meaning(*one) for one in guarantees),
        tuple(one for one in cautions if one),
        words,
    )


def _told(values: Mapping[str, Any]) -> str:
    """The values of the unknowns that are looked at."""
    told = [f"{name} = {', '.join(f'{value:.4g}' for value in np.ravel(one)[:6])}" for name, one in values.items()]
    return "at " + ", ".join(told[:6]) + (", ..." if len(told) > 6 else "")


def _checked_budgets(budgets: object) -> list[Fraction]:
    listed = [*budgets] if isinstance(budgets, Sequence) else []
    if not 0 < len(listed) <= MOST_BUDGETS:
        raise InvalidArgument(
            f"budgets must list 1 to {MOST_BUDGETS} numbers above 0, as in [0.1, 1, 10].", argument="budgets"
        )
    return [fraction(one, "budgets", positive=True) for one in listed]


def _noise_rows(made: Plan, own: Fraction, numbers: Sequence[Fraction], records: int | None) -> list[Expected]:
    """The noise alone, component by component; means of groups and of those present where n is known."""
    averages = made.statistic.averages(made.part_schema)
    if averages and not _has_hidden_means(made, records):
        return [row for number in numbers for row in _mean_rows(_moved(made, number), number, own, averages, records)]
    units = component_units(made.statistic, made.part_schema)
    rows = []
    for number in numbers:
        moved = _moved(made, number)
        for noise, unit, half_width in zip(moved.noise[:MOST_ANSWERS], units, _half_widths(moved), strict=False):
            rows.append(_row(moved, number, own, noise.label, unit, half_width, None, None))
    return rows


def _has_hidden_means(made: Plan, records: int | None) -> bool:
    """Whether it releases means as sums and counts, and nobody says of how many records."""
    return bool(made.statistic.averages(made.part_schema)) and made.part_schema.n is None and records is None


def _mean_rows(
    moved: Plan, number: Fraction, own: Fraction, averages: Sequence[Average], records: int | None
) -> list[Expected]:
    """What is known of each mean of a group or of those present, and the noise on its count and on sums without one.

    Groups that get the same noise are told once.
    """
    schema, law = moved.part_schema, additive_law(moved.law)
    groups = moved.statistic.groups(schema)
    each = max(1, (records or schema.n or 0) // max(1, len(groups)))
    noises = {(one.feature, law.scale[one.count], law.scale[one.total]) for one in averages}
    is_same = len(noises) == len({feature for feature, *_ in noises})
    told = [one for one in averages if one.group == averages[0].group] if is_same else averages[:MOST_ANSWERS]
    ranges = feature_ranges([one.feature for one in told], schema)
    rows, counts = [], dict[int, Expected]()
    for one, (low, high, _) in zip(told, ranges, strict=True):
        width = mean_half_width(moved, one, records=each, low=low, high=high, level=LEVEL)
        whose = "a group" if is_same else one.group
        answer = f"mean({one.feature}) of {f'{whose} of {each} records' if groups else f'{each} present'}"
        unit = feature_unit(one.feature, schema)
        rows.append(_row(moved, number, own, answer, unit, width, None, (high - low) / 2))
        alone = _half_width(moved, one.count)
        label = f"count of {whose}" if groups else moved.noise[one.count].label
        counts.setdefault(one.count, _row(moved, number, own, label, "", alone, None, None))
    rows += counts.values()
    in_means = {k for one in averages for k in (one.count, one.total)}
    units = component_units(moved.statistic, schema)
    for k in sorted(set(range(min(law.size, MOST_ANSWERS))) - in_means):
        rows.append(_row(moved, number, own, moved.noise[k].label, units[k], _half_width(moved, k), None, None))
    return rows


def _half_widths(made: Plan) -> list[float | None]:
    """The smallest h with P(|noise| <= h) >= 0.9 for each component; None where the noise is not known in advance."""
    labels = made.noise[:MOST_ANSWERS]
    if labels[0].sd is None:
        return [None] * len(labels)
    size = additive_law(made.law).size
    return [_half_width(made, k) / made.divisor for k in range(min(size, len(labels)))]


def _half_width(made: Plan, component: int) -> float:
    """The smallest h with P(|noise| <= h) >= 0.9 on a sum."""
    law = additive_law(made.law)
    low, high = -1, law.reach((1 - LEVEL) / 2, component)
    while high - low > 1:
        middle = (low + high) // 2
        inside = 1 - 2 * float(law.cdf(-middle - 1, component))  # the noise is symmetric
        low, high = (low, middle) if inside >= LEVEL else (middle, high)
    return high * law.step[component]


def _answer_rows(
    made: Plan,
    own: Fraction,
    numbers: Sequence[Fraction],
    population: object,
    *,
    at: Mapping[str, Any],
    n: int | None,
    seed: int | None,
) -> list[Expected]:
    """The population's unknowns, with noise and without."""
    sizes = None if n is None else [n]
    curve = design_curve([made], population, epsilon=list(numbers), n=sizes, at=at, seed=seed, progress=False)
    try:
        endless = [max(MOST, 100.0 * float(numbers[-1]))]
        (limit,) = design_curve([made], population, epsilon=endless, n=sizes, at=at, seed=seed, progress=False).rows
        without: Mapping[str, float | None] = limit["sd"]
    except NoisewiseError:  # no plan can be made at such a budget
        without = dict.fromkeys(curve.parameters)
    units = _parameter_units(population, made.schema)
    rows = []
    for number, found in zip(numbers, curve.rows, strict=True):
        moved = _moved(made, number)
        for name in curve.parameters[:MOST_ANSWERS]:
            sd, alone = found["sd"][name], without[name]
            sampling = None if alone is None else NORMAL * min(alone, sd)
            rows.append(
                _row(moved, number, own, name, units.get(name, ""), NORMAL * sd, sampling, NORMAL * curve.before[name])
            )
    return rows


def _row(
    moved: Plan,
    number: Fraction,
    own: Fraction,
    answer: str,
    unit: str,
    half_width: float | None,
    sampling: float | None,
    before: float | None,
) -> Expected:
    name, _ = budget_of(moved.guarantee)
    release = f"{moved.statistic} by {moved.mechanism}"
    return Expected(
        release=release,
        guarantee=str(moved.guarantee),
        budget=name,
        number=float(number),
        is_planned=number == own,
        answer=answer,
        unit=unit,
        half_width=half_width,
        sampling=sampling,
        before=before,
    )


def _moved(made: Plan, number: Fraction) -> Plan:
    """The plan at another budget of its own kind."""
    return plan(
        made.statistic,
        made.schema,
        guarantee=with_budget(made.guarantee, number),
        mechanism=made.mechanism,
        weights=made.weights if len(made.weights) > 1 else None,
        part=made.part,
    )


def _parameter_units(population: object, schema: Schema) -> dict[str, str]:
    """The units of a population's unknowns, by name, where they are those of a column."""
    told: Mapping[str, str] = {}
    with suppress(NoisewiseError, AttributeError):  # a model of other things than columns has no such text
        told = population_to_spec(cast(Any, population))
    units = {}
    for column, text in told.items():
        for parameter in IN_THEIR_UNIT.get(text.partition("(")[0], ()):
            if column in schema.units:
                units[parameter if len(told) == 1 else f"{column}.{parameter}"] = f" {schema.units[column]}"
    return units


def _grouped(rows: Sequence[Expected]) -> dict[str, list[Expected]]:
    groups: dict[str, list[Expected]] = {}
    for row in rows:
        groups.setdefault(row.release, []).append(row)
    return groups


def _table(rows: Sequence[Expected]) -> str:
    """One release: a line for each budget, a column for each answer; the planned budget is marked."""
    answers = list(dict.fromkeys((row.answer, row.unit) for row in rows))
    kept = answers[:SHOWN_ANSWERS]
    lines = [["", rows[0].budget, *(f"{name},{unit}" if unit else name for name, unit in kept)]]
    for number in dict.fromkeys(row.number for row in rows):
        mine = {row.answer: row for row in rows if row.number == number}
        mark = "*" if next(iter(mine.values())).is_planned else ""
        lines.append([mark, f"{number:.4g}", *(mine[name].words() for name, _ in kept)])
    last = {row.answer: row for row in rows}
    for title, values in (
        ("no noise", [last[name].sampling for name, _ in kept]),
        ("before", [last[name].before for name, _ in kept]),
    ):
        if any(value is not None for value in values):
            lines.append(["", title, *("" if value is None else _within(value) for value in values)])
    widths = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
    told = ["  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    more = [f"... and {len(answers) - len(kept)} more."] if len(answers) > len(kept) else []
    return "\n".join([f"{rows[0].release} (* as planned)", *told, *more])


def _sentence(row: Expected) -> str:
    at = f"At {row.guarantee}"
    if row.half_width is None:
        return (
            f"{at} the noise on {row.answer} depends on the records, or is no number: describe a population to see "
            "what the answer will be known to."
        )
    width = f"{_within(row.half_width)}{row.unit}"
    if row.before is None:
        return f"{at} the noise on {row.answer} stays within {width} in 90 % of releases."
    sentence = f"{at} {row.answer} will be known to {width}"
    if row.half_width > LEVEL * row.before:
        return f"{sentence}: hardly better than before any release ({_within(row.before)}{row.unit})."
    if row.sampling is None:
        return f"{sentence}."
    noise = math.sqrt(max(0.0, row.half_width**2 - row.sampling**2))
    return f"{sentence}; the noise is {_share(noise / row.sampling)}."


def _within(half_width: float) -> str:
    return f"± {half_width:.3g}" if half_width < 1000 else f"± {half_width:.0f}"


def _share(ratio: float) -> str:
    """The noise beside the sampling error, in words."""
    if ratio < 0.05:
        return "next to nothing beside the sampling error"
    if ratio < 0.75:
        parts = {10: "a tenth", 5: "a fifth", 4: "a quarter", 3: "a third", 2: "half"}
        nearest = min(parts, key=lambda part: abs(math.log(ratio * part)))
        return f"about {parts[nearest]} of the sampling error"
    if ratio < 1.5:
        return "about as large as the sampling error"
    return f"about {ratio:.2g} times the sampling error"
