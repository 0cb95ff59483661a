"""Simulation-based calibration through the mechanism.

A trial draws theta from the prior, records from the population, the plans' releases from those records, and L draws
from the posterior given the releases. If prior, simulation and inference describe the same joint law, the rank of theta
among the draws is uniform on 0..L (Cook, Gelman & Rubin 2006; Talts et al. 2018). With V uniform on (0, 1),
    u = (rank + V)/(L + 1)
is then *exactly* uniform on (0, 1), for every L, so every test below is exact, too:
    ks        Kolmogorov's distance of the u from the uniform law
    bias      the mean of Phi^-1(u), which is N(0, 1/trials)
    spread    the sum of Phi^-1(u)^2, which is chi-squared: four times fewer trials than ks to see a wrong width
    coverage  |u - 1/2| <= p/2, the central interval at level p, which is Binomial(trials, p)
The noise is inside the trial, so a posterior that ignores it fails; so does one that multiplies the likelihoods of two
releases of the same records. A trial in which inference fails is counted, and never passed over in silence.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisewise.errors import InvalidArgument, NoisewiseError
from noisewise.evaluate.coverage import LEVELS, Coverage
from noisewise.evaluate.discrepancy import uniformity
from noisewise.evaluate.simulate import data_sets
from noisewise.evaluate.trials import Infer, World, given_posterior, library_posterior, run_trials
from noisewise.exact import integer
from noisewise.inference.progress import Progress
from noisewise.likelihood.size_prior import Size
from noisewise.models.protocol import model_of, population_for
from noisewise.planning import Plan
from noisewise.types import Floats

Plans = Plan | Sequence[Plan] | Sequence[Sequence[Plan]]
ALARM = 1e-6
# The bands of plots and tables are for the eye; the verdict uses its own false-alarm rate.
BAND = 0.99


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """What calibration found. Arrays have one row a successful trial and one column a parameter."""

    names: tuple[str, ...]
    ranks: NDArray[np.int64]  # of the true value among `draws` posterior draws: 0..draws
    uniforms: Floats  # (rank + V)/(draws + 1)
    truths: Floats
    effective: Floats  # (trials,): the smallest effective sample size behind the ranks; NaN where unknown
    failures: tuple[str, ...]  # what failed trials said
    draws: int
    seed: int
    seconds: float
    subject: str

    @property
    def trials(self) -> int:
        """How many trials succeeded."""
        return len(self.ranks)

    @property
    def ks(self) -> dict[str, float]:
        """The exact p-value of Kolmogorov's distance of the ranks from uniform, by parameter."""
        return {name: uniformity(u).p_value for name, u in self._columns()}

    @property
    def bias(self) -> dict[str, float]:
        """The p-value of the mean normal score: small where posteriors lie to one side of the truth."""
        from scipy.special import ndtr, ndtri

        return {name: float(2 * ndtr(-abs(ndtri(u).sum()) / math.sqrt(u.size))) for name, u in self._columns()}

    @property
    def spread(self) -> dict[str, float]:
        """The p-value of the sum of squared normal scores: small where posteriors are too narrow or too wide."""
        from scipy.special import ndtri
        from scipy.stats import chi2

        squares = {name: float(np.sum(ndtri(u) ** 2)) for name, u in self._columns()}
        return {name: float(min(1.0, 2 * min(chi2.cdf(s, self.trials), chi2.sf(s, self.trials))))
                for name, s in squares.items()}  # fmt: skip

    @property
    def coverage(self) -> dict[float, dict[str, Coverage]]:
        """How often the central 50, 90 and 95 % intervals held the truth, by level and parameter."""
        return {
            level: {
                name: Coverage(level, int(np.sum(np.abs(u - 0.5) <= level / 2)), self.trials)
                for name, u in self._columns()
            }
            for level in LEVELS
        }

    @property
    def smallest_p_value(self) -> float:
        """The smallest p-value of all tests, multiplied by their number (Bonferroni)."""
        found = [*self.ks.values(), *self.bias.values(), *self.spread.values()]
        found += [cover.p_value for by_name in self.coverage.values() for cover in by_name.values()]
        return min(1.0, len(found) * min(found))

    def is_calibrated(self, alarm: float = ALARM) -> bool:
        """True where no test fails, at a false-alarm rate of `alarm` for all of them together, and no trial failed."""
        if not 0 < alarm < 1:
            raise InvalidArgument(f"alarm = {alarm!r} must lie between 0 and 1.", argument="alarm")
        return not self.failures and self.smallest_p_value >= alarm

    def noticeable(self, alarm: float = ALARM) -> float:
        """The ratio of a normal posterior's sd to the right one that so many trials notice with probability 0.95.

        sum Phi^-1(u)^2 is chi-squared/ratio^2, so ratio^2 = (its 5 % point)/(the spread test's upper limit).
        """
        from scipy.stats import chi2

        tests = len(self.names) * (3 + len(LEVELS))
        return math.sqrt(chi2.ppf(0.05, self.trials) / chi2.isf(alarm / tests / 2, self.trials))

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Plain data, one row a parameter."""
        ks, bias, spread, coverage = self.ks, self.bias, self.spread, self.coverage
        rows = []
        for name in self.names:
            row: dict[str, Any] = {"parameter": name, "trials": self.trials, "failed": len(self.failures),
                                   "ks": ks[name], "bias": bias[name], "spread": spread[name]}  # fmt: skip
            for level, by_name in coverage.items():
                low, high = by_name[name].band(BAND)
                key = f"coverage_{100 * level:g}"
                row |= {key: by_name[name].share, f"{key}_low": low, f"{key}_high": high}
            rows.append(row)
        return rows

    def verdict(self, alarm: float = ALARM) -> str:
        """The finding in a sentence or two."""
        sentences = []
        if self.failures:
            sentences.append(
                f"{len(self.failures)} of {self.trials + len(self.failures)} trials failed, so nothing is certified; "
                f"the first said: {self.failures[0]}"
            )
        p = self.smallest_p_value
        if p < alarm:
            sentences.append(f"Not calibrated: ranks like these have probability {p:.1g} if the posterior is right.")
        elif not self.failures:
            short = 100 * (1 - self.noticeable(alarm))
            sentences.append(
                f"Calibrated, as far as {self.trials} trials tell: no test fails at a false-alarm rate of {alarm:g} "
                f"(adjusted p-value {p:.2g}). They would notice a posterior whose sd is {short:.0f} % too small."
            )
        scarce = int(np.sum(self.effective < self.draws / 2))
        if scarce:
            sentences.append(
                f"In {scarce} trials the chains held fewer than {self.draws // 2} effective draws for {self.draws} "
                "ranked ones: ranks then pile up at both ends. Give more warmup, or fewer draws."
            )
        return " ".join(sentences)

    def summary(self, alarm: float = ALARM) -> str:
        """A table with one row a parameter, and the verdict."""
        header = ["parameter", "KS p", "bias p", "spread p", *(f"covers {100 * level:g} %" for level in LEVELS)]
        lines = [header]
        ks, bias, spread, coverage = self.ks, self.bias, self.spread, self.coverage
        for name in self.names:
            lines.append([name, f"{ks[name]:.3g}", f"{bias[name]:.3g}", f"{spread[name]:.3g}",
                          *(str(coverage[level][name]) for level in LEVELS)])  # fmt: skip
        widths = [max(len(line[k]) for line in lines) for k in range(len(header))]
        table = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
        what = f"{self.subject}: {self.trials} trials, {self.draws} draws each, seed {self.seed}."
        note = f"Coverage stands with its exact {100 * BAND:g} % band."
        return "\n".join([what, *(line.rstrip() for line in table), note, self.verdict(alarm)])

    def plot(self, path: Any = None, *, kind: str = "rank") -> bytes:
        """A PNG of the ranks ("rank"), of their distribution function ("ecdf") or of the coverage ("coverage")."""
        from noisewise.report.plots import coverage_plot, ecdf_plot, rank_plot

        if kind == "rank":
            return rank_plot([self._histogram(name, u) for name, u in self._columns()], path)
        if kind == "ecdf":
            from scipy.stats import kstwo

            half = float(kstwo.isf(1 - BAND, self.trials))
            return ecdf_plot([{"name": name, "values": u, "half_width": half} for name, u in self._columns()], path)
        if kind == "coverage":
            rows = []
            for level, by_name in self.coverage.items():
                for name, cover in by_name.items():
                    low, high = cover.band(BAND)
                    rows.append({"name": name, "level": level, "coverage": cover.share, "low": low, "high": high})
            return coverage_plot(rows, path)
        raise InvalidArgument(f"kind = {kind!r} must be 'rank', 'ecdf' or 'coverage'.", argument="kind")

    def _histogram(self, name: str, u: Floats) -> dict[str, Any]:
        """Counts in equal bins, and the band that all bins stay within together with probability 0.99 or more."""
        from scipy.stats import binom

        bins = max(4, min(20, self.trials // 10))
        tail = (1 - BAND) / bins / 2
        law = binom(self.trials, 1 / bins)
        counts = np.histogram(u, bins=bins, range=(0, 1))[0]
        return {"name": name, "counts": counts, "expected": self.trials / bins,
                "band": (float(law.ppf(tail)), float(law.isf(tail)))}  # fmt: skip

    def _columns(self) -> Iterator[tuple[str, Floats]]:
        return zip(self.names, self.uniforms.T, strict=True)


def calibrate(
    plans: Plans,
    population: Any,
    *,
    method: str = "auto",
    likelihood: str = "auto",
    trials: int = 200,
    draws: int = 100,
    seed: int | None = None,
    progress: bool | Progress = True,
    n: Size | None = None,
    workers: int = 1,
    infer: Infer | None = None,
    **options: Any,
) -> Calibration:
    """Test that posteriors cover what they claim, for this population, these plans and this method.

    A trial draws parameters from the prior, records from the population, releases from the records, and ranks the
    truth among the posterior's draws; if all describe one law, ranks are uniform. Seeds are spawned by trial: the
    result does not depend on `workers`.

    Parameters
    ----------
    plans
        A plan; or a list of plans of one data set, where plans of the same part are released from the same records; or
        a list of such lists, one for each data set.
    population
        Where parameters and records are drawn from, and what inference is told.
    method, likelihood
        As for `infer`.
    trials
        How many; default 200.
    draws
        How many posterior draws are ranked in each trial; default 100. Chains are run longer and thinned until their
        effective size allows it.
    seed
        Default None: of the system's choice.
    progress
        Whether progress is shown; or a function of (done, all). Default True.
    n
        What the analyst states under add-remove, or the prior from which each trial draws it, to be ranked as the
        parameters are. Default None.
    workers
        Processes; default 1.
    infer
        `infer(releases, population, seed)`, returning draws by name, in the place of `noisewise.infer`. Default None.
    options
        For `noisewise.infer`.

    Returns
    -------
    Calibration
        Print it, plot it, or ask `is_calibrated()`.

    Examples
    --------
    >>> schema = nw.Schema({"smokes": nw.Levels(["no", "yes"])}, n=50, neighbours="change-one")
    >>> count = nw.plan(nw.Count(nw.column("smokes").equals("yes")), schema, guarantee=nw.PureDP(1))
    >>> found = nw.calibrate(count, nw.Bernoulli(p=stats.beta(1, 1)), trials=50, seed=1, progress=False)
    >>> found.trials, found.names
    (50, ('p',))
    """
    integer(trials, "trials", minimum=1, maximum=10**9)
    integer(draws, "draws", minimum=1, maximum=10**6)
    integer(workers, "workers", minimum=1, maximum=1024)
    holders = data_sets(plans)
    population = population_for(population, [plan for holder in holders for plan in holder])
    if not model_of(population).free:
        raise InvalidArgument(
            "population has no unknown parameter: give one a prior, as in Normal(mean=stats.norm(0, 1), sd=1).",
            argument="population",
        )
    root = np.random.SeedSequence(None if seed is None else integer(seed, "seed", minimum=0))
    sample = library_posterior(method, likelihood, draws, n, options) if infer is None else given_posterior(infer)
    world = World(holders, population, n)
    started = time.perf_counter()
    found = run_trials(world, sample, draws, root.spawn(trials), workers=workers, progress=progress)
    good = [trial for trial in found if not trial.error]
    if not good:
        raise NoisewiseError(f"Every trial failed. The first said: {found[0].error}", trials=len(found))
    subject = "; ".join(str(plan) for plans in holders for plan in plans)
    return Calibration(
        names=good[0].names,
        ranks=np.array([trial.ranks for trial in good], np.int64),
        uniforms=np.array([trial.uniforms for trial in good]),
        truths=np.array([trial.truths for trial in good]),
        effective=np.array([trial.effective for trial in good]),
        failures=tuple(trial.error for trial in found if trial.error),
        draws=draws,
        seed=int(root.entropy),  # type: ignore[arg-type]
        seconds=time.perf_counter() - started,
        subject=subject if infer is not None else f"{subject}; method {method!r}, likelihood {likelihood!r}",
    )
