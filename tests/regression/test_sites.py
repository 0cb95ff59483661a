"""Coefficients by site: draws against quadrature, limits against pooled and separate fits, calibration, answers."""

from types import SimpleNamespace

import numpy as np
import pytest
from moment_releases import SEED, health_schema, noisy_release, records
from regression_worlds import smallest_p_value
from scipy import special, stats
from site_worlds import draw_world, model, released, uniforms

import noisewise as nw
from noisewise.errors import InvalidArgument, Unsupported
from noisewise.inference.diagnostics import ess_mean
from noisewise.inference.hamiltonian import walk_of
from noisewise.inference.settings import Settings
from noisewise.regression.sites.density import CommonLaw, SiteData, with_common_law
from noisewise.regression.sites.sampler import CommonPrior, Site, sample

ALARM = 1e-6
FAR = 6.0  # standard errors: once in 5e8
SIZES = (400, 1000, 150)


# ---- the sampler against quadrature ----


def measured(position, data, gradient):
    """A site whose numbers were measured: b ~ N(value, sd^2), and one coordinate of its own that leans on the first."""
    value, sd = data
    away = (position[: len(value)] - value) / sd
    rest = position[-1] - position[0]
    gradient[:] = 0.0
    gradient[: len(value)] = -away / sd
    gradient[0] += rest
    gradient[-1] = -rest
    return float(-0.5 * away @ away - 0.5 * rest * rest)


def toy_site(value, sd):
    p = len(value)
    law = CommonLaw(np.eye(p), np.zeros(p), np.ones(p), np.zeros(p), np.zeros(p))
    density = with_common_law(measured, "measured_site")
    start = np.append(value, value[0])
    factor = np.diag([*sd, 1.0])
    return Site(density, walk_of(density, "measured_walk"), SiteData((value, sd), law), start, factor, p + 1, np.eye(p))


def moments_by_quadrature(values, sds, scale, log_centre, grid):
    """E and sd of centre, spread and each b by sums over a grid of (centre, spread)."""
    centre, spread = np.meshgrid(grid, scale * np.linspace(0.0005, 5.0, 1500), indexing="ij")
    log_p = log_centre(centre) - 0.5 * np.square(spread / scale)
    means, seconds = [], []
    for value, sd in zip(values, sds, strict=True):
        wide = sd**2 + spread**2
        log_p = log_p - 0.5 * np.log(wide) - 0.5 * np.square(value - centre) / wide
        shrunk = (value * spread**2 + centre * sd**2) / wide
        means.append(shrunk)
        seconds.append(np.square(shrunk) + sd**2 * spread**2 / wide)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    first = [(p * f).sum() for f in (centre, spread, *means)]
    second = [(p * f).sum() for f in (centre**2, spread**2, *seconds)]
    return np.array(first), np.sqrt(np.array(second) - np.square(first))


@pytest.mark.parametrize("sds", [(0.02, 0.05, 0.03), (2.0, 3.0, 2.5), (0.05, 0.5, 3.0)])
def test_draws_of_centre_spread_and_sites_are_those_of_quadrature(rng, sds):
    """Strong sites, weak ones, and both: a normal centre and, of another number, one by an inverse gamma law."""
    values = np.array([[0.3, 0.2], [-0.4, 0.5], [0.5, -0.1]])
    sd = np.column_stack([sds, sds])
    sites = [toy_site(value, own) for value, own in zip(values, sd, strict=True)]
    prior = CommonPrior(np.array([0.1, 0.0]), np.diag([1.0, 0.0]), np.array([0.4, 0.3]), (2.0, 1.5))
    found = sample(sites, prior, rng, chains=1, draws=800, warmup=200)
    b = found.numbers(sites)
    for k, scale, log_centre in (
        (0, 0.4, lambda c: -0.5 * np.square(c - 0.1)),
        (1, 0.3, lambda c: -4.0 * c - 1.5 * np.exp(-2.0 * c)),
    ):
        mean, spread = moments_by_quadrature(values[:, k], sd[:, k], scale, log_centre, np.linspace(-4.5, 6.0, 2100))
        drawn = [found.centre[..., k], found.spread[..., k], *(b[..., j, k] for j in range(3))]
        for draws, expected, size in zip(drawn, mean, spread, strict=True):
            error = draws.std() / np.sqrt(ess_mean(draws))
            assert abs(draws.mean() - expected) < FAR * error
            assert 0.6 < draws.std() / size < 1.5


