"""Runs: honest about broken densities and stuck chains (promise E6), reproducible and resumable (promise E7)."""

import math
from functools import partial

import numpy as np
import pytest

from noisewise.errors import InvalidArgument, NoisewiseError
from noisewise.inference import adapt
from noisewise.inference.diagnostics import verdict
from noisewise.inference.kernels import Walk
from noisewise.inference.kernels.slice import Slice
from noisewise.inference.run import Run, run
from noisewise.published.samplers.averaged import Averaged
from noisewise.published.samplers.averaged_records import AveragedRecords
from noisewise.published.samplers.averaged_sequential import AveragedSequential
from noisewise.published.samplers.correlated import Correlated
from noisewise.published.samplers.metropolis import Metropolis
from noisewise.published.samplers.pseudo_marginal import PseudoMarginal
from noisewise.published.samplers.within_gibbs import WithinGibbs

BATCH = ("mh", "slice", "mh-within-gibbs", "pmmh", "cpm", "mhaar")
LATENT = ("mh-within-gibbs", "pmmh", "cpm", "mhaar")
ALL = (*BATCH, "mhaar over z", "mhaar over z, subsets", "mhaar sequential")


def case(toys, name, rng):
    """A model and its kernel by name."""
    if name in toys.batch_kernels:
        model = toys.MeanOfAbsolutes()
        return model, toys.batch_kernels[name](model)
    model = toys.OrderStatistic(10) if name in toys.record_kernels else toys.local_answers(rng)
    return model, (toys.record_kernels | toys.sequential_kernels)[name](model)


class Poisoned:
    """A model whose densities are broken (NaN, or +inf) where position > 0."""

    def __init__(self, model, poison):
        self.model, self.poison, self.size = model, poison, 1

    def __getattr__(self, name):
        return getattr(self.model, name)

    def log_likelihood(self, position):
        return np.where(position[:, 0] > 0, self.poison, -0.5 * position[:, 0] ** 2)

    def log_prior(self, position):
        return np.zeros(len(position))

    def draw_prior(self, rng, count):
        return rng.standard_normal((count, 1))


class PoisonedLatent:
    def __init__(self, latent, poison):
        self.latent, self.poison = latent, poison

    def __getattr__(self, name):
        return getattr(self.latent, name)

    def moments(self, position):
        mean, covariance = self.latent.moments(position)
        return mean, np.where(position[:, :, None] > 0, self.poison, covariance)

    def log_noise(self, z, position=None):
        if position is None:
            return self.latent.log_noise(z)
        clean = self.latent.log_noise(z, position)
        return np.where(position.reshape(-1, *[1] * (clean.ndim - 1)) > 0, self.poison, clean)


def poisoned(toys, name, rng, poison):
    model, make_kernel = case(toys, name, rng)
    if isinstance(make_kernel, partial):
        latent = PoisonedLatent(model.latent, poison)
        return model.target, partial(make_kernel.func, **make_kernel.keywords | {"latent": latent})
    return Poisoned(model.target, poison), make_kernel


@pytest.mark.parametrize("name", ALL)
def test_a_poisoned_density_is_rejected_and_reported(toys, rng, name):
    target, make_kernel = poisoned(toys, name, rng, math.nan)
    trace = run(rng, make_kernel, target, warmup=100, draws=200)
    assert trace.non_finite.sum() > 0
    assert np.all(trace.positions <= 0)  # the chains never entered the poisoned half
    assert np.all(np.isfinite(trace.positions))
    found = verdict(trace.positions, non_finite=trace.non_finite)
    assert not found.is_converged
    assert f"{trace.non_finite.sum()} of 800 steps met a non-finite density; chain" in str(found)


@pytest.mark.parametrize("name", ["mh", "slice"])
def test_an_infinite_density_does_not_swallow_the_chain(toys, rng, name):
    target, make_kernel = poisoned(toys, name, rng, math.inf)
    trace = run(rng, make_kernel, target, warmup=100, draws=200)
    assert trace.non_finite.sum() > 0
    assert np.all(trace.positions <= 0)


@pytest.mark.parametrize("name", LATENT)
def test_a_covariance_that_is_not_positive_definite_stops_no_other_chain(toys, rng, name):
    target, make_kernel = poisoned(toys, name, rng, -1.0)
    kernel = make_kernel(target, walk=Walk.isotropic(1, 1.0))
    state = kernel.init(rng, np.array([[-1.0], [-0.5], [-0.01]]))
    infos = []
    for _ in range(50):
        state, info = kernel.step(rng, state)
        infos.append(info)
    assert not all(info.is_finite.all() for info in infos)
    assert np.all(np.isfinite(state.log_density))
    assert sum(info.accepted.sum() for info in infos) > 0


