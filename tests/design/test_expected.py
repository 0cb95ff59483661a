"""What each budget would buy: widths against the laws themselves, sentences, tables, units, and the command."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from command_line import run_here
from scipy import stats

import noisewise as nw
from noisewise.design.expected import LEVEL
from noisewise.errors import InvalidArgument
from noisewise.laws import additive_law

X = nw.column("income")
SCHEMA = nw.Schema({"income": nw.Bounded(0, 250, unit="thousand EUR")}, n=4000, neighbours="change-one")
POPULATION = nw.Normal(mean=stats.norm(50, 50), sd=stats.halfnorm(scale=50)).named("income")
KNOWN_SD = nw.Normal(mean=stats.norm(50, 50), sd=20).named("income")


def planned(statistic: nw.Mean | nw.Sum | nw.Count, guarantee: nw.PureDP) -> nw.Plan:
    return nw.plan(statistic, SCHEMA, guarantee=guarantee)


def own(found: nw.Precision, answer: str) -> object:
    (row,) = [row for row in found.rows if row.is_planned and row.answer == answer]
    return row


@pytest.mark.parametrize(
    "guarantee", [nw.PureDP(1), nw.ApproxDP(1, "1e-6"), nw.ZeroConcentratedDP("0.5"), nw.GaussianDP(1)], ids=str
)
@pytest.mark.parametrize("statistic", [nw.Mean(X), nw.Sum(X, X**2), nw.Count(X > 50)], ids=str)
def test_without_a_population_it_is_the_smallest_interval_that_holds_nine_tenths_of_the_noise(
    statistic: nw.Mean, guarantee: nw.PureDP
) -> None:
    made = planned(statistic, guarantee)
    found = nw.precision(made, progress=False)
    law = additive_law(made.law)
    for k, noise in enumerate(made.noise):
        steps = round(own(found, noise.label).half_width * made.divisor / law.step[k])
        assert _inside(law, steps, k) >= LEVEL - 1e-12
        assert steps == 0 or _inside(law, steps - 1, k) < LEVEL


def _inside(law: object, steps: int, component: int) -> float:
    """P(|noise| <= steps): by adding the probabilities up where they are few, else from the continuous law."""
    if steps > 10**5:  # a fine lattice: the continuous law is the same to one step
        scale, size = law.scale[component] / law.step[component], steps + 0.5
        return 1 - math.exp(-size / scale) if "laplace" in law.family else 2 * stats.norm.cdf(size / scale) - 1
    return float(np.exp(law.log_pmf(np.arange(-steps, steps + 1), component)).sum())


def test_with_a_population_it_is_the_posterior_of_a_normal_mean_under_normal_noise() -> None:
    """Everything normal: sampling variance sd^2/n, noise variance as planned, prior 50^2; nothing is clamped here."""
    made = planned(nw.Mean(X), nw.GaussianDP(1))
    found = nw.precision(made, KNOWN_SD, at={"mean": [100.0]}, progress=False)
    row = own(found, "mean")
    sampling, noise = 20**2 / 4000, made.noise[0].sd ** 2
    assert row.half_width == pytest.approx(1.6448536 * math.sqrt(1 / (1 / 2500 + 1 / (sampling + noise))), rel=2e-3)
    assert row.sampling == pytest.approx(1.6448536 * math.sqrt(sampling), rel=2e-3)
    assert row.before == pytest.approx(1.6448536 * 50, rel=0.02)
    ratio = math.sqrt(noise / sampling)
    assert 0.18 < ratio < 0.22
    assert "about a fifth of the sampling error" in found.sentences[0]
    assert "thousand EUR" in found.sentences[0]


def test_more_budget_never_makes_an_answer_worse_and_none_leaves_what_was_known() -> None:
    found = nw.precision(
        planned(nw.Mean(X, X**2), nw.PureDP(1)), POPULATION, budgets=["0.0001", "0.1", 1, 50], progress=False
    )
    for answer in ("mean", "sd"):
        rows = [row for row in found.rows if row.answer == answer]
        widths = [row.half_width for row in rows]
        assert widths == sorted(widths, reverse=True)
        assert widths[0] == pytest.approx(rows[0].before, rel=0.05)
        assert widths[-1] == pytest.approx(rows[-1].sampling, rel=0.05)


def test_sentences_say_when_a_release_would_teach_nothing() -> None:
    found = nw.precision(planned(nw.Mean(X), nw.PureDP("0.00001")), KNOWN_SD, budgets=["0.00001"], progress=False)
    assert "hardly better than before any release" in found.sentences[0]


def test_noise_that_depends_on_the_records_is_called_unknown() -> None:
    found = nw.precision(nw.plan(nw.Median(X), SCHEMA, guarantee=nw.PureDP(1)), progress=False)
    assert {row.half_width for row in found.rows} == {None}
    assert "describe a population" in found.sentences[0]
    with pytest.raises(InvalidArgument, match="nothing to draw"):
        found.plot()


GROUPS = nw.Schema(
    {"income": nw.Bounded(-10, 250, unit="thousand EUR"), "region": nw.Levels(["north", "south", "east", "west"])},
    n=1000,
    neighbours="change-one",
)
PRIVATE_N = nw.Schema(GROUPS.columns, n_max=2000, neighbours="add-remove")


@pytest.mark.parametrize("guarantee", [nw.PureDP("0.3"), nw.GaussianDP("0.5")], ids=str)
@pytest.mark.parametrize("size", [1000, 120])
def test_the_mean_of_a_group_is_as_near_as_said_at_worst(guarantee: nw.PureDP, size: int, rng) -> None:
    """Noise drawn again and again on the sum and the count of a group at the upper bound, and of one in the middle."""
    made = nw.plan(nw.Mean(X, by="region"), PRIVATE_N, guarantee=guarantee)
    found = nw.precision(made, n=size, progress=False)
    row = own(found, f"mean(income) of a group of {size // 4} records")
    law = additive_law(made.law)
    draws = rng.laplace if "laplace" in law.family else rng.normal
    count, total = (draws(0, law.scale[k], 10**6) for k in (0, 1))
    shares = []
    for mean in (250, 120):
        missed = np.abs((size / 4 * mean + total) / (size / 4 + count) - mean)
        shares.append(float(((missed <= row.half_width) & (size / 4 + count > 0)).mean()))
    assert row.unit == " thousand EUR"
    if row.half_width < 130:  # half of the range: no more is said
        assert shares[0] == pytest.approx(LEVEL, abs=2e-3)
    else:
        assert shares[0] <= LEVEL + 2e-3
        assert "hardly better than before" in found.sentences[0]
    assert shares[1] >= shares[0]


def test_groups_are_told_once_where_they_get_the_same_noise_and_by_name_where_not() -> None:
    same = nw.precision(nw.plan(nw.Mean(X, by="region"), GROUPS, guarantee=nw.PureDP(1)), progress=False)
    assert [row.answer for row in same.rows if row.is_planned] == [
        "mean(income) of a group of 250 records", "count of a group"
    ]  # fmt: skip
    weights = [1, "0.004"] * 3 + [2, "0.008"]
    other = nw.plan(nw.Mean(X, by="region"), GROUPS, guarantee=nw.PureDP(1), weights=weights)
    rows = {row.answer: row for row in nw.precision(other, progress=False).rows if row.is_planned}
    north, west = (rows[f"mean(income) of region={name} of 250 records"] for name in ("north", "west"))
    assert west.half_width < north.half_width
    assert len(rows) == 8


def test_means_of_groups_ask_for_a_number_of_records_where_it_is_private() -> None:
    made = nw.plan(nw.Mean(X, by="region"), PRIVATE_N, guarantee=nw.PureDP(1))
    found = nw.precision(made, progress=False)
    assert "state one (--n" in str(found)
    assert own(found, "region=north: sum(income)").half_width > 0


def test_means_of_those_present_are_told_with_their_counts_and_with_sums_that_are_always_there(rng) -> None:
    columns = {"income": nw.Bounded(0, 250, unit="thousand EUR"), "smokes": nw.Bounded(0, 1)}
    schema = nw.Schema(columns, n=1000, neighbours="change-one", missing={"income": "leave-out"})
    made = nw.plan(nw.Mean("smokes", "income"), schema, guarantee=nw.PureDP(1))
    found = nw.precision(made, progress=False)
    told = {row.answer: row for row in found.rows if row.is_planned}
    assert [*told] == ["mean(income) of 1000 present", "count present", "sum(smokes)"]
    assert told["mean(income) of 1000 present"].unit == " thousand EUR"
    law = additive_law(made.law)
    labels = [noise.label for noise in made.noise]
    count, total, other = (
        rng.laplace(0, law.scale[labels.index(label)], 10**6)
        for label in ("count present", "sum(income)", "sum(smokes)")
    )
    missed = np.abs((1000 * 250 + total) / (1000 + count) - 250)
    assert np.quantile(missed, LEVEL) == pytest.approx(told["mean(income) of 1000 present"].half_width, rel=0.01)
    assert np.quantile(np.abs(count), LEVEL) == pytest.approx(told["count present"].half_width, rel=0.01)
    assert np.quantile(np.abs(other), LEVEL) == pytest.approx(told["sum(smokes)"].half_width, rel=0.01)
    private = nw.Schema(columns, n_max=2000, neighbours="add-remove", missing="leave-out")
    asked = nw.plan(nw.Mean("income"), private, guarantee=nw.PureDP(1))
    assert "state one (--n" in str(nw.precision(asked, progress=False))
    assert own(nw.precision(asked, n=500, progress=False), "mean(income) of 500 present").half_width > 0


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, "1000"])
def test_a_number_of_records_is_a_whole_number_from_1_on(bad: object) -> None:
    for population in (None, POPULATION):
        with pytest.raises(InvalidArgument, match=r"^n = .* cannot be used"):
            nw.precision(planned(nw.Mean(X), nw.PureDP(1)), population, n=bad, progress=False)


def test_a_large_budget_is_told_with_a_caution() -> None:
    assert not nw.precision(planned(nw.Mean(X), nw.PureDP(1)), progress=False).cautions
    found = nw.precision(planned(nw.Mean(X), nw.PureDP(10)), progress=False)
    assert found.cautions[0] in str(found)


@pytest.mark.parametrize("bad", [[], ["a"], [0], [-1], [math.nan], "", 5, [1] * 101])
def test_bad_budgets_are_refused_by_name(bad: object) -> None:
    with pytest.raises(InvalidArgument) as caught:
        nw.precision(planned(nw.Mean(X), nw.PureDP(1)), budgets=bad, progress=False)
    assert caught.value.argument == "budgets"


@pytest.mark.parametrize("bad", [[], None, "mean(income)", 5])
def test_plans_are_plans(bad: object) -> None:
    with pytest.raises(InvalidArgument):
        nw.precision(bad, progress=False)


SPEC = """\
[schema]
n = 4000
neighbours = "change-one"
[schema.columns]
income = { bounds = [0, 250], unit = "thousand EUR" }