def test_priors_that_are_not_independent_are_drawn_from(rng):
    """Sites that say nothing leave the prior: its covariance is that of the centres."""
    covariance = np.array([[1.0, 0.8], [0.8, 1.0]])
    prior = CommonPrior(np.array([1.0, -1.0]), np.linalg.inv(covariance), np.array([0.5, 0.2]))
    sites = [toy_site(np.zeros(2), np.full(2, 50.0)) for _ in range(2)]
    found = sample(sites, prior, rng, chains=1, draws=800, warmup=200)
    centre = found.centre.reshape(-1, 2)
    for k, size in enumerate((0.5, 0.2)):
        error = found.centre[..., k].std() / np.sqrt(ess_mean(found.centre[..., k]))
        assert abs(centre[:, k].mean() - prior.mean[k]) < FAR * error
        spread = found.spread[..., k]
        assert abs(spread.mean() - size * np.sqrt(2 / np.pi)) < FAR * spread.std() / np.sqrt(ess_mean(spread))
    assert 0.4 < np.corrcoef(centre.T)[0, 1] < 0.96


# ---- densities ----


@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_the_density_of_a_site_has_its_gradient_and_the_common_law(rng, kind):
    regression = model(kind)
    world = draw_world(rng, kind, nw.GaussianDP(20), SIZES)
    told = regression.learnt_as.observe(world.releases, Settings(seed=1))
    frame = regression.site_frame(told.by_site, Settings(seed=1))
    site = frame.sites[1]
    law, size = site.data.law, len(site.mode)
    law.centre[:], law.spread[:] = 0.3, 0.7
    gradient, other = np.empty(size), np.empty(size)
    position = site.mode + 0.1 * site.factor @ rng.standard_normal(size)
    value = site.density(position, site.data, gradient)
    for i in range(size):
        step = np.zeros(size)
        step[i] = 1e-5
        ends = [site.density(position + sign * step, site.data, other) for sign in (1, -1)]
        assert gradient[i] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=2e-4, abs=2e-4)
    b = site.numbers(position)
    bare = site.likelihood(position, other)
    assert value == pytest.approx(bare - 0.5 * np.sum(np.square((b - 0.3) / 0.7)), abs=1e-8)
    # Without its own prior and the common law, what is left differs from the whole posterior by the prior alone.
    beta = frame.centres(b[None])
    names = frame.names if kind == "logistic" else frame.names[:-1]
    again = np.array([beta[name][0] for name in names])
    moved = position.copy()
    site.place(moved, b)
    np.testing.assert_allclose(moved, position, atol=1e-10)
    fitted = frame.fit(1, position[None, None], 1).draws
    np.testing.assert_allclose(again, [fitted[name][0, 0] for name in names], atol=1e-10)


# ---- limits ----


FAST = {"draws": 400, "warmup": 250, "chains": 1, "seed": SEED, "progress": False}
ROWS = stats.norm.ppf((np.arange(20) + 0.5) / 20)[:, None]


def known(kind):
    """What is taken as known of the features, so that pooled and separate fits have nothing else to differ in."""
    given = nw.GivenMoments.of_rows(ROWS) if kind == "linear" else nw.GivenRows(ROWS)
    return {"covariates": given, **({"noise": stats.invgamma(1e4, scale=1e4)} if kind == "linear" else {})}


def fits(rng, kind, lines, sizes=(800, 800, 800)):
    """Releases of sites with these lines, whose features have the known moments exactly or nearly so."""
    found = []
    for j, ((start, slope), n) in enumerate(zip(lines, sizes, strict=True)):
        x = np.resize(ROWS[:, 0], n)
        s = start + slope * x
        found.append(released(rng, kind, x, s, s + rng.standard_normal(n), nw.GaussianDP(50), f"clinic-{j}"))
    return found


