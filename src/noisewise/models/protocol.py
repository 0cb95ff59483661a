"""What `infer`, `simulate`, `choose`, `calibrate` and a posterior ask of a model; and the one place that asks for it.

    model_of(population)    a model as it is, a population by the model of a population, anything else a sentence

A population (`populations.AnyPopulation`) describes one record by laws of its columns; every likelihood is made of
these. A model has methods of its own. Both are told by their members alone: what lacks one is refused, and the sentence
names it. `base.ModelBase` has all of them; a model built on it says what it has, and what it lacks is refused where it
is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from noisewise.errors import InvalidArgument
from noisewise.populations.parameters import Array, Support, Theta, missing_members, offers
from noisewise.populations.population import AnyPopulation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from noisewise.design.information import Engine
    from noisewise.inference.answer_sources import AnswerSource
    from noisewise.inference.degrees import Degrees
    from noisewise.inference.posterior import Posterior
    from noisewise.planning import Plan, Simulable
    from noisewise.populations.presence import Told
    from noisewise.release import NoisyValue
    from noisewise.schema import Schema

__all__ = ["Law", "Laws", "Model", "model_for", "model_of", "population_for"]


class Law(Protocol):
    """The law of the releases of one group of records, as far as a posterior asks for it."""

    @property
    def releases(self) -> tuple[NoisyValue, ...]: ...
    def draw_statistic(self, rng: np.random.Generator, theta: Theta) -> Array: ...  # one draw for each row of theta


class Laws(Protocol):
    """One law for each group of releases of the same records."""

    @property
    def groups(self) -> Sequence[Law]: ...


class Model(Protocol):
    """Everything that is asked of a model; `base.ModelBase` says what each member is."""

    @property
    def free(self) -> tuple[str, ...]: ...
    @property
    def supports(self) -> Mapping[str, Support]: ...
    @property
    def unlisted(self) -> tuple[str, ...]: ...
    @property
    def component_labels(self) -> Mapping[str, Sequence[str]]: ...
    @property
    def coordinates(self) -> tuple[str, ...]: ...
    @property
    def described(self) -> object: ...
    @property
    def learnt_as(self) -> Model: ...
    @property
    def posterior(self) -> Callable[..., Posterior]: ...
    def sample_prior(self, rng: np.random.Generator, count: int) -> dict[str, Array]: ...
    def prior_rows(self, count: int) -> dict[str, Array]: ...
    def prior_of(self, name: str) -> Any: ...
    def theta_at(self, at: object) -> dict[str, Array]: ...
    def simulate_values(
        self,
        rng: np.random.Generator,
        plan: Simulable,
        theta: Theta,
        *,
        n: int | None = None,
        approximate: bool = False,
    ) -> NDArray[np.int64]: ...
    def sample_records(
        self, rng: np.random.Generator, schema: Schema, n: int, theta: Theta, columns: Iterable[str]
    ) -> dict[str, Array]: ...
    def joint_likelihood(
        self, releases: tuple[NoisyValue, ...], *, likelihood: str = "auto", n: object = None
    ) -> Laws: ...
    def degrees(self, releases: tuple[NoisyValue, ...], theta: Theta) -> Degrees: ...
    @property
    def information_engine(self) -> Callable[..., Engine]: ...
    def spread_information(self, plan: Plan, theta: Theta, *, n: object = None) -> Array | None: ...
    def answer_sources(self, theta: Theta, releases: Sequence[NoisyValue]) -> Sequence[AnswerSource]: ...
    def parameter_units(self, releases: Sequence[NoisyValue]) -> Mapping[str, str]: ...
    def to_spec(self) -> dict[str, str]: ...


class _ReadsAbsent(Protocol):
    """Of a model: whether it learns from releases that leave missing values out."""

    @property
    def reads_absent(self) -> bool: ...


class _TellsPresence(Protocol):
    """A model that has a share present among its unknowns, where values were left out."""

    def with_presence(self, told: Sequence[Told]) -> object: ...


def model_for(thing: object, told: object) -> Model:
    """The model of a population, with an unknown share present where plans or releases leave out missing values."""
    return model_of(population_for(thing, told))


def population_for(thing: object, told: object) -> object:
    """A population with that share; a model as it is, or refused where it does not read such releases.

    What is neither plan nor release is refused elsewhere.
    """
    from noisewise.populations.presence import Told, with_presence

    try:
        given = [told] if not missing_members(told, Told) else list(cast(Iterable[object], told))
    except TypeError:
        return thing
    read = [cast(Told, one) for one in given if not missing_members(one, Told)]
    if not any(one.schema.left_out for one in read):
        return thing
    if not missing_members(thing, Model):
        refuse_absent(thing, read)
        return cast(_TellsPresence, thing).with_presence(read) if offers(thing, "with_presence") else thing
    return thing if missing_members(thing, AnyPopulation) else with_presence(cast(AnyPopulation, thing), read)


def refuse_absent(model: object, told: Iterable[Told]) -> None:
    """Refuse plans and releases of those present for a model that does not say that it reads them."""
    from noisewise.joining import refuse_left_out

    if not (offers(model, "reads_absent") and cast(_ReadsAbsent, model).reads_absent):
        refuse_left_out(told, type(model).__name__)


def model_of(thing: object) -> Model:
    """What can be learnt from releases, whether a model or a population; else a sentence that says what it lacks."""
    no_model = missing_members(thing, Model)
    if not no_model:
        return cast(Model, thing).learnt_as
    no_population = missing_members(thing, AnyPopulation)
    if not no_population:
        from noisewise.models.population import PopulationModel

        return PopulationModel(cast(AnyPopulation, thing))
    lacks = f" As a model it lacks {', '.join(no_model)}." if "posterior" not in no_model else ""
    if not lacks and "free" not in no_population:
        lacks = f" As a population it lacks {', '.join(no_population)}."
    raise InvalidArgument(
        f"population is a {type(thing).__name__}; describe the records, as in Normal(mean=stats.norm(50, 50), "
        f"sd=stats.halfnorm(scale=50)).{lacks}",
        argument="population",
    )
