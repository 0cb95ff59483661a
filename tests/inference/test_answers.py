"""Answers in people's terms: every number against scipy at each draw, and against records drawn from the population."""

from __future__ import annotations

import numpy as np
import pytest
from drawn_posteriors import X, posterior, release, schema
from scipy import integrate, stats

import noisewise as nw
from noisewise.errors import InvalidArgument, Unsupported
from noisewise.inference.told import number_words
from noisewise.populations.moments import quantile_moments, scipy_moments_are_closed

K = 120


def uniform_draws(seed: int, **ranges: tuple[float, float]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.uniform(low, high, K) for name, (low, high) in ranges.items()}


FAMILIES = {
    "normal": (
        nw.Normal(mean=stats.norm(0, 9), sd=stats.halfnorm(scale=9)),
        uniform_draws(1, mean=(20, 60), sd=(3, 9)),
        lambda mean, sd: stats.norm(mean, sd),
    ),
    "normal variance": (
        nw.Normal(mean=30, variance=stats.invgamma(3, scale=9)),
        uniform_draws(2, variance=(4, 90)),
        lambda variance: stats.norm(30, np.sqrt(variance)),
    ),
    "gamma": (
        nw.Gamma(shape=stats.halfnorm(scale=9), rate=stats.halfnorm(scale=9)),
        uniform_draws(3, shape=(0.4, 6), rate=(0.05, 0.2)),
        lambda shape, rate: stats.gamma(shape, scale=1 / rate),
    ),
    "exponential": (
        nw.Exponential(rate=stats.gamma(2)),
        uniform_draws(4, rate=(0.01, 0.2)),
        lambda rate: stats.expon(scale=1 / rate),
    ),
    "lognormal": (
        nw.LogNormal(log_mean=stats.norm(3, 1), log_sd=stats.halfnorm()),
        uniform_draws(5, log_mean=(2, 4), log_sd=(0.2, 1.1)),
        lambda log_mean, log_sd: stats.lognorm(log_sd, scale=np.exp(log_mean)),
    ),
    "uniform": (
        nw.Uniform(low=stats.norm(0, 9), width=stats.halfnorm(scale=9)),
        uniform_draws(6, low=(1, 30), width=(10, 200)),
        lambda low, width: stats.uniform(low, width),
    ),
    "poisson": (
        nw.Poisson(rate=stats.gamma(2)),
        uniform_draws(7, rate=(2, 40)),
        lambda rate: stats.poisson(rate),
    ),
    "t moved": (
        nw.LocationScale(stats.t(5), loc=stats.norm(0, 9), scale=stats.halfnorm(scale=9)),
        uniform_draws(8, loc=(40, 60), scale=(2, 9)),
        lambda loc, scale: stats.t(5, loc, scale),
    ),
    "weibull": (
        nw.Population(stats.weibull_min, c=stats.gamma(4, scale=0.5), scale=stats.halfnorm(scale=9)),
        uniform_draws(9, c=(0.7, 3), scale=(10, 50)),
        lambda c, scale: stats.weibull_min(c, scale=scale),
    ),
    "without formulas": (
        nw.Population(stats.exponpow, b=stats.gamma(4, scale=0.5), scale=stats.halfnorm(scale=9)),
        uniform_draws(10, b=(0.8, 3), scale=(10, 50)),
        lambda b, scale: stats.exponpow(b, scale=scale),
    ),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_every_number_is_scipys_at_each_draw(name):
    population, draws, law_at = FAMILIES[name]
    has_formulas = name != "without formulas"
    found = posterior(draws, population, [release()]).answers(
        quantiles=(0.1, 0.9), shares=(50, "between(income, 20, 40)")
    )
    laws = [law_at(*row) for row in zip(*draws.values(), strict=True)][:: 1 if has_formulas else 40]
    edge = np.nextafter(20.0, 0)
    oracle = {
        "mean": [law.mean() for law in laws],
        "sd": [law.std() for law in laws],
        "median": [law.median() for law in laws],
        "quantile 0.1": [law.ppf(0.1) for law in laws],
        "quantile 0.9": [law.ppf(0.9) for law in laws],
        "share above 50": [law.sf(50) for law in laws],
        "share with between(income, 20, 40)": [law.cdf(40) - law.cdf(edge) for law in laws],
    }
    for quantity, values in oracle.items():
        row = found[quantity]
        assert row.column == "income"
        if not has_formulas:  # scipy takes a quarter of a second for each mean: look at a few
            np.testing.assert_allclose(row.draws[::40], values, rtol=1e-6, atol=1e-12)
            continue
        np.testing.assert_allclose(row.draws, values, rtol=1e-6, atol=1e-12)
        np.testing.assert_allclose(row.estimate, np.mean(values), rtol=1e-6)
        np.testing.assert_allclose(row.sd, np.std(values, ddof=1), rtol=1e-6)
        np.testing.assert_allclose((row.low, row.high), np.quantile(values, [0.05, 0.95]), rtol=1e-6, atol=1e-12)
        assert row.unit == ("" if quantity.startswith("share") else "thousand EUR")


def test_means_sds_and_shares_are_those_of_records_drawn_from_the_population():
    population, draws, _ = FAMILIES["gamma"]
    found = posterior(draws, population, [release()]).answers(shares=(50,))
    some = {name: value[:6] for name, value in draws.items()}
    records = population.sample(np.random.default_rng(11), 400_000, some)
    away = (records.mean(axis=1) - found["mean"].draws[:6]) / (records.std(axis=1) / np.sqrt(400_000))
    assert np.all(np.abs(away) < 5.5)
    assert np.allclose(records.std(axis=1), found["sd"].draws[:6], rtol=0.02)
    share = found["share above 50"].draws[:6]
    away = ((records > 50).mean(axis=1) - share) / np.sqrt(share * (1 - share) / 400_000)
    assert np.all(np.abs(away) < 5.5)


@pytest.mark.parametrize("outside", ["clamp", "refuse"])
def test_where_bounds_cut_the_law_the_mean_as_recorded_stands_beside_its_own(outside):
    population = nw.Normal(mean=stats.norm(0, 9), sd=30)
    means = np.linspace(5, 15, K)
    found = posterior({"mean": means}, population, [release(of=schema(outside=outside))]).answers()
    records = 10 + 30 * np.random.default_rng(12).standard_normal(2_000_000)
    cleaned = np.clip(records, 0, 250) if outside == "clamp" else records[(records >= 0) & (records <= 250)]
    at_ten = np.interp(10, means, found["mean as recorded"].draws)
    assert abs(at_ten - cleaned.mean()) < 6 * cleaned.std() / np.sqrt(len(cleaned))
    np.testing.assert_allclose(found["mean"].draws, means)
    assert "beyond the bounds 0 to 250" in " ".join(found.notes)
    inside = posterior({"mean": means + 100}, population, [release()]).answers()
    assert {row.quantity for row in inside} == {"mean", "sd", "median"}


def test_levels_are_told_by_their_shares_and_several_columns_each_by_itself():
    of = schema(region=nw.Levels(["north", "south", "west"]), smoker=nw.Levels(["no", "yes"]))
    population = nw.Joint(
        income=nw.Normal(mean=stats.norm(0, 9), sd=10),
        region=nw.Categorical(p=stats.dirichlet([1, 1, 1])),
        smoker=nw.Bernoulli(p=stats.beta(1, 1)),
    )
    rng = np.random.default_rng(13)
    draws = {
        "income.mean": rng.normal(50, 1, K),
        "region.p": rng.dirichlet([9, 5, 3], K),
        "smoker.p": rng.beta(3, 7, K),
    }
    both = (X > 60) * nw.column("smoker").equals("yes")
    one = posterior(draws, population, [release(of=of)])
    found = one.answers(shares=(60, nw.column("region").equals("south"), both))
    np.testing.assert_allclose(found["share of yes"].draws, draws["smoker.p"])
    np.testing.assert_allclose(found["share of no"].draws, 1 - draws["smoker.p"])
    for k, level in enumerate(("north", "south", "west")):
        np.testing.assert_allclose(found[f"share of {level}"].draws, draws["region.p"][:, k])
    np.testing.assert_allclose(found["share with equals(region, 'south')"].draws, draws["region.p"][:, 1])
    above = stats.norm(draws["income.mean"], 10).sf(60)
    row = found["share with (income > 60)*equals(smoker, 'yes')"]
    np.testing.assert_allclose(row.draws, above * draws["smoker.p"], rtol=1e-6)
    assert row.column == "income, smoker"
    assert len(found.of(column="region")) == 4
    with pytest.raises(InvalidArgument, match="levels, which have no quantile"):
        one.contrast("quantile 0.5", "smoker", "region")


def test_a_law_without_a_mean_says_so_and_its_median_is_told():
    population = nw.LocationScale(stats.cauchy, loc=stats.norm(0, 9), scale=2)
    one = posterior({"loc": np.linspace(49, 51, K)}, population, [release()])
    found = one.answers()
    assert found["mean"].estimate is None
    assert found["mean"].sd is None
    assert "A cauchy law has no mean" in found["mean"].note
    assert found["median"].estimate == pytest.approx(50)
    assert "-" in str(found)
    assert "nan" not in str(found)
    assert one.sentence.startswith("The median income is 50.0")


def test_a_mean_that_some_draws_lack_is_not_told_and_how_many_is():
    population = nw.Population(stats.t, df=stats.uniform(0.5, 5), loc=50, scale=1)
    df = np.concatenate([np.full(30, 0.7), np.full(90, 3.0)])
    found = posterior({"df": df}, population, [release()]).answers()
    assert found["mean"].estimate is None
    assert "at 25 % of the draws" in found["mean"].note


def test_draws_with_a_heavy_tail_are_told_by_their_median():
    population = nw.LogNormal(log_mean=0, log_sd=stats.halfnorm(scale=3))
    log_sd = stats.halfnorm(scale=3).ppf((np.arange(K) + 0.5) / K)
    row = posterior({"log_sd": log_sd}, population, [release()]).answers()["mean"]
    assert row.estimate == pytest.approx(np.median(np.exp(log_sd**2 / 2)))
    assert "median stands for them" in row.note


def test_moments_by_quantiles_are_those_of_an_integral_and_infinite_ones_are_infinite():
    class Law:
        def __init__(self, frozen):
            self.frozen = frozen

        def quantile(self, u, p):
            return self.frozen.ppf(u)

        def upper_quantile(self, v, p):
            return self.frozen.isf(v)

    for frozen in (stats.norm(3, 2), stats.gamma(0.3), stats.weibull_min(0.4), stats.lognorm(2)):
        mean, variance = quantile_moments(Law(frozen), {})
        first = (
            integrate.quad(lambda u, f=frozen: f.ppf(u), 0, 0.5)[0]
            + integrate.quad(lambda t, f=frozen: f.isf(np.exp(-t)) * np.exp(-t), np.log(2), 500, limit=400)[0]
        )
        assert mean[0] == pytest.approx(first, rel=1e-6)
        assert variance[0] == pytest.approx(frozen.var(), rel=1e-6)
    assert quantile_moments(Law(stats.pareto(0.9)), {})[0][0] == np.inf
    assert np.isnan(quantile_moments(Law(stats.cauchy()), {})[0][0])
    mean, variance = quantile_moments(Law(stats.pareto(1.5)), {})
    assert mean[0] == pytest.approx(3.0)
    assert variance[0] == np.inf
    assert scipy_moments_are_closed(stats.weibull_min)
    assert not scipy_moments_are_closed(stats.exponpow)


def test_a_parameter_among_the_answers_has_the_moments_that_quadrature_knows():
    population = nw.Normal(mean=stats.norm(0, 9), sd=10)
    draws = np.linspace(49, 51, K)
    one = posterior({"mean": draws}, population, [release()], moments={"mean": (np.array(50.02), np.array(0.6))})
    assert one.answers()["mean"].estimate == 50.02
    assert one.answers()["mean"].sd == 0.6


def test_releases_that_tell_a_column_in_two_units_leave_it_without_one():
    population = nw.Normal(mean=stats.norm(0, 9), sd=10)
    two = [release(), release(of=schema(unit="EUR"), dataset="other")]
    found = posterior({"mean": np.linspace(49, 51, K)}, population, two).answers()
    assert found["mean"].unit == ""
    assert "different units (thousand EUR, EUR)" in found.notes[-1]


WRONG = {
    "quantile 0": ({"quantiles": (0,)}, "quantiles = 0: a quantile is asked for at a share between 0 and 1"),
    "quantile 1.5": ({"quantiles": [1.5]}, "quantiles = 1.5"),
    "quantile nan": ({"quantiles": [float("nan")]}, "quantiles = nan"),
    "quantile text": ({"quantiles": "many"}, "quantiles = 'many'"),
    "quantile None": ({"quantiles": None}, "quantiles = None"),
    "quantile True": ({"quantiles": [True]}, "quantiles = True"),
    "share of nothing": ({"shares": [None]}, "shares: 'None' is not a feature"),
    "share that is no condition": ({"shares": [X]}, "shares holds Feature"),
    "share of another column": ({"shares": [nw.column("age") > 3]}, "nothing here answers for the share with age > 3"),
    "share inf": ({"shares": [float("inf")]}, "shares holds inf"),
    "share dict": ({"shares": {"income": 3}}, "shares"),
    "level": ({"level": 1.5}, "level = 1.5"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_asked_gets_a_sentence(case):
    given, words = WRONG[case]
    one = posterior({"mean": np.linspace(49, 51, K)}, nw.Normal(mean=stats.norm(0, 9), sd=10), [release()])
    with pytest.raises(InvalidArgument) as error:
        one.answers(**given)
    assert words in str(error.value)


def test_a_row_is_found_by_name_and_a_wrong_name_is_answered_with_the_right_ones():
    population = nw.Joint(a=nw.Normal(mean=stats.norm(0, 9), sd=1), b=nw.Normal(mean=stats.norm(0, 9), sd=1))
    of = nw.Schema({"a": nw.Bounded(0, 9), "b": nw.Bounded(0, 9)}, n=9, neighbours="change-one")
    one = posterior(
        {"a.mean": np.linspace(1, 2, K), "b.mean": np.linspace(5, 6, K)}, population,
        [release(nw.Mean("a", "b"), of=of)],
    )  # fmt: skip
    found = one.answers()
    assert found["mean", "b"].estimate == pytest.approx(5.5)
    assert [row.column for row in found.of("mean")] == ["a", "b"]
    with pytest.raises(InvalidArgument, match=r"2 rows of 'mean'; ask for one, as in answers\['mean', 'a'\]"):
        found["mean"]
    with pytest.raises(InvalidArgument, match="no quantity 'meen' \\(did you mean 'mean'"):
        found["meen"]
    with pytest.raises(InvalidArgument, match="no column or group 'c'"):
        found["mean", "c"]
    with pytest.raises(InvalidArgument, match="no column 'c'"):
        found.of(column="c")


def test_a_table_goes_to_pandas_markdown_latex_and_html_without_its_names_being_marks():
    name = "pay|50%_<b>"
    of = nw.Schema({name: nw.Bounded(0, 9, unit="$_&")}, n=9, neighbours="change-one")
    one = posterior(
        {"mean": np.linspace(1, 2, K)}, nw.Normal(mean=stats.norm(0, 9), sd=1), [release(nw.Mean(name), of=of)]
    )
    found = one.answers()
    frame = found.to_pandas()
    assert list(frame.columns) == ["quantity", "column", "group", "estimate", "low", "high", "sd", "unit"]
    assert frame.loc[0, "estimate"] == pytest.approx(1.5)
    assert frame.loc[0, "column"] == name
    line = found.to_markdown().splitlines()[2]
    assert r"pay\|50%\_&lt;b&gt;" in line
    assert r"\$\_&amp;" in line  # a dollar opens a formula in some dialects
    assert line.count("|") - line.count(r"\|") == found.to_markdown().splitlines()[0].count("|")
    assert r"pay\textbar{}50\%\_\textless{}b\textgreater{}" in found.to_latex()
    assert r"\$\_\&" in found.to_latex()
    assert "<b>" not in found._repr_html_()
    assert "pay|50%_&lt;b&gt;" in found._repr_html_()
    assert [row.quantity for row in found] == ["mean", "mean as recorded", "sd", "median"]


def test_numbers_have_the_digits_that_their_interval_warrants():
    assert number_words(50.34, 49.44, 51.14, 0.5) == "50.3"
    assert number_words(12_867, 12_144, 13_611, 500) == "12900"
    assert number_words(0.003456, 0.00311, 0.00388, 0.0002) == "0.00346"
    assert number_words(-0.0001, -1.0, 1.0, 0.5) == "0.0"
    assert number_words(3.14159, None, None, None) == "3.142"
    assert number_words(3.0, 3.0, 3.0, 0.0) == "3"
    skewed = 92.4, 512_000.0, 7e10  # two digits of the width would tell the lower ones as 0
    assert [number_words(value, *skewed) for value in (171.3, 92.4, 512_000.0)] == ["170", "92", "510000"]
    assert number_words(-3.0, -4000.0, -2.0, 900.0) == "-3.0"
    assert number_words(3.0, -2.0, 4000.0, 900.0) == "0"
    assert number_words(2.34e12, 2.1e12, 2.6e12, 1e11) == "2.34e+12"


# ---- contrasts, ranks, functions ----


@pytest.fixture
def three():
    rng = np.random.default_rng(14)
    columns = {name: nw.Bounded(0, 9, unit="kg") for name in ("a", "b", "c")}
    of = nw.Schema({**columns, "d": nw.Bounded(0, 9)}, n=9, neighbours="change-one")
    laws = {name: nw.Normal(mean=stats.norm(0, 9), sd=1) for name in columns}
    draws = {f"{name}.mean": rng.normal(centre, 1, 4000) for name, centre in (("a", 5), ("b", 5.5), ("c", 8))}
    return draws, posterior(draws, nw.Joint(**laws), [release(nw.Mean("a", "b", "c"), of=of)])


def test_a_difference_and_a_ratio_are_those_of_the_draws(three):
    draws, one = three
    found = one.contrast("mean", "a", "b")
    by_hand = draws["a.mean"] - draws["b.mean"]
    np.testing.assert_allclose(found.draws, by_hand)
    assert found.estimate == pytest.approx(by_hand.mean())
    assert (found.low, found.high) == pytest.approx(np.quantile(by_hand, [0.05, 0.95]))
    assert found.probability == np.mean(draws["a.mean"] > draws["b.mean"])
    assert found.unit == "kg"
    ratio = one.contrast(lambda law: law.mean() + 20, "a", "b", kind="ratio", level=0.5)
    by_hand = (draws["a.mean"] + 20) / (draws["b.mean"] + 20)
    assert (ratio.low, ratio.high) == pytest.approx(np.quantile(by_hand, [0.25, 0.75]))
    assert ratio.unit == ""
    assert str(found).startswith("mean, a less b: ")
    assert "a is larger with probability" in str(found)


@pytest.mark.parametrize(("otherwise", "words"), [(0, "over 0.99"), (2, "over 0.99"), (40, "0.98")])
def test_a_chance_that_hardly_a_draw_contradicts_is_no_certainty(otherwise, words):
    a, b = np.ones(2000), np.zeros(2000)
    b[:otherwise] = 2.0
    laws = {name: nw.Normal(mean=stats.norm(0, 9), sd=1) for name in "ab"}
    of = nw.Schema({name: nw.Bounded(-9, 9) for name in "ab"}, n=9, neighbours="change-one")
    one = posterior({"a.mean": a, "b.mean": b}, nw.Joint(**laws), [release(nw.Mean("a", "b"), of=of)])
    found = one.contrast("mean", "a", "b")
    assert found.probability == 1 - otherwise / 2000
    assert f"a is larger with probability {words}." in str(found)
    assert f">{words}</td>" in found._repr_html_()
    if otherwise < 3:
        assert "a is larger with probability" not in str(one.contrast("mean", "b", "a"))
        assert "b is larger with probability below 0.01." in str(one.contrast("mean", "b", "a"))


def test_ranks_are_those_counted_draw_by_draw(three):
    draws, one = three
    found = one.rank("mean")
    values = np.stack([draws[f"{name}.mean"] for name in "abc"], axis=1)
    counted = {name: np.zeros(3) for name in "abc"}
    for row in values:
        for place, k in enumerate(np.argsort(-row)):
            counted["abc"[k]][place] += 1 / len(values)
    for name in "abc":
        np.testing.assert_allclose(found[name], counted[name], atol=1e-12)
    expected = {name: counted[name] @ [1, 2, 3] for name in "abc"}
    assert found.groups == tuple(sorted(expected, key=lambda name: expected[name]))
    np.testing.assert_allclose(found.expected, [expected[name] for name in found.groups])
    np.testing.assert_allclose(found.probabilities.sum(axis=0), 1)
    lowest = one.rank("mean", ascending=True)
    np.testing.assert_allclose(lowest["c"], counted["c"][::-1], atol=1e-12)
    assert list(found.to_pandas()["group"]) == list(found.groups)
    assert "Rank 1 has the largest mean" in str(found)


def test_equal_values_share_their_ranks(three):
    _, one = three
    found = one.rank("sd")
    np.testing.assert_allclose(found.probabilities, 1 / 3)


def test_a_contrast_that_has_no_meaning_is_refused(three):
    _, one = three
    with pytest.raises(InvalidArgument, match="no group or column 'nort'"):
        one.contrast("mean", "nort", "a")
    with pytest.raises(InvalidArgument, match="compared with itself"):
        one.contrast("mean", "a", "a")
    with pytest.raises(InvalidArgument, match="it is 'difference' or 'ratio'"):
        one.contrast("mean", "a", "b", kind="quotient")
    with pytest.raises(Unsupported, match="may be 0"):
        one.contrast(lambda law: law.mean() - 5, "b", "a", kind="ratio")
    with pytest.raises(InvalidArgument, match="no quantity 'middle'"):
        one.contrast("middle", "a", "b")
    with pytest.raises(InvalidArgument, match="shape"):
        one.contrast(lambda _: 3.0, "a", "b")
    with pytest.raises(InvalidArgument, match="no column 'e'"):
        one.rank("mean", column="e")
    with pytest.raises(InvalidArgument, match="only a to rank"):
        one.rank("mean", column="a")


def test_columns_in_different_units_are_not_compared():
    of = nw.Schema({"a": nw.Bounded(0, 9, unit="kg"), "b": nw.Bounded(0, 9)}, n=9, neighbours="change-one")
    laws = {name: nw.Normal(mean=stats.norm(0, 9), sd=1) for name in "ab"}
    draws = {"a.mean": np.linspace(1, 2, K), "b.mean": np.linspace(2, 3, K)}
    one = posterior(draws, nw.Joint(**laws), [release(nw.Mean("a", "b"), of=of)])
    with pytest.raises(InvalidArgument, match="a is told in kg, b in no unit"):
        one.contrast("mean", "a", "b")
    with pytest.raises(InvalidArgument, match="different units"):
        one.rank("mean")


def one_normal():
    rng = np.random.default_rng(15)
    draws = {"mean": rng.normal(50, 1, 3000), "sd": rng.uniform(9, 11, 3000)}
    population = nw.Normal(mean=stats.norm(0, 9), sd=stats.halfnorm(scale=9))
    return draws, posterior(draws, population, [release()])


def test_any_function_of_the_population_has_an_interval():
    draws, one = one_normal()
    found = one.quantity(lambda p: p.quantile(0.9) / p["mean"], name="spread", unit="", level=0.8)
    by_hand = stats.norm(draws["mean"], draws["sd"]).ppf(0.9) / draws["mean"]
    np.testing.assert_allclose(found.draws, by_hand)
    assert (found.low, found.high) == pytest.approx(np.quantile(by_hand, [0.1, 0.9]))
    assert found.quantity == "spread"
    by_column = one.quantity(lambda p: p["income"].share_below(40))
    np.testing.assert_allclose(by_column.draws, stats.norm(draws["mean"], draws["sd"]).cdf(40), rtol=1e-9)


def test_a_function_that_knows_one_draw_only_is_asked_draw_by_draw():
    draws, one = one_normal()
    asked = []

    def larger(p):
        asked.append(1)
        return 50.0 if p["mean"] < 50 else float(p["mean"][0])

    found = one.quantity(larger, draws=200)
    chosen = np.linspace(0, 2999, 200).round().astype(int)
    np.testing.assert_allclose(found.draws, np.maximum(draws["mean"][chosen], 50))
    assert len(asked) <= 205


def test_a_function_that_mixes_draws_is_not_taken_at_its_word():
    draws, one = one_normal()
    found = one.quantity(lambda p: p["mean"] - p["mean"].mean() + 3)
    np.testing.assert_allclose(found.draws, 3.0)
    assert len(draws["mean"]) > len(found.draws)


def test_functions_that_fail_get_a_sentence():
    _, one = one_normal()
    with pytest.raises(InvalidArgument, match="give a function of the population"):
        one.quantity("mean")
    with pytest.raises(InvalidArgument, match="failed at one draw: ZeroDivisionError"):
        one.quantity(lambda _: 1 / 0)
    with pytest.raises(InvalidArgument, match=r"shape \(2,\) for one draw"):
        one.quantity(lambda _: [1.0, 2.0])
    with pytest.raises(InvalidArgument, match="no parameter, column or group 'meen'"):
        one.quantity(lambda p: p["meen"])
    lost = one.quantity(lambda p: np.where(p["mean"] > 50, np.nan, 1.0))
    assert lost.estimate is None
    assert "is not a finite number at" in lost.note
    assert one.quantity(lambda p: p["mean"] * np.nan).note == "The quantity is not a finite number at any draws."


def test_groups_named_by_numbers_are_found_by_numbers():
    years = nw.Grouped("year", income=nw.Normal(mean=stats.norm(50, 50), sd=20.0), names=["2019", "2020"])
    draws = {"mean": np.array([[40.0, 50.0], [42.0, 51.0]]), "share": np.full((2, 2), 0.5)}
    one = posterior(draws, years, [release()])
    found = one.quantity(lambda p: p[2020].mean() - p["2019"].mean())
    np.testing.assert_allclose(found.draws, [10.0, 9.0])