def near(one, other, name):
    """Within Monte Carlo error of each other, and as wide; a third of a standard deviation is left to the prior."""
    a, b = (np.asarray(posterior.draws[name]) for posterior in (one, other))
    a, b = (value if value.ndim == 2 else value.reshape(*value.shape[:2], -1) for value in (a, b))
    for k in range(b.shape[2] if b.ndim == 3 else 1):
        left, right = (value[..., k] if value.ndim == 3 else value for value in (a, b))
        error = sum(value.std() / np.sqrt(ess_mean(value)) for value in (left, right))
        assert abs(left.mean() - right.mean()) < FAR * error + 0.3 * right.std()
        assert 0.7 < left.std() / right.std() < 1.4


def _at(posterior, name, j):
    """One site's draws, as a posterior has them."""
    return SimpleNamespace(draws={name: posterior.draws[name][..., j]})


@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_sites_that_cannot_differ_are_pooled(rng, kind):
    """tau -> 0: the pooled fit, at every site and at the centre; tau of the default scale is wider."""
    releases = fits(rng, kind, [(0.3, 0.8)] * 3)
    tiny = {name: stats.halfnorm(scale=1e-6) for name in ("intercept", "x", *(["noise_variance"] * (kind == "linear")))}
    together = nw.infer(releases, model(kind, coefficients="pooled", **known(kind)), **FAST)
    partial = nw.infer(releases, model(kind, spread=tiny, **known(kind)), **FAST)
    for name in ("intercept", "x"):
        for j in range(3):
            near(_at(partial, name, j), together, name)
        assert float(np.ptp(partial.draws[name], axis=2).max()) < 1e-3


@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_sites_that_may_differ_by_anything_are_separate(rng, kind):
    """tau -> infinity: every site's own fit; the pooled fit is somewhere else."""
    releases = fits(rng, kind, [(-0.5, 1.2), (0.8, 0.1), (0.2, -0.9)])
    wide = {name: stats.halfnorm(scale=1e3) for name in ("intercept", "x")}
    apart = nw.infer(releases, model(kind, coefficients="separate", **known(kind)), **FAST)
    partial = nw.infer(releases, model(kind, spread=wide, **known(kind)), **FAST)
    for name in ("intercept", "x"):
        near(partial, apart, name)
    together = nw.infer(releases, model(kind, coefficients="pooled", **known(kind)), **FAST)
    assert abs(together.mean["x"] - apart.mean["x"][0]) > 3 * apart.sd["x"][0]


# ---- laws of the features that are stated, or learnt from histograms ----

YES = nw.column("ill").equals("yes")
CELLS = [0.5, 1, 1.5, 2, 2.5, 3, 4]


def clinic(rng, j, line, *, cells=None, n=800):
    """Moments, and a histogram before them, of a clinic whose number is gamma and clamped at 5."""
    schema = nw.Schema({"x": nw.Bounded(0, 5), "ill": nw.Levels(["no", "yes"])}, n=n, neighbours="change-one")
    x = rng.gamma(4, 0.5, n)
    rows = {"x": np.minimum(x, 5), "ill": (rng.random(n) < special.expit(line[0] + line[1] * x)).astype(float)}
    statistics = [nw.Moments(["x"], YES, parts=["xx", "xy"], centre={"x": 2})]
    statistics[:0] = [nw.Histogram("x", cells)] if cells else []
    plans = [nw.plan(statistic, schema, guarantee=nw.GaussianDP(20)) for statistic in statistics]
    return [noisy_release(plan, rows, rng, dataset=f"clinic-{j}") for plan in plans]


