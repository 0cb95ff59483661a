"""noisewise infer: from release files and a spec's population to a posterior, its summary, plot and report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from noisewise.cli.actions import console
from noisewise.cli.kinds import MEASUREMENT, RELEASE, check_kind
from noisewise.cli.spec import Spec
from noisewise.errors import InvalidSpec, NoisewiseError
from noisewise.files import checked_folder, write_whole
from noisewise.survey_release import load_releases

if TYPE_CHECKING:
    from noisewise.inference.posterior import Posterior

MARK = "written-by-noisewise-infer.txt"
FILES = ("posterior.npz", "summary.txt", "posterior.png", "report.html")


def infer_releases(
    files: list[Path],
    spec: Path,
    out: Path,
    *,
    method: str,
    likelihood: str,
    draws: int,
    warmup: int,
    chains: int,
    seed: int | None,
    n: str | None,
    quiet: bool,
) -> None:
    """Infer from all releases together and write posterior.npz, summary.txt, posterior.png and report.html."""
    _check_folder(out)
    for file in files:
        check_kind(file, RELEASE, MEASUREMENT, place="`noisewise infer`")
    releases = [release for file in files for release in load_releases(file)]
    population = Spec.read(spec).population(releases[0].schema)
    from noisewise.inference.infer import infer
    from noisewise.inference.progress import shown
    from noisewise.populations.text import size_from_text

    size = None if n is None else size_from_text(n)
    settings: dict[str, Any] = {"draws": draws, "warmup": warmup, "chains": chains, "n": size, "progress": not quiet}
    posterior = infer(releases, population, method=method, likelihood=likelihood, seed=seed, **settings)
    naive, why_no_naive = naive_posterior(posterior, **settings)
    with shown(not quiet, "Checking the fit"):
        posterior.check_sentence()  # the summary and the report say what is known by then
    if not quiet:
        console.print(posterior.summary(), markup=False)
    write_posterior(out, posterior, naive, why_no_naive=why_no_naive)
    if not quiet:
        console.print(f"\nWritten to {out}: {', '.join(FILES)}.", markup=False)


def naive_posterior(posterior: Posterior, **settings: Any) -> tuple[Posterior | None, str]:
    """The posterior from the same releases that ignores the noise; or none, and why."""
    from noisewise.inference.infer import infer

    try:
        found = infer(posterior.releases, posterior.population, method="naive", seed=posterior.seed, **settings)
    except NoisewiseError as error:
        return None, str(error)
    if found.is_point:
        return None, "method 'naive' gives a point estimate here, which has no intervals to compare."
    return found, ""


def write_posterior(out: Path, posterior: Posterior, naive: Posterior | None, *, why_no_naive: str = "") -> None:
    """The four files, in a folder that is new, or whose files of these names were written by this command."""
    from noisewise.report.posterior_page import posterior_page
    from noisewise.report.posterior_pictures import Sheet, parameters_picture

    _check_folder(out)
    out.mkdir(parents=True, exist_ok=True)
    write_whole(out / MARK, f"{', '.join(FILES)} were written by `noisewise infer` and may be deleted.\n".encode())
    posterior.save(out / "posterior.npz")
    write_whole(out / "summary.txt", (posterior.summary() + "\n").encode())
    write_whole(out / "posterior.png", parameters_picture(posterior, None, Sheet(naive=naive)))
    write_whole(out / "report.html", posterior_page(posterior, naive, why_no_naive=why_no_naive).encode())


def _check_folder(out: Path) -> None:
    """Refuse, before any work, a folder that cannot be written, or that holds files that are not this command's."""
    checked_folder(out, "--out")
    taken = [name for name in FILES if (out / name).exists()]
    if taken and not (out / MARK).exists():
        raise InvalidSpec(
            f"{str(out)!r} holds a {taken[0]} that `noisewise infer` did not write; give --out another folder.",
            where="--out",
        )
