"""Random settings: population x statistic x mechanism x n x epsilon x prior x clamp, each from one number.

`Setting.drawn(seed)` draws everything: what is unknown and its prior, the bounds, what is released of how many records
with which guarantee, the true parameters (from the prior), the records and the noise. It holds the same releases twice:
as the package reads them, and plainly, for `brute_force`. Records and noise come from NumPy; only the scale and the
step of the noise are read off the plan, because they are part of the release.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from brute_force import BruteForce, Space, Unknown
from plain_laws import draw_noise, log_noise
from plain_releases import Answers, Cells, Noise, Ordered, PlainColumn, Sums
from random_columns import (
    Column,
    Rng,
    Term,
    condition,
    distinct,
    drawn_bounds,
    level_column,
    numeric_column,
    numeric_terms,
    pick,
    rounded,
)

import noisewise as nw

FAMILY = {"discrete-laplace": "laplace", "discrete-gaussian": "gaussian", "rounded-gaussian": "rounded"}


@dataclass
class Setting:
    """One drawn setting: the package's releases and population, and the plain groups of the same."""

    seed: int
    space: Space
    population: Any
    releases: list[nw.Release]
    groups: list[Any]
    stated_n: int | None
    truth: Mapping[str, np.ndarray]
    text: str

    @classmethod
    def drawn(cls, seed: int) -> Setting:
        return _Maker(seed).setting()

    def infer(self, **options: Any) -> nw.Posterior:
        given = self.releases if len(self.releases) > 1 else self.releases[0]
        return nw.infer(given, self.population, seed=self.seed % 2**32, progress=False, n=self.stated_n, **options)

    def brute_force(self) -> BruteForce:
        return BruteForce(self.space, self.groups)


SHAPES = {
    "mean": 26, "mean-2": 14, "mean-3": 5, "sum": 7, "count": 8, "histogram": 8, "order": 6, "local": 9,
    "local-cells": 6, "same-records": 7, "parts": 5, "holders": 5, "add-remove": 6, "joint": 9, "levels": 9,
}  # fmt: skip