@pytest.mark.parametrize("covariates", [{"x": nw.Gamma(shape=4, rate=2)}, "released"], ids=["stated", "released"])
def test_sites_have_laws_of_their_features_of_their_own(rng, covariates):
    """Each by itself is that site's own fit; so is a common law of sites that may differ by anything."""
    cells = CELLS if covariates == "released" else None
    sites = [clinic(rng, j, line, cells=cells) for j, line in enumerate([(-1.0, 0.3), (0.5, -0.6)])]
    together = [release for site in sites for release in site]
    given = {"covariates": covariates, "prior": stats.norm(0, 1)}
    wide = {name: stats.halfnorm(scale=1e3) for name in ("intercept", "x")}
    settings = FAST | {"draws": 300}
    apart = nw.infer(together, nw.LogisticRegression(["x"], YES, coefficients="separate", **given), **settings)
    law = {"covariates": covariates, "coefficients": stats.norm(0, 1)}
    for j, own in enumerate(sites):
        near(_at(apart, "x", j), nw.infer(own, nw.LogisticRegression(["x"], YES, **law), **settings), "x")
    weak = nw.LogisticRegression(
        ["x"], YES, coefficients="partial", spread=wide, **given | {"prior": stats.norm(0, 50)}
    )
    free = nw.LogisticRegression(["x"], YES, coefficients="separate", **given | {"prior": stats.norm(0, 50)})
    partial, alone = (nw.infer(together, model, **settings) for model in (weak, free))
    near(partial, alone, "x")
    assert weak.at_site(partial, "2").mean["x"] == pytest.approx(partial.mean["x"][1])


def test_histograms_of_nobodys_site_and_of_other_cells_are_refused(rng):
    one, two = (clinic(rng, j, (0.0, 0.5), cells=CELLS[j:]) for j in range(2))
    model = nw.LogisticRegression(["x"], YES, coefficients="partial", covariates="released")
    with pytest.raises(Unsupported, match="different cells"):
        nw.infer([*one, *two], model, **FAST)
    with pytest.raises(InvalidArgument, match="is no site"):
        nw.infer([*one, two[1], clinic(rng, 2, (0.0, 0.5), cells=CELLS)[0]], model, **FAST)


# ---- calibration ----


def ranks(rng, kind, guarantee, trials, draws, regression=None, **options):
    found = []
    for trial in range(trials):
        world = draw_world(rng, kind, guarantee, SIZES)
        posterior = nw.infer(
            world.releases, regression or model(kind), chains=1, draws=draws, warmup=250, seed=trial, progress=False,
            **options,
        )  # fmt: skip
        found.append(uniforms(rng, world, posterior))
    return np.array(found)


GUARANTEES = {"gaussian": nw.GaussianDP(20), "laplace": nw.PureDP(40)}


@pytest.mark.parametrize(("kind", "noise"), [("linear", "gaussian"), ("logistic", "laplace")])
def test_sites_are_calibrated(rng, kind, noise):
    assert smallest_p_value(ranks(rng, kind, GUARANTEES[noise], 6, 120)) > ALARM


@pytest.mark.slow
@pytest.mark.parametrize("noise", list(GUARANTEES))
@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_sites_of_unequal_size_are_calibrated(rng, kind, noise):
    """Three sites of 150, 400 and 1000 people: centre, spread and every site's coefficients."""
    u = ranks(rng, kind, GUARANTEES[noise], 150, 500)
    print("coverage of 90 %", np.mean(np.abs(u - 0.5) <= 0.45, axis=0))
    assert smallest_p_value(u) > ALARM


def test_sites_learnt_naively_are_not(rng):
    """The same test sees a plug-in: noisy sums of each site taken for the sums themselves."""
    naive = model("linear", coefficients="separate")
    u = ranks(rng, "linear", nw.GaussianDP(5), 40, 100, naive, method="naive", project=True)
    assert smallest_p_value(u) < ALARM


# ---- what is asked of it ----


@pytest.fixture(scope="module")
def health():
    """Four clinics of unequal size, the third with little to say."""
    rng = np.random.default_rng(SEED)
    statistic = nw.Moments(
        ["age", "bmi"], "cost", centre={"age": 45, "bmi": 26, "cost": 180}, scale={"age": 12, "bmi": 4, "cost": 40}
    )
    found = []
    for j, (n, mu) in enumerate([(3000, 100), (1500, 100), (200, 20)]):
        rows = records(rng, n)
        rows["cost"] = rows["cost"] + 10.0 * j
        plan = nw.plan(statistic, health_schema(n), guarantee=nw.GaussianDP(mu))
        found.append(noisy_release(plan, rows, rng, dataset=f"clinic-{j}"))
    return found


CLINIC = {"draws": 200, "warmup": 200, "chains": 2, "seed": 5, "progress": False}


