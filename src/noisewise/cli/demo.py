"""noisewise demo: the whole line on simulated records, in a folder one can look at afterwards.

It plays the holder (plan, table, ledger, release) and then the analyst, who has the release file and the spec alone and
infers the population from them. The records are simulated with a fixed seed and stand in for a real file; the privacy
noise is real and different each time.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING

from noisewise.cli.actions import console
from noisewise.cli.infer import naive_posterior
from noisewise.cli.spec import Spec
from noisewise.errors import InvalidSpec
from noisewise.files import checked_folder, write_whole
from noisewise.html import Section, page

if TYPE_CHECKING:
    from noisewise.design.choice import Choice
    from noisewise.inference.posterior import Posterior

N, SEED = 4000, 2026
MARK = "written-by-noisewise-demo.txt"
SPEC = """\
# What everyone may know about the records; bounds are declared, never read from the data.
[schema]
n = 4000
neighbours = "change-one"
outside = "clamp"
[schema.columns]
income = { bounds = [0, 250] }
region = { levels = ["north", "south", "east", "west"] }

[ledger]
limit = { epsilon = "2" }

# What might be published, at the same price; `noisewise choose` ranks them without reading a record.
[[candidates]]
statistic = "mean(income)"
guarantee = { epsilon = "1" }
[[candidates]]
statistic = "mean(income, income**2)"
guarantee = { epsilon = "1" }
[[candidates]]
statistic = "mean(clip(income, 0, 120), clip(income, 0, 120)**2)"
guarantee = { epsilon = "1" }

# What `noisewise release` publishes: the candidate that teaches most.
[release]
statistic = "mean(clip(income, 0, 120), clip(income, 0, 120)**2)"
guarantee = { epsilon = "1" }

# What the analyst assumes: a number where one is known, a distribution where not.
[population]
income = "gamma(shape=halfnorm(scale=10), rate=halfnorm(scale=0.5))"
"""


def run(out: Path) -> None:
    """Write records, spec, release, ledger and report into `out`."""
    from noisewise.holder.curator import make_release
    from noisewise.holder.ledger import Ledger
    from noisewise.holder.table import Table
    from noisewise.planning import plan
    from noisewise.privacy.guarantee import PureDP
    from noisewise.release import Release
    from noisewise.report.words import describe_release
    from noisewise.statistics import statistic

    checked_folder(out, "--out")
    out.mkdir(parents=True, exist_ok=True)
    if any(out.iterdir()) and not (out / MARK).exists():
        raise InvalidSpec(f"{str(out)!r} holds other files, which the demo would overwrite; give --out a new folder.",
                          where="--out")  # fmt: skip
    (out / MARK).write_text("Everything in this folder was written by `noisewise demo` and may be deleted.\n", "utf-8")
    records, spec_file, ledger_file = out / "incomes.csv", out / "income.toml", out / "incomes.ledger"
    ledger_file.unlink(missing_ok=True)
    _write_records(records)
    write_whole(spec_file, SPEC.encode())

    spec = Spec.read(spec_file)
    console.print("1. Which of three statistics would teach most (no record is read):", style="bold")
    choice = _choose(out, spec)
    console.print(str(choice), markup=False)
    wanted = choice.winner
    console.print("\n2. What is released, and its price:", style="bold")
    console.print(wanted.describe(), markup=False)

    table = Table.read(records, wanted.schema)
    with Ledger.open(ledger_file, limit=spec.limit()) as ledger:
        make_release(table, wanted, ledger=ledger).save(out / "income.release.json")
        median = plan(statistic("median(income)"), table.schema, guarantee=PureDP("1/2"))
        make_release(table, median, ledger=ledger).save(out / "median.release.json")
        console.print("\n3. The holder's account:", style="bold")
        account = str(ledger)
        console.print(account, markup=False)

    console.print("\n4. What any reader of the release file sees:", style="bold")
    console.print(describe_release(Release.load(out / "income.release.json")), markup=False)

    console.print("\n5. What the analyst learns from it, with the noise in the model:", style="bold")
    found, learnt = _infer(out, spec)
    found.check_sentence()
    console.print(found.summary(), markup=False)
    sections = [
        Section("What to share", "The candidates by what their noisy values would teach, before any record is read.",
                header=("statistic", "price", "score", "of the best"),
                rows=[(entry["statistic"], entry["guarantee"], f"{entry['score']:.3f}", f"{entry['share']:.0%}")
                      for entry in choice.table],
                png=(out / "choice.png").read_bytes()),
        Section("What was planned", "Before any record is read: what, with which noise, for which price.",
                block=wanted.describe()),
        Section("The account", "Charge and release are stored together or not at all.", block=account),
        *learnt,
        Section("Also released", "A second release from the same ledger.",
                block=describe_release(Release.load(out / "median.release.json"))),
    ]  # fmt: skip
    report = out / "report.html"
    lead = f"{N} simulated incomes, published under differential privacy, and what can be learnt from the release."
    write_whole(report, page("Noisewise demo", lead, sections).encode())
    console.print(f"\nThe report is {report}; spec, releases, ledger and posterior are beside it.", markup=False)


def _choose(out: Path, spec: Spec) -> Choice:
    """The candidates of the spec, ranked by what they would teach about the population, with a plot."""
    from noisewise.design.choice import choose

    with console.status("Computing what each candidate would teach..."):
        choice = choose(spec.candidates(), spec.population(), score="gain", progress=False)
        choice.plot(out / "choice.png")
    return choice


def _infer(out: Path, spec: Spec) -> tuple[Posterior, list[Section]]:
    """The posterior from the release file, saved with its plot, and the sections of its report."""
    from noisewise.inference.infer import infer
    from noisewise.release import Release
    from noisewise.report.posterior_page import posterior_picture, posterior_sections

    posterior = infer(Release.load(out / "income.release.json"), spec.population(), seed=SEED)
    naive, why_no_naive = naive_posterior(posterior)
    posterior.save(out / "posterior.npz")
    posterior_picture(posterior, naive, out / "posterior.png")
    return posterior, posterior_sections(posterior, naive, why_no_naive=why_no_naive)


def _write_records(path: Path) -> None:
    """Simulated household incomes in thousands, with a region; the seed is fixed because these are not secret."""
    import numpy as np

    rng = np.random.default_rng(SEED)
    income = np.round(rng.gamma(shape=3.0, scale=17.0, size=N), 2)
    region = rng.choice(["north", "south", "east", "west"], p=[0.4, 0.3, 0.2, 0.1], size=N)
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["income", "region"])
        writer.writerows(zip(income.tolist(), region.tolist(), strict=True))
