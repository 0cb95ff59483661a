"""Kernels leave the joint law of parameter, latent and release invariant (promise E5).

Geweke (2004): draw theta from the prior and a release from theta; move theta by the kernel given the release, draw a
new release from the new theta, and so on. If the kernel is right, theta keeps its prior law for ever, whatever the
data. Thousands of such successive-conditional chains run side by side and independently, so what theta has become is
an i.i.d. sample. Under the marginal-conditional law theta follows its prior, y given theta follows the likelihood's
cdf, u given theta is normal, and the noise y - u (or y - s(z, theta)) is Laplace; each is tested by Kolmogorov's exact
test, together at 1e-6.
The latent that generated the release enters the kernel's state exactly, as its extended target says it must.
"""

import math
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr

from noisewise.evaluate.discrepancy import uniformity
from noisewise.inference.kernels import (
    Walk,
    choose,
    decide,
    draw_index,
    joint,
    log_mean_exp,
    take,
)
from noisewise.inference.kernels import slice as slice_kernel
from noisewise.inference.kernels.leaping_slice import LeapingSlice
from noisewise.inference.kernels.slice import Slice
from noisewise.published.samplers import averaged, averaged_records, averaged_sequential, correlated, latent
from noisewise.published.samplers.averaged import Averaged
from noisewise.published.samplers.averaged_records import AveragedRecords
from noisewise.published.samplers.averaged_sequential import AveragedSequential
from noisewise.published.samplers.correlated import Correlated
from noisewise.published.samplers.metropolis import Metropolis
from noisewise.published.samplers.pseudo_marginal import (
    PseudoMarginal,
    PseudoMarginalState,
    log_estimate,
    own_particles,
)
from noisewise.published.samplers.within_gibbs import WithinGibbs

FALSE_ALARM = 1e-6
REPLICATES, CYCLES, STEPS = 20_000, 3, 4
N, NOISE = 8, 0.3
WALK = Walk.isotropic(1, 1.2)
ALONG_FIRST = Walk(1.2, np.array([[1.0], [0.0]]))


@dataclass
class Scale:
    """x ~ N(0, 1), theta = exp(x): a standard deviation with a log-normal prior; y may differ from chain to chain."""

    y: np.ndarray | None = None
    is_jacobian_forgotten: bool = False
    size = 1

    def log_prior(self, position):
        x = position[:, 0]
        return -(x**2) / 2 - (x if self.is_jacobian_forgotten else 0)


@dataclass
class Batch(Scale):
    """u | theta ~ N(theta, theta^2/n), y = u + Laplace noise: one number."""

    noise_variance = np.array([2 * NOISE**2])

    @property
    def observed(self):
        return self.y

    def moments(self, position):
        return np.exp(position), np.exp(2 * position)[:, :, None] / N

    def log_noise(self, u):
        return -np.abs(self.y[:, None, 0] - u[..., 0]) / NOISE

    def log_likelihood(self, position):
        mean, tau = np.exp(position), np.exp(position) / math.sqrt(N)
        return log_normal_laplace((self.y - mean) / tau, tau / NOISE)[:, 0]

    def simulate(self, rng, position):
        u = np.exp(position) * (1 + rng.standard_normal(position.shape) / math.sqrt(N))
        return replace(self, y=u + rng.laplace(0, NOISE, u.shape)), u


@dataclass
class BatchAlong(Batch):
    """The same release carried in the position's second coordinate: a slice kernel looks at some chains at a time."""

    size = 2

    def log_likelihood(self, position):
        mean, tau = np.exp(position[:, 0]), np.exp(position[:, 0]) / math.sqrt(N)
        return log_normal_laplace((position[:, 1] - mean) / tau, tau / NOISE)

    def draw_prior(self, rng, count):
        return np.hstack([rng.standard_normal((count, 1)), self.y])


def log_normal_laplace(z, r):
    return r**2 / 2 + np.logaddexp(-z * r + log_ndtr(z - r), z * r + log_ndtr(-z - r))


@dataclass
class Median(Scale):
    """The third smallest of 5 normal records of scale theta, with Laplace noise."""

    n = 5

    def base(self, rng, shape):
        return rng.standard_normal((*shape, self.n))

    def statistic(self, z):
        return np.sort(np.abs(z), axis=-1)[..., 2]

    def log_noise(self, z, position):
        return -np.abs(self.y - np.exp(position) * self.statistic(z)) / NOISE

    def simulate(self, rng, position):
        z = self.base(rng, (len(position),))
        s = np.exp(position) * self.statistic(z)[:, None]
        return replace(self, y=s + rng.laplace(0, NOISE, s.shape)), z


