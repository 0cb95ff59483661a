"""A release as a term of a NumPyro model.

    def model():
        m, s = numpyro.sample("m", dist.Normal(50, 50)), numpyro.sample("s", dist.HalfNormal(50))
        noisewise.bridges.numpyro.observe("income", release, mean=m, covariance=s**2)

The term is a factor with the release's log-density. Laplace noise on several sums is normal given one exponential
number for each, which are sites of the model with the name of the term and `_noise`. Sums of many records need double
precision: call `numpyro.enable_x64()` before anything else.
"""

from __future__ import annotations

from collections.abc import Sequence

from noisewise.bridges.arrays import Tensor
from noisewise.bridges.terms import Given, term_of
from noisewise.errors import Unsupported
from noisewise.release import NoisyValue

__all__ = ["observe"]


def observe(
    name: str,
    release: NoisyValue | Sequence[NoisyValue],
    *,
    mean: Tensor = None,
    covariance: Tensor = None,
    probabilities: Tensor = None,
    n: object = None,
) -> None:
    """Add a release to the NumPyro model that is being run.

    Parameters
    ----------
    name
        Of the term in the model.
    release
        A release or a measurement; or several of the same records, whose components are stacked in their order.
        Releases of other records are observed by terms of their own; two terms of the same records would be taken for
        independent, and no term can see the other: give those releases together.
    mean, covariance
        Of one record's released features, in the order of `release.labels`: (d,) and (d, d), or two
        numbers where there is one feature. They are those of the record as it was summed: of a clamped value, where
        the model lets values lie beyond the bounds. Sums, means, several counts or cliques are observed by them.
    probabilities
        Of the cells of one table, of the true answers behind randomized response, or of being counted.
    n
        The number of records, where it is private (add-remove).

        noisewise.bridges.numpyro.observe("smokers", release, probabilities=share)
    """
    try:
        import jax
        import numpyro
    except ImportError:
        raise Unsupported("This bridge needs NumPyro: pip install 'noisewise[nuts]'.") from None
    if not jax.config.jax_enable_x64:
        raise Unsupported(
            "NumPyro computes in single precision, which loses what sums over many records tell. Call "
            "numpyro.enable_x64() before the model is first run."
        )
    term = term_of(release, given=(given := Given(mean, covariance, probabilities)), n=n)
    mixing = None
    if term.mixing:
        laws = numpyro.distributions
        mixing = numpyro.sample(f"{name}_noise", laws.Exponential(1.0).expand([term.mixing]).to_event(1))
    numpyro.factor(name, term.log_density(_arrays(), given, mixing))


def _arrays() -> Tensor:
    """JAX's array operations."""
    import jax.numpy as jnp
    from jax.scipy import linalg, special

    class JaxArrays:
        def array(self, value: Tensor) -> Tensor:
            return jnp.asarray(value, dtype=float)

        def stack(self, values: Sequence[Tensor]) -> Tensor:
            return jnp.stack(list(values))

        def shape(self, value: Tensor) -> tuple[int | None, ...]:
            return tuple(value.shape)

        def solve_lower(self, root: Tensor, vector: Tensor) -> Tensor:
            return linalg.solve_triangular(root, vector, lower=True)

        log, exp, sqrt, maximum = (staticmethod(one) for one in (jnp.log, jnp.exp, jnp.sqrt, jnp.maximum))
        clip, sum, max, where = (staticmethod(one) for one in (jnp.clip, jnp.sum, jnp.max, jnp.where))
        diagonal = staticmethod(jnp.diagonal)
        log_ndtr, root = staticmethod(special.log_ndtr), staticmethod(jnp.linalg.cholesky)

    return JaxArrays()
