"""Which law a release gets, and how several releases join."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from made_releases import release_of
from scipy import stats

import noisewise as nw
from noisewise.likelihood.joint import joint_likelihood

X = nw.column("x")
MEAN = nw.Normal(mean=stats.norm(0, 3), sd=1)
BOTH = nw.Normal(mean=stats.norm(0, 3), sd=stats.halfnorm(scale=3))


def schema(n: int = 100, **options) -> nw.Schema:
    columns = {"x": nw.Bounded(-5, 5), "s": nw.Levels(["no", "yes"])}
    return nw.Schema(columns, n=n, neighbours="change-one", **options)


def made(statistic, guarantee=None, estimate=(0.5,), n=100, **options) -> nw.Release:
    return release_of(statistic, schema(n), guarantee or nw.PureDP(1), estimate, **options)


def median(value: float, dataset: str) -> nw.Release:
    plan = nw.plan(nw.Median(X), schema(), guarantee=nw.PureDP(1))
    return nw.Release.of(plan, [round(value / plan.law.step)], dataset=dataset, ledger_head=None, simulated=True)


@pytest.mark.parametrize(
    ("release", "population", "words", "is_exact"),
    [
        (made(nw.Mean(X)), MEAN, "exact law of the sum over 100 records", True),
        (made(nw.Mean(X), n=10_000), MEAN, "central limit theorem", False),
        (made(nw.Mean(X, X**2), estimate=[0.5, 2]), BOTH, "exact joint law of the 2 sums over 100 records", True),
        (made(nw.Mean(X), estimate=[0.5]), BOTH, "exact joint law of the sum over 100 records", True),
        (made(nw.Mean(X, X**2), estimate=[0.5, 2], n=5000), BOTH, "2 sums are jointly normal", False),
        (made(nw.Mean(X, X**2), nw.GaussianDP(1), [0.5, 2], n=5000), BOTH, "Gaussian noise", False),
        (made(nw.Mean(X, X**2, abs(X), X.clip(0, 1)), estimate=[0.5, 2, 1, 0.6]), BOTH, "where the release is", False),
        (made(nw.Count(X.between(0, 1)), estimate=[30]), MEAN, "binomial", True),
        (made(nw.Histogram("x", edges=[0, 1]), estimate=[50, 30, 20]), MEAN, "multinomial", True),
        (median(0.4, "a"), MEAN, "bank", True),
    ],
    ids=["scalar", "large-n", "vector", "two-unknowns", "large-vector", "gaussian", "four", "count", "table", "median"],
)
def test_the_law_is_chosen_by_structure_and_says_so(release, population, words, is_exact) -> None:
    likelihood = joint_likelihood([release], population)
    assert words in likelihood.because
    assert likelihood.is_exact is is_exact


def test_different_data_sets_multiply() -> None:
    one, two = made(nw.Mean(X), dataset="a"), made(nw.Mean(X), estimate=[0.7], dataset="b")
    theta = {"mean": np.linspace(-1, 2, 7)}
    apart = joint_likelihood([one], MEAN).log_likelihood(theta) + joint_likelihood([two], MEAN).log_likelihood(theta)
    assert joint_likelihood([one, two], MEAN).log_likelihood(theta) == pytest.approx(apart)


def test_disjoint_parts_multiply_and_carry_their_own_n() -> None:
    parts = [
        release_of(nw.Mean(X), schema(), nw.PureDP(1), [v], part=p)
        for v, p in ((0.5, (0, Fraction(1, 4))), (0.7, (Fraction(1, 4), 1)))
    ]
    likelihood = joint_likelihood(parts, MEAN)
    assert [group.n for group in likelihood.groups] == [25, 75]
    theta = {"mean": np.array([0.4])}
    apart = sum(joint_likelihood([part], MEAN).log_likelihood(theta) for part in parts)
    assert likelihood.log_likelihood(theta) == pytest.approx(apart)


def test_the_same_records_get_one_joint_law_and_not_a_product() -> None:
    """Two releases of one sum: given the sum their noises multiply, which is not the product of their laws."""
    one, two = made(nw.Mean(X), nw.PureDP(5), [0.5], n=2000), made(nw.Mean(X), nw.PureDP(4), [0.52], n=2000)
    likelihood = joint_likelihood([one, two], MEAN)
    assert len(likelihood.groups) == 1
    theta = {"mean": np.array([0.45, 0.5, 0.56])}
    (group,) = likelihood.groups
    mean, covariance = group.moments(theta)
    for k in range(3):
        u = np.linspace(-12, 12, 200_001) * covariance[k, 0, 0] ** 0.5 + mean[k, 0]
        density = stats.norm.pdf(u, mean[k, 0], covariance[k, 0, 0] ** 0.5)
        for y, b in zip(group.observed, group.noise.scale, strict=True):
            density = density * stats.laplace.pdf(y - u, scale=b)
        expected = np.log(np.trapezoid(density, u)) + np.log(group.noise.step).sum()
        assert likelihood.log_likelihood(theta)[k] == pytest.approx(expected, abs=1e-6)
    product = sum(joint_likelihood([r], MEAN).log_likelihood(theta) for r in (one, two))
    assert np.ptp(product - likelihood.log_likelihood(theta)) > 0.5


def test_the_same_count_twice_is_summed_over_the_count_once() -> None:
    yes = nw.Count(nw.column("s").equals("yes"))
    population = nw.Bernoulli(p=stats.beta(1, 1))
    releases = [made(yes, nw.PureDP(1), [7], n=12), made(yes, nw.PureDP(2), [4], n=12)]
    s = np.arange(13)
    p = 0.37
    law = stats.binom.pmf(s, 12, p)
    for release in releases:
        law = law * np.exp(release.law.log_pmf(release.value[0] - s))
    found = joint_likelihood(releases, population).log_likelihood({"p": np.array([p])})
    assert found[0] == pytest.approx(np.log(law.sum()), abs=1e-10)


def test_overlapping_parts_are_refused_with_the_reason() -> None:
    parts = [
        release_of(nw.Mean(X), schema(), nw.PureDP(1), [0.5], part=p)
        for p in ((0, Fraction(1, 2)), (Fraction(1, 4), 1))
    ]
    with pytest.raises(nw.Unsupported, match=r"overlapping parts .* \(0 to 1/2 and 1/4 to 1\)"):
        joint_likelihood(parts, MEAN)
    with pytest.raises(nw.Unsupported, match="overlapping parts"):
        joint_likelihood([parts[0], made(nw.Mean(X))], MEAN)


def test_parts_by_key_need_a_number_of_records_each() -> None:
    """One n for two halves would read each half's sum as that of everybody."""
    private = nw.Schema(schema().columns, n_max=1000, neighbours="add-remove")
    halves = [
        release_of(nw.Sum(X), private, nw.PureDP(1), [v], part=p)
        for v, p in ((20.0, (0, Fraction(1, 2))), (24.0, (Fraction(1, 2), 1)))
    ]
    assert [release.schema.n_max for release in halves] == [1000, 1000], "how many hash into a part is private"
    with pytest.raises(nw.InvalidArgument, match=r"different parts .*n=\[2000, 2000\]") as caught:
        joint_likelihood(halves, MEAN, n=100)
    assert caught.value.argument == "n"
    theta = {"mean": np.linspace(-1, 2, 7)}
    apart = sum(
        joint_likelihood([half], MEAN, n=size).log_likelihood(theta)
        for half, size in zip(halves, (45, 55), strict=True)
    )
    assert joint_likelihood(halves, MEAN, n=[45, 55]).log_likelihood(theta) == pytest.approx(apart)


