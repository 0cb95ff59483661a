"""A release observed in PyMC or NumPyro tells what `infer` tells; the same records are never taken for others.

Densities and slopes are compared number by number; whole posteriors, and calibration of the hierarchy over holders that
docs/extend.md shows, are long statistics.
"""

import importlib
import importlib.util
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import noisewise as nw
from noisewise.bridges import numpyro as numpyro_bridge
from noisewise.bridges import pymc as pymc_bridge
from noisewise.bridges.arrays import NumpyArrays
from noisewise.bridges.terms import Given, term_of

COLUMNS = {"x": nw.Bounded(-1000, 1000), "g": nw.Levels(["a", "b", "c"]), "h": nw.Levels(["u", "v"])}
X = nw.column("x")
POPULATION = nw.Joint(
    x=nw.Normal(mean=4.0, sd=30.0), g=nw.Categorical(p=[0.5, 0.3, 0.2]), h=nw.Categorical(p=[0.6, 0.4])
)
needs_pymc = pytest.mark.skipif(
    importlib.util.find_spec("pymc") is None, reason="PyMC is not installed (pip install noisewise[pymc])"
)
needs_numpyro = pytest.mark.skipif(
    importlib.util.find_spec("numpyro") is None, reason="NumPyro is not installed (pip install noisewise[nuts])"
)
# What the other libraries say about their own future is not ours.
pytestmark = pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::DeprecationWarning", "ignore:PyTensor could not link:UserWarning"
)


def schema(n=2000):
    return nw.Schema(COLUMNS, n=n, neighbours="change-one")


def released(statistic, guarantee, rng, population=POPULATION, n=2000):
    return nw.simulate(nw.plan(statistic, schema(n), guarantee=guarantee), population, seed=int(rng.integers(2**31)))


def square_moments(m, s):
    """Mean and covariance of (x, x^2) of x ~ N(m, s^2), as nested lists."""
    cross = 2 * m * s**2
    return [m, m * m + s * s], [[s * s, cross], [cross, 4 * m * m * s * s + 2 * s**4]]


def cases(rng):
    """Releases of every kind with what a model says of a record, as plain numbers."""
    mean, covariance = square_moments(5.0, 28.0)
    p = [0.5, 0.3, 0.2]
    return {
        "one Laplace mean": (released(nw.Mean(X), nw.PureDP(1), rng), {"mean": 5.0, "covariance": 784.0}),
        "one Laplace mean, precise": (released(nw.Mean(X), nw.PureDP(50), rng), {"mean": 5.0, "covariance": 784.0}),
        "two Gaussian means": (
            released(nw.Mean(X, X**2), nw.GaussianDP(1), rng),
            {"mean": mean, "covariance": covariance},
        ),
        "two Laplace means": (
            released(nw.Mean(X, X**2), nw.PureDP(1), rng),
            {"mean": mean, "covariance": covariance},
        ),
        "a count": (released(nw.Count(nw.column("g").equals("a")), nw.PureDP(1), rng), {"probabilities": 0.5}),
        "a table": (released(nw.Histogram("g"), nw.PureDP(1), rng), {"probabilities": p}),
        "answers": (released(nw.Records("g"), nw.PureDP(1), rng), {"probabilities": p}),
    }


def plain_term(release, given, exponentials=None):
    """The term in NumPy, and its slope in a common factor 1 + t of everything that is given (at t = 0)."""
    names = list(given)

    def at(t):
        own = Given(**{name: np.asarray(given[name]) * (1 + t) for name in names})
        return float(term_of(release, given=own).log_density(NumpyArrays(), own, exponentials))

    return at(0.0), (at(1e-6) - at(-1e-6)) / 2e-6


@pytest.fixture
def double_precision():
    jax = pytest.importorskip("jax", reason="NumPyro is not installed (pip install noisewise[nuts])")
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield jax
    jax.config.update("jax_enable_x64", before)


# ---- densities and slopes ----


@needs_numpyro
def test_numpyro_has_the_density_and_the_slope_of_every_kind(double_precision, rng):
    jax, numpyro = double_precision, importlib.import_module("numpyro")
    for name, (release, given) in cases(rng).items():
        size = term_of(release, given=Given(**given)).mixing
        exponentials = rng.exponential(size=size)

        def log_density(t, release=release, given=given, exponentials=exponentials, size=size):
            def model():
                scaled = {key: jax.numpy.asarray(value) * (1 + t) for key, value in given.items()}
                numpyro_bridge.observe("y", release, **scaled)

            sites = {"y_noise": exponentials} if size else {}
            return numpyro.infer.util.log_density(model, (), {}, sites)[0] + exponentials.sum()

        value, slope = plain_term(release, given, exponentials)
        assert float(log_density(0.0)) == pytest.approx(value, rel=1e-9), name
        assert float(jax.grad(log_density)(0.0)) == pytest.approx(slope, rel=1e-5, abs=1e-4), name


