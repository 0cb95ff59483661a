"""Undirected graphical models: which columns depend on which, and what can be asked once that is learnt.

    p(x) = exp(sum over cliques c of theta_c(x_c) - A(theta)),        x a record, one level a column

`infer(releases, GraphicalModel(cliques, levels))` learns it from noisy tables (`Marginals`, `Histogram`) of any number
of holders. Columns that share no clique are independent given those between them. A priori every potential is
    theta_i ~ tau t_4,     tau^2 ~ InverseGamma(2, 1/2):
mostly small, a few large, on a scale that the tables decide. Answers are probabilities, which do not depend on how the
potentials are written (their gauge). Nothing here can see a record.
"""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.graphical.cliques import Clique, read_cliques, read_columns, read_levels, read_names, read_ties
from noisewise.graphical.structure import Region, Regions
from noisewise.models.base import ModelBase
from noisewise.populations.parameters import POSITIVE, UNIT, Support, Theta
from noisewise.printable import shown
from noisewise.schema import Levels, Schema
from noisewise.types import Floats, Ints

if TYPE_CHECKING:
    from noisewise.graphical.answers import HeldOut, Probabilities
    from noisewise.graphical.compare import Comparison
    from noisewise.graphical.confidential import TableLaws
    from noisewise.graphical.methods import GraphicalMethod
    from noisewise.graphical.observed import Observed
    from noisewise.graphical.problem import Problem
    from noisewise.inference.answer_sources import AnswerSource
    from noisewise.inference.degrees import Degrees
    from noisewise.inference.methods import Found, Methods
    from noisewise.inference.posterior import Posterior
    from noisewise.inference.settings import Settings
    from noisewise.planning import Simulable
    from noisewise.release import NoisyValue

__all__ = ["POTENTIALS", "TAU", "GraphicalModel", "probability_name"]

POTENTIALS, TAU = "potentials", "tau"
MOST_PARAMETERS = 1_000_000