[release]
statistic = "mean(income, income**2)"
guarantee = { epsilon = "EPSILON" }
"""


def test_the_command_prints_a_table_and_sentences_and_writes_json_and_a_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    population = '[population]\nincome = "normal(mean=norm(50, 50), sd=halfnorm(scale=50))"\n'
    (tmp_path / "s.toml").write_text(SPEC.replace("EPSILON", "1") + population)
    monkeypatch.chdir(tmp_path)
    code, out, _ = run_here(
        monkeypatch, capsys, "precision", "s.toml", "--budgets", "0.1,1,10", "--json", "p.json", "--plot", "p.png"
    )
    assert code == 0
    for words in ("mean, thousand EUR", "* 1", "no noise", "before", "will be known to ±", "at most 2.72 times"):
        assert words in out.replace("*  1", "* 1")
    plain = json.loads((tmp_path / "p.json").read_text())
    assert {row["number"] for row in plain["rows"]} == {0.1, 1.0, 10.0}
    assert {row["unit"] for row in plain["rows"]} == {"thousand EUR"}
    assert plain["sentences"]
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.json", "p.png", "s.toml"]  # no ledger, no release


def test_a_bill_of_a_large_budget_has_the_caution_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for epsilon, is_told in (("1", False), ("12", True)):
        (tmp_path / "s.toml").write_text(SPEC.replace("EPSILON", epsilon))
        code, out, _ = run_here(monkeypatch, capsys, "release", "s.toml", "--dry-run")
        assert code == 0
        assert ("Caution: epsilon = 12" in out) is is_told