@needs_pymc
def test_pymc_has_the_density_and_the_slope_of_every_kind(rng):
    pm, pytensor = importlib.import_module("pymc"), importlib.import_module("pytensor")
    with pytensor.config.change_flags(cxx="", mode="FAST_COMPILE"):  # nothing is compiled for one evaluation
        for name, (release, given) in cases(rng).items():
            with pm.Model() as model:
                t = pm.Flat("t")
                tensors = {key: pm.math.stack(value) if isinstance(value, list) else value for key, value in
                           given.items() if not isinstance(value, list) or not isinstance(value[0], list)}  # fmt: skip
                tensors = {key: value * (1 + t) for key, value in tensors.items()}
                if isinstance(given.get("covariance"), list):
                    tensors["covariance"] = [[entry * (1 + t) for entry in row] for row in given["covariance"]]
                pymc_bridge.observe("y", release, **tensors)
            size = term_of(release, given=Given(**given)).mixing
            exponentials = rng.exponential(size=size)
            point = {"t": 0.0} | ({"y_noise_log__": np.log(exponentials)} if size else {})
            density = float(model.compile_logp(jacobian=False)(point)) + exponentials.sum()
            slope = float(model.compile_dlogp([t], jacobian=False)(point)[0])
            wanted = plain_term(release, given, exponentials)
            assert density == pytest.approx(wanted[0], rel=1e-9), name
            assert slope == pytest.approx(wanted[1], rel=1e-5, abs=1e-4), name


# ---- whose records ----


@needs_pymc
def test_two_terms_of_the_same_records_are_refused(rng):
    pm = importlib.import_module("pymc")
    first = nw.measurement(nw.Mean(X), schema(), 4.2, noise=nw.laplace_noise(scale=1), dataset="registry")
    second = nw.measurement(nw.Mean(X**2), schema(), 900.0, noise=nw.laplace_noise(scale=9), dataset="registry")
    other = nw.measurement(nw.Mean(X), schema(), 4.9, noise=nw.laplace_noise(scale=1), dataset="another")
    unnamed = nw.measurement(nw.Mean(X), schema(), 4.9, noise=nw.laplace_noise(scale=1))
    with pm.Model():
        m = pm.Normal("m", 0, 10)
        pymc_bridge.observe("first", first, mean=m, covariance=900.0)
        with pytest.raises(nw.Unsupported, match="same records"):
            pymc_bridge.observe("second", second, mean=900.0, covariance=1e6)
        with pytest.raises(nw.InvalidArgument, match="given twice"):
            pymc_bridge.observe("again", first, mean=m, covariance=900.0)
        with pytest.raises(nw.InvalidArgument, match="whose records"):
            pymc_bridge.observe("unnamed", unnamed, mean=m, covariance=900.0)
        pymc_bridge.observe("other", other, mean=m, covariance=900.0)
    with pm.Model():  # another model knows nothing of it
        pymc_bridge.observe("second", second, mean=pm.Normal("m", 900, 10), covariance=1e6)


@needs_numpyro
def test_single_precision_is_refused(rng):
    jax = importlib.import_module("jax")
    if jax.config.jax_enable_x64:
        pytest.skip("this process computes in double precision")
    with pytest.raises(nw.Unsupported, match="enable_x64"):
        numpyro_bridge.observe("y", released(nw.Mean(X), nw.PureDP(1), rng), mean=0.0, covariance=1.0)


@pytest.mark.parametrize(("bridge", "package"), [(pymc_bridge, "pymc"), (numpyro_bridge, "numpyro")])
def test_a_missing_library_is_named_with_its_extra(bridge, package, monkeypatch, rng):
    monkeypatch.setitem(importlib.import_module("sys").modules, package, None)
    with pytest.raises(nw.Unsupported, match=r"pip install 'noisewise\["):
        bridge.observe("y", released(nw.Mean(X), nw.PureDP(1), rng), mean=0.0, covariance=1.0)


# ---- whole posteriors ----

