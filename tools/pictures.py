"""Draw the pictures of the README and the docs again, from simulated releases with fixed seeds.

python tools/pictures.py
"""

from __future__ import annotations

import contextlib
import re
import shutil
import tempfile
from pathlib import Path

from scipy import stats

import noisewise as nw

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
LEVELS = ["north", "south", "east", "west"]
SCHEMA = nw.Schema(
    {"income": nw.Bounded(0, 250, unit="thousand EUR"), "region": nw.Levels(LEVELS)}, n=4000, neighbours="change-one"
)
X = nw.column("income")
GAMMA = nw.Gamma(shape=stats.halfnorm(scale=4), rate=stats.halfnorm(scale=0.2))
NORMAL = nw.Normal(mean=stats.norm(50, 50), sd=stats.halfnorm(scale=50))


def main() -> None:
    truth = {"shape": 3.0, "rate": 1 / 17}
    bare = nw.Schema({"income": nw.Bounded(0, 250)}, n=4000, neighbours="change-one")  # as the README's has no unit
    moments = nw.plan(nw.Mean(X.clip(0, 120), X.clip(0, 120) ** 2), bare, guarantee=nw.PureDP(1))
    one = nw.infer(nw.simulate(moments, GAMMA, at=truth, seed=1), NORMAL, seed=1, progress=False)
    one.plot(IMAGES / "income.png")

    counts = nw.plan(nw.Histogram("income", [20, 40, 60, 80, 100, 150]), SCHEMA, guarantee=nw.PureDP("0.1"))
    law = nw.infer(nw.simulate(counts, GAMMA, at=truth, seed=1), GAMMA, seed=1, progress=False)
    law.plot(IMAGES / "distribution.png", kind="distribution")

    regions = nw.plan(nw.Mean(X, by="region"), SCHEMA, guarantee=nw.PureDP(1))
    population = nw.Grouped("region", income=GAMMA, names=LEVELS)
    means = {"shape": [3, 3, 3, 3], "rate": [3 / 61, 3 / 51, 3 / 41, 3 / 31], "share": [0.4, 0.3, 0.2, 0.1]}
    groups = nw.infer(nw.simulate(regions, population, at=means, seed=1), population, seed=1, progress=False)
    groups.plot(IMAGES / "groups.png")
    groups.plot(IMAGES / "contrast.png", kind="contrast")
    gallery()


def gallery() -> None:
    """The pictures of the gallery, by the page's own lines."""
    page = (IMAGES.parent / "gallery.md").read_text("utf-8")
    (IMAGES / "gallery").mkdir(exist_ok=True)
    names: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for code in re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S):
            exec(code, names)
        for picture in Path(folder).glob("*.png"):
            shutil.copy(picture, IMAGES / "gallery")


if __name__ == "__main__":
    main()
