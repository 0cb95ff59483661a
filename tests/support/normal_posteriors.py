"""Posteriors of a normal mean from one release with Gaussian noise, where everything is known in closed form."""

from dataclasses import fields

import numpy as np
from scipy import stats

import noisewise as nw
from noisewise.inference.exact import exact
from noisewise.inference.posterior import Posterior
from noisewise.inference.target import Target
from noisewise.inference.transform import Transform
from noisewise.likelihood.joint import joint_likelihood
from noisewise.populations.population import Normal

N, SD, PRIOR_SD = 4000, 3.0, 2.0
SCHEMA = nw.Schema({"x": nw.Bounded(-50, 50)}, n=N, neighbours="change-one")
PLAN = nw.plan(nw.Mean(nw.column("x")), SCHEMA, guarantee=nw.GaussianDP("1"))
POPULATION = Normal(mean=stats.norm(0, PRIOR_SD), sd=SD)


def release_at(mean, plan=PLAN):
    """The release that reads as `mean`."""
    steps = round(mean * plan.divisor / plan.lattice.step[0])
    return nw.Release.of(plan, [steps], dataset="toy", ledger_head=None, simulated=True)


def posterior_of(releases, population=POPULATION, *, seed, draws=500, n=None):
    """By exact computation on the joint likelihood, as `infer` does it."""
    law = joint_likelihood(releases, population, n=n)
    target = Target(Transform(population.supports), population.log_prior, law.log_likelihood, population.sample_prior)
    found = exact(np.random.default_rng(seed), target, chains=4, draws=draws, warmup=200)
    theta = target.parameters(found.positions.reshape(-1, target.size))
    return Posterior(
        draws={name: value.reshape(4, draws, *value.shape[1:]) for name, value in theta.items()},
        method="exact",
        how=found.how,
        law=law.because,
        likelihood="auto",
        verdict=found.verdict,
        population=population,
        releases=law.releases,
        seed=seed,
        log_evidence=found.log_evidence,
        moments=found.moments,
        seconds=0.25,
        stated_n=n,
    )


def kept(posterior):
    return {f.name: getattr(posterior, f.name) for f in fields(posterior) if not f.name.startswith("_")}
