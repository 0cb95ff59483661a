"""Groups as a population: one law of a column, with parameters of its own in every group.

    Grouped("region", income=Normal(mean=stats.norm(50, 50), sd=stats.halfnorm(scale=50)), pooled=("mean",))

A record lies in group g with probability p_g, p ~ Dirichlet, and its column follows the law with theta_g. Parameters of
groups are independent under the prior given, or pooled: u_g ~ N(M, tau^2) on the parameter's own line (`lines`), so
that small groups borrow strength from the others as far as the releases say that groups are alike. With holders=True
each data set is a group, and there are no shares. Numbers are known in all groups.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.grouped.lines import Frozen, Line
from noisewise.grouped.present import PRESENT, SharePresent, read_present
from noisewise.inference.transform import Transform
from noisewise.joining import refuse_left_out
from noisewise.models.base import ModelBase
from noisewise.populations.parameters import POSITIVE, UNIT, Array, Supports, Theta, is_prior, missing_members, offers
from noisewise.populations.population import AnyPopulation
from noisewise.populations.presence import Told, needs_of
from noisewise.populations.written import value_text
from noisewise.printable import printable, shown
from noisewise.statistics.groups import read_by, short_group_names

if TYPE_CHECKING:
    from noisewise.grouped.confidential import GroupLaws
    from noisewise.grouped.learn import Observed
    from noisewise.inference.answer_sources import AnswerSource
    from noisewise.inference.degrees import Degrees
    from noisewise.inference.methods import Found, Method, Methods
    from noisewise.inference.settings import Settings
    from noisewise.planning import Simulable
    from noisewise.release import NoisyValue
    from noisewise.schema import Schema

__all__ = ["SHARE", "SIZE", "Grouped", "centre_name", "spread_name"]

SHARE, SIZE = "share", "size"
MOST_UNKNOWNS = 2


class Shares(Protocol):
    """A frozen Dirichlet distribution."""

    @property
    def alpha(self) -> Array: ...


def centre_name(parameter: str) -> str:
    """What the centre of a pooled parameter is called."""
    return f"{parameter}.centre"


def spread_name(parameter: str) -> str:
    """What the spread of a pooled parameter is called."""
    return f"{parameter}.spread"


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class Grouped(ModelBase):
    """A population with parameters of its own in every group.

    Parameters
    ----------
    by
        The column with levels that makes the groups, or a list of two. Default None, with `holders=True`.
    holders
        True: each data set is a group instead, whose releases have no by=. Default False.
    pooled
        Names of parameters that groups have from a common law, N(M, tau^2) on the parameter's line (log for positive
        ones, logit for probabilities). Default: none, every group by itself.
    spread
        The prior of tau, on that line: a frozen scipy.stats distribution, or a mapping by parameter. Default None:
        half-normal with the standard deviation that the parameter's prior has there.
    shares
        `stats.dirichlet([...])`, one number for each group. Default None: all 1.
    names
        The groups by name. Default None: the levels of the release's schema, or 1, 2, ... for holders.
    present
        The share of records whose values are present, where missing ones were left out of the release: a number, or
        `stats.beta(a, b)`. Default None: uniform, where that is so.
    columns
        The one column that is described, and its law: `income=Normal(mean=..., sd=...)`. Distributions are unknown in
        every group, numbers are known in all.

    Examples
    --------
    >>> law = nw.Normal(mean=stats.norm(50, 50), sd=stats.halfnorm(scale=50))
    >>> nw.Grouped("region", income=law, pooled=("mean",)).free
    ('mean', 'sd', 'share', 'mean.centre', 'mean.spread')
    """

    text_name: ClassVar[str] = "grouped"
    reads_absent: ClassVar[bool] = True
    takes: ClassVar[tuple[str, ...]] = (
        "by",
        "holders",
        "column",
        "law",
        "pooled",
        "spread",
        "shares",
        "names",
        "present",
    )
    needs: ClassVar[tuple[str, ...]] = ("column", "law")

    by: tuple[str, ...]
    column: str
    population: AnyPopulation
    pooled: tuple[str, ...]
    spreads: Mapping[str, Frozen]
    shares: Shares | None
    names: tuple[str, ...] | None
    present: SharePresent | None
    lines: tuple[Line, ...] = field(repr=False)

    def __init__(
        self,
        by: object = None,
        /,
        *,
        holders: bool = False,
        pooled: Sequence[str] | str = (),
        spread: object = None,
        shares: object = None,
        names: Sequence[str] | None = None,
        present: object = None,
        **columns: AnyPopulation,
    ) -> None:
        if present is not None and not missing_members(present, AnyPopulation):  # a column of that name
            columns, present = {**columns, PRESENT: cast(AnyPopulation, present)}, None
        if (by is None) != bool(holders):
            raise InvalidArgument(
                "Grouped takes either the column that makes the groups, as in Grouped('region', income=...), or "
                "holders=True, where each data set is a group.",
                argument="by",
            )
        column, population = _one_column(columns)
        grouping = () if by is None else read_by(by, "Grouped")
        if column in grouping:
            raise InvalidArgument(f"{column!r} cannot both make the groups and be described.", argument="by")
        lines = _lines(population)
        chosen = tuple([pooled] if pooled == f"{pooled}" else pooled)
        unknown = [name for name in chosen if name not in population.free]
        if unknown or len(set(chosen)) != len(chosen):
            raise InvalidArgument(
                f"pooled = {shown(chosen)}: name unknown parameters of the law, each once; there are "
                f"{', '.join(population.free)}.",
                argument="pooled",
            )
        if holders and shares is not None:
            raise InvalidArgument("shares= is for groups within a data set; holders have none.", argument="shares")
        if holders and present is not None:
            raise InvalidArgument("present= is for groups within a data set, not for holders.", argument=PRESENT)
        entries: dict[str, object] = {
            "by": grouping,
            "column": column,
            "population": population,
            "pooled": chosen,
            "spreads": _spreads(spread, chosen),
            "shares": _shares(shares),
            "names": None if names is None else _names(names),
            "present": read_present(present),
            "lines": lines,
        }
        for name, value in entries.items():
            object.__setattr__(self, name, value)
        if names is not None:
            self._check_shares(len(names))

    # ---- groups ----

    @property
    def is_by_holder(self) -> bool:
        """Whether each data set is a group."""
        return not self.by

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups by name; refused before they are known."""
        if self.names is None:
            raise InvalidArgument(
                "Which groups there are is not known yet: it is said by a release, or by names=, as in "
                f"Grouped({', '.join(map(repr, self.by)) or 'holders=True'}, ..., names=['north', 'south']).",
                argument="names",
            )
        return self.names

    def of_groups(self, names: Sequence[str]) -> Grouped:
        """The same with these groups; itself where they are its own. Other names than its own are refused."""
        given = tuple(names)
        if self.names == given:
            return self
        if self.names is not None:
            raise Unsupported(
                f"The population names the groups {shown(list(self.names))}, but the release has {shown(list(given))}."
            )
        self._check_shares(len(given))
        return self._copy("names", given)

    def with_presence(self, told: Sequence[Told]) -> Grouped:
        """The same with a share present, of uniform prior, where missing values were left out and it is silent."""
        if not any(needs_of(one.statistic, one.schema) for one in told):
            return self
        if self.is_by_holder:
            refuse_left_out(told, "Grouped(holders=True)")
        return self if self.present is not None else self._copy("present", SharePresent())

    @property
    def share_present(self) -> SharePresent:
        """What is known of the share present; nothing beyond that it is one where it was not said."""
        return SharePresent() if self.present is None else self.present

    def _copy(self, changed: str, value: object) -> Grouped:
        """The same with one member changed."""
        copy = object.__new__(Grouped)
        for name in self.__slots__:
            object.__setattr__(copy, name, value if name == changed else object.__getattribute__(self, name))
        return copy

    def of_schema(self, schema: Schema) -> Grouped:
        """The same with the groups that a schema declares: for `simulate` and `calibrate`, before any release."""
        return self.of_groups(short_group_names(self.by, schema))

    @property
    def alpha(self) -> Array:
        """The Dirichlet's numbers, one for each group."""
        if self.shares is None:
            return np.ones(len(self.groups))
        return np.atleast_1d(np.asarray(self.shares.alpha, dtype=float))

    def _check_shares(self, count: int) -> None:
        if self.shares is not None and np.size(self.shares.alpha) != count:
            raise InvalidArgument(
                f"shares= is a Dirichlet of {np.size(self.shares.alpha)} numbers, but there are {count} groups.",
                argument="shares",
            )

    def line(self, parameter: str) -> Line:
        """The line of a parameter."""
        return next(line for line in self.lines if line.name == parameter)

    def spread_of(self, parameter: str) -> Frozen:
        """The prior of a pooled parameter's spread, on its line."""
        from scipy import stats

        given = self.spreads.get(parameter)
        return cast(Frozen, stats.halfnorm(scale=self.line(parameter).sd)) if given is None else given

    def population_of(self, draws: Theta, group: str) -> tuple[AnyPopulation, dict[str, Array]]:
        """The law of one group's column and its parameter rows, from draws (or rows) of this model by name."""
        if group not in self.groups:
            there = ", ".join(self.groups)
            raise InvalidArgument(f"There is no group {shown(group)}; there are {there}.", argument="group")
        k = self.groups.index(group)
        return self.population, {name: np.asarray(draws[name])[..., k].ravel() for name in self.population.free}

    def laws_by_group(self, draws: Theta) -> dict[str, tuple[AnyPopulation, dict[str, Array]]]:
        """`population_of` for every group, by its name."""
        return {group: self.population_of(draws, group) for group in self.groups}

    # ---- what infer and Posterior ask for ----

    @property
    def free(self) -> tuple[str, ...]:
        """Parameters (one number for each group), shares, and the centre and spread of pooled ones."""
        shared = () if self.is_by_holder else (SHARE,)
        common = [name for one in self.pooled for name in (centre_name(one), spread_name(one))]
        told = (PRESENT,) if self.present is not None and self.present.known is None else ()
        return (*self.population.free, *shared, *common, *told)

    @property
    def unlisted(self) -> tuple[str, ...]:
        """How many records each group has, kept for later questions."""
        return () if self.is_by_holder else (SIZE,)

    @property
    def component_labels(self) -> dict[str, tuple[str, ...]]:
        """mean[north], share[north] and so on."""
        vectors = (*self.population.free, *(() if self.is_by_holder else (SHARE,)))
        return {name: tuple(f"{name}[{group}]" for group in self.groups) for name in vectors}

    @property
    def supports(self) -> Supports:
        """Where each number that is shown lives."""
        own = {**self.population.supports, SHARE: UNIT}
        found = {label: own[name] for name, labels in self.component_labels.items() for label in labels}
        for one in self.pooled:
            found |= {centre_name(one): self.population.supports[one], spread_name(one): POSITIVE}
        return found | ({PRESENT: UNIT} if PRESENT in self.free else {})

    @property
    def methods(self) -> Methods[Method]:
        from noisewise.grouped.learn import METHODS

        return METHODS

    @property
    def title(self) -> str:
        return f"Learning {', '.join(self.population.free)} by {' and '.join(self.by) or 'holder'}"

    @property
    def coordinates(self) -> tuple[str, ...]:
        raise Unsupported(
            "The information of a release about a Grouped population is not computed; compare plans by their noise on "
            "each group (plan.noise), or by nw.simulate and nw.infer."
        )

    def observe(self, releases: object, settings: Settings) -> Observed:
        """What releases say about each group."""
        from noisewise.grouped.learn import observe

        return observe(self, releases, settings)

    def learn(self, observed: Observed, settings: Settings) -> Found:
        """Independent draws from a table for each group."""
        from noisewise.grouped.learn import learn

        return learn(observed, settings)

    def answer_sources(self, theta: Theta, releases: Sequence[NoisyValue]) -> Sequence[AnswerSource]:
        """The law of the column in each group, and the shares."""
        from noisewise.grouped.answers import group_sources

        return group_sources(self, theta, releases)

    def parameter_units(self, releases: Sequence[NoisyValue]) -> Mapping[str, str]:
        """Parameters in the unit of the column, group by group."""
        from noisewise.grouped.answers import group_units

        return group_units(self, releases)

    # ---- simulation, checks, text ----

    def sample_prior(self, rng: np.random.Generator, count: int) -> dict[str, Array]:
        """`count` draws of everything that is unknown."""
        from noisewise.grouped.replicate import sample_prior

        return sample_prior(rng, self, count)

    def prior_of(self, name: str) -> Frozen | None:
        """The prior of a parameter that is not pooled, in every group the same; of a centre and a spread, too."""
        if name == PRESENT and self.present is not None:
            from scipy import stats

            return cast(Frozen, stats.beta(self.present.a, self.present.b))
        stem, _, what = name.partition("[")[0].partition(".")
        if stem not in self.population.free or (stem in self.pooled and not what):
            return None
        return self.spread_of(stem) if what == "spread" else self.line(stem).prior

    def theta_at(self, at: object) -> dict[str, Array]:
        """Rows from lists by name ({"mean": [40, 60], ...}) or from numbers by label ({"mean[north]": 40, ...})."""
        from noisewise.grouped.replicate import theta_at

        return theta_at(self, at)

    def simulate_values(
        self,
        rng: np.random.Generator,
        plan: Simulable,
        theta: Theta,
        *,
        n: int | None = None,
        approximate: bool = False,
    ) -> NDArray[np.int64]:
        from noisewise.grouped.replicate import simulate_values

        return simulate_values(rng, self, plan, theta, n=n)

    def sample_records(
        self, rng: np.random.Generator, schema: Schema, n: int, theta: Theta, columns: Iterable[str]
    ) -> dict[str, Array]:
        """n cleaned records for each row of theta, by column (K, n): the groups by number, and the column."""
        from noisewise.grouped.replicate import sample_records

        return sample_records(rng, self, schema, n, theta, columns)

    def joint_likelihood(
        self, releases: tuple[NoisyValue, ...], *, likelihood: str = "auto", n: object = None
    ) -> GroupLaws:
        """The laws from which the confidential sums and counts are drawn."""
        from noisewise.grouped.confidential import GroupLaws

        return GroupLaws.of(self, releases, n=n)

    def degrees(self, releases: tuple[NoisyValue, ...], theta: Theta) -> Degrees:
        """Numbers told by group against unknowns of all groups."""
        from noisewise.grouped.replicate import degrees

        return degrees(self, releases)

    def __repr__(self) -> str:
        by = "holders=True" if self.is_by_holder else repr(self.by[0] if len(self.by) == 1 else list(self.by))
        parts = [by, f"{self.column}={self.population.marginal(self.column)!r}"]
        if self.pooled:
            parts.append(f"pooled={self.pooled!r}")
        if self.spreads:
            parts.append(f"spread={self._spread_text()}")
        if self.shares is not None:
            parts.append(f"shares={value_text(self.shares)}")
        if self.names is not None:
            parts.append(f"names={list(self.names)!r}")
        if self.present is not None:
            own = self.present
            law = f"stats.beta({own.a:g}, {own.b:g})" if own.known is None else f"{own.known:g}"
            parts.append(f"{PRESENT}={law}")
        return printable(f"Grouped({', '.join(parts)})")

    def _spread_text(self) -> str:
        """One prior for the only pooled parameter, else a mapping."""
        told = {name: value_text(prior) for name, prior in self.spreads.items()}
        if len(self.pooled) == 1:
            return next(iter(told.values()))
        return f"{{{', '.join(f'{name!r}: {text}' for name, text in told.items())}}}"

    def text_arguments(self) -> dict[str, str]:
        """The arguments in a spec file: grouped(by=['region'], column='income', law=normal(...), pooled=['mean'])."""
        from noisewise.populations.text import population_to_text, prior_text

        found = {"holders": "True"} if self.is_by_holder else {"by": repr(list(self.by))}
        found |= {"column": repr(self.column), "law": population_to_text(self.population.marginal(self.column))}
        if self.pooled:
            found["pooled"] = repr(list(self.pooled))
        if self.spreads:
            found["spread"] = f"[{', '.join(prior_text(self.spread_of(name)) for name in self.pooled)}]"
        if self.shares is not None:
            found["shares"] = prior_text(self.shares)
        if self.names is not None:
            found["names"] = repr(list(self.names))
        if self.present is not None:
            own = self.present
            found[PRESENT] = f"beta({own.a!r}, {own.b!r})" if own.known is None else repr(own.known)
        return found

    @classmethod
    def from_nodes(cls, nodes: Mapping[str, ast.expr]) -> Grouped:
        from noisewise.grouped.text import grouped_from_nodes

        return grouped_from_nodes(nodes)