@pytest.fixture(scope="module")
def partial(health):
    regression = nw.LinearRegression(["age", "bmi"], "cost", coefficients="partial", sites=["a", "b", "c"])
    return nw.infer(health, regression, **CLINIC)


@pytest.fixture(scope="module")
def separate(health):
    return nw.infer(health, nw.LinearRegression(["age", "bmi"], "cost", coefficients="separate"), **CLINIC)


def test_unknowns_are_named_by_site(partial, separate):
    labels = [label for label, _ in separate.scalars()]
    assert labels[:6] == ["intercept[1]", "intercept[2]", "intercept[3]", "age[1]", "age[2]", "age[3]"]
    labels = [label for label, _ in partial.scalars()]
    assert {"age[a]", "age[c]", "noise_variance[b]", "age.centre", "age.spread", "noise_variance.spread"} <= set(labels)
    assert set(partial.model.supports) == set(labels)
    assert partial.draws["age"].shape == (2, 200, 3)


def test_the_verdict_says_that_few_sites_lean_on_the_prior_of_the_spread(partial, separate):
    said = " ".join(partial.verdict.notes)
    assert "With 3 sites the releases say little of how much sites differ" in said
    assert "half-normal" in said
    assert "age 1.67" in said  # half a likely sd of the cost for one of age: 0.5 * 40 / 12
    assert "least sure of all is" in " ".join(separate.verdict.notes)


def test_a_weak_site_learns_from_the_others(partial, separate):
    assert partial.sd["age"][2] < separate.sd["age"][2]
    assert partial.sd["age"][0] < 1.5 * separate.sd["age"][0]


def test_answers_contrasts_and_ranks_compare_sites(partial):
    table = partial.answers()
    assert "coefficient, typical site" in str(table)
    assert "spread between sites" in str(table)
    told = partial.contrast("coefficient", "a", "b", column="age")
    np.testing.assert_allclose(told.draws, (partial.draws["age"][..., 0] - partial.draws["age"][..., 1]).ravel())
    assert partial.rank("intercept", column="cost").groups[0] in ("a", "b", "c")
    assert "at a typical site, one more unit of age goes with" in partial.sentence.lower()
    assert "parameter" in partial.summary()


def test_predictions_are_for_a_site_or_for_a_new_one(partial, separate):
    regression, X = partial.population, {"age": [45.0], "bmi": [26.0]}
    one = regression.predict(partial, X, site="a", kind="mean")
    other = regression.predict(partial, X, site="b", kind="mean")
    new = regression.predict(partial, X, site="new", kind="mean")
    assert other.mean[0] - one.mean[0] == pytest.approx(10.0, abs=8.0)
    assert new.sd[0] > 3 * one.sd[0]
    # At the public centre a new site's height has the spread of the heights, whatever the slopes do.
    height = np.sqrt(np.square(partial.draws["intercept.spread"]).mean())
    centre = partial.draws["intercept.centre"] + 45.0 * partial.draws["age.centre"] + 26.0 * partial.draws["bmi.centre"]
    assert new.sd[0] ** 2 == pytest.approx(height**2 + centre.var(), rel=0.5)
    assert regression.predict(partial, X, site="new").sd[0] > new.sd[0]
    assert regression.predict_mean(partial, X, site="b").shape == (1,)
    for posterior, site, match in (
        (partial, None, "name one of a, b, c by site=, or site='new'"),
        (partial, "d", "is none"),
        (separate, "new", "name one of 1, 2, 3 by site=\\."),
    ):
        with pytest.raises(InvalidArgument, match=match):
            posterior.population.predict(posterior, X, site=site)


def test_one_site_is_a_posterior_by_itself(partial):
    alone = partial.population.at_site(partial, "b")
    assert len(alone.releases) == 1
    assert 0 <= alone.check.overall <= 1
    assert alone.statistic.draws.shape[1] == len(alone.releases[0].value)
    assert alone.population.predict(alone, [[45.0, 26.0]]).mean.shape == (1,)
    for ask in (lambda: partial.check, lambda: partial.statistic):
        with pytest.raises(Unsupported, match=r"one at a time: model.at_site\(posterior, 'a'\)"):
            ask()