@dataclass(frozen=True, slots=True, init=False, eq=False)
class GraphicalModel(ModelBase):
    """A law of records over columns with levels, in which only columns of a common clique act on each other.

    Parameters
    ----------
    cliques
        Lists of columns.
    levels
        A Schema, or a mapping from columns to their levels.
    tied
        Groups of cliques that share one table of potentials; True ties all cliques of two columns that have the same
        levels. Default None: none.

    Examples
    --------
    >>> levels = {"smokes": ["no", "yes"], "ill": ["no", "yes"], "sex": ["f", "m"]}
    >>> nw.GraphicalModel([["smokes", "ill"], ["smokes", "sex"]], levels).parameters
    8
    """

    text_name: ClassVar[str] = "graphical_model"
    takes: ClassVar[tuple[str, ...]] = ("cliques", "levels", "tied")
    needs: ClassVar[tuple[str, ...]] = ("cliques", "levels")

    columns: tuple[str, ...]
    levels: tuple[Levels, ...]
    cliques: tuple[Clique, ...]
    ties: tuple[tuple[int, ...], ...]  # groups of cliques, by position, two or more in each

    def __init__(
        self,
        cliques: Sequence[Sequence[str]],
        levels: Schema | Mapping[str, Levels | Sequence[str | int]],
        *,
        tied: bool | Sequence[Sequence[Sequence[str]]] | None = None,
    ) -> None:
        read = read_cliques(cliques)
        known = read_levels(levels, read)
        for name, value in (("columns", tuple(known)), ("levels", tuple(known.values())), ("cliques", read)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "ties", read_ties(tied, read, known))
        _check_names(self.columns, self.cliques)
        if self.parameters > MOST_PARAMETERS:
            raise InvalidArgument(
                f"The cliques have {self.parameters} cells in all, more than {MOST_PARAMETERS}: join fewer columns in "
                "a clique, or give them fewer levels.",
                argument="cliques",
            )

    @classmethod
    def chain(
        cls,
        columns: Sequence[str],
        levels: Schema | Mapping[str, Levels | Sequence[str | int]] | Levels | Sequence[str | int],
        *,
        order: int = 1,
        tied: bool = False,
    ) -> GraphicalModel:
        """Columns in a row (as at successive times), each acting on the next `order` ones.

        `levels` may be one list for all columns. With tied=True the same potentials act at every step, and the first
        column has potentials of its own, so that a stationary law can be learnt (Bernstein 2020, section 3.3.4).
        """
        names = read_names(columns, "columns")
        if len(names) < 2:
            raise InvalidArgument("A chain needs at least two columns.", argument="columns")
        if isinstance(order, bool) or not isinstance(order, int) or not 1 <= order < len(names):
            raise InvalidArgument(f"order = {shown(order, 40)} must be a whole number from 1 to {len(names) - 1}.",
                                  argument="order")  # fmt: skip
        if not isinstance(tied, bool):
            raise InvalidArgument(f"tied = {shown(tied, 40)} must be True or False.", argument="tied")
        given: Any = levels
        if not isinstance(levels, Schema | Mapping):
            given = dict.fromkeys(names, levels)
        steps = [[(names[i], names[i + step]) for i in range(len(names) - step)] for step in range(1, order + 1)]
        pairs = [pair for group in steps for pair in group]
        if not tied:
            return cls(pairs, given)
        return cls([(names[0],), *pairs], given, tied=[group for group in steps if len(group) > 1])

    # ---- structure ----

    @property
    def tables(self) -> Regions:
        """The cliques as tables over numbered columns."""
        return Regions(tuple(len(levels) for levels in self.levels), tuple(self.region(c) for c in self.cliques))

    def region(self, columns: str | Sequence[str]) -> Region:
        """Columns by their numbers, in the order given."""
        return tuple(self.columns.index(name) for name in read_columns(columns, self.columns))

    @property
    def spread(self) -> Ints:
        """Of each cell of the cliques: its parameter; tied cliques share theirs."""
        sizes = np.diff(self.tables.starts)
        owner = {index: group[0] for group in self.ties for index in group}
        begins: dict[int, int] = {}
        pieces, used = [], 0
        for index, size in enumerate(sizes.tolist()):
            first = owner.get(index, index)
            if first not in begins:
                begins[first] = used
                used += size
            pieces.append(begins[first] + np.arange(size))
        return np.concatenate(pieces)

    @property
    def parameters(self) -> int:
        """How many potentials there are; some directions of them change nothing."""
        shared = {index for group in self.ties for index in group[1:]}
        sizes = [math.prod(len(self.levels[v]) for v in self.region(clique)) for clique in self.cliques]
        return sum(size for index, size in enumerate(sizes) if index not in shared)

    def cell_labels(self, columns: str | Sequence[str]) -> tuple[str, ...]:
        """'a=x, b=y' for each cell of a table over these columns, the last column's level changing first."""
        names = read_columns(columns, self.columns)
        levels = [self.levels[v].levels for v in self.region(names)]
        return tuple(
            ", ".join(f"{name}={level}" for name, level in zip(names, cell, strict=True))
            for cell in itertools.product(*levels)
        )

    def level_labels(self, columns: Sequence[str]) -> tuple[str, ...]:
        """'x, y' for each cell of a table over these columns, the last column's level changing first."""
        return tuple(
            ", ".join(map(str, cell))
            for cell in itertools.product(*(self.levels[v].levels for v in self.region(columns)))
        )

    # ---- what infer and Posterior ask for ----

    @property
    def free(self) -> tuple[str, ...]:
        """What is unknown and shown: the probabilities of each column's levels, and the width of the prior."""
        return (*(probability_name((name,)) for name in self.columns), TAU)

    @property
    def unlisted(self) -> tuple[str, ...]:
        """Draws that are kept for later questions and not shown in tables."""
        return (*(probability_name(clique) for clique in self.cliques if len(clique) > 1), POTENTIALS)

    @property
    def supports(self) -> dict[str, Support]:
        """Where each number that is shown lives."""
        shown = [label for labels in self.component_labels.values() for label in labels]
        return {**dict.fromkeys(shown, UNIT), TAU: POSITIVE}

    @property
    def component_labels(self) -> dict[str, tuple[str, ...]]:
        """The numbers in a vector of draws by name: P(a=x) and so on."""
        return {probability_name((name,)): tuple(f"P({label})" for label in self.cell_labels((name,)))
                for name in self.columns}  # fmt: skip

    def problem(self, releases: NoisyValue | Sequence[NoisyValue], *, n: int | Sequence[int] | None = None) -> Problem:
        """The model and what was published, as numbers: what every method starts from."""
        from noisewise.graphical.observed import observe

        return observe(self, releases, n=n).problem

    @property
    def methods(self) -> Methods[GraphicalMethod]:
        """How it can be learnt."""
        from noisewise.graphical.methods import METHODS

        return METHODS

    @property
    def title(self) -> str:
        return f"Learning {len(self.columns)} columns"

    @property
    def coordinates(self) -> tuple[str, ...]:
        """None: potentials have directions that change nothing."""
        raise Unsupported(
            "The information of a release about a GraphicalModel is not computed. Compare the noise of its tables "
            "(plan.noise): from about five cliques on Gaussian noise is less than Laplace noise."
        )

    def observe(self, releases: object, settings: Settings) -> Observed:
        """The tables that were published, as numbers."""
        from noisewise.graphical.methods import method_named
        from noisewise.graphical.observed import observe

        return observe(self, releases, n=settings.n, has_prior=method_named(settings.method).has_prior)

    def learn(self, observed: Observed, settings: Settings) -> Found:
        """A method run on that."""
        from noisewise.graphical.learn import learn

        return learn(self, observed, settings)

    def is_same(self, other: object) -> bool:
        """Whether another model has the same columns, levels, cliques and ties."""
        return isinstance(other, GraphicalModel) and self.text_arguments() == other.text_arguments()

    # ---- answers ----

    def marginal(self, posterior: Posterior, columns: str | Sequence[str], *, level: float = 0.9) -> Probabilities:
        """The probability of every combination of levels of any columns, in a common clique or not."""
        from noisewise.graphical.answers import marginal

        return marginal(self, posterior, columns, given={}, level=level)

    def conditional(
        self,
        posterior: Posterior,
        columns: str | Sequence[str],
        *,
        given: Mapping[str, str | int],
        level: float = 0.9,
    ) -> Probabilities:
        """The same among records with these levels, as in given={"sex": "f"}."""
        from noisewise.graphical.answers import conditional

        return conditional(self, posterior, columns, given=given, level=level)

    def log_likelihood(self, posterior: Posterior, records: Any, *, level: float = 0.9) -> HeldOut:
        """The mean log-probability of records that were not learnt from, given by column in their levels."""
        from noisewise.graphical.answers import log_likelihood

        return log_likelihood(self, posterior, records, level=level)

    def synthetic(self, posterior: Posterior, count: int, *, seed: int | None = None) -> dict[str, NDArray[Any]]:
        """Made-up records, by column, drawn at draws of the posterior (of a point: at the estimate).

        They are computed from the release alone, so they cost no privacy, however many are drawn.
        """
        from noisewise.graphical.synthetic import synthetic

        return synthetic(self, posterior, count, seed=seed)

    def estimate(self, posterior: Posterior) -> Floats:
        """Potentials of one model: a point method's own, or those whose tables are the posterior's mean tables.

        Among all models of this structure the latter has the least expected Kullback-Leibler divergence from the truth.
        """
        from noisewise.graphical.answers import estimate

        return estimate(self, posterior)

    def direct(self, release: NoisyValue, *, level: float = 0.9, n: int | None = None) -> Probabilities:
        """Each published cell's share with an interval from noise and sampling alone: it holds whatever the model."""
        from noisewise.graphical.direct import direct

        return direct(release, level=level, n=n)

    def quick(
        self,
        releases: NoisyValue | Sequence[NoisyValue],
        columns: str | Sequence[str] | None = None,
        *,
        level: float = 0.9,
        n: int | Sequence[int] | None = None,
        draws: int = 128,
        seed: int | None = None,
    ) -> Probabilities:
        """Shares with intervals at a few times the cost of `map`, for models too large for `posterior`, too.

        From the normal approximation around the estimate of `map`, so it needs tables that were published whole.

        Parameters
        ----------
        releases
            One release or several, as for `infer`.
        columns
            A column or columns of one clique; by default every cell of all cliques.
        level
            How much of the posterior an interval holds.
        n
            The number of records, where it is private.
        draws
            How many errors are drawn to measure a width; the width is known to about 1/sqrt(2 draws).
        seed
            Of these draws.
        """
        from noisewise.graphical.answers import quick

        return quick(self, releases, columns, level=level, n=n, draws=draws, seed=seed)

    @staticmethod
    def compare(
        releases: NoisyValue | Sequence[NoisyValue],
        models: Mapping[str, GraphicalModel] | Sequence[GraphicalModel],
        *,
        n: int | Sequence[int] | None = None,
    ) -> Comparison:
        """Which structure the same releases speak for."""
        from noisewise.graphical.compare import compare

        return compare(releases, models, n=n)

    def answer_sources(self, theta: Theta, releases: Sequence[NoisyValue]) -> tuple[AnswerSource, ...]:
        """The share of each level of each column, and of each cell of the cliques."""
        from noisewise.graphical.shares import share_sources

        named = [(name,) for name in self.columns] + [clique for clique in self.cliques if len(clique) > 1]
        return share_sources(theta, [(probability_name(names), names, self.level_labels(names)) for names in named])

    # ---- simulation, checks, text ----

    def sample_prior(self, rng: np.random.Generator, count: int) -> dict[str, Floats]:
        """`count` draws of the potentials, and of the probabilities they give."""
        from noisewise.graphical.replicate import sample_prior

        return sample_prior(rng, self, count)

    def theta_at(self, at: object) -> dict[str, Floats]:
        """Rows of parameters from at={"potentials": numbers}, one for each parameter, clique by clique."""
        from noisewise.graphical.replicate import theta_at

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
        """The published integers (K, size) of K simulated data sets, one for each row of theta."""
        from noisewise.graphical.replicate import simulate_values

        return simulate_values(rng, self, plan, theta, n=n)

    def sample_records(
        self, rng: np.random.Generator, schema: Schema, n: int, theta: Theta, columns: Iterable[str]
    ) -> dict[str, Floats]:
        """n records for each row of theta, by column (K, n), as numbers of the schema's levels."""
        from noisewise.graphical.replicate import sample_records

        return sample_records(rng, self, schema, n, theta, columns)

    def joint_likelihood(
        self, releases: tuple[NoisyValue, ...], *, likelihood: str = "auto", n: object = None
    ) -> TableLaws:
        """The laws from which the confidential tables are drawn, one for each group of the same records."""
        from noisewise.graphical.confidential import TableLaws

        return TableLaws.of(self, releases, n=n)

    def degrees(self, releases: tuple[NoisyValue, ...], theta: Theta) -> Degrees:
        """Independent cells of the published tables against independent potentials of the cliques."""
        from noisewise.graphical.degrees import table_degrees

        levels = {name: len(known) for name, known in zip(self.columns, self.levels, strict=True)}
        # Tied cliques share a table; some of its directions may change nothing, so this is at most too many.
        return table_degrees(releases, self.cliques, levels, most=self.parameters - 1 if self.ties else None)

    def text_arguments(self) -> dict[str, str]:
        """Its arguments as a spec file writes them."""
        levels = {name: list(one.levels) for name, one in zip(self.columns, self.levels, strict=True)}
        named = {"cliques": repr([list(clique) for clique in self.cliques]), "levels": repr(levels)}
        if self.ties:
            named["tied"] = repr([[list(self.cliques[index]) for index in group] for group in self.ties])
        return named

    @classmethod
    def from_nodes(cls, nodes: Mapping[str, ast.expr]) -> GraphicalModel:
        """The model that these arguments describe."""
        from noisewise.models.registry import literal

        return cls(**{name: literal(node, name, cls.text_name) for name, node in nodes.items()})

    def __repr__(self) -> str:
        shown = ", ".join(f"[{', '.join(clique)}]" for clique in self.cliques[:8])
        more = f", ... {len(self.cliques) - 8} more" if len(self.cliques) > 8 else ""
        return f"GraphicalModel([{shown}{more}]{', tied' if self.ties else ''})"


def probability_name(columns: Sequence[str]) -> str:
    """What the probabilities of a table over these columns are called among the draws."""
    return f"P({', '.join(columns)})"


def _check_names(columns: Sequence[str], cliques: Sequence[Clique]) -> None:
    """Refuse tables whose draws would have one name, as those of the column 'a, b' and of the clique [a, b]."""
    named: dict[str, Clique] = {}
    for table in (*((name,) for name in columns), *(clique for clique in cliques if len(clique) > 1)):
        name = probability_name(table)
        if name in named:
            raise InvalidArgument(
                f"The tables of {shown(list(named[name]), 100)} and {shown(list(table), 100)} would both be called "
                f"{name:.100}. Rename a column, so that its name has no comma in it.",
                argument="cliques",
            )
        named[name] = table
