"""What a generalized linear model answers: probabilities and rates at new covariates, odds ratios and rate ratios.

    kind="mean"       g(beta_0 + beta' x): the probability, or the rate, at x, at every draw of the posterior
    kind="response"   a new response at x: 0 or 1 with that probability, a Poisson count with that rate (not clamped)
    effects           e^beta_i: by what one more unit of a feature multiplies the odds, or the rate
    answer_sources    the same in people's terms, for `posterior.answers()` and the sentence that opens a summary
Every number comes with its interval; "goes with", never "causes".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.exact import integer
from noisewise.inference.answer_sources import AnswerSource, Drawn, Headline
from noisewise.inference.intervals import checked_level, equal_tailed
from noisewise.inference.number_draws import NumberDraws
from noisewise.inference.posterior import Posterior
from noisewise.printable import shown
from noisewise.regression.answers import condition_words, one_more
from noisewise.regression.prediction import KINDS, MOST_LINES, STREAM, Prediction, feature_rows, line_draws
from noisewise.release import NoisyValue
from noisewise.types import Floats, Theta

if TYPE_CHECKING:
    from noisewise.regression.glm.model import MomentsGlm

__all__ = ["Effects", "answer_sources", "effects", "mean_draws", "predict"]


def mean_draws(model: MomentsGlm, posterior: Posterior, X: object) -> tuple[Floats, Floats]:
    """The features (rows, d) and the probability or rate there at every draw (K, rows)."""
    x = feature_rows(model, posterior, X)
    return x, model.link.mean(line_draws(model, posterior, x))


def predict(
    model: MomentsGlm, posterior: Posterior, X: object, *, level: float, kind: str, seed: int | None
) -> Prediction:
    """The law of the mean response, or of a new one, at each row of X."""
    if kind not in KINDS:
        raise InvalidArgument(f"kind = {shown(kind, 40)}: it is 'response' or 'mean'.", argument="kind")
    share = checked_level(level)
    x, means = mean_draws(model, posterior, X)
    inner = equal_tailed(means, share)
    draws, outer = means, inner
    if kind == "response":
        stream = posterior.seed if seed is None else integer(seed, "seed", minimum=0)
        rng = np.random.default_rng(None if stream is None else [stream, STREAM])
        draws = model.link.draw_at(rng, means)
        outer = equal_tailed(draws, share)
    return Prediction(
        mean=np.asarray(means.mean(axis=0)),
        sd=np.asarray(draws.std(axis=0, ddof=1)) if len(draws) > 1 else np.full(len(x), np.nan),
        low=outer[0],
        high=outer[1],
        mean_low=inner[0],
        mean_high=inner[1],
        draws=draws,
        level=share,
        kind=kind,
        x=x,
        names=tuple(str(feature) for feature in model.features),
        response=str(model.response),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Effects:
    """An effect of every feature: the posterior median and the ends of its equal-tailed interval at `level`."""

    name: str  # odds ratio, rate ratio, average change of the probability
    features: tuple[str, ...]
    median: Floats
    low: Floats
    high: Floats
    level: float
    left_out: tuple[str, ...] = ()  # why some have none

    def __len__(self) -> int:
        return len(self.median)

    def __str__(self) -> str:
        ends = [f"{50 * (1 + side * self.level):.4g} %" for side in (-1, 1)]
        table = [["feature", self.name, *ends]]
        for k, feature in enumerate(self.features[:MOST_LINES]):
            table.append([feature, *(f"{value[k]:.4g}" for value in (self.median, self.low, self.high))])
        widths = [max(len(line[k]) for line in table) for k in range(4)]
        lines = [
            "  ".join([line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))])
            for line in table
        ]
        return "\n".join([*lines, *(f"Left out: {reason}." for reason in self.left_out)])


def effects(model: MomentsGlm, posterior: Posterior, *, level: float) -> Effects:
    """Odds ratios or rate ratios, one for each feature."""
    if model.link.ratio is None:
        raise Unsupported(
            f"The coefficients of a {model.link.name} regression are no logarithms of ratios. Compare predicted "
            "probabilities: predict(posterior, X)."
        )
    share = checked_level(level)
    feature_rows(model, posterior, np.zeros((1, len(model.features))))  # refuses another model's posterior
    draws = np.stack([posterior.draws[str(feature)].reshape(-1) for feature in model.features], axis=1)
    low, high = equal_tailed(draws, share)
    names = tuple(str(feature) for feature in model.features)
    return Effects(model.link.ratio, names, np.exp(np.median(draws, axis=0)), np.exp(low), np.exp(high), share)


def answer_sources(model: MomentsGlm, theta: Theta, releases: Sequence[NoisyValue]) -> tuple[AnswerSource, ...]:
    """One source for each feature: its coefficient, and what one unit more of it multiplies the odds or the rate by."""
    sources = []
    for feature in model.features:
        values = np.asarray(theta[str(feature)], float)
        numbers = [Drawn("coefficient", values, "", str(feature))]
        lines = []
        if model.link.ratio is not None:
            numbers.append(Drawn(model.link.ratio, np.exp(values), "", str(feature)))
            of_what = f" times the {model.link.ratio.split()[0]} of {condition_words(model.response)}"
            lines.append(Headline(one_more(feature, releases), numbers[-1], "goes with", of_what))
        else:
            of_what = f" on the {model.link.name} scale of {condition_words(model.response)}"
            lines.append(Headline(one_more(feature, releases), numbers[0], "goes with", of_what, is_signed=True))
        sources.append(NumberDraws(str(feature), tuple(numbers), tuple(lines)))
    return tuple(sources)