@dataclass
class Answers(Median):
    """Five local answers |x| + noise."""

    def log_noise(self, z, position):
        return -np.abs(self.y[:, None] - np.exp(position)[:, :, None] * np.abs(z)) / NOISE

    def simulate(self, rng, position):
        z = self.base(rng, (len(position),))
        x = np.exp(position) * np.abs(z)
        return replace(self, y=x + rng.laplace(0, NOISE, x.shape)), z


def normals_through(rng, model, kernel, position, u):
    """Standard normals of all particles such that the true u is one of them, in whichever part it would have been."""
    count, own = kernel.n_particles, own_particles(kernel.n_particles, kernel.share)
    law = latent.normal(*model.moments(position))
    fit = latent.given_noise(law, model)
    ours, theirs = (part.log_density(u[:, None])[:, 0] for part in (law, fit))
    odds = (count - own) / own * np.exp(theirs - ours)
    from_fit = rng.random(len(u)) < odds / (1 + odds)
    at = np.where(from_fit, rng.integers(min(own, count - 1), count, len(u)), rng.integers(0, own, len(u)))
    normals = rng.standard_normal((len(u), count, 1))
    white = [part.whitening[:, 0, 0] * (u[:, 0] - part.mean[:, 0]) for part in (law, fit)]
    normals[np.arange(len(u)), at, 0] = np.where(from_fit, white[1], white[0])
    return normals


def state_at(rng, model, kernel, position, hidden):
    """The kernel's state at (theta, latent), where the latent is a draw from its law given theta and y."""
    match kernel:
        case PseudoMarginal():
            normals = normals_through(rng, model, kernel, position, hidden)
            estimate = log_estimate(model, position, normals, kernel.share)
            return PseudoMarginalState(position, joint(model.log_prior(position), estimate))
        case Correlated():
            return kernel._state(position, normals_through(rng, model, kernel, position, hidden))
        case WithinGibbs():
            law = latent.normal(*model.moments(position))
            return kernel._state(position, model.log_prior(position), law, hidden)
        case Averaged():
            return kernel.init(rng, position)._replace(u=hidden)
        case AveragedRecords() | AveragedSequential():
            return kernel.init(rng, position)._replace(z=hidden)
        case Slice() | LeapingSlice():
            return kernel.init(rng, np.hstack([position, model.y]))
    return kernel.init(rng, position)


def particles(model, kernel, state):
    """The particles of a correlated estimate and their log weights."""
    law, own = latent.normal(*model.moments(state.position)), own_particles(kernel.n_particles, kernel.share)
    fit, share = latent.given_noise(law, model), own / kernel.n_particles
    u = np.concatenate([law.transform(state.normals[:, :own]), fit.transform(state.normals[:, own:])], axis=1)
    log_q = np.logaddexp(math.log(share) + law.log_density(u), math.log(1 - share) + fit.log_density(u))
    return u, law.log_density(u) + model.log_noise(u) - log_q


def uniforms(rng, model, kernel, state):
    """What is uniform on [0, 1] if (theta, latent, y) has its joint law."""
    position = state.position[:, :1]
    yield ndtr(position[:, 0])
    if isinstance(model, Batch):
        mean, tau = np.exp(position), np.exp(position) / math.sqrt(N)
        z, r = (model.y - mean) / tau, tau / NOISE
        tails = [np.exp(r**2 / 2 - sign * z * r + log_ndtr(sign * z - r)) for sign in (1, -1)]
        yield np.clip(ndtr(z) - (tails[0] - tails[1]) / 2, 0, 1)[:, 0]
    u = getattr(state, "u", None)
    if hasattr(state, "normals"):
        candidates, log_weights = particles(model, kernel, state)
        k = draw_index(rng, log_weights)
        u = take(candidates, k)
        yield ndtr(take(state.normals, (k + 1) % kernel.n_particles))[:, 0]  # the others are free
    if u is not None:
        yield np.exp(model.log_noise(u[:, None]))[:, 0]
        yield ndtr((u / np.exp(position) - 1) * math.sqrt(N))[:, 0]
    if hasattr(state, "z"):
        yield np.exp(model.log_noise(state.z[:, None], position).reshape(REPLICATES, -1)[:, 0])


def p_value(rng, model, make_kernel):
    """Of the joint law after a few cycles of kernel and fresh data (the smallest of several, Bonferroni)."""
    position = rng.standard_normal((REPLICATES, 1))
    for _ in range(CYCLES):
        told, hidden = model.simulate(rng, position)
        kernel = make_kernel(told)
        state = state_at(rng, told, kernel, position, hidden)
        for _ in range(STEPS):
            state, info = kernel.step(rng, state)
            assert info.is_finite.all()
        position = state.position[:, :1]
    p_values = [uniformity(values).p_value for values in uniforms(rng, told, kernel, state)]
    return min(p_values) * len(p_values)


