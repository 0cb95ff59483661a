"""Plots: the curves drawn are the curves meant, the files are pictures, and nothing global is touched."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.image import imread
from scipy import stats

from noisewise.errors import InvalidArgument
from noisewise.report import plots

RANKS = {"name": "mean", "counts": [9, 11, 10, 10], "expected": 10, "band": (3, 18)}
CURVE = {"name": "ours", "x": [1, 2, 3], "y": [1, 4, 9], "low": [0.5, 3, 8], "high": [2, 5, 10]}
LABELS = {"x_label": "epsilon", "y_label": "error"}
EVERY: dict[str, Callable[..., bytes]] = {
    "posterior": lambda path=None: plots.posterior_plot([{"name": "mean", "draws": np.arange(40.0)}], path),
    "trace": lambda path=None: plots.trace_plot([{"name": "mean", "draws": np.arange(40.0).reshape(4, 10)}], path),
    "rank": lambda path=None: plots.rank_plot([RANKS], path),
    "ecdf": lambda path=None: plots.ecdf_plot([{"name": "m", "values": [0.2, 0.9], "half_width": 0.3}], path),
    "coverage": lambda path=None: plots.coverage_plot(
        [{"name": "m", "level": 0.9, "coverage": 0.8, "low": 0.7, "high": 0.95}], path
    ),
    "curve": lambda path=None: plots.curve_plot([CURVE], path, **LABELS),
    "band": lambda path=None: plots.band_plot([1, 2, 3], [1, 4, 9], [CURVE], path, points=([1, 2], [2, 3]), **LABELS),
    "heat": lambda path=None: plots.heat_map(
        np.ones((2, 3)), path, x=[1, 2, 3], y=[1, 2], value_label="value", best=(2, 1), **LABELS
    ),
}


def share_of(data: bytes, colour: str) -> float:
    """The share of pixels in exactly this colour."""
    pixels = imread(BytesIO(data), format="png")[..., :3]
    return float(np.mean(np.all(np.abs(pixels - np.array(to_rgb(colour))) < 0.02, axis=-1)))


@pytest.mark.parametrize("name", sorted(EVERY))
def test_every_plot_is_a_picture_in_memory_and_in_the_file(name: str, tmp_path: Path) -> None:
    data = EVERY[name](tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes() == data
    height, width, _ = imread(BytesIO(data), format="png").shape
    assert min(height, width) > 300


def test_other_formats_follow_the_ending(tmp_path: Path) -> None:
    EVERY["curve"](tmp_path / "plot.pdf")
    assert (tmp_path / "plot.pdf").read_bytes().startswith(b"%PDF")
    EVERY["curve"](str(tmp_path / "plot.svg"))
    assert "<svg" in (tmp_path / "plot.svg").read_text("utf-8")
    with pytest.raises(InvalidArgument, match=r"\.png, \.pdf or \.svg"):
        EVERY["curve"](tmp_path / "plot.exe")
    assert not (tmp_path / "plot.exe").exists()


def test_the_same_data_give_the_same_bytes() -> None:
    assert EVERY["posterior"]() == EVERY["posterior"]()


def test_plotting_needs_no_display_no_global_state_and_no_statistics() -> None:
    code = (
        "import sys\nfrom noisewise.report.plots import posterior_plot\n"
        "posterior_plot([{'name': 'a', 'draws': [1.0, 2.0, 3.0]}])\nprint('\\n'.join(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & {"matplotlib.pyplot", "scipy", "arviz", "pandas", "noisewise.release"}
    assert "matplotlib.figure" in loaded


@pytest.mark.parametrize(
    ("law", "support"),
    [
        (stats.norm(3, 0.5), (-np.inf, np.inf)),
        (stats.halfnorm(scale=10), (0.0, np.inf)),
        (stats.expon(), (0.0, np.inf)),
        (stats.uniform(), (0.0, 1.0)),
        (stats.beta(1, 4), (0.0, 1.0)),
    ],
    ids=["normal", "half-normal", "exponential", "uniform", "beta"],
)
def test_densities_keep_their_height_at_a_bound(law: Any, support: tuple[float, float]) -> None:
    """Against the law itself: the draws are its quantiles, so no chance is involved; the kernel's bias remains."""
    draws = law.ppf((np.arange(20_000) + 0.5) / 20_000)
    low, high = law.ppf(0.0005) if support[0] == -np.inf else support[0], min(law.ppf(0.9995), support[1])
    x = np.linspace(low, high, 400)
    found = plots.density(draws, x, support)
    assert np.max(np.abs(found - law.pdf(x))) < 0.1 * law.pdf(x).max()
    assert np.trapezoid(found, x) == pytest.approx(1, abs=0.01)
    if support[0] == 0:  # without the reflection, half of the height is lost there (planted)
        assert plots.density(draws, x)[0] < 0.6 * found[0]


def test_a_density_is_zero_outside_its_support() -> None:
    found = plots.density(np.linspace(0, 1, 200), np.linspace(-1, 2, 400), (0.0, 1.0))
    x = np.linspace(-1, 2, 400)
    assert not found[(x < 0) | (x > 1)].any()


def test_prior_and_naive_posterior_are_drawn_where_they_are_given() -> None:
    rng = np.random.default_rng()
    own = {"name": "mean", "draws": rng.normal(0, 1, 1000)}
    x = np.linspace(-4, 4, 100)
    alone = plots.posterior_plot([own])
    beside = plots.posterior_plot([own | {"naive": rng.normal(1, 0.5, 1000)}])
    before = plots.posterior_plot([own | {"prior_x": x, "prior_density": stats.norm.pdf(x, 0, 2)}])
    assert share_of(alone, plots.RED) == 0 < share_of(beside, plots.RED)
    assert share_of(alone, plots.GREY) == 0 < share_of(before, plots.GREY)


def test_a_rank_outside_its_band_is_shown_in_another_colour() -> None:
    assert share_of(plots.rank_plot([RANKS]), plots.RED) == 0
    assert share_of(plots.rank_plot([RANKS | {"counts": [30, 3, 4, 3]}]), plots.RED) > 0.01


def test_hopeless_data_is_refused_and_odd_data_is_drawn() -> None:
    with pytest.raises(InvalidArgument, match="nothing to plot"):
        plots.posterior_plot([])
    with pytest.raises(InvalidArgument, match="no finite number"):
        plots.posterior_plot([{"name": "mean", "draws": [np.nan, np.inf]}])
    with pytest.raises(InvalidArgument, match="need"):
        plots.heat_map(np.ones((2, 2)), x=[1, 2, 3], y=[1, 2], value_label="value", **LABELS)
    odd = [
        {"name": "constant", "draws": [2.0, 2.0]},
        {"name": "heavy", "draws": stats.cauchy.ppf(np.linspace(0.001, 0.999, 500)), "truth": 1.0},
        {"name": "two spikes", "draws": [0.0] * 50 + [1.0] * 50, "interval": (0, 1), "level": 0.9},
        {"name": "far away", "draws": np.linspace(0, 1, 50), "naive": np.linspace(100, 101, 50)},
        {"name": "holes", "draws": [np.nan, 1.0, 2.0, 3.0]},
    ]
    assert plots.posterior_plot(odd).startswith(b"\x89PNG")