MOMENTS = nw.Normal(mean=stats.norm(0, 20), sd=stats.gamma(4, scale=10))
SHARES = nw.Categorical(p=stats.dirichlet([1.0, 1.0, 1.0, 1.0, 1.0, 1.0]))
SIX = nw.Schema({"cell": nw.Levels(list("uvwxyz"))}, n=600, neighbours="change-one")


def posterior_cases(rng):
    """What the page promises: a normal mean and sd, two Laplace sums, a table of two by three."""
    world = nw.Normal(mean=4.0, sd=30.0)
    counts = rng.multinomial(600, [0.3, 0.1, 0.2, 0.2, 0.15, 0.05])
    noisy = counts + np.round(rng.laplace(scale=2.0, size=6))
    table = nw.measurement(nw.Histogram("cell"), SIX, noisy, noise=nw.geometric_noise(scale=2.0))
    return {
        "normal": (released(nw.Mean(X, X**2), nw.GaussianDP(1), rng, world), MOMENTS),
        "laplace": (released(nw.Mean(X, X**2), nw.PureDP(1), rng, world), MOMENTS),
        "table": (table, SHARES),
    }


def in_numpyro(release, population, rng):
    jax, numpyro = importlib.import_module("jax"), importlib.import_module("numpyro")
    laws = importlib.import_module("numpyro.distributions")

    def model():
        if population is SHARES:
            p = numpyro.sample("p", laws.Dirichlet(np.ones((2, 3)).ravel()))
            return numpyro_bridge.observe("y", release, probabilities=p)
        m, s = numpyro.sample("mean", laws.Normal(0, 20)), numpyro.sample("sd", laws.Gamma(4, 1 / 10))
        mean, covariance = square_moments(m, s)
        return numpyro_bridge.observe("y", release, mean=mean, covariance=covariance)

    run = numpyro.infer.MCMC(numpyro.infer.NUTS(model, target_accept_prob=0.9), num_warmup=1000, num_samples=4000,
                             num_chains=2, chain_method="sequential", progress_bar=False)  # fmt: skip
    run.run(jax.random.PRNGKey(int(rng.integers(2**31))))
    return {name: np.asarray(value) for name, value in run.get_samples(group_by_chain=True).items()}


def in_pymc(release, population, rng):
    pm = importlib.import_module("pymc")
    with pm.Model():
        if population is SHARES:
            p = pm.Dirichlet("p", np.ones(6))
            pymc_bridge.observe("y", release, probabilities=p)
        else:
            m, s = pm.Normal("mean", 0, 20), pm.Gamma("sd", alpha=4, beta=1 / 10)
            mean, covariance = square_moments(m, s)
            pymc_bridge.observe("y", release, mean=mean, covariance=covariance)
        found = pm.sample(4000, tune=1000, chains=2, cores=1, target_accept=0.9, progressbar=False,
                          random_seed=int(rng.integers(2**31)), compute_convergence_checks=False)  # fmt: skip
    return {name: found.posterior[name].to_numpy() for name in population.free}


def monte_carlo_gaps(one, two):
    """Differences of means and of log standard deviations, in their Monte Carlo errors, over all components."""
    arviz = importlib.import_module("arviz")
    gaps = []
    for name in two:
        pairs = [np.reshape(draws[name], (*draws[name].shape[:2], -1)) for draws in (one, two)]
        for j in range(pairs[0].shape[-1]):
            a, b = (draws[..., j] for draws in pairs)
            sizes = [min(arviz.ess(draws), arviz.ess((draws - draws.mean()) ** 2)) for draws in (a, b)]
            spread = np.sqrt(sum(draws.var() / size for draws, size in zip((a, b), sizes, strict=True)))
            gaps.append((a.mean() - b.mean()) / spread)
            kurtosis = [np.mean((draws - draws.mean()) ** 4) / draws.var() ** 2 for draws in (a, b)]
            error = np.sqrt(sum((k - 1) / (4 * size) for k, size in zip(kurtosis, sizes, strict=True)))
            gaps.append((np.log(a.std()) - np.log(b.std())) / error)
    return np.abs(gaps)


@pytest.mark.slow
@needs_numpyro
@pytest.mark.parametrize("kind", ["normal", "laplace", "table"])
def test_a_posterior_in_numpyro_is_that_of_infer(kind, double_precision, rng):
    release, population = posterior_cases(rng)[kind]
    ours = nw.infer(release, population, draws=4000, seed=int(rng.integers(2**31)), progress=False)
    theirs = in_numpyro(release, population, rng)
    gaps = monte_carlo_gaps(theirs, ours.draws)
    print(f"largest gap: {gaps.max():.2f} Monte Carlo errors")
    assert gaps.max() < 5.5


