"""Random columns: a law with a number or a prior for each parameter, bounds around it, and features to ask for.

Everything is drawn from a generator and exists twice: as the package writes it, and plainly as SciPy and NumPy do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from plain_laws import scipy_law
from scipy import stats

import noisewise as nw

Rng = np.random.Generator
KINDS = [
    "normal", "normal", "normal", "normal", "poisson", "poisson", "exponential", "exponential", "gamma", "gamma",
    "lognormal", "lognormal", "uniform", "logistic", "weibull",
]  # fmt: skip


@dataclass(frozen=True)
class Column:
    """One column: how the package is told of it, and the same plainly."""

    kind: str
    known: Mapping[str, Any]
    priors: Mapping[str, Any]

    def population(self) -> Any:
        parameters = {**self.known, **self.priors}
        if self.kind == "logistic":
            return nw.LocationScale(stats.logistic, **parameters)
        if self.kind == "weibull":
            return nw.Population(stats.weibull_min, **parameters)
        make = {"normal": nw.Normal, "lognormal": nw.LogNormal, "uniform": nw.Uniform, "exponential": nw.Exponential,
                "gamma": nw.Gamma, "poisson": nw.Poisson, "bernoulli": nw.Bernoulli,
                "categorical": nw.Categorical}  # fmt: skip
        return make[self.kind](**parameters)

    def typical(self) -> Any:
        """The scipy law at the middle of the priors, for bounds and edges."""
        values = {name: float(prior.median()) for name, prior in self.priors.items()}
        return scipy_law(self.kind, {**self.known, **values})

    def text(self) -> str:
        parts = [f"{name}={value}" for name, value in self.known.items()]
        parts += [f"{name}={prior_text(prior)}" for name, prior in self.priors.items()]
        return f"{self.kind}({', '.join(parts)})"


def prior_text(prior: Any) -> str:
    if hasattr(prior, "alpha"):
        return f"dirichlet({list(map(float, prior.alpha))})"
    arguments = [f"{value:g}" for value in prior.args] + [f"{name}={value:g}" for name, value in prior.kwds.items()]
    return f"{prior.dist.name}({', '.join(arguments)})"


def pick(rng: Rng, options: list[Any]) -> Any:
    return options[int(rng.integers(len(options)))]


def positive_prior(rng: Rng, middle: float) -> Any:
    """A proper prior of a positive number around `middle`."""
    shape = float(pick(rng, [2, 4, 10]))
    return pick(rng, [stats.gamma(shape, scale=middle / shape), stats.halfnorm(scale=1.5 * middle),
                      stats.uniform(0.3 * middle, 1.7 * middle), stats.gamma(8, scale=middle / 8)])  # fmt: skip


def real_prior(rng: Rng, middle: float, sd: float) -> Any:
    width = float(pick(rng, [0.5, 1, 2])) * sd
    return pick(
        rng, [stats.norm(middle, width), stats.norm(middle, width), stats.uniform(middle - 2 * width, 4 * width)]
    )


def numeric_column(rng: Rng, kind: str | None = None) -> Column:
    kind = kind or pick(rng, KINDS)
    unit = float(pick(rng, [1, 1, 10]))
    which = rng.random()
    if kind == "normal":
        spread = pick(rng, ["sd", "sd", "sd", "variance"])
        middle, sd = float(pick(rng, [0, 0, 4, 12])) * unit, unit * float(pick(rng, [1, 2]))
        size = sd if spread == "sd" else sd**2
        if which < 0.45:
            return Column(kind, {spread: size}, {"mean": real_prior(rng, middle, sd)})
        if which < 0.65:
            return Column(kind, {"mean": middle}, {spread: positive_prior(rng, size)})
        return Column(kind, {}, {"mean": real_prior(rng, middle, sd), spread: positive_prior(rng, size)})
    if kind == "logistic":
        if which < 0.6:
            return Column(kind, {"scale": unit}, {"loc": real_prior(rng, 0.0, 2 * unit)})
        return Column(kind, {}, {"loc": real_prior(rng, 0.0, 2 * unit), "scale": positive_prior(rng, unit)})
    if kind == "poisson":
        return Column(kind, {}, {"rate": positive_prior(rng, float(pick(rng, [0.7, 3, 8])))})
    if kind == "exponential":
        return Column(kind, {}, {"rate": positive_prior(rng, 1 / unit)})
    if kind == "weibull":
        if which < 0.6:
            return Column(kind, {"c": 2.0}, {"scale": positive_prior(rng, unit)})
        return Column(kind, {}, {"c": stats.gamma(10, scale=0.2), "scale": positive_prior(rng, unit)})
    if kind == "gamma":
        shape = float(pick(rng, [1.5, 3]))
        if which < 0.45:
            return Column(kind, {"shape": shape}, {"rate": positive_prior(rng, shape / unit)})
        if which < 0.7:
            return Column(kind, {"rate": 1 / unit}, {"shape": positive_prior(rng, shape)})
        return Column(
            kind, {}, {"shape": stats.gamma(8, scale=shape / 8), "rate": stats.gamma(8, scale=shape / unit / 8)}
        )
    if kind == "lognormal":
        if which < 0.45:
            return Column(kind, {"log_sd": 0.6}, {"log_mean": real_prior(rng, 1.0, 0.6)})
        if which < 0.7:
            return Column(kind, {"log_mean": 1.0}, {"log_sd": positive_prior(rng, 0.6)})
        return Column(kind, {}, {"log_mean": real_prior(rng, 1.0, 0.6), "log_sd": stats.gamma(8, scale=0.6 / 8)})
    if which < 0.4:
        return Column("uniform", {"low": 0.0}, {"high": positive_prior(rng, 3 * unit)})
    if which < 0.7:
        return Column("uniform", {"low": -unit}, {"width": positive_prior(rng, 3 * unit)})
    return Column("uniform", {}, {"low": stats.norm(0, unit), "width": stats.gamma(8, scale=0.4 * unit)})


def level_column(rng: Rng, kind: str | None = None) -> Column:
    if (kind or pick(rng, ["bernoulli", "categorical"])) == "bernoulli":
        return Column("bernoulli", {}, {"p": pick(rng, [stats.beta(1, 1), stats.beta(2, 5), stats.uniform(0.1, 0.6),
                                                        stats.beta(0.5, 0.5)])})  # fmt: skip
    return Column("categorical", {}, {"p": stats.dirichlet(pick(rng, [[1.0, 1.0, 1.0], [2.0, 1.0, 3.0], [1.0] * 4]))})


def rounded(value: float) -> float:
    return float(f"{value:.2g}")


def drawn_bounds(rng: Rng, column: Column) -> tuple[float, float]:
    """Bounds around most of the records at the middle of the priors; sometimes tight, sometimes without 0."""
    law = column.typical()
    tails = [pick(rng, [0.0005, 0.0005, 0.02, 0.1]) for _ in range(2)]
    low, high = rounded(float(law.ppf(tails[0]))), rounded(float(law.isf(tails[1])))
    if column.kind == "poisson":
        low, high = (0.0 if rng.random() < 0.7 else float(round(low))), float(max(round(high), round(low) + 2))
    elif law.support()[0] >= 0 and rng.random() < 0.5:
        low = 0.0
    return (low, high) if low < high else (low, low + rounded(4 * float(law.std())))


# ---- features ----


@dataclass(frozen=True)
class Term:
    """A feature as the package writes it and as NumPy computes it."""

    feature: Any
    plain: Callable[[Mapping[str, np.ndarray]], np.ndarray]


def numeric_terms(rng: Rng, name: str, column: Column, bounds: tuple[float, float]) -> list[Term]:
    low, high = bounds
    law, x = column.typical(), nw.column(name)
    cuts = sorted({min(max(rounded(float(law.ppf(u))), low), high) for u in (0.2, 0.5, 0.8)})
    inner = [cut for cut in cuts if low < cut < high] or [rounded((low + high) / 2)]
    cut = inner[int(rng.integers(len(inner)))]
    terms = [Term(x, lambda r: r[name]), Term(x, lambda r: r[name]), Term(x**2, lambda r: r[name] ** 2)]
    terms.append(Term(x.between(low, cut), lambda r: ((r[name] >= low) & (r[name] <= cut)).astype(float)))
    terms.append(Term(x.between(cut, high), lambda r: (r[name] >= cut).astype(float)))
    terms.append(Term(x.clip(low, cut), lambda r: np.clip(r[name], low, cut)))
    terms.append(Term(x * 2 - 1, lambda r: 2 * r[name] - 1))
    if low < 0:
        terms.append(Term(abs(x), lambda r: np.abs(r[name])))
    else:
        terms.append(Term(x**0.5, lambda r: np.sqrt(r[name])))
    middle = rounded((low + high) / 2)
    terms.append(Term(abs(x - middle), lambda r: np.abs(r[name] - middle)))
    return terms


def condition(rng: Rng, name: str, column: Column, bounds: tuple[float, float]) -> Term:
    return next(t for t in shuffled(rng, numeric_terms(rng, name, column, bounds)) if t.feature.operation == "between")


def shuffled(rng: Rng, items: list[Any]) -> list[Any]:
    return [items[k] for k in rng.permutation(len(items))]


def distinct(rng: Rng, terms: list[Term], count: int) -> list[Term]:
    """Features of which none is another, or another up to a shift and a factor."""
    chosen: list[Term] = []
    for term in shuffled(rng, terms):
        texts = {str(t.feature) for t in chosen} | ({"x", "x*2 - 1", "2*x - 1"} if any(
            str(t.feature) in ("x", "x*2 - 1") for t in chosen) else set())  # fmt: skip
        complement = any(t.feature.operation == "between" for t in chosen) and term.feature.operation == "between"
        if str(term.feature) not in texts and not complement and len(chosen) < count:
            chosen.append(term)
    return chosen
