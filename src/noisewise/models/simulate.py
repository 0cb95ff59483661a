"""simulate: a release of made-up records, which says that it is simulated; of a population or of any model.

None of its noise is privacy noise: it comes from an explicit generator.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from noisewise.errors import InvalidArgument
from noisewise.exact import integer
from noisewise.models.protocol import Model, model_for
from noisewise.planning import Plan
from noisewise.populations.parameters import rows_of
from noisewise.release import Release

if TYPE_CHECKING:
    from noisewise.populations.population import AnyPopulation

__all__ = ["simulate"]


def simulate(
    plan: Plan,
    population: AnyPopulation | Model,
    *,
    at: Mapping[str, object] | None = None,
    seed: object = None,
    n: int | None = None,
    approximate: bool = False,
) -> Release:
    """One release of records drawn from the population, marked as simulated in its file; no ledger takes it.

    Parameters
    ----------
    plan
        What is released.
    population
        Where records are drawn from: a population or a model.
    at
        The parameters, by name. Default None: drawn from the prior.
    seed
        A whole number, a SeedSequence or a Generator. Default None.
    n
        The number of records where the plan keeps that private (add-remove).
    approximate
        True draws the sum of more than 200 000 records from its own law instead of record by record: multinomial for
        counts and one table, normal for other sums. Default False.

    Returns
    -------
    Release

    Examples
    --------
    >>> schema = nw.Schema({"smokes": nw.Levels(["no", "yes"])}, n=500, neighbours="change-one")
    >>> count = nw.plan(nw.Count(nw.column("smokes").equals("yes")), schema, guarantee=nw.PureDP(1))
    >>> nw.simulate(count, nw.Bernoulli(p=0.3), seed=1).simulated
    True
    """
    if not isinstance(plan, Plan):
        raise InvalidArgument(f"plan is a {type(plan).__name__}; make one with plan(...).", argument="plan")
    model = model_for(population, [plan])
    is_source = seed is None or isinstance(seed, np.random.Generator | np.random.SeedSequence)
    rng = np.random.default_rng(seed if is_source else integer(seed, "seed", minimum=0))  # type: ignore[arg-type]
    theta = model.sample_prior(rng, 1) if at is None else model.theta_at(at)
    if rows_of(theta) != 1:
        raise InvalidArgument("at= lists several values; one release is simulated at one of them.", argument="at")
    value = model.simulate_values(rng, plan, theta, n=n, approximate=approximate)[0]
    name = hashlib.sha256(plan.request() + rng.bytes(16)).hexdigest()[:16]
    return Release.of(plan, value.tolist(), dataset=f"simulated-{name}", ledger_head=None, simulated=True)
