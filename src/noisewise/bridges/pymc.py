"""A release as a term of a PyMC model.

    with pm.Model():
        m, s = pm.Normal("m", 50, 50), pm.HalfNormal("s", 50)
        noisewise.bridges.pymc.observe("income", release, mean=m, covariance=s**2)
        posterior = pm.sample()

The term is a potential with the release's log-density. Laplace noise on several sums is normal given one exponential
number for each, which are variables of the model with the name of the term and `_noise`.
"""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

from noisewise.bridges.arrays import Tensor
from noisewise.bridges.terms import Given, term_of
from noisewise.errors import Unsupported
from noisewise.joining import check_disjoint, listed_releases, same_records
from noisewise.release import NoisyValue

__all__ = ["observe"]

OBSERVED: WeakKeyDictionary[Tensor, tuple[NoisyValue, ...]] = WeakKeyDictionary()


def observe(
    name: str,
    release: NoisyValue | Sequence[NoisyValue],
    *,
    mean: Tensor = None,
    covariance: Tensor = None,
    probabilities: Tensor = None,
    n: object = None,
) -> Tensor:
    """Add a release to the PyMC model around this call.

    Parameters
    ----------
    name
        Of the term in the model.
    release
        A release or a measurement; or several of the same records, whose components are stacked in their order.
        Releases of other records are observed by terms of their own.
    mean, covariance
        Of one record's released features, in the order of `release.labels`: (d,) and (d, d), or two
        numbers where there is one feature. They are those of the record as it was summed: of a clamped value, where
        the model lets values lie beyond the bounds. Sums, means, several counts or cliques are observed by them.
    probabilities
        Of the cells of one table, of the true answers behind randomized response, or of being counted.
    n
        The number of records, where it is private (add-remove).

    Returns the term, a PyMC potential. Sampling, diagnostics and the priors are PyMC's.

        noisewise.bridges.pymc.observe("smokers", release, probabilities=share)
    """
    try:
        import pymc
    except ImportError:
        raise Unsupported("This bridge needs PyMC: pip install 'noisewise[pymc]'.") from None
    term = term_of(release, given=(given := Given(mean, covariance, probabilities)), n=n)
    model = pymc.modelcontext(None).root
    _refuse_shared_records(model, listed_releases(release))
    arrays = _arrays()
    mixing = pymc.Exponential(f"{name}_noise", 1.0, shape=term.mixing) if term.mixing else None
    return pymc.Potential(name, term.log_density(arrays, given, mixing))


def _refuse_shared_records(model: Tensor, new: tuple[NoisyValue, ...]) -> None:
    """Two terms of one model are taken for independent: they must be of different records."""
    earlier = OBSERVED.get(model, ())
    together = listed_releases([*earlier, *new])
    check_disjoint(together)
    for group in same_records(together):
        if min(group) < len(earlier) <= max(group):
            raise Unsupported(
                f"{together[max(group)].statistic!s:.100} is of the same records as a release that this model already "
                "observes. Two terms would take them for independent; give both to one observe(name, [first, second], "
                "mean=..., covariance=...)."
            )
    OBSERVED[model] = together


def _arrays() -> Tensor:
    """PyTensor's array operations."""
    import pytensor.tensor as pt
    from pytensor.tensor import slinalg

    class PytensorArrays:
        def array(self, value: Tensor) -> Tensor:
            return pt.cast(pt.as_tensor_variable(value), "float64")

        def stack(self, values: Sequence[Tensor]) -> Tensor:
            return pt.stack(list(values))

        def shape(self, value: Tensor) -> tuple[int | None, ...]:
            return tuple(value.type.shape)

        def where(self, condition: Tensor, yes: Tensor, no: Tensor) -> Tensor:
            return pt.switch(condition, yes, no)

        def log_ndtr(self, value: Tensor) -> Tensor:
            low, high = pt.minimum(value, -1.0), pt.maximum(value, -1.0)
            beyond = pt.log(0.5 * pt.erfcx(-low / 2**0.5)) - 0.5 * low**2
            return pt.switch(value < -1.0, beyond, pt.log1p(-0.5 * pt.erfc(high / 2**0.5)))

        def root(self, matrix: Tensor) -> Tensor:
            return slinalg.cholesky(matrix)

        def solve_lower(self, root: Tensor, vector: Tensor) -> Tensor:
            return slinalg.solve_triangular(root, vector, lower=True, b_ndim=1)

        log, exp, sqrt, maximum = (staticmethod(one) for one in (pt.log, pt.exp, pt.sqrt, pt.maximum))
        clip, sum, max = (staticmethod(one) for one in (pt.clip, pt.sum, pt.max))
        diagonal = staticmethod(pt.diagonal)

    return PytensorArrays()