KERNELS = {
    "mh": (Batch(), lambda model: Metropolis(model, WALK)),
    "slice": (BatchAlong(), lambda model: Slice(model, ALONG_FIRST)),
    "slice with leaps": (BatchAlong(), lambda model: LeapingSlice(model, ALONG_FIRST)),
    "mh-within-gibbs": (Batch(), lambda model: WithinGibbs(model, WALK, model)),
    "pmmh": (Batch(), lambda model: PseudoMarginal(model, WALK, model, n_particles=5)),
    "pmmh from f alone": (Batch(), lambda model: PseudoMarginal(model, WALK, model, n_particles=5, share=1.0)),
    "cpm": (Batch(), lambda model: Correlated(model, WALK, model, n_particles=3, correlation=0.8)),
    "mhaar": (Batch(), lambda model: Averaged(model, WALK, model, n_particles=3)),
    "mhaar over z": (Median(), lambda model: AveragedRecords(model, WALK, model, n_particles=4)),
    "mhaar over z, subsets": (Median(), lambda model: AveragedRecords(model, WALK, model, n_particles=4, subset=2)),
    "mhaar sequential": (Answers(), lambda model: AveragedSequential(model, WALK, model, n_particles=4)),
}


@pytest.mark.parametrize("name", KERNELS)
def test_the_joint_law_is_invariant(rng, name):
    model, make_kernel = KERNELS[name]
    assert p_value(rng, model, make_kernel) > FALSE_ALARM


@pytest.mark.parametrize("name", KERNELS)
def test_a_forgotten_jacobian_is_caught(rng, name):
    """The walk is on log theta; a prior density of theta without its Jacobian is another prior."""
    model, make_kernel = KERNELS[name]
    assert p_value(rng, replace(model, is_jacobian_forgotten=True), make_kernel) < FALSE_ALARM


class MisprintedEstimate(PseudoMarginal):
    """Step 3 of the printed box: f(u|theta) of the current theta in place of f(u|theta')."""

    def step(self, rng, state):
        position = self.walk.propose(rng, state.position)
        here, there = (latent.normal(*self.latent.moments(at)) for at in (state.position, position))
        u = there.transform(rng.standard_normal((len(position), self.n_particles, 1)))
        log_weights = here.log_density(u) + self.latent.log_noise(u) - there.log_density(u)
        proposal = PseudoMarginalState(position, self.target.log_prior(position) + log_mean_exp(log_weights))
        info = decide(rng, proposal.log_density - state.log_density)
        return choose(info.accepted, proposal, state), info


def one_sided(one, two, model, share):
    """q_{theta,theta'} = f(.|theta): not symmetric."""
    return latent.Mixture((one,), (1.0,))


def stale(rng, log_weights, axis=1):
    """u, or z, never moves."""
    return np.zeros(np.delete(log_weights.shape, axis), np.intp)


class UpsideDown:
    """log_mean_exp with the other sign: the ratio of D (2.7) as printed, sum w / sum w'."""

    def __call__(self, log_weights, axis=1):
        return -log_mean_exp(log_weights, axis)


FAULTS = {
    "pmmh: f(u|theta) in the estimate": ("pmmh from f alone", MisprintedEstimate),
    "cpm: normals lose variance": ("cpm", (correlated, "math", SimpleNamespace(sqrt=lambda square: square))),
    "mh-within-gibbs: proposal left out of the ratio": (
        "mh-within-gibbs",
        (latent.Mixture, "log_density", lambda _, u: np.zeros(u.shape[:2])),
    ),
    "mhaar: one-sided proposal": ("mhaar", (averaged, "symmetric_proposal", one_sided)),
    "mhaar: ratio upside down": ("mhaar", (averaged, "log_mean_exp", UpsideDown())),
    "mhaar: stale u": ("mhaar", (averaged, "draw_index", stale)),
    "mhaar over z: stale z": ("mhaar over z", (averaged_records, "draw_index", stale)),
    "mhaar over z: stale z in subsets": ("mhaar over z, subsets", (averaged_records, "draw_index", stale)),
    "mhaar sequential: stale z": ("mhaar sequential", (averaged_sequential, "draw_index", stale)),
    "slice: bracket not thrown at random": (
        "slice",
        (
            slice_kernel._Line,
            "step_out",
            lambda self, _: (np.full(len(self.level), -0.2), np.full(len(self.level), 0.8)),
        ),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_caught(rng, monkeypatch, fault):
    name, planted = FAULTS[fault]
    model, make_kernel = KERNELS[name]
    if isinstance(planted, tuple):
        monkeypatch.setattr(*planted)
    else:
        make_kernel = lambda told: planted(told, WALK, told, n_particles=5, share=1.0)  # noqa: E731
    assert p_value(rng, model, make_kernel) < FALSE_ALARM