def test_local_answers_and_a_mean_of_the_same_records_have_one_law() -> None:
    plan = nw.plan(nw.Records(X), schema(3), guarantee=nw.PureDP(1))
    local = nw.Release.of(plan, [0, 1, 2], dataset="made", ledger_head=None, simulated=True)
    likelihood = joint_likelihood([local, made(nw.Mean(X), n=3)], MEAN)
    assert len(likelihood.groups) == 1
    assert "given the answers" in likelihood.because


def test_a_median_and_a_mean_of_the_same_records_share_a_bank() -> None:
    likelihood = joint_likelihood([median(0.4, "made"), made(nw.Mean(X))], MEAN)
    assert len(likelihood.groups) == 1
    assert "bank" in likelihood.because
    assert np.isfinite(likelihood.log_likelihood({"mean": np.array([0.0, 0.5])})).all()


def test_different_bounds_of_the_same_records_are_refused_in_words() -> None:
    narrow = nw.Schema({"x": nw.Bounded(-1, 1)}, n=100, neighbours="change-one")
    with pytest.raises(nw.Unsupported, match="declare column 'x' differently"):
        joint_likelihood([made(nw.Mean(X)), release_of(nw.Mean(abs(X)), narrow, nw.PureDP(1), [0.2])], MEAN)


