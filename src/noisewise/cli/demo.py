"""noisewise demo: the whole line on simulated records, in a folder one can look at afterwards.

It plays the holder (plan, table, ledger, releases) and then the analyst, who has the release files and the specs alone
and infers the population from them: first of all people, then region by region. The records are simulated with a fixed
seed and stand in for a real file; the privacy noise is real and different each time.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING

from noisewise.cli.actions import console
from noisewise.cli.spec import Spec
from noisewise.errors import InvalidSpec
from noisewise.files import checked_folder, write_whole

if TYPE_CHECKING:
    from noisewise.design.choice import Choice
    from noisewise.holder.ledger import Ledger
    from noisewise.holder.table import Table
    from noisewise.inference.posterior import Posterior
    from noisewise.planning import Plan

N, SEED = 4000, 2026
MARK = "written-by-noisewise-demo.txt"
REGIONS = {"north": (0.4, 1.2), "south": (0.3, 1.0), "east": (0.2, 0.8), "west": (0.1, 0.6)}  # share, relative income
SCHEMA = """\
# What everyone may know about the records; bounds are declared, never read from the data.
[schema]
n = 4000
neighbours = "change-one"
outside = "clamp"
[schema.columns]
income = { bounds = [0, 250], unit = "thousand EUR" }
region = { levels = ["north", "south", "east", "west"] }

[ledger]
limit = { epsilon = "2" }

"""
SPEC = f"""\
{SCHEMA}\
# What might be published, at the same price; `noisewise choose` ranks them without reading a record.
[[candidates]]
statistic = "mean(income)"
guarantee = {{ epsilon = "1" }}
[[candidates]]
statistic = "mean(income, income**2)"
guarantee = {{ epsilon = "1" }}
[[candidates]]
statistic = "mean(clip(income, 0, 120), clip(income, 0, 120)**2)"
guarantee = {{ epsilon = "1" }}

# What `noisewise release` publishes: the candidate that teaches most.
[release]
statistic = "mean(clip(income, 0, 120), clip(income, 0, 120)**2)"
guarantee = {{ epsilon = "1" }}

# What the analyst assumes: a number where one is known, a distribution where not.
[population]
income = "gamma(shape=halfnorm(scale=10), rate=halfnorm(scale=0.5))"
"""


REGION_SPEC = f"""\
{SCHEMA}\
# A record lies in one region, so the means of all of them cost one epsilon, not four.
[release]
statistic = "mean(income, by=region)"
guarantee = {{ epsilon = "1" }}

# What the analyst assumes: in every region a law of its own.
[population]
"*" = "grouped(by=['region'], column='income', law=gamma(shape=halfnorm(scale=4), rate=halfnorm(scale=0.2)))"
"""


def run(out: Path) -> None:
    """Write records, specs, releases, ledger and report into `out`."""
    from noisewise.cli.demo_page import Story, demo_page
    from noisewise.holder.ledger import Ledger
    from noisewise.holder.table import Table
    from noisewise.release import Release
    from noisewise.report.words import describe_release

    checked_folder(out, "--out")
    out.mkdir(parents=True, exist_ok=True)
    if any(out.iterdir()) and not (out / MARK).exists():
        raise InvalidSpec(
            f"{str(out)!r} holds other files, which the demo would overwrite; give --out a new folder.", where="--out"
        )
    (out / MARK).write_text("Everything in this folder was written by `noisewise demo` and may be deleted.\n", "utf-8")
    (out / "incomes.ledger").unlink(missing_ok=True)
    truth = _write_records(out / "incomes.csv")
    write_whole(out / "income.toml", SPEC.encode())
    write_whole(out / "regions.toml", REGION_SPEC.encode())

    spec, by_region = Spec.read(out / "income.toml"), Spec.read(out / "regions.toml")
    console.print("1. Which of three statistics would teach most (no record is read):", style="bold")
    choice = _choose(out, spec)
    console.print(str(choice), markup=False)
    plans = [choice.winner, by_region.plan()]
    console.print("\n2. What is released, and its price: that one, and means by region:", style="bold")
    for plan in plans:
        console.print(plan.describe(), markup=False)

    table = Table.read(out / "incomes.csv", plans[0].schema)
    with Ledger.open(out / "incomes.ledger", limit=spec.limit()) as ledger:
        _release(out, table, plans, ledger)
        console.print("\n3. The holder's account:", style="bold")
        console.print(str(ledger), markup=False)
        account = ledger.limit, ledger.spent(), ledger.remaining()

    console.print("\n4. What any reader of the release by region sees:", style="bold")
    console.print(describe_release(Release.load(out / "regions.release.json")), markup=False)

    console.print("\n5. What the analyst learns from it, with the noise in the model:", style="bold")
    overall, regions = _infer(out, "income", spec), _infer(out, "regions", by_region)
    console.print(regions.summary(), markup=False)
    regions.save(out / "posterior.npz")
    regions.plot(out / "posterior.png")
    report = out / "report.html"
    story = Story(regions, overall, choice, (out / "choice.png").read_bytes(), account, truth, plans[1])
    with console.status("Writing the report..."):
        write_whole(report, demo_page(story).encode())
    console.print(f"\nThe report is {report}; specs, releases, ledger and posterior are beside it.", markup=False)


def _release(out: Path, table: Table, plans: list[Plan], ledger: Ledger) -> None:
    """Both releases, paid at once or not at all."""
    from noisewise.holder.curator import make_releases

    for made, name in zip(make_releases(table, plans, ledger=ledger), ("income", "regions"), strict=True):
        made.save(out / f"{name}.release.json")


def _choose(out: Path, spec: Spec) -> Choice:
    """The candidates of the spec, ranked by what they would teach about the population, with a plot."""
    from noisewise.design.choice import choose

    with console.status("Computing what each candidate would teach..."):
        choice = choose(spec.candidates(), spec.population(), score="gain", progress=False)
        choice.plot(out / "choice.png")
    return choice


def _infer(out: Path, name: str, spec: Spec) -> Posterior:
    """The posterior from one release file, and how surprising the release is under it."""
    from noisewise.inference.infer import infer
    from noisewise.release import Release

    posterior = infer(Release.load(out / f"{name}.release.json"), spec.population(), seed=SEED)
    posterior.check_sentence()
    return posterior


def _write_records(path: Path) -> dict[str, float]:
    """Simulated incomes in thousands, with a region, and the mean of each; the seed is fixed: they are not secret."""
    import numpy as np

    rng = np.random.default_rng(SEED)
    shares, levels = zip(*REGIONS.values(), strict=True)
    place = rng.choice(len(REGIONS), p=shares, size=N)
    income = np.round(rng.gamma(shape=3.0, scale=17.0 * np.array(levels)[place]), 2)
    region = np.array(list(REGIONS))[place]
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["income", "region"])
        writer.writerows(zip(income.tolist(), region.tolist(), strict=True))
    return {name: float(income[region == name].mean()) for name in REGIONS}