def _one_column(columns: Mapping[str, AnyPopulation]) -> tuple[str, AnyPopulation]:
    """The column that is described, and its law."""
    if len(columns) != 1:
        named = f"not {', '.join(columns)}" if columns else "as in income=Normal(mean=..., sd=...)"
        raise InvalidArgument(f"Grouped describes exactly one column by its law, {named}.", argument="columns")
    ((column, population),) = columns.items()
    lacks = missing_members(population, AnyPopulation)
    if lacks or (population.columns and set(population.columns) != {column}):
        raise InvalidArgument(
            f"{column} must be a law of one column, such as Normal(mean=..., sd=...), not "
            f"a {type(population).__name__}.",
            argument=column,
        )
    return column, population


def _lines(population: AnyPopulation) -> tuple[Line, ...]:
    """The line of every unknown parameter."""
    found = []
    for name in population.free:
        prior, support = population.prior_of(name), population.supports[name]
        if support.size is not None:
            raise InvalidArgument(
                f"{name} is a list of numbers, and Grouped learns laws with one or two single ones. For the shares of "
                "several levels by group release marginals of both columns and learn a GraphicalModel; for one level "
                "release mean(equals(...), by=...) of a column with two levels and describe it by Bernoulli.",
                argument=name,
            )
        if prior is None:
            raise InvalidArgument(
                f"{name} has no prior of its own as a single number, which Grouped needs; give one for each "
                "parameter, as in Normal(mean=stats.norm(50, 50), sd=stats.halfnorm(scale=50)).",
                argument=name,
            )
        found.append(Line(name, Transform({name: support}), prior))
    if not 1 <= len(found) <= MOST_UNKNOWNS:
        many = "no unknown parameter" if not found else f"{len(found)} unknown parameters in each group"
        raise InvalidArgument(
            f"This law has {many}; Grouped learns one or two. Give numbers for those that you know, and a scipy.stats "
            "distribution for the others.",
            argument="population",
        )
    return tuple(found)