def test_a_step_that_leaves_the_priors_support_is_no_fault(rng):
    """Zero prior density is an honest zero, whatever the likelihood says outside."""

    class HalfLine:
        size = 1

        def log_prior(self, position):
            return np.where(position[:, 0] > 0, -position[:, 0], -np.inf)

        def log_likelihood(self, position):
            return np.where(position[:, 0] > 0, 0.0, np.nan)

        def draw_prior(self, rng, count):
            return rng.exponential(size=(count, 1))

    for make_kernel in (Metropolis, Slice):
        trace = run(rng, make_kernel, HalfLine(), chains=200, warmup=100, draws=200)
        assert not trace.non_finite.any()
        by_chain = trace.positions.mean(axis=(1, 2))
        assert abs(by_chain.mean() - 1) < 5 * by_chain.std(ddof=1) / math.sqrt(200)


def test_a_stuck_chain_is_flagged(toys, rng):
    """One chain stands on a spike it cannot leave; the other three sample a normal law."""

    class Spike:
        size = 1

        def log_prior(self, position):
            return np.where(position[:, 0] == 7.0, 1e6, -0.5 * position[:, 0] ** 2)

        def log_likelihood(self, position):
            return np.zeros(len(position))

        def draw_prior(self, rng, count):
            return rng.standard_normal((count, 1))

    start = np.array([[0.0], [7.0], [0.5], [-0.5]])
    trace = run(rng, Metropolis, Spike(), warmup=200, draws=500, position=start)
    found = verdict(trace.positions, non_finite=trace.non_finite)
    assert found.evidence.stuck == (2,)
    assert not found.is_converged
    assert "Chain 2 stood still for up to 499 of 500 steps" in str(found)
    assert trace.acceptance[1] == 0


def test_a_start_without_density_is_refused(toys, rng):
    target, make_kernel = poisoned(toys, "mh", rng, math.nan)
    with pytest.raises(InvalidArgument, match="chain 2, 3 would start"):
        run(rng, make_kernel, target, chains=3, position=np.array([[-1.0], [1.0], [2.0]]))
    with pytest.raises(InvalidArgument, match="need \\(2, 1\\)"):
        run(rng, make_kernel, target, chains=2, position=np.zeros((2, 3)))

    class Nowhere(Poisoned):
        def log_likelihood(self, position):
            return np.full(len(position), np.nan)

    with pytest.raises(NoisewiseError, match="only 0 have a finite likelihood"):
        run(rng, Metropolis, Nowhere(None, math.nan))


@pytest.mark.parametrize("name", ALL)
def test_the_same_seed_gives_the_same_draws(toys, rng, name):
    model, make_kernel = case(toys, name, rng)
    seed = int(rng.integers(2**32))
    one, two, other = (
        run(np.random.default_rng(s), make_kernel, model.target, warmup=30, draws=20) for s in (seed, seed, seed + 1)
    )
    assert np.array_equal(one.positions, two.positions)
    assert not np.array_equal(one.positions, other.positions)


@pytest.mark.parametrize("name", ALL)
def test_a_run_saved_and_restored_continues_as_if_never_stopped(toys, rng, tmp_path, name):
    """Stopped twice, in warm-up and among the draws, at steps of chance."""
    model, make_kernel = case(toys, name, rng)
    seed, stops = int(rng.integers(2**32)), (int(rng.integers(1, 40)), int(rng.integers(1, 20)))
    settings = {"chains": 3, "warmup": 40, "draws": 30}
    whole = run(np.random.default_rng(seed), make_kernel, model.target, **settings)
    session = Run.begin(np.random.default_rng(seed), make_kernel, model.target, **settings)
    for steps in (stops[0], 40 - stops[0] + stops[1]):
        session.advance(steps)
        session.save(tmp_path / "run.npz")
        session = Run.load(tmp_path / "run.npz", make_kernel, model.target)
    session.advance()
    rejoined = session.trace()
    for field in ("positions", "log_density", "acceptance", "non_finite", "warmup_non_finite"):
        assert np.array_equal(getattr(whole, field), getattr(rejoined, field)), field
    assert whole.walk.scale == rejoined.walk.scale
    assert np.array_equal(whole.walk.factor, rejoined.walk.factor)


@pytest.mark.parametrize("kind", ["MT19937", "Philox", "SFC64", "PCG64DXSM"])
def test_any_generator_can_be_resumed(toys, rng, tmp_path, kind):
    model, make_kernel = case(toys, "mh", rng)
    seed, generator = int(rng.integers(2**32)), getattr(np.random, kind)
    whole = run(np.random.Generator(generator(seed)), make_kernel, model.target, warmup=20, draws=20)
    session = Run.begin(np.random.Generator(generator(seed)), make_kernel, model.target, warmup=20, draws=20)
    session.advance(25)
    session.save(tmp_path / "run.npz")
    with pytest.raises(InvalidArgument, match=f"drawn with {kind}"):
        Run.load(tmp_path / "run.npz", make_kernel, model.target)
    session = Run.load(tmp_path / "run.npz", make_kernel, model.target, rng=np.random.Generator(generator()))
    session.advance()
    assert np.array_equal(whole.positions, session.trace().positions)