def test_several_columns_of_the_same_records_are_stacked() -> None:
    a = nw.Schema({"x": nw.Bounded(-5, 5)}, n=900, neighbours="change-one")
    b = nw.Schema({"z": nw.Bounded(0, 9)}, n=900, neighbours="change-one")
    population = nw.Joint(x=MEAN, z=nw.Exponential(rate=stats.gamma(2)))
    releases = [
        release_of(nw.Mean(X), a, nw.PureDP(1), [0.5]),
        release_of(nw.Mean(nw.column("z")), b, nw.PureDP(1), [1.5]),
    ]
    likelihood = joint_likelihood(releases, population)
    assert len(likelihood.groups) == 1
    theta = {"x.mean": np.array([0.4]), "z.rate": np.array([0.6])}
    normal = [joint_likelihood([release], population, likelihood="clt").log_likelihood(theta) for release in releases]
    together = joint_likelihood(releases, population, likelihood="clt").log_likelihood(theta)
    assert together == pytest.approx(sum(normal), abs=1e-6)
    closed = joint_likelihood(releases[1:], population)
    assert "closed" in closed.because
    # 900 records of x are as good as normal; those of z are not, 3 sds out.
    assert likelihood.log_likelihood(theta) == pytest.approx(normal[0] + closed.log_likelihood(theta), abs=2e-3)
    assert abs(normal[1] - closed.log_likelihood(theta)) > 0.1


@pytest.mark.parametrize("wrong", ["income.json", b"", [], None, 3, [3], {"a": 1}])
def test_what_is_not_a_release_is_refused(wrong: object) -> None:
    with pytest.raises(nw.InvalidArgument, match=r"Release"):
        joint_likelihood(wrong, MEAN)  # type: ignore[arg-type]


def test_the_same_file_twice_is_refused() -> None:
    with pytest.raises(nw.InvalidArgument, match="twice"):
        joint_likelihood([made(nw.Mean(X)), made(nw.Mean(X))], MEAN)


def test_a_private_number_of_records_must_be_stated() -> None:
    private = nw.Schema({"x": nw.Bounded(-5, 5)}, n_max=500, neighbours="add-remove")
    release = release_of(nw.Sum(X), private, nw.PureDP(1), [20])
    with pytest.raises(nw.InvalidArgument, match="State the n you assume"):
        joint_likelihood([release], MEAN)
    assert joint_likelihood([release], MEAN, n=100).groups[0].n == 100
    for wrong in (0, 501, 2.5, True, "many"):
        with pytest.raises(nw.InvalidArgument):
            joint_likelihood([release], MEAN, n=wrong)
    with pytest.raises(nw.InvalidArgument, match="public"):
        joint_likelihood([made(nw.Mean(X))], MEAN, n=100)


def test_the_central_limit_theorem_is_refused_where_it_says_nothing() -> None:
    with pytest.raises(nw.Unsupported, match="likelihood='auto'"):
        joint_likelihood([median(0.4, "a")], MEAN, likelihood="clt")
    with pytest.raises(nw.InvalidArgument, match="likelihood"):
        joint_likelihood([made(nw.Mean(X))], MEAN, likelihood="exact")


def test_scores_of_independent_groups_add() -> None:
    one, two = made(nw.Mean(X), dataset="a"), made(nw.Mean(X), nw.GaussianDP(1), [0.7], dataset="b")
    theta = {"mean": np.array([0.3, 0.6])}
    both = joint_likelihood([one, two], MEAN).score(theta)["mean"]
    apart = sum(joint_likelihood([r], MEAN).score(theta)["mean"] for r in (one, two))
    assert both == pytest.approx(apart)
