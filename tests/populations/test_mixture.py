"""Mixtures: densities, quantiles and moments against scipy and brute force; labels; every law of releases; text."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

import noisewise as nw
from noisewise.errors import InvalidArgument, NoisewiseError
from noisewise.inference.fit import label_sentences
from noisewise.likelihood.joint import joint_likelihood
from noisewise.populations.cleaned import row_moments
from noisewise.populations.text import population_from_text, population_to_text
from noisewise.statistics.feature import as_feature

X = nw.column("x")
SCHEMA = nw.Schema({"x": nw.Bounded(0, 100)}, n=400, neighbours="change-one")
TWO = nw.Mixture(
    [nw.Normal(mean=stats.norm(30, 10), sd=5), nw.Gamma(shape=4, rate=stats.gamma(3, scale=0.02))],
    weights=stats.dirichlet([2, 3]),
)
AT = {
    "mean[1]": np.array([25.0, 35.0]),
    "rate[2]": np.array([0.05, 0.08]),
    "weights": np.array([[0.3, 0.7], [0.9, 0.1]]),
}


def laws(k):
    return stats.norm(AT["mean[1]"][k], 5), stats.gamma(4, scale=1 / AT["rate[2]"][k]), AT["weights"][k]


def test_density_distribution_function_and_quantiles_are_the_weighted_ones():
    x = np.array([-3.0, 0.0, 12.0, 30.0, 90.0, 400.0])
    for k in range(2):
        one, two, (a, b) = laws(k)
        assert np.exp(TWO.log_density(x, AT)[k]) == pytest.approx(
            a * one.pdf(x) + b * two.pdf(x), rel=1e-12, abs=1e-300
        )
        assert TWO.cdf(x, AT)[k] == pytest.approx(a * one.cdf(x) + b * two.cdf(x), rel=1e-12)
        upper = TWO.distribution.survival(x, TWO.values(AT))[k]
        assert upper == pytest.approx(a * one.sf(x) + b * two.sf(x), rel=1e-12)
    u = np.array([1e-14, 1e-6, 0.01, 0.3, 0.5, 0.9, 0.999])
    assert TWO.cdf(TWO.quantile(u, AT), AT) == pytest.approx(np.broadcast_to(u, (2, 7)), rel=1e-9)
    upper = TWO.distribution.upper_quantile(u, TWO.values(AT))
    assert TWO.distribution.survival(upper, TWO.values(AT)) == pytest.approx(np.broadcast_to(u, (2, 7)), rel=1e-9)


def test_a_narrow_component_far_from_a_wide_one_is_not_lost():
    """Quantiles and moments where one law is ten thousand times narrower than the other, and nothing between them."""
    mixed = nw.Mixture([nw.Normal(mean=10, sd=1e-3), nw.Normal(mean=70, sd=stats.uniform(5, 10))], weights=[0.5, 0.5])
    theta = {"sd[2]": np.array([7.0])}
    u = np.array([0.1, 0.4999, 0.5001, 0.9])
    assert mixed.cdf(mixed.quantile(u, theta), theta)[0] == pytest.approx(u, abs=1e-12)
    mean, covariance = row_moments(mixed, SCHEMA, (as_feature("x"), as_feature("x") ** 2), theta)
    first = 0.5 * 10 + 0.5 * 70
    square = 0.5 * (100 + 1e-6) + 0.5 * (4900 + 49)
    assert mean[0] == pytest.approx([first, square], rel=1e-6)
    assert covariance[0, 0, 0] == pytest.approx(square - first**2, rel=1e-5)


@pytest.mark.parametrize("outside", ["clamp", "refuse"])
def test_moments_of_cleaned_records_are_those_of_quadrature(outside):
    schema = nw.Schema({"x": nw.Bounded(20, 60)}, n=400, neighbours="change-one", outside=outside)
    mean, covariance = row_moments(TWO, schema, (as_feature("x"),), AT)
    for k in range(2):
        one, two, (a, b) = laws(k)

        def density(x, one=one, two=two, a=a, b=b):
            return a * one.pdf(x) + b * two.pdf(x)

        inside = [integrate.quad(lambda x, j=j: x**j * density(x), 20, 60, epsabs=1e-12)[0] for j in range(3)]
        below, above = (a * one.cdf(20) + b * two.cdf(20)), (a * one.sf(60) + b * two.sf(60))
        if outside == "clamp":
            moments = [inside[j] + below * 20**j + above * 60**j for j in range(3)]
        else:
            moments = [one / inside[0] for one in inside]
        assert mean[k, 0] == pytest.approx(moments[1], rel=1e-9)
        assert covariance[k, 0, 0] == pytest.approx(moments[2] - moments[1] ** 2, rel=1e-8)


def test_draws_are_of_the_mixture(rng):
    drawn = TWO.sample(rng, 20_000, AT)
    for k in range(2):
        one, two, (a, b) = laws(k)
        assert (
            stats.kstest(drawn[k], lambda x, one=one, two=two, a=a, b=b: a * one.cdf(x) + b * two.cdf(x)).pvalue > 1e-7
        )
    mean, variance = TWO.distribution.moments(TWO.values(AT))
    one, two, (a, b) = laws(0)
    centre = a * one.mean() + b * two.mean()
    spread = a * (one.var() + (one.mean() - centre) ** 2) + b * (two.var() + (two.mean() - centre) ** 2)
    assert (mean[0], variance[0]) == pytest.approx((centre, spread), rel=1e-12)


def test_counts_mix_as_well(rng):
    mixed = nw.Mixture([nw.Poisson(rate=2), nw.Poisson(rate=stats.gamma(4, scale=5))], weights=[0.4, 0.6])
    theta = {"rate[2]": np.array([15.0])}
    k = np.arange(0, 60)
    expected = 0.4 * stats.poisson.pmf(k, 2) + 0.6 * stats.poisson.pmf(k, 15)
    assert np.exp(mixed.log_density(k, theta)[0]) == pytest.approx(expected, rel=1e-10)
    upto = np.cumsum(expected)
    for u in (1e-6, 0.3, 0.42, 0.9, 0.9999):
        assert mixed.quantile([u], theta)[0, 0] == np.argmax(upto >= u)
    drawn = mixed.sample(rng, 20_000, theta)[0]
    assert abs(np.mean(drawn <= 5) - upto[5]) < 0.02


def test_alike_components_are_put_in_order_and_lose_nothing(rng):
    part = nw.Normal(mean=stats.norm(50, 20), sd=5)
    alike = nw.Mixture([part] * 3, weights=stats.dirichlet([1, 1, 1]))
    drawn = alike.sample_prior(rng, 2000)
    means = np.stack([drawn[f"mean[{j}]"] for j in (1, 2, 3)])
    assert np.all(np.diff(means, axis=0) > 0)
    assert np.all(np.isfinite(alike.log_prior(drawn)))
    swapped = {**drawn, "mean[1]": drawn["mean[2]"], "mean[2]": drawn["mean[1]"]}
    assert np.all(alike.log_prior(swapped) == -np.inf)
    # The prior of the smallest of three, by its formula: the density integrates to 1.
    expected = sum(stats.norm(50, 20).logpdf(means)) + math.log(6) + math.lgamma(3)
    assert alike.log_prior(drawn) == pytest.approx(expected, rel=1e-9)
    unlike = nw.Mixture([part, nw.Normal(mean=stats.norm(60, 20), sd=5)], weights=[0.5, 0.5])
    assert np.isfinite(unlike.log_prior({"mean[1]": np.array([70.0]), "mean[2]": np.array([20.0])})[0])


def test_the_order_can_be_of_another_unknown():
    part = nw.Normal(mean=stats.norm(50, 20), sd=stats.halfnorm(scale=10))
    by_sd = nw.Mixture([part] * 2, weights=[0.5, 0.5], order="sd")
    theta = {"mean[1]": [60.0], "mean[2]": [20.0], "sd[1]": [1.0], "sd[2]": [2.0]}
    assert np.isfinite(by_sd.log_prior({name: np.array(value) for name, value in theta.items()})[0])
    assert "order='sd'" in repr(by_sd)


@pytest.mark.parametrize(
    "made",
    [
        TWO,
        nw.Mixture([nw.Normal(mean=stats.norm(50, 20), sd=5)] * 2, weights=stats.dirichlet([1, 1]), order="mean"),
        nw.Mixture([nw.Poisson(rate=2), nw.Poisson(rate=stats.gamma(4, scale=5))], weights=[0.4, 0.6]),
    ],
    ids=["unlike", "ordered", "counts"],
)
def test_text_reads_back_as_the_same(made):
    again = population_from_text(population_to_text(made))
    assert repr(again) == repr(made)
    assert population_to_text(again) == population_to_text(made)
    assert again.parameters.order == made.parameters.order


def test_one_component_with_all_the_weight_is_that_component(rng):
    """Means, histograms and local answers are scored as those of the component alone."""
    alone = nw.Normal(mean=stats.norm(40, 20), sd=8)
    mixed = nw.Mixture([alone, nw.Normal(mean=90, sd=1)], weights=[1 - 1e-12, 1e-12])
    for statistic in (nw.Mean(X), nw.Histogram("x", edges=[0, 30, 50, 100]), nw.Records(X)):
        schema = nw.Schema({"x": nw.Bounded(0, 100)}, n=30, neighbours="change-one")
        release = nw.simulate(nw.plan(statistic, schema, guarantee=nw.PureDP(2)), alone, at={"mean": 42.0}, seed=7)
        means = np.array([35.0, 42.0, 50.0])
        one = joint_likelihood([release], alone).log_likelihood({"mean": means})
        two = joint_likelihood([release], mixed).log_likelihood({"mean[1]": means})
        assert np.diff(two) == pytest.approx(np.diff(one), abs=2e-4), statistic


def test_the_posterior_of_a_weight_is_that_of_quadrature(rng):
    """Two known laws, one unknown share: a mean of 400 records under Gaussian noise."""
    mixed = nw.Mixture([nw.Normal(mean=30, sd=5), nw.Normal(mean=60, sd=5)], weights=stats.dirichlet([1, 2]))
    plan = nw.plan(nw.Mean(X), SCHEMA, guarantee=nw.GaussianDP(1))
    release = nw.simulate(plan, mixed, at={"weights": [0.3, 0.7]}, seed=int(rng.integers(2**31)))
    found = nw.infer(release, mixed, draws=1000, likelihood="clt", progress=False)
    w = np.linspace(0, 1, 4001)
    m, v = 30 * w + 60 * (1 - w), 25 + 900 * w * (1 - w)
    noise = release.law.scale[0]
    y = release.value[0] * release.law.step[0]
    log = stats.norm.logpdf(y, 400 * m, np.sqrt(400 * v + noise**2)) + stats.beta.logpdf(w, 1, 2)
    chance = np.exp(log - log[np.isfinite(log)].max())
    chance /= chance.sum()
    mean = chance @ w
    sd = math.sqrt(chance @ (w - mean) ** 2)
    drawn = found.draws["weights"][..., 0]
    assert drawn.mean() == pytest.approx(mean, abs=6 * sd / math.sqrt(drawn.size) + 0.01 * sd)
    assert drawn.std() == pytest.approx(sd, rel=0.1)
    told = found.answers()
    assert told["mean"].estimate == pytest.approx(float(np.mean(30 * drawn + 60 * (1 - drawn))), abs=0.05)
    assert found.plot(kind="distribution")[:4] == b"\x89PNG"


def test_what_to_share_is_chosen_for_a_mixture():
    mixed = nw.Mixture([nw.Normal(mean=stats.norm(30, 3), sd=5), nw.Normal(mean=60, sd=5)], weights=[0.5, 0.5])
    plans = [nw.plan(s, SCHEMA, guarantee=nw.PureDP(1)) for s in (nw.Mean(X), nw.Mean(X.clip(0, 45)))]
    choice = nw.choose(plans, mixed, at={"mean[1]": 30.0}, progress=False)
    assert choice.winner in plans


HOSTILE = [
    math.nan,
    math.inf,
    -1,
    0,
    "",
    None,
    True,
    1e308,
    10**40,
    [],
    {},
    [0.5],
    [0.5, 0.6],
    [0.5, -0.5],
    stats.norm(0, 1),
]


@pytest.mark.parametrize("weights", [*HOSTILE, [0.2, 0.3, 0.5], stats.dirichlet([1, 1, 1])], ids=lambda w: str(w)[:18])
def test_weights_that_are_none_are_refused_by_name(weights):
    with pytest.raises(InvalidArgument) as refusal:
        nw.Mixture([nw.Normal(mean=1, sd=1), nw.Normal(mean=2, sd=stats.halfnorm())], weights=weights)
    assert refusal.value.argument == "weights"


@pytest.mark.parametrize(
    "components",
    [*HOSTILE[:11], [nw.Normal(mean=0, sd=1)], [nw.Normal(mean=0, sd=1), 3], [nw.Normal(mean=0, sd=1)] * 21,
     [nw.Normal(mean=0, sd=1), nw.Poisson(rate=2)], [nw.Categorical(p=[0.5, 0.5])] * 2, [TWO, TWO],
     [nw.Normal(prior=stats.normal_inverse_gamma(0, 1, 2, 2))] * 2],
    ids=lambda c: str(c)[:18],
)  # fmt: skip
def test_components_that_are_none_are_refused_by_name(components):
    with pytest.raises(InvalidArgument) as refusal:
        nw.Mixture(components, weights=[0.5, 0.5])
    assert refusal.value.argument == "components"


@pytest.mark.parametrize("order", [math.nan, -1, 0, "", "sd", True, 1e308, ["mean"]], ids=str)
def test_an_order_that_is_none_is_refused_by_name(order):
    with pytest.raises(NoisewiseError) as refusal:
        nw.Mixture([nw.Normal(mean=stats.norm(0, 1), sd=1)] * 2, weights=[0.5, 0.5], order=order)
    assert refusal.value.argument == "order"


@pytest.mark.slow
def test_intervals_of_a_mixture_hold():
    part = nw.Normal(mean=stats.norm(50, 15), sd=6)
    mixed = nw.Mixture([part] * 2, weights=stats.dirichlet([2, 2]))
    plan = nw.plan(nw.Histogram("x", edges=[0, 20, 35, 50, 65, 80, 100]), SCHEMA, guarantee=nw.PureDP(1))
    found = nw.calibrate(plan, mixed, trials=100, draws=60, progress=False)
    assert found.is_calibrated(), found.summary()


def test_components_that_change_places_are_told(rng):
    """Priors that hardly differ keep no order: in half of the draws each label is the other's."""
    release = nw.measurement(nw.Mean("x"), SCHEMA, 50.3, noise=nw.laplace_noise(scale=1))
    parts = [nw.Normal(mean=stats.norm(50 + away, 20), sd=7) for away in (0, 0.001)]
    almost, alike = (nw.Mixture(some, weights=[0.5, 0.5]) for some in (parts, parts[:1] * 2))
    low, high = rng.normal(33, 0.4, 200), rng.normal(67, 0.4, 200)
    swapped = rng.permutation(np.arange(200) < 100)
    both = {"mean[1]": np.where(swapped, high, low), "mean[2]": np.where(swapped, low, high)}
    (sentence,) = label_sentences((release,), almost, both)
    assert sentence.startswith("mean[1] is above mean[2] in 50 % of the draws")
    people = nw.Joint(x=almost, y=nw.Bernoulli(p=0.5))
    (joint,) = label_sentences((release,), people, {f"x.{name}": value for name, value in both.items()})
    assert joint.startswith("x.mean[1] is above x.mean[2]")
    assert label_sentences((release,), almost, {"mean[1]": low, "mean[2]": high}) == ()
    assert label_sentences((release,), alike, both) == ()  # kept in one order
    assert label_sentences((release,), nw.Normal(mean=stats.norm(50, 20), sd=7), {"mean": low}) == ()
