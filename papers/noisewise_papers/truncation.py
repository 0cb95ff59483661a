"""truncation: the interval that makes one clipped answer about a normal population most informative.

Y = clip(X, low, high) + (high - low) V with X ~ N(0, 1) and V ~ Laplace(1/epsilon). The score of an interval is
    location    F_11, the information on the mean
    harmonic    1/(1/F_11 + 1/F_22), that on mean and sd at once
and for a normal population of any mean and sd the best interval is this one, moved and stretched (Yıldırım 2024,
Theorem 3). In print the search was a Monte Carlo one on a grid of step 0.12, for `location` only. Under `harmonic` at
small epsilon two mirrored intervals are equally good; the upper one is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from noisewise.likelihood import clipped_normal
from noisewise.online.interval import SCORES, best_interval
from noisewise.privacy.guarantee import PureDP
from noisewise_papers.setting import Setting
from noisewise_papers.study import Row, Rows, Setup, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER: Mapping[float, float] = {1.0: 0.06, 2.0: 0.12, 5.0: 0.54, 10.0: 0.96}  # half-widths, about 0


def measure(setup: Setup) -> Rows:
    """One row an epsilon and score."""
    points = [(epsilon, score) for score in setup["score"] for epsilon in setup["epsilon"]]
    return setup.map(row_at, points, "intervals")


def row_at(_: np.random.Generator, point: tuple[float, str]) -> Row:
    """The best interval, beside the printed one."""
    epsilon, score = point
    best = best_interval("normal", guarantee=PureDP(epsilon), score=score)
    paper = PAPER.get(epsilon) if score == "location" else None
    return {
        "epsilon": epsilon,
        "score": score,
        "low": best.low,
        "high": best.high,
        "information": best.value,
        "paper_low": None if paper is None else -paper,
        "paper_high": paper,
    }


def information_on_mean(low: float, high: float, epsilon: float) -> float:
    """F_11 of an interval about N(0, 1)."""
    scale = (high - low) / epsilon
    return float(clipped_normal.information(mean=0.0, sd=1.0, low=low, high=high, scale=scale)[0, 0])


def draw(figure: Figure, rows: Rows) -> None:
    """The ends of the intervals against epsilon."""
    axes = figure.subplots()
    for colour, score in zip(("#0072B2", "#D55E00"), SCORES, strict=True):
        some = sorted((row for row in rows if row["score"] == score), key=lambda row: float(row["epsilon"]))
        if some:
            epsilon = [row["epsilon"] for row in some]
            axes.fill_between(
                epsilon, [row["low"] for row in some], [row["high"] for row in some], color=colour, alpha=0.15
            )
            for end in ("low", "high"):
                label = f"best for {score}" if end == "low" else None
                axes.plot(epsilon, [row[end] for row in some], color=colour, marker="o", label=label)
    printed = [row for row in rows if row["paper_low"] is not None]
    if printed:
        places = [row["epsilon"] for row in printed] * 2
        ends = [row[name] for name in ("paper_low", "paper_high") for row in printed]
        axes.plot(places, ends, "kx", label="in print (location)")
    axes.set(xlabel="epsilon", ylabel="(x - mean) / sd", xscale="log")
    axes.legend()


def note(rows: Rows) -> str:
    """How much the printed intervals lose, and what the scores do."""
    printed = [row for row in rows if row["paper_low"] is not None]
    words = []
    if printed:
        shares = ", ".join(
            f"{information_on_mean(row['paper_low'], row['paper_high'], row['epsilon']) / row['information']:.1%} "
            f"at {row['epsilon']:g}"
            for row in printed
        )
        words.append(f"The hill is flat: the printed intervals are narrower and keep {shares} of the best information.")
    beside = [row for row in rows if row["score"] == "harmonic" and abs(row["low"] + row["high"]) > 1e-3]
    if beside:
        told = ", ".join(f"{row['epsilon']:g}" for row in beside)
        words.append(f"The harmonic score asks beside the mean at epsilon = {told}; the mirror image is as good.")
    return " ".join(words) or "The best intervals are centred on the mean."


STUDY = Study(
    name="truncation",
    about="The interval to which one private answer is best clipped.",
    source="Yıldırım (2024), section 4.1",
    settings={
        "epsilon": Setting(float, (1.0, 2.0, 5.0, 10.0), "of epsilon-DP, for each answer", above=0),
        "score": Setting(str, SCORES, "what the interval is best for", choices=SCORES),
    },
    columns=("epsilon", "score", "low", "high", "information", "paper_low", "paper_high"),
    measure=measure,
    draw=draw,
    note=note,
)