def test_it_is_saved_and_read_back(partial, tmp_path):
    partial.save(tmp_path / "sites")
    again = nw.Posterior.load(tmp_path / "sites")
    assert again.verdict == partial.verdict
    assert [label for label, _ in again.scalars()] == [label for label, _ in partial.scalars()]
    assert again.population.sharing == partial.population.sharing
    X = [[45.0, 26.0]]
    assert again.population.predict_mean(again, X, site="c") == partial.population.predict_mean(partial, X, site="c")


def test_a_spec_file_says_it_in_the_same_words():
    written = {
        "*": "logistic_regression(features=['age'], response=\"equals(relapse, 'yes')\", coefficients='partial', "
        "prior=norm(0, 1), spread={'age': halfnorm(scale=0.5)}, sites=['north', 'south'])"
    }
    regression = nw.LogisticRegression.from_spec(written)
    assert regression.sharing.scale("age") == 0.5
    assert regression.sharing.scale("intercept") is None
    assert nw.LogisticRegression.from_spec(regression.to_spec()).sharing == regression.sharing
    assert nw.LogisticRegression.from_spec(regression.to_spec()).coefficients.std() == 1
    for how in ("pooled", "separate"):
        model = nw.LinearRegression.from_spec(
            {"*": f"linear_regression(features=['x'], response='y', coefficients='{how}')"}
        )
        assert model.sharing.how == how
    with pytest.raises(InvalidArgument, match="'partial' say how"):
        nw.LinearRegression.from_spec({"*": "linear_regression(features=['x'], response='y', coefficients='some')"})


def test_a_prior_under_coefficients_is_pooled_as_ever():
    for given in (stats.norm(0, 1), "learned", {"intercept": stats.norm(), "x": stats.norm()}, None):
        assert nw.LinearRegression("x", "y", coefficients=given).sharing.how == "pooled"
    joint = nw.NormalInverseGamma(0, 1, 2, 3)
    assert nw.LinearRegression("x", "y", prior=joint).prior is joint
    assert nw.LinearRegression("x", "y", coefficients="separate", prior=joint).prior is joint
    assert nw.LinearRegression("x", "y", coefficients="pooled", prior=stats.norm(0, 3)).coefficients.std() == 3


@pytest.mark.parametrize(
    ("given", "argument"),
    [
        ({"coefficients": "partial", "prior": "learned"}, "prior"),
        ({"coefficients": "partial", "prior": nw.NormalInverseGamma(0, 1, 2, 3)}, "prior"),
        ({"coefficients": "partial", "spread": stats.norm(0, 1)}, "spread"),
        ({"coefficients": "partial", "spread": {"z": stats.halfnorm(scale=1)}}, "spread"),
        ({"coefficients": "partial", "spread": stats.halfnorm(1, 1)}, "spread"),
        ({"coefficients": "partial", "spread": 3}, "spread"),
        ({"coefficients": "separate", "spread": stats.halfnorm(scale=1)}, "spread"),
        ({"coefficients": "partial", "sites": "ab"}, "sites"),
        ({"coefficients": "partial", "sites": ["a", "a"]}, "sites"),
        ({"coefficients": "partial", "sites": ["a", "new"]}, "sites"),
        ({"sites": ["a", "b"]}, "sites"),
        ({"coefficients": "some"}, "coefficients"),
    ],
)
def test_what_cannot_be_meant_is_refused(given, argument):
    with pytest.raises(InvalidArgument) as error:
        nw.LinearRegression("x", "y", **given)
    assert error.value.argument == argument


def test_one_data_set_or_another_number_of_names_is_refused(health):
    regression = nw.LinearRegression(["age", "bmi"], "cost", coefficients="partial", sites=["a", "b"])
    with pytest.raises(InvalidArgument, match="names 2 sites, but the releases are of 3 data sets"):
        nw.infer(health, regression)
    with pytest.raises(InvalidArgument, match="at least two data sets"):
        nw.infer(health[:1], regression)
    plan = nw.plan(health[0].statistic, health[0].schema, guarantee=nw.GaussianDP(1))
    with pytest.raises(Unsupported, match="which site"):
        nw.simulate(plan, regression)
