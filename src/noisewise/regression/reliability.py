"""Are predicted probabilities what happens? Rows sorted by their prediction, in bins, beside the share that said yes.

Whoever has only releases has no records to compare with, and a model that is checked on what it was fitted to proves
little. What can be compared honestly is
    public rows           of which the response is known: a survey, a pilot, a holder's own records at the holder's desk
    a simulated truth     the probabilities at which rows were simulated, given instead of responses
In each bin: the mean prediction, its posterior interval, and the observed share with a Wilson interval, which is
sampling error alone. A calibrated model has its points on the diagonal.
"""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np

from noisewise.errors import InvalidArgument
from noisewise.exact import integer
from noisewise.inference.intervals import equal_tailed
from noisewise.types import Floats

if TYPE_CHECKING:
    from noisewise.regression.prediction import Prediction

__all__ = ["Reliability", "reliability"]


@dataclass(frozen=True, slots=True, eq=False)
class Reliability:
    """One entry for each bin of rows: how many, what was predicted (with its interval), what was observed."""

    count: Floats
    predicted: Floats
    predicted_low: Floats
    predicted_high: Floats
    observed: Floats
    observed_low: Floats
    observed_high: Floats
    level: float
    response: str

    def __len__(self) -> int:
        return len(self.count)

    def __str__(self) -> str:
        ends = [f"{50 * (1 + side * self.level):.4g} %" for side in (-1, 1)]
        lines = [["rows", "predicted", *ends, "observed", *ends]]
        for k in range(len(self)):
            numbers = (self.predicted, self.predicted_low, self.predicted_high, self.observed, self.observed_low,
                       self.observed_high)  # fmt: skip
            lines.append([f"{self.count[k]:g}", *(f"{number[k]:.3f}" for number in numbers)])
        widths = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
        return "\n".join(
            "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines
        )

    def plot(self, path: str | PathLike[str] | None = None) -> bytes:
        """Observed against predicted, with intervals, beside the diagonal, as a PNG (also written to `path`)."""
        from noisewise.report.plots import reliability_plot

        return reliability_plot(
            (self.predicted, self.predicted_low, self.predicted_high),
            (self.observed, self.observed_low, self.observed_high),
            path,
            x_label=f"predicted {self.response}",
            y_label="observed share",
        )


def reliability(predicted: Prediction, y: object, *, bins: int) -> Reliability:
    """Predictions of probabilities beside responses y (0 and 1), or beside true probabilities."""
    count = integer(bins, "bins", minimum=1, maximum=1000)
    try:
        found = np.asarray(y, dtype=float)
    except (TypeError, ValueError):
        found = np.full(0, np.nan)
    if found.shape != predicted.mean.shape or not np.all((found >= 0) & (found <= 1)):
        raise InvalidArgument(
            f"y must hold {len(predicted.mean)} numbers, one for each row: 0 and 1, or true probabilities. A yes/no "
            "response in words is written as (y == 'yes').",
            argument="y",
        )
    if not np.all((predicted.mean >= 0) & (predicted.mean <= 1)) or predicted.kind != "mean":
        raise InvalidArgument(
            "Only probabilities are compared with what happened: predict(posterior, X, kind='mean') of a logistic or "
            "probit regression.",
            argument="y",
        )
    parts = [part for part in np.array_split(np.argsort(predicted.mean, kind="stable"), count) if len(part)]
    is_truth = not np.all(np.isin(found, (0.0, 1.0)))
    rows = []
    for part in parts:
        low, high = equal_tailed(predicted.draws[:, part].mean(axis=1), predicted.level)
        share = float(found[part].mean())
        ends = (share, share) if is_truth else _wilson(share, len(part), predicted.level)
        rows.append((len(part), predicted.mean[part].mean(), low, high, share, *ends))
    table = np.array(rows, float).T
    return Reliability(
        count=table[0],
        predicted=table[1],
        predicted_low=table[2],
        predicted_high=table[3],
        observed=table[4],
        observed_low=table[5],
        observed_high=table[6],
        level=predicted.level,
        response=predicted.response,
    )


def _wilson(share: float, n: int, level: float) -> tuple[float, float]:
    """Wilson's interval of a proportion (Wilson 1927)."""
    from scipy.special import ndtri

    z = float(ndtri((1 + level) / 2))
    middle, scale = share + z * z / (2 * n), 1 + z * z / n
    half = z * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)
