"""The posterior: draws, what they say, and how far to trust them.

A `Posterior` keeps everything the answer rests on: the draws by parameter (chains, draws, ...), the releases, the
population, how it was computed and which law was scored, and the verdict on the computation. It can still be asked
    check        how surprising the releases are under the fitted model (posterior predictive)
    statistic    the posterior of the confidential statistic itself
Both are computed when first asked, from the seed, so the same posterior always answers the same; a check that is known
is printed and saved, and nothing else is simulated by printing. `mean` and `sd` are
those of quadrature where the method knows them, else those of the draws.

Point methods return a Posterior too (`is_point`): it has values and no spread, and says which method has one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from noisewise.errors import InvalidArgument, NoisewiseError, Unsupported
from noisewise.inference import diagnostics
from noisewise.inference.check import Check, predictive_check, replicate_count
from noisewise.inference.confidential import StatisticPosterior, statistic_labels
from noisewise.inference.intervals import checked_level, interval_of
from noisewise.inference.verdict import PointEstimate, Verdict
from noisewise.joining import joined_by_prior
from noisewise.likelihood.size_prior import Sizes
from noisewise.models.protocol import Model, model_of
from noisewise.printable import printable
from noisewise.release import NoisyValue
from noisewise.types import Floats

if TYPE_CHECKING:
    from noisewise.inference.answer_sources import AnswerSource
    from noisewise.inference.answers import Answers, Quantity
    from noisewise.inference.contrasts import Contrast, NamedOrFunction, Ranking
    from noisewise.inference.functions import PopulationDraws

__all__ = ["Posterior"]

Value = float | Floats  # of a scalar parameter, or of a vector one
MOST_ANSWER_ROWS = 20_000
MOST_STATISTIC_DRAWS, MOST_STATISTIC_NUMBERS = 1000, 20_000_000
CHECK_STREAM, STATISTIC_STREAM = 1, 2


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Posterior:
    """What was learnt from releases about the parameters of a population (or of another model). Made by `infer`.

    Attributes
    ----------
    draws
        (chains, draws, ...) by parameter.
    method, how
        Which method computed it, and how.
    likelihood, law
        As asked, and which law was scored and why.
    verdict
        How far to trust it, in sentences.
    population, releases
        What it was learnt with, and from.
    seed
        Gives the same draws again.
    is_point
        Whether it is a point (`method="mle"`, `"map"`) instead of draws.
    log_evidence
        log p(releases), where the method knows it; else None.
    moments
        Mean and sd by parameter, where they are known better than by draws.
    seconds
        How long it took.
    stated_n
        The n that was stated.
    energy
        (chains, draws), of Hamiltonian samplers.
    instead
        For a point: a method with a spread.
    covariance
        Of a point's position on the real line.

    Examples
    --------
    >>> schema = nw.Schema({"smokes": nw.Levels(["no", "yes"])}, n=500, neighbours="change-one")
    >>> count = nw.plan(nw.Count(nw.column("smokes").equals("yes")), schema, guarantee=nw.PureDP(1))
    >>> population = nw.Bernoulli(p=stats.beta(1, 1))
    >>> release = nw.simulate(count, population, at={"p": 0.3}, seed=1)
    >>> posterior = nw.infer(release, population, seed=1, progress=False)
    >>> posterior.draws["p"].shape, round(posterior.mean["p"], 1)
    ((4, 1000), 0.3)
    """

    draws: Mapping[str, Floats]  # (chains, draws, ...) by parameter
    method: str
    how: str  # it was computed
    likelihood: str  # as asked: "auto" or "clt"; `law` says which law that was
    verdict: Verdict
    population: Any  # a population, a model, or None where draws stand for themselves
    releases: tuple[NoisyValue, ...]
    seed: int | None = None
    is_point: bool = False
    log_evidence: float | None = None
    moments: Mapping[str, tuple[Any, Any]] | None = None  # mean and sd known better than by draws
    seconds: float = 0.0
    stated_n: Sizes = None
    energy: Floats | None = None  # (chains, draws), of Hamiltonian samplers
    instead: str = "exact"  # for a point: a method with a spread
    law: str = ""  # which was scored, and why
    covariance: Floats | None = None  # of a point's position on the real line, by its observed information
    _answers: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        draws = {str(name): np.asarray(value, np.float64) for name, value in dict(self.draws).items()}
        if not draws or len({value.shape[:2] for value in draws.values()}) != 1 or next(iter(draws.values())).ndim < 2:
            raise InvalidArgument(
                "draws must map each parameter to an array (chains, draws, ...), all of the same two sizes.",
                argument="draws",
            )
        if not isinstance(self.verdict, Verdict):
            raise InvalidArgument(
                f"verdict is a {type(self.verdict).__name__}; give a Verdict, as Verdict(Words('...')).",
                argument="verdict",
            )
        object.__setattr__(self, "draws", draws)
        object.__setattr__(self, "releases", tuple(self.releases))

    @classmethod
    def point(
        cls,
        estimates: Mapping[str, Any],
        *,
        method: str,
        how: str,
        population: object,
        releases: Sequence[NoisyValue],
        instead: str,
        law: str = "",
        likelihood: str = "auto",
        seed: int | None = None,
        seconds: float = 0.0,
        stated_n: Sizes = None,
    ) -> Posterior:
        """The answer of a point method: one value a parameter; `instead` names a method that also has a spread."""
        return cls(
            draws={name: np.asarray(value, np.float64)[None, None, ...] for name, value in estimates.items()},
            method=method,
            how=how,
            law=law,
            likelihood=likelihood,
            verdict=Verdict(PointEstimate()),
            population=population,
            releases=tuple(releases),
            seed=seed,
            is_point=True,
            seconds=seconds,
            stated_n=stated_n,
            instead=instead,
        )

    @property
    def because(self) -> str:
        """How it was computed, and which law was scored, in one sentence."""
        return printable(f"{self.how}; {self.law}" if self.law else self.how)

    @property
    def model(self) -> Model:
        """What was learnt, as a model; `population` is what was given."""
        if self.population is None:
            raise Unsupported("These draws are of no model, so nothing more can be asked of them.")
        return model_of(self.population)

    # ---- what the draws say ----

    @property
    def mean(self) -> dict[str, Value]:
        """The posterior mean of each parameter (the value itself for a point)."""
        if self.moments is not None:
            return {name: _value(self.moments[name][0]) for name in self.draws}
        return {name: _value(value.mean(axis=(0, 1))) for name, value in self.draws.items()}

    @property
    def sd(self) -> dict[str, Value]:
        """The posterior standard deviation of each parameter."""
        self.refuse_point("sd")
        if self.moments is not None:
            return {name: _value(self.moments[name][1]) for name in self.draws}
        return {name: _value(_flat(value).std(axis=0, ddof=1)) for name, value in self.draws.items()}

    def interval(self, level: float = 0.9, *, kind: str = "equal-tailed") -> dict[str, tuple[Value, Value]]:
        """(low, high) of each parameter: equal-tailed, or with kind="hpd" the shortest."""
        self.refuse_point("interval")
        share = checked_level(level)
        ends = {name: interval_of(_flat(value), share, kind) for name, value in self.draws.items()}
        return {name: (_value(low), _value(high)) for name, (low, high) in ends.items()}

    @property
    def ess(self) -> dict[str, Value]:
        """The effective sample size of each parameter: that of its centre or of its tails, whichever is smaller."""
        return self._diagnose("ess", lambda x: min(diagnostics.ess_bulk(x), diagnostics.ess_tail(x)))

    @property
    def rhat(self) -> dict[str, Value]:
        """Rank-normalised split R-hat."""
        return self._diagnose("rhat", diagnostics.rhat)

    @property
    def iac(self) -> dict[str, Value]:
        """The integrated autocorrelation time, in draws (Sokal's window)."""
        return self._diagnose("iac", diagnostics.integrated_autocorrelation)

    @property
    def mcse(self) -> dict[str, Value]:
        """The Monte Carlo standard error of the mean of the draws."""
        return self._diagnose("mcse", diagnostics.mcse_mean)

    @property
    def missing_information(self) -> Floats:
        """The Bayesian fraction of missing information of each chain; only Hamiltonian samplers have energies."""
        if self.energy is None:
            raise Unsupported(
                f"method={self.method!r} has no energies; the fraction of missing information is for method='nuts'."
            )
        return diagnostics.missing_information(self.energy)

    @property
    def standard_errors(self) -> dict[str, Value]:
        """Of a point by maximum likelihood or posterior mode: the standard error of each parameter.

        From the observed information, by the delta method; NaN for a parameter at an end of its support, which the
        verdict names. Raises where the information is no covariance, or where the method has none.
        """
        from noisewise.inference.point_errors import standard_errors

        return standard_errors(self)

    @property
    def evidence(self) -> float:
        """log p(releases), natural logarithm, under the population and its prior; raises with the reason if unknown.

        Two posteriors of the same releases under different populations are compared by the difference.
        """
        if self.log_evidence is not None:
            return self.log_evidence
        from noisewise.inference.missing_evidence import why_no_evidence

        raise Unsupported(why_no_evidence(self))

    # ---- answers in people's terms ----

    def answers(self, quantiles: object = (), shares: object = (), level: float = 0.9) -> Answers:
        """The population's mean, sd, median, quantiles and shares, by column and group, in the units of the columns.

        Parameters: `quantiles`, shares between 0 and 1 at which quantiles are told; `shares`, numbers (the share of
        records above each) or conditions such as `column("region").equals("north")` or "income > 100"; `level` of the
        equal-tailed intervals. Returns an `Answers` table: `answers["mean"].estimate`, `answers.to_pandas()`.
        """
        from noisewise.inference.answers import answers

        return answers(self, quantiles, shares, level)

    def contrast(
        self,
        quantity: NamedOrFunction,
        first: str | int,
        second: str | int,
        *,
        kind: str = "difference",
        column: str | None = None,
        level: float = 0.9,
    ) -> Contrast:
        """One group's number less (or kind="ratio": divided by) another's; of columns where there are no groups.

        `quantity` is a name of `answers()`, such as "mean" or "share above 100", or a function of a group's law:
        `posterior.contrast("mean", "north", "south")`. "share" is the share of all records that are in a group.
        """
        from noisewise.inference.contrasts import contrast

        return contrast(self, quantity, first, second, kind=kind, column=column, level=level)

    def rank(self, quantity: NamedOrFunction, *, column: str | None = None, ascending: bool = False) -> Ranking:
        """The posterior probability of each rank of each group (or column) by a number such as "mean".

        Rank 1 is the largest, or with `ascending` the smallest.
        """
        from noisewise.inference.contrasts import ranking

        return ranking(self, quantity, column=column, ascending=ascending)

    def quantity(
        self,
        function: Callable[[PopulationDraws], object],
        *,
        name: str = "quantity",
        unit: str = "",
        level: float = 0.9,
        draws: int = 1000,
    ) -> Quantity:
        """Any function of the population, with its interval: `posterior.quantity(lambda p: p.quantile(0.9))`.

        The function is given the population at all draws (`PopulationDraws`) and answers with one number for each; one
        that cannot is asked draw by draw, at most `draws` times.
        """
        from noisewise.inference.functions import quantity

        return quantity(self, function, name=name, unit=unit, level=level, draws=draws)

    @property
    def sentence(self) -> str:
        """The answer in a sentence, as `summary()` opens with it; nothing where the model has none."""
        from noisewise.inference.sentence import opening_lines

        return "\n".join(opening_lines(self))

    def answer_sources(self) -> tuple[AnswerSource, ...]:
        """What can be asked, column by column and group by group; raises for a model that has no answers."""
        found: tuple[AnswerSource, ...] = self._once(
            "sources", lambda: tuple(self.model.answer_sources(self.answer_theta(), self.releases))
        )
        return found

    def answer_theta(self) -> dict[str, Floats]:
        """The draws as rows (K, ...), evenly thinned where there are very many; around a point what its errors need."""
        if self.is_point and self.covariance is not None:
            from noisewise.inference.point_errors import rows_around

            return rows_around(self)
        flat = {name: _flat(value) for name, value in self.draws.items()}
        total = len(next(iter(flat.values())))
        if total <= MOST_ANSWER_ROWS:
            return flat
        rows = np.linspace(0, total - 1, MOST_ANSWER_ROWS).round().astype(int)
        return {name: value[rows] for name, value in flat.items()}

    # ---- what can still be asked ----

    @property
    def check(self) -> Check:
        """How surprising the releases are under the fitted model: simulated when first asked for, and kept."""
        try:
            found: Check = self._once("check", self._check)
        except NoisewiseError as error:
            self._answers["why no check"] = str(error)
            raise
        return found

    @property
    def known_check(self) -> Check | None:
        """That check if it was asked for before (or saved), else None; nothing is simulated."""
        return self._answers.get("check")

    def check_sentence(self, *, is_asked: bool = True) -> str:
        """The check in a sentence, or why there is none; without `is_asked` nothing is simulated for it."""
        if is_asked and not {"check", "why no check"} & set(self._answers):
            with suppress(NoisewiseError):
                _ = self.check
        if self.known_check is not None:
            return str(self.known_check)
        if "why no check" in self._answers:
            return f"not made: {self._answers['why no check']}"
        return "not made yet; posterior.check simulates releases of the fitted model and compares."

    def with_check(self, check: Check) -> Posterior:
        """The same posterior with a check that was made before."""
        return replace(self, _answers={**self._answers, "check": check})

    @property
    def statistic(self) -> StatisticPosterior:
        """The posterior of the confidential statistic itself."""
        found: StatisticPosterior = self._once("statistic", self._statistic)
        return found

    def _check(self) -> Check:
        together = joined_by_prior(self.releases, self.stated_n)
        names = together.size_names(self.model.free)
        unknown = {k: name for group, name in names.items() for k in together.groups[group]}
        if unknown and self.is_point:
            raise Unsupported("The number of records is unknown, and a point has none to simulate; use 'exact'.")
        largest = [int(self.draws[unknown[k]].max()) if k in unknown else n for k, n in enumerate(together.sizes)]
        rng = self._rng(CHECK_STREAM)
        theta = self._some_draws(rng, replicate_count(self.releases, largest), tuple(names.values()))
        drawn = {name: theta.pop(name).astype(np.int64) for name in names.values()}
        sizes = [drawn[unknown[k]] if k in unknown else n for k, n in enumerate(together.sizes)]
        return predictive_check(rng, self.releases, self.model, theta, sizes, unknown=len(names))

    def _statistic(self) -> StatisticPosterior:
        self.refuse_point("statistic")
        if not self.releases:
            raise Unsupported("There is no release whose statistic could be asked about.")
        if self.method == "naive":
            raise Unsupported("method='naive' takes the release for the statistic; use method='exact'.")
        laws = self.model.joint_likelihood(self.releases, likelihood=self.likelihood, n=self.stated_n)
        rng = self._rng(STATISTIC_STREAM)
        numbers = sum(max(len(release.value), 1) for release in self.releases)
        theta = self._some_draws(rng, max(50, min(MOST_STATISTIC_DRAWS, MOST_STATISTIC_NUMBERS // numbers)))
        drawn = [np.asarray(group.draw_statistic(rng, theta), np.float64) for group in laws.groups]
        labels = statistic_labels(laws.groups, [part.shape[1] for part in drawn])
        return StatisticPosterior(labels, np.concatenate(drawn, axis=1))

    def _rng(self, stream: int) -> np.random.Generator:
        return np.random.default_rng(None if self.seed is None else [self.seed, stream])

    def _some_draws(self, rng: np.random.Generator, count: int, more: tuple[str, ...] = ()) -> dict[str, Floats]:
        """`count` values of theta from the posterior, as rows: all of the draws where there are fewer."""
        # What a model keeps for later questions belongs to theta, too; a point method may not have it.
        names = (*self.model.free, *self.model.unlisted, *more)
        flat = {name: _flat(self.draws[name]) for name in dict.fromkeys(names) if name in self.draws}
        total = len(next(iter(flat.values())))
        rows = np.zeros(count, int) if self.is_point else rng.choice(total, min(count, total), replace=False)
        return {name: value[rows] for name, value in flat.items()}

    def _once(self, name: str, compute: Callable[[], Any]) -> Any:
        if name not in self._answers:
            self._answers[name] = compute()
        return self._answers[name]

    # ---- showing and keeping ----

    def summary(self) -> str:
        """A table of the parameters, how it was computed, and how far to trust it."""
        from noisewise.inference.summary import summary

        return summary(self)

    def plot(
        self,
        path: str | PathLike[str] | None = None,
        *,
        kind: str | None = None,
        quantity: str = "",
        against: str | None = None,
        level: float = 0.9,
        width: float = 8.6,
    ) -> bytes:
        """A picture as PNG bytes, also written to `path` (.png, .pdf, .svg).

        Parameters: `kind` is "parameters" (posterior and prior of each, the default without groups), "distribution"
        (the fitted law of each column with its band, and what was published on it), "groups" (the default with them:
        a `quantity` of each group, sorted; without a name the one that the summary opens with), "contrast" or "ratio"
        (of pairs of groups, or of each and `against`); `level` of intervals and bands; `width` in
        inches: 8.6 for a page, 3.6 for a telephone.
        """
        from noisewise.report.posterior_pictures import Sheet, picture

        return picture(self, kind, path, Sheet(quantity, against, checked_level(level), width))

    def to_arviz(self) -> Any:
        """The draws as ArviZ keeps them: InferenceData before its version 1, a DataTree from then on."""
        self.refuse_point("to_arviz")
        import arviz

        posterior = dict(self.draws)
        if int(str(arviz.__version__).split(".")[0]) >= 1:
            return arviz.from_dict({"posterior": posterior})
        return arviz.from_dict(posterior=posterior)

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything to one file, which appears whole or not at all."""
        from noisewise.inference.store import save

        save(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Posterior:
        """Read a saved posterior; it equals the one saved in every field."""
        from noisewise.inference.store import load

        return load(path)

    def scalars(self) -> Iterator[tuple[str, Floats]]:
        """Every single number among the parameters by its label (p[0] in a vector, or as the model calls it).

        What a model keeps only for later questions (`unlisted`) is left out.
        """
        model = None if self.population is None else self.model
        unlisted, named = ((), {}) if model is None else (model.unlisted, model.component_labels)
        for name, value in self.draws.items():
            if name in unlisted:
                continue
            if value.ndim == 2:
                yield name, value
            else:
                labels = named.get(name)
                for k, index in enumerate(np.ndindex(value.shape[2:])):
                    label = labels[k] if labels else f"{name}[{','.join(map(str, index))}]"
                    yield label, value[(slice(None), slice(None), *index)]

    def _repr_html_(self) -> str:
        from noisewise.report.notebook import posterior_html

        return posterior_html(self)

    def __repr__(self) -> str:
        shape = next(iter(self.draws.values())).shape
        kind = "a point estimate" if self.is_point else f"{shape[0]} chains of {shape[1]} draws"
        return printable(f"<Posterior of {', '.join(self.draws)} by {self.method}: {kind}>")

    def _diagnose(self, name: str, judge: Callable[[Floats], float]) -> dict[str, Value]:
        self.refuse_point(name)
        found: dict[str, Value] = {}
        for parameter, value in self.draws.items():
            columns = value.reshape(*value.shape[:2], -1)
            with np.errstate(all="ignore"):
                judged = np.array([judge(columns[:, :, k]) for k in range(columns.shape[2])])
            found[parameter] = _value(judged.reshape(value.shape[2:]))
        return found

    def refuse_point(self, what: str) -> None:
        """Refuse what a point does not have, and name a method that has it."""
        if self.is_point:
            raise Unsupported(
                f"method={self.method!r} gives a point estimate, which has no {what}. Use method={self.instead!r}."
            )


def _flat(value: Floats) -> Floats:
    return value.reshape(-1, *value.shape[2:])


def _value(array: Any) -> Value:
    """A float for a scalar, an array for a vector."""
    number = np.asarray(array, np.float64)
    return float(number) if number.ndim == 0 else number