@dataclass
class _Maker:
    seed: int
    rng: Rng = field(init=False)
    texts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng([16, self.seed])

    def setting(self) -> Setting:
        rng = self.rng
        names = list(SHAPES)
        shape = names[rng.choice(len(names), p=np.array(list(SHAPES.values())) / sum(SHAPES.values()))]
        self.shape = shape
        self.draw_columns()
        self.n = int(np.rint(np.exp(rng.uniform(0, np.log(1000)))))
        self.outside = "refuse" if rng.random() < 0.25 else "clamp"
        self.draw_truth()
        self.releases: list[nw.Release] = []
        self.groups: list[Any] = []
        self.stated: int | None = None
        {"order": self.order, "local": self.local, "local-cells": self.local_cells, "parts": self.parts,
         "holders": self.holders, "add-remove": self.add_remove}.get(shape, self.whole)()  # fmt: skip
        columns = "; ".join(f"{name}: {column.text()}" for name, column in self.columns.items())
        text = f"{columns} | {' + '.join(self.texts)} | {self.where()}"
        return Setting(
            self.seed, self.space, self.population, self.releases, self.groups, self.stated, self.truth, text
        )

    def draw_columns(self) -> None:
        rng = self.rng
        if self.shape == "levels":
            self.columns = {"s": level_column(rng)}
        elif self.shape == "joint":
            other = pick(rng, [lambda: level_column(rng), lambda: numeric_column(rng, "poisson"),
                               lambda: numeric_column(rng, "exponential")])()  # fmt: skip
            first = numeric_column(rng, pick(rng, ["normal", "exponential", "poisson"]))
            self.columns = {"x": Column(first.kind, first.known, first.priors), "s": other}
        elif self.shape == "local-cells" and rng.random() < 0.5:
            self.columns = {"s": level_column(rng)}
        else:
            self.columns = {"x": numeric_column(rng)}
        is_joint = len(self.columns) > 1
        self.population = (
            nw.Joint(**{name: column.population() for name, column in self.columns.items()})
            if is_joint
            else next(iter(self.columns.values())).population()
        )
        self.names = {
            (name, parameter): f"{name}.{parameter}" if is_joint else parameter
            for name, column in self.columns.items()
            for parameter in column.priors
        }
        self.space = Space(tuple(
            Unknown(self.names[name, parameter], prior)
            for name, column in self.columns.items()
            for parameter, prior in column.priors.items()
        ))  # fmt: skip
        self.bounds = {
            name: None if column.kind in ("bernoulli", "categorical") else drawn_bounds(rng, column)
            for name, column in self.columns.items()
        }
        self.levels = {
            name: ["no", "yes"]
            if column.kind == "bernoulli"
            else [f"l{j}" for j in range(len(column.priors["p"].alpha))]
            for name, column in self.columns.items()
            if self.bounds[name] is None
        }

    def draw_truth(self) -> None:
        """True parameters from the prior under which there are records inside the bounds."""
        for _ in range(100):
            drawn = {u.name: u.draw(self.rng, 1) for u in self.space.unknowns}
            self.truth = {u.name: drawn[u.name][:, 0] if u.size == 1 else drawn[u.name] for u in self.space.unknowns}
            if all(np.isfinite(values).all() for values in self.records(100).values()):
                return

    def where(self) -> str:
        bounds = [f"{name} in [{b[0]:g}, {b[1]:g}] {self.outside}" for name, b in self.bounds.items() if b is not None]
        return f"n={self.n} {', '.join(bounds)}"

    def plain_columns(self) -> tuple[PlainColumn, ...]:
        return tuple(
            PlainColumn(name, column.kind, column.known, {p: self.names[name, p] for p in column.priors},
                        self.bounds[name], self.outside)
            for name, column in self.columns.items()
        )  # fmt: skip

    def schema(self, n: int, *, private: bool = False) -> nw.Schema:
        columns = {
            name: nw.Levels(self.levels[name]) if bounds is None else nw.Bounded(*bounds)
            for name, bounds in self.bounds.items()
        }
        size = {"n_max": 2 * n + 10, "neighbours": "add-remove"} if private else {"n": n, "neighbours": "change-one"}
        return nw.Schema(columns, outside=self.outside, **size)

    # ---- what is asked ----

    def question(self, *, is_sum: bool = False) -> tuple[Any, list[Term]]:
        """A statistic and the terms whose sums it publishes."""
        rng = self.rng
        if self.shape == "levels" or (len(self.columns) == 1 and "s" in self.columns):
            return self.level_question()
        if self.shape == "joint" and not is_sum:
            return self.joint_question()
        column, bounds = self.columns["x"], self.bounds["x"]
        terms = numeric_terms(rng, "x", column, bounds)
        kind = self.shape
        if kind not in ("mean", "mean-2", "mean-3", "sum", "count", "histogram"):
            kinds = ["sum", "count", "histogram"] if is_sum else ["mean", "mean", "count", "histogram", "mean-2"]
            kind = pick(rng, kinds)
        if kind == "count":
            term = condition(rng, "x", column, bounds)
            return nw.Count(term.feature), [term]
        if kind == "histogram":
            return self.histogram()
        count = {"mean-2": 2, "mean-3": 3}.get(kind, 1)
        chosen = distinct(rng, terms, count)
        make = nw.Sum if kind == "sum" else nw.Mean
        return make(*[term.feature for term in chosen]), chosen

    def histogram(self) -> tuple[Any, list[Term]]:
        low, high = self.bounds["x"]
        law, cells = self.columns["x"].typical(), int(self.rng.integers(2, 6))
        edges = sorted({rounded(float(law.ppf(j / cells))) for j in range(1, cells)})
        edges = [edge for edge in edges if low < edge < high] or [rounded((low + high) / 2)]
        ends = [-np.inf, *edges, np.inf]

        def cell(a: float, b: float) -> Term:
            return Term(None, lambda r: ((r["x"] >= a) & (r["x"] < b)).astype(float))

        return nw.Histogram("x", edges=edges), [cell(a, b) for a, b in itertools.pairwise(ends)]

    def level_terms(self) -> list[Term]:
        def equals(j: int, level: str) -> Term:
            return Term(nw.column("s").equals(level), lambda r: (r["s"] == j).astype(float))

        return [equals(j, level) for j, level in enumerate(self.levels["s"])]

    def level_question(self) -> tuple[Any, list[Term]]:
        terms = self.level_terms()
        kind = pick(self.rng, ["count", "histogram", "mean"])
        if kind == "histogram":
            return nw.Histogram("s"), terms
        term = pick(self.rng, terms)
        return (nw.Count if kind == "count" else nw.Mean)(term.feature), [term]

    def joint_question(self) -> tuple[Any, list[Term]]:
        rng = self.rng
        x = pick(rng, numeric_terms(rng, "x", self.columns["x"], self.bounds["x"]))
        if "s" in self.levels:
            s = pick(rng, self.level_terms())
        else:
            s = pick(rng, numeric_terms(rng, "s", self.columns["s"], self.bounds["s"]))
        if rng.random() < 0.5:
            return nw.Mean(x.feature, s.feature), [x, s]
        product = Term(x.feature * s.feature, lambda r: x.plain(r) * s.plain(r))
        return (nw.Mean(product.feature), [product]) if rng.random() < 0.5 else (
            nw.Mean(product.feature, x.feature), [product, x])  # fmt: skip

    def guarantee(self, epsilon: float, statistic: Any) -> tuple[Any, str | None]:
        """A guarantee of about this strength and a mechanism."""
        rng = self.rng
        epsilon = float(f"{epsilon:.2g}")
        kind = pick(rng, ["laplace"] * 5 + ["zcdp", "gdp", "approx", "gdp"])
        if kind == "zcdp":
            return nw.ZeroConcentratedDP(float(f"{epsilon**2 / 2:.2g}")), "gaussian"
        if kind == "gdp":
            return nw.GaussianDP(epsilon), "gaussian"
        if kind == "approx":
            return nw.ApproxDP(epsilon, "1e-5"), "gaussian"
        is_count = statistic.kind in ("count", "histogram")
        return nw.PureDP(epsilon), "geometric" if is_count and rng.random() < 0.7 else "laplace"

    def epsilon(self) -> float:
        """From 0.1 to 20; in most settings large enough for n records to tell something."""
        least = 0.1 if self.rng.random() < 0.15 else min(max(0.1, 4 / self.n), 4.0)
        return float(np.exp(self.rng.uniform(np.log(least), np.log(20))))

    # ---- releases of sums ----

    def records(self, n: int) -> dict[str, np.ndarray]:
        return {c.name: c.draw(self.rng, self.truth, (1, n))[0] for c in self.plain_columns()}

    def planned(self, n: int, asked: tuple[Any, list[Term]], *, share: float, private: bool = False, part: Any = None):
        """A plan whose noise lets brute force settle: epsilon is halved while too few data sets would be likely."""
        statistic, terms = asked
        schema, epsilon = self.schema(self.whole_n if part else n, private=private), self.epsilon()
        state = self.rng.bit_generator.state
        for _ in range(12):
            self.rng.bit_generator.state = state
            guarantee, mechanism = self.guarantee(epsilon, statistic)
            plan = nw.plan(statistic, schema, guarantee=guarantee, mechanism=mechanism, part=part)
            group = Sums(self.plain_columns(), n, tuple(t.plain for t in terms), noise_of(plan), (0,) * len(terms))
            if self.hit_share(group) >= share or epsilon < 0.1:
                break
            epsilon /= 2
        return plan, group

    def hit_share(self, group: Sums) -> float:
        """How often a data set at the truth is within the noise of another, roughly."""
        many = {name: np.repeat(value, 60, axis=0) for name, value in self.truth.items()}
        sums = group.simulate(self.rng, many, 4, group.n).reshape(len(group.features), -1)
        total = sum(
            log_noise(noise.family, noise.ratio, sums[k][:, None] - sums[k][None, :])
            for k, noise in enumerate(group.noise)
        )
        return float(np.exp(total)[~np.eye(len(total), dtype=bool)].mean()) if np.isfinite(total).all() else 0.0

    def release_sums(self, plans: list[tuple[nw.Plan, Sums]], n: int, *, dataset: str = "made") -> None:
        """Draw n records once and publish every plan's sums of them."""
        records = self.records(n)
        features, noises, values = [], [], []
        for plan, group in plans:
            value = []
            for feature, noise in zip(group.features, group.noise, strict=True):
                total = float(np.sum(np.broadcast_to(feature(records), (n,)))) / noise.step
                value.append(round(total) + draw_noise(noise.family, noise.ratio, self.rng, 1)[0])
            self.releases.append(nw.Release.of(plan, value, dataset=dataset, ledger_head=None, simulated=True))
            self.texts.append(f"{plan.statistic} {plan.mechanism} {plan.guarantee}")
            features, noises, values = [*features, *group.features], [*noises, *group.noise], [*values, *value]
        self.groups.append(Sums(self.plain_columns(), n, tuple(features), tuple(noises), tuple(values)))

    def whole(self) -> None:
        share = least_share(self.n)
        if self.shape == "same-records":
            share = share**0.5
            asked = [self.question() for _ in range(2)]
            self.release_sums([self.planned(self.n, a, share=share) for a in asked], self.n)
            return
        self.release_sums([self.planned(self.n, self.question(), share=share)], self.n)

    def parts(self) -> None:
        self.n = max(self.n, 4)
        self.whole_n = self.n
        cut = pick(self.rng, ["1/2", "1/4", "3/4"])
        first = int(Fraction(cut) * self.n)
        same = self.question() if self.rng.random() < 0.5 else None
        for part, n in ((("0", cut), first), ((cut, "1"), self.n - first)):
            asked = same or self.question()
            self.release_sums([self.planned(n, asked, share=least_share(n), part=part)], n)
            self.texts[-1] += f" part {part[0]}..{part[1]}"

    def holders(self) -> None:
        for dataset in ("north", "south"):
            n = max(1, int(self.n * self.rng.uniform(0.3, 1)))
            self.release_sums([self.planned(n, self.question(), share=least_share(n))], n, dataset=dataset)
            self.texts[-1] += f" of {n}"

    def add_remove(self) -> None:
        self.stated = self.n
        asked = [self.question(is_sum=True) for _ in range(int(self.rng.integers(1, 3)))]
        share = least_share(self.n) ** (1 / len(asked))
        self.release_sums([self.planned(self.n, a, share=share, private=True) for a in asked], self.n)
        self.texts[-1] += " add-remove"

    # ---- order statistics and local answers ----

    def order(self) -> None:
        rng = self.rng
        self.n = int(np.clip(self.n, 3, 60))
        make = pick(rng, [nw.Median, nw.Median, nw.Maximum, nw.Minimum])
        rank = {nw.Median: (self.n + 1) // 2, nw.Maximum: self.n, nw.Minimum: 1}[make]
        epsilon = float(f"{np.exp(rng.uniform(np.log(0.5), np.log(8))):.2g}")
        is_laplace = rng.random() < 0.6
        guarantee = nw.ApproxDP(epsilon, "1e-4") if is_laplace else nw.PureDP(epsilon)
        alpha = epsilon / 2
        beta = min(epsilon / (2 * np.log(2 / 1e-4)), alpha) if is_laplace else alpha
        plan = nw.plan(make("x"), self.schema(self.n), guarantee=guarantee)
        records = {name: value[None] for name, value in self.records(self.n).items()}
        plain = Ordered(self.plain_columns(), self.n, lambda r: r["x"], rank, "laplace" if is_laplace else "cauchy",
                        alpha, beta, self.bounds["x"], plan.law.step, 0)  # fmt: skip
        value, scale = plain.statistic(records)
        unit = rng.laplace() if is_laplace else rng.standard_cauchy()
        y = round(float(value[0] + scale[0] * unit) / plan.law.step)
        self.releases.append(nw.Release.of(plan, [y], dataset="made", ledger_head=None, simulated=True))
        self.groups.append(Ordered(**{**plain.__dict__, "y": y}))
        self.texts.append(f"{plan.statistic} {plan.mechanism} {plan.guarantee}")

    def local(self) -> None:
        rng = self.rng
        self.n = int(np.clip(self.n, 1, 60))
        terms = numeric_terms(rng, "x", self.columns["x"], self.bounds["x"])
        term = pick(rng, [t for t in terms if t.feature.operation != "between"])
        epsilon = float(f"{np.exp(rng.uniform(np.log(0.5), np.log(10))):.2g}")
        guarantee = pick(rng, [nw.PureDP(epsilon), nw.PureDP(epsilon), nw.GaussianDP(epsilon)])
        plan = nw.plan(nw.Records(term.feature), self.schema(self.n), guarantee=guarantee)
        (noise,) = noise_of(plan)
        values = np.broadcast_to(term.plain(self.records(self.n)), (self.n,)) / noise.step
        drawn = draw_noise(noise.family, noise.ratio, rng, self.n)
        y = sorted(round(float(v)) + k for v, k in zip(values, drawn, strict=True))
        self.releases.append(nw.Release.of(plan, y, dataset="made", ledger_head=None, simulated=True))
        self.groups.append(Answers(self.plain_columns()[0], term.plain, noise, tuple(y)))
        self.texts.append(f"{plan.statistic} {plan.mechanism} {plan.guarantee}")

    def local_cells(self) -> None:
        rng = self.rng
        epsilon = float(f"{np.exp(rng.uniform(np.log(0.3), np.log(6))):.2g}")
        (column,) = self.plain_columns()
        if column.bounds is None:
            statistic, edges, count = nw.Records("s"), None, len(self.levels["s"])
            cell = self.records(self.n)["s"].astype(int)
        else:
            edges = tuple(self.histogram()[0].edges)
            statistic, count = nw.Records("x", cells=list(edges)), len(edges) + 1
            cell = np.searchsorted(edges, self.records(self.n)["x"], side="right")
        keep = np.exp(epsilon) / (np.exp(epsilon) + count - 1)
        others = (cell + rng.integers(1, count, self.n)) % count
        answers = np.where(rng.random(self.n) < keep, cell, others)
        y = np.bincount(answers, minlength=count).tolist()
        plan = nw.plan(statistic, self.schema(self.n), guarantee=nw.PureDP(epsilon), mechanism="randomized-response")
        self.releases.append(nw.Release.of(plan, y, dataset="made", ledger_head=None, simulated=True))
        self.groups.append(Cells(column, edges, float(keep), tuple(y)))
        self.texts.append(f"{plan.statistic} {plan.mechanism} {plan.guarantee}")


def least_share(n: int) -> float:
    """How rarely a simulated data set may explain a release, where data sets of n records are to be simulated."""
    return 0.002 if n > 200 else 0.0004


def noise_of(plan: nw.Plan) -> tuple[Noise, ...]:
    """The noise of each component, as the release states it."""
    plain = plan.law.to_dict()
    return tuple(
        Noise(FAMILY[str(plain["family"])], scale / step, step)
        for scale, step in zip(plan.law.scale, plan.law.step, strict=True)
    )