def test_a_file_that_is_no_saved_run_is_refused(toys, rng, tmp_path):
    model, make_kernel = case(toys, "mh", rng)
    session = Run.begin(rng, make_kernel, model.target, warmup=5, draws=5)
    session.save(tmp_path / "run.npz")
    with pytest.raises(InvalidArgument, match="a run of Metropolis, not of Slice"):
        Run.load(tmp_path / "run.npz", Slice, model.target)
    whole = (tmp_path / "run.npz").read_bytes()
    for broken in (b"", b"nonsense", whole[: len(whole) // 2]):
        (tmp_path / "broken.npz").write_bytes(broken)
        with pytest.raises(InvalidArgument, match="is not a saved run"):
            Run.load(tmp_path / "broken.npz", make_kernel, model.target)
    with pytest.raises(InvalidArgument, match="is not a saved run"):
        Run.load(tmp_path / "missing.npz", make_kernel, model.target)


def test_progress_is_told_and_ends_at_the_total(toys, rng):
    model, make_kernel = case(toys, "mh", rng)
    told = []
    run(rng, make_kernel, model.target, warmup=150, draws=100, progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (250, 250)
    assert told == sorted(told)
    assert len(told) >= 100


@pytest.mark.parametrize("deviations", [(1e-4,), (1e4,), (1.0, 1.0), (0.03, 3.0)], ids=str)
@pytest.mark.parametrize("make_kernel", [Metropolis, Slice], ids=["mh", "slice"])
def test_warm_up_finds_the_scale_and_the_shape(rng, make_kernel, deviations):
    """From unit steps to posteriors ten thousand times smaller or larger, and to a correlation of 0.95."""
    size = len(deviations)
    correlation = np.full((size, size), 0.95) + 0.05 * np.eye(size)
    covariance = np.outer(deviations, deviations) * correlation

    class Normal:
        def __init__(self):
            self.size, self.precision = size, np.linalg.inv(covariance)

        def log_prior(self, position):
            return np.zeros(len(position))

        def log_likelihood(self, position):
            return -0.5 * np.einsum("ki,ij,kj->k", position, self.precision, position)

    kernel, _, known = adapt.warm_up(rng, make_kernel, Normal(), rng.standard_normal((20, size)), 1500)
    assert kernel.walk.scale == known.walk.scale
    walked = (known.walk.scale / kernel.ideal_scale) ** 2 * known.factor @ known.factor.T
    lengths = np.linalg.eigvals(np.linalg.solve(covariance, walked)).real
    assert np.all(lengths > 1 / 16)  # within a factor of 4 of the ideal length in every direction
    assert np.all(lengths < 16)


def test_an_estimate_that_always_rejects_does_not_shrink_the_walk_to_nothing(toys, rng):
    model = toys.MeanOfAbsolutes(scale=0.002)
    noisy = partial(PseudoMarginal, latent=model.latent, n_particles=1, share=1.0)
    quiet = partial(PseudoMarginal, latent=model.latent, n_particles=200)
    lengths = [run(rng, make, model.target, chains=20, warmup=400, draws=1).walk for make in (noisy, quiet)]
    assert lengths[0].scale * lengths[0].factor[0, 0] > 0.1 * lengths[1].scale * lengths[1].factor[0, 0]


@pytest.mark.parametrize("value", [0, -1, 1.5, True, None, "2", math.nan])
def test_settings_out_of_their_domain_are_refused_by_name(toys, rng, value):
    model = toys.MeanOfAbsolutes()
    target, walk, latent = model.target, Walk.isotropic(1, 1.0), model.latent
    for make in (PseudoMarginal, Correlated, Averaged, AveragedRecords, AveragedSequential):
        with pytest.raises(InvalidArgument, match="n_particles"):
            make(target, walk, latent, n_particles=value)
    records = toys.OrderStatistic(10)
    if value is not None:
        with pytest.raises(InvalidArgument, match="subset"):
            AveragedRecords(target, walk, records, subset=value)
    with pytest.raises(InvalidArgument, match="most_widths"):
        Slice(target, walk, most_widths=value)
    for name in ("chains", "draws"):
        with pytest.raises(InvalidArgument, match=name):
            run(rng, Metropolis, target, **{name: value})


@pytest.mark.parametrize("value", [0.0, -0.5, 1.01, math.nan, math.inf])
def test_shares_and_correlations_are_fractions(toys, value):
    model = toys.MeanOfAbsolutes()
    walk = Walk.isotropic(1, 1.0)
    for make in (WithinGibbs, PseudoMarginal, Correlated, Averaged):
        with pytest.raises(InvalidArgument, match="share"):
            make(model.target, walk, model.latent, share=value)
    if value != 0:
        with pytest.raises(InvalidArgument, match="correlation"):
            Correlated(model.target, walk, model.latent, correlation=value)
    with pytest.raises(InvalidArgument, match="scale"):
        Walk.isotropic(1, value if value != 1.01 else -1.0)
