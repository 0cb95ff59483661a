"""A coin behind a noisy count of heads: Beta(a, b) shares, the count binomial, both taken as normal.

    share ~ N(m, v) with the moments of Beta(a, b);   y = n share + noise,   so share | y is normal in closed form.
Small on purpose: it has every piece that a model is asked for.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from noisewise.errors import Unsupported
from noisewise.inference.degrees import Degrees
from noisewise.inference.exact import independent
from noisewise.inference.methods import AUTO, Found, Method, Methods, Option
from noisewise.inference.options import yes_or_no
from noisewise.inference.verdict import PointEstimate, Verdict
from noisewise.joining import Joined, joined, listed_releases, record_count
from noisewise.likelihood.simulate import draw_noise
from noisewise.models.base import ModelBase
from noisewise.populations.parameters import UNIT, Support
from noisewise.release import Release


def normal(observed: Joined, coin: Coin, *, flat: bool = False) -> tuple[float, float]:
    """Mean and sd of the share given every count."""
    mean, variance = coin.moments
    precision, weighted = (0.0, 0.0) if flat else (1 / variance, mean / variance)
    for release, n in zip(observed.releases, observed.sizes, strict=True):
        share = float(release.estimate[0]) / n
        spread = mean * (1 - mean) / n + release.law.sd[0] ** 2 / n**2
        precision, weighted = precision + 1 / spread, weighted + share / spread
    return weighted / precision, precision**-0.5


METHODS: Methods[Method] = Methods(
    "a coin",
    Method("normal", lambda: normal, "a normal law of the share", (Option("flat", False, yes_or_no),)),
    Method("mean", lambda: normal, "the mean of that law", is_point=True),
    instead="normal",
)


@dataclass(frozen=True)
class Coin(ModelBase):
    """The share of records that meet a condition."""

    text_name: ClassVar[str] = "coin"
    takes: ClassVar[tuple[str, ...]] = ("heads", "tails")
    needs: ClassVar[tuple[str, ...]] = ("heads", "tails")

    heads: float
    tails: float

    @property
    def free(self) -> tuple[str, ...]:
        return ("share",)

    @property
    def supports(self) -> dict[str, Support]:
        return {"share": UNIT}

    @property
    def methods(self) -> Methods[Method]:
        return METHODS

    @property
    def moments(self) -> tuple[float, float]:
        total = self.heads + self.tails
        return self.heads / total, self.heads * self.tails / (total**2 * (total + 1))

    def observe(self, releases, settings) -> Joined:
        given = listed_releases(releases)
        if any(release.statistic.kind != "count" for release in given):
            raise Unsupported("A coin learns from counts.")
        return joined(given, settings.n)

    def learn(self, observed, settings) -> Found:
        method = METHODS["normal" if settings.method == AUTO else settings.method]
        mean, sd = method.run(observed, self, **method.read(settings.options))
        law = f"normal law of {len(observed.releases)} counts"
        if method.is_point:
            return Found({"share": np.full((1, 1), mean)}, method.name, method.words, law, Verdict(PointEstimate()),
                         is_point=True)  # fmt: skip
        drawn = mean + sd * settings.rng.standard_normal((settings.chains, settings.draws))
        said = Verdict(independent(drawn, by="a closed form"), warnings=observed.warnings)
        return Found({"share": drawn}, method.name, method.words, law, said, moments={"share": (mean, sd)})

    def sample_prior(self, rng, count):
        return {"share": rng.beta(self.heads, self.tails, count)}

    def simulate_values(self, rng, plan, theta, *, n=None, approximate=False):
        share = np.clip(np.asarray(theta["share"]), 0, 1)
        heads = rng.binomial(record_count(plan.part_schema, n), share)
        return np.asarray(heads + draw_noise(rng, plan.law, len(share)))[:, None]

    def sample_records(self, rng, schema, n, theta, columns):
        share = np.asarray(theta["share"])[:, None]
        return {name: (rng.random((len(share), n)) < share).astype(float) for name in columns}

    def degrees(self, releases, theta) -> Degrees:
        return Degrees(len(releases), len(releases), 1)

    def joint_likelihood(self, releases, *, likelihood="auto", n=None):
        return Counts((Heads(joined(releases, n)),))

    def engine(self, plan, asked):
        return HeadsInformation(record_count(plan.part_schema, asked.n), plan.law.sd[0])

    def text_arguments(self) -> dict[str, str]:
        return {"heads": repr(self.heads), "tails": repr(self.tails)}

    @classmethod
    def from_nodes(cls, nodes) -> Coin:
        return cls(**{name: float(ast.literal_eval(node)) for name, node in nodes.items()})


@dataclass(frozen=True)
class Heads:
    """The counts before noise, given the share: the precision-weighted mean of n share and the published count."""

    observed: Joined

    @property
    def releases(self) -> tuple[Release, ...]:
        return self.observed.releases

    def draw_statistic(self, rng, theta):
        share = np.asarray(theta["share"])
        columns = []
        for release, n in zip(self.releases, self.observed.sizes, strict=True):
            spread, noise = n * share * (1 - share), release.law.sd[0] ** 2
            gain = spread / (spread + noise)
            mean = n * share + gain * (float(release.estimate[0]) - n * share)
            columns.append(mean + np.sqrt(gain * noise) * rng.standard_normal(share.shape))
        return np.stack(columns, axis=1)


@dataclass(frozen=True)
class Counts:
    groups: tuple[Heads, ...]


@dataclass(frozen=True)
class HeadsInformation:
    """n^2 / (n p (1 - p) + noise variance)."""

    n: int
    sd: float
    method: ClassVar[str] = "closed form"
    is_exact: ClassVar[bool] = False
    shares_draws: ClassVar[bool] = False

    def rows(self, theta):
        share = np.asarray(theta["share"])
        found = self.n**2 / (self.n * share * (1 - share) + self.sd**2)
        return found[:, None, None], np.zeros((len(share), 1, 1))