def _spreads(spread: object, pooled: tuple[str, ...]) -> dict[str, Frozen]:
    """The prior of each spread that was given: a mapping, or one for the only pooled parameter."""
    if spread is None:
        return {}
    given = dict(cast(Mapping[str, object], spread)) if offers(spread, "items") else dict.fromkeys(pooled, spread)
    for name, prior in given.items():
        if name not in pooled:
            raise InvalidArgument(f"spread= names {shown(name)}, which is not pooled.", argument="spread")
        if not is_prior(prior) or not offers(prior, "support", "ppf") or cast(_Supported, prior).support()[0] < 0:
            raise InvalidArgument(
                f"The spread of {name} must be a frozen scipy.stats distribution above 0, such as "
                "stats.halfnorm(scale=10).",
                argument="spread",
            )
    return cast(dict[str, Frozen], given)


class _Supported(Protocol):
    def support(self) -> tuple[float, float]: ...


def _shares(shares: object) -> Shares | None:
    if shares is not None and not offers(shares, "alpha"):
        raise InvalidArgument("shares= must be stats.dirichlet([...]), one number for each group.", argument="shares")
    return cast("Shares | None", shares)


def _names(names: Sequence[str]) -> tuple[str, ...]:
    given = tuple(map(str, names))
    if names == f"{names}" or len(given) < 2 or len(set(given)) != len(given):
        raise InvalidArgument("names= lists at least two groups, each once.", argument="names")
    return given