@pytest.mark.slow
@needs_pymc
@pytest.mark.parametrize("kind", ["normal", "laplace", "table"])
def test_a_posterior_in_pymc_is_that_of_infer(kind, rng):
    release, population = posterior_cases(rng)[kind]
    ours = nw.infer(release, population, draws=4000, seed=int(rng.integers(2**31)), progress=False)
    gaps = monte_carlo_gaps(in_pymc(release, population, rng), ours.draws)
    print(f"largest gap: {gaps.max():.2f} Monte Carlo errors")
    assert gaps.max() < 5.5


# ---- the hierarchy over holders that docs/extend.md shows ----

HOLDERS = [nw.Schema({"stay": nw.Bounded(0, 80)}, n=n, neighbours="change-one") for n in (30, 60, 120, 250, 500)]


def hierarchy(share_of_noise):
    """The sampler of the hierarchy, compiled once: it takes the published values. The terms are those of `observe`."""
    numpyro, laws = importlib.import_module("numpyro"), importlib.import_module("numpyro.distributions")
    arrays = numpyro_bridge._arrays()
    terms = []
    for k, holder in enumerate(HOLDERS):
        noise = nw.laplace_noise(scale=share_of_noise * 80 / holder.n)
        release = nw.measurement(nw.Mean("stay"), holder, 40.0, noise=noise, dataset=f"holder {k}")
        terms.append(term_of(release, given=Given(mean=0.0, covariance=1.0)))

    def model(values):
        c = numpyro.sample("centre", laws.Normal(40, 5))
        s = numpyro.sample("spread", laws.HalfNormal(4))
        z = numpyro.sample("z", laws.Normal(0, 1).expand([len(HOLDERS)]))
        m = numpyro.deterministic("mean", c + s * z)
        for k, term in enumerate(terms):
            seen = replace(term, observed=values[k : k + 1] * term.n / term.scale)
            numpyro.factor(f"stay {k}", seen.log_density(arrays, Given(mean=m[k], covariance=64.0), None))

    return numpyro.infer.MCMC(numpyro.infer.NUTS(model, target_accept_prob=0.95), num_warmup=500, num_samples=1980,
                              num_chains=1, progress_bar=False)  # fmt: skip


def hierarchy_trial(rng, run):
    """Ranks (as uniform numbers) of the centre, the spread and the first holder's mean, of made-up holders."""
    jax = importlib.import_module("jax")
    centre, spread = rng.normal(40, 5), abs(rng.normal(0, 4))
    means = centre + spread * rng.standard_normal(len(HOLDERS))
    values = [
        np.clip(rng.normal(m, 8, holder.n), 0, 80).mean() + rng.laplace(scale=80 / holder.n)  # epsilon = 1
        for m, holder in zip(means, HOLDERS, strict=True)
    ]
    run.run(jax.random.PRNGKey(int(rng.integers(2**31))), jax.numpy.array(values))
    drawn = {name: np.asarray(value)[::20] for name, value in run.get_samples().items()}
    truths = {"centre": centre, "spread": spread, "mean": means[0]}
    drawn["mean"] = drawn["mean"][:, 0]
    return [(np.sum(drawn[name] < truth) + rng.random()) / 100 for name, truth in truths.items()]


@pytest.mark.slow
@needs_numpyro
def test_the_hierarchy_over_holders_is_calibrated(double_precision, rng):
    run = hierarchy(1.0)
    found = np.array([hierarchy_trial(rng, run) for _ in range(150)])
    for name, u in zip(("centre", "spread", "mean"), found.T, strict=True):
        z = stats.norm.ppf(u)
        print(name, stats.kstest(u, "uniform").pvalue, "90 % intervals hold", np.mean(np.abs(u - 0.5) < 0.45))
        assert stats.kstest(u, "uniform").pvalue > 1e-7
        assert 1e-7 < stats.chi2.sf(np.sum(z * z), len(z)) < 1 - 1e-7


@pytest.mark.slow
@needs_numpyro
def test_a_hierarchy_that_forgets_the_noise_is_caught(double_precision, rng):
    """The same trials with a tenth of the noise in the model: the calibration has power."""
    run = hierarchy(0.1)
    found = np.array([hierarchy_trial(rng, run) for _ in range(150)])
    z = stats.norm.ppf(found[:, 2])
    assert stats.chi2.sf(np.sum(z * z), len(z)) < 1e-7
