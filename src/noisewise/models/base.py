"""The base of every model: a posterior that is the same everywhere, made of a few pieces that each model has itself.

    methods        the registry of its methods (`inference.methods`)
    observe        releases to what they say about the model, with n as it is public or stated (`joining`)
    learn          one method run on that: draws by name, how they were made, which law was scored, a verdict
    sample_prior, theta_at, simulate_values, sample_records     for simulation, checks and calibration
    joint_likelihood, degrees                                   for what a posterior can still be asked
    engine                                                      for `choose`
    answer_sources, parameter_units                             for answers in people's terms, with units
    text_arguments, from_nodes                                  for spec files and saved posteriors
`posterior` is final: it checks the settings, the method and its options, keeps the seed, the clock and the stated n,
and shows progress. A piece that a model does not have is refused by its name where it is asked for; releases that leave
missing values out are refused unless the model says that it reads them (`reads_absent`).
"""

from __future__ import annotations

import ast
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, final

import numpy as np

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.populations.parameters import Array, Support, Theta

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from noisewise.design.information import Engine
    from noisewise.inference.answer_sources import AnswerSource
    from noisewise.inference.degrees import Degrees
    from noisewise.inference.methods import Found, Methods
    from noisewise.inference.posterior import Posterior
    from noisewise.inference.settings import Settings
    from noisewise.likelihood.size_prior import Sizes
    from noisewise.models.protocol import Laws, Model
    from noisewise.planning import Plan, Simulable
    from noisewise.populations.presence import Told
    from noisewise.release import NoisyValue
    from noisewise.schema import Schema

__all__ = ["InformationSettings", "ModelBase"]


class _Observed(Protocol):
    """What a model makes of releases."""

    @property
    def releases(self) -> tuple[NoisyValue, ...]: ...


@dataclass(frozen=True, slots=True)
class InformationSettings:
    """How the information of a release is asked for: `method` and `likelihood` by name, n where it is stated."""

    method: str = "auto"
    likelihood: str = "auto"
    n: object = None
    seed: object = None
    draws: int | None = None


class ModelBase:
    """Everything that is asked of a model (`models.protocol.Model`); see the module."""

    __slots__ = ()
    text_name: ClassVar[str] = ""  # in spec files
    takes: ClassVar[tuple[str, ...]] = ()  # its arguments there
    needs: ClassVar[tuple[str, ...]] = ()  # those that cannot be left out
    reads_absent: ClassVar[bool] = False  # whether it learns from releases of those present (missing="leave-out")

    def __init_subclass__(cls) -> None:
        if "posterior" in vars(cls):
            raise TypeError(f"{cls.__name__}.posterior: the posterior of a model is final; write observe and learn.")

    # ---- what every model says of itself ----

    @property
    def free(self) -> tuple[str, ...]:
        """What is unknown and shown, by name."""
        raise self._lacks("free", "the names of its unknowns")

    @property
    def supports(self) -> Mapping[str, Support]:
        """Where each number that is shown lives."""
        raise self._lacks("supports", "where its unknowns live")

    @property
    def methods(self) -> Methods[Any]:
        """How it can be learnt."""
        raise self._lacks("methods", "a list of ways to learn it")

    def observe(self, releases: object, settings: Settings) -> Any:
        """What releases say about this model, with the releases beside it."""
        raise self._lacks("observe", "a reading of releases")

    def learn(self, observed: Any, settings: Settings) -> Found:
        """One method, run on what was observed."""
        raise self._lacks("learn", "a way to run its methods")

    @property
    def title(self) -> str:
        """What progress is shown under."""
        return f"Inferring {', '.join(self.free)}"

    @property
    def unlisted(self) -> tuple[str, ...]:
        """Draws that are kept for later questions and not shown in tables."""
        return ()

    @property
    def component_labels(self) -> Mapping[str, Sequence[str]]:
        """What the numbers in a vector of draws are called; without an entry they are numbered."""
        return {}

    @property
    def coordinates(self) -> tuple[str, ...]:
        """The numbers in which information is counted: one for each scalar unknown, all but the last of a simplex."""
        return tuple(
            label
            for name, support in self.supports.items()
            for label in ([name] if support.size is None else self._coordinate_labels(name, support.unknowns))
        )

    def _coordinate_labels(self, name: str, count: int) -> Sequence[str]:
        return self.component_labels.get(name, [f"{name}[{j}]" for j in range(count)])[:count]

    @property
    def described(self) -> object:
        """What the analyst gave."""
        return self

    @property
    def learnt_as(self) -> Model:
        """The model that learns it: itself, but for one whose unknowns are another model's (coefficients by site)."""
        return self

    # ---- learning ----

    @final
    def posterior(
        self,
        releases: object,
        *,
        method: str = "auto",
        likelihood: str = "auto",
        draws: int = 1000,
        warmup: int = 1000,
        chains: int = 4,
        seed: int | None = None,
        progress: bool | Callable[[int, int], None] = True,
        n: Sizes = None,
        **options: Any,
    ) -> Posterior:
        """What releases say about this model; `infer` calls this.

        `n` states the number of records where it is private (add-remove), or is its prior. `draws` and `warmup` are per
        chain; methods that draw independently need no warm-up. The same seed gives the same draws.
        """
        from noisewise.inference.methods import AUTO
        from noisewise.inference.posterior import Posterior
        from noisewise.inference.progress import shown
        from noisewise.inference.settings import Settings, whole_seed
        from noisewise.joining import listed_releases
        from noisewise.models.protocol import refuse_absent

        if self.learnt_as is not self:
            given = {"draws": draws, "warmup": warmup, "chains": chains, "seed": seed, "progress": progress, "n": n}
            return self.learnt_as.posterior(releases, method=method, likelihood=likelihood, **given, **options)
        started = time.perf_counter()
        settings = Settings(method, likelihood, draws, warmup, chains, whole_seed(seed), n, options)
        if method != AUTO:
            self.methods[method].read(options)
        refuse_absent(self, listed_releases(releases))
        observed: _Observed = self.observe(releases, settings)
        with shown(progress, self.title) as report:
            found = self.learn(observed, replace(settings, report=report))
        return Posterior(
            draws=found.draws,
            method=found.method,
            how=found.how,
            law=found.law,
            likelihood=found.likelihood or likelihood,
            verdict=found.verdict,
            population=self.described if found.described is None else found.described,
            releases=observed.releases,
            seed=settings.seed,
            is_point=found.is_point,
            log_evidence=found.log_evidence,
            moments=found.moments,
            seconds=time.perf_counter() - started,
            stated_n=n,
            energy=found.energy,
            covariance=found.covariance,
            instead=self.methods.instead,
        )

    def with_presence(self, told: Sequence[Told]) -> Self:
        """The model with what it does not know of presence, where these plans or releases leave missing values out."""
        return self

    # ---- simulation, checks, design ----

    def sample_prior(self, rng: np.random.Generator, count: int) -> dict[str, Array]:
        """`count` draws of the unknowns from the prior."""
        raise self._lacks("sample_prior", "draws from its prior")

    def prior_rows(self, count: int) -> dict[str, Array]:
        """`count` values from the prior, always the same ones."""
        return dict(self.sample_prior(np.random.default_rng(0), count))

    def prior_of(self, name: str) -> Any:
        """The frozen prior of one scalar unknown, or None where it has none of its own."""
        return None

    def theta_at(self, at: object) -> dict[str, Array]:
        """Rows of parameters from numbers by name."""
        from noisewise.populations.parameters import rows_at

        return rows_at(at, self.supports)

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
        raise self._lacks("simulate_values", "a simulation of its releases")

    def sample_records(
        self, rng: np.random.Generator, schema: Schema, n: int, theta: Theta, columns: Iterable[str]
    ) -> dict[str, Array]:
        """n cleaned records for each row of theta, by column (K, n)."""
        raise self._lacks("sample_records", "a simulation of records, from which several releases could be made")

    def joint_likelihood(self, releases: tuple[NoisyValue, ...], *, likelihood: str = "auto", n: object = None) -> Laws:
        """The laws from which confidential statistics are drawn, one for each group of the same records."""
        raise self._lacks("joint_likelihood", "a law of the confidential statistic")

    def degrees(self, releases: tuple[NoisyValue, ...], theta: Theta) -> Degrees:
        """How many numbers the releases tell, and how many unknowns they must settle."""
        raise self._lacks("degrees", "a count of its unknowns, without which no release can check it")

    def information_engine(
        self,
        plan: Plan,
        *,
        method: str = "auto",
        likelihood: str = "auto",
        n: object = None,
        seed: object = None,
        draws: int | None = None,
    ) -> Engine:
        """How the Fisher information of a plan's release is computed; `choose` asks for it."""
        return self.engine(plan, InformationSettings(method, likelihood, n, seed, draws))

    def engine(self, plan: Plan, asked: InformationSettings) -> Engine:
        """The model's own part of `information_engine`."""
        raise self._lacks("information_engine", "the information of a release about it")

    def spread_information(self, plan: Plan, theta: Theta, *, n: object = None) -> Array | None:
        """F (K, P, P) under normal noise with the variance of a plan's Laplace noise; None where that is not asked."""
        return None

    # ---- answers ----

    def answer_sources(self, theta: Theta, releases: Sequence[NoisyValue]) -> Sequence[AnswerSource]:
        """What can be asked in people's terms at these rows of theta: one source for each column, group or number."""
        raise self._lacks("answer_sources", "answers in people's terms")

    def parameter_units(self, releases: Sequence[NoisyValue]) -> Mapping[str, str]:
        """The units of its unknowns, by name, as far as the columns of these releases have any."""
        return {}

    # ---- text ----

    def text_arguments(self) -> dict[str, str]:
        """Its arguments as a spec file writes them."""
        raise self._lacks("text_arguments", "a form in spec files and saved posteriors")

    @classmethod
    def from_nodes(cls, nodes: Mapping[str, ast.expr]) -> Self:
        """The model that these arguments describe; which ones they may be is checked before."""
        given = ", ".join(nodes)
        raise Unsupported(f"{cls.__name__} has no from_nodes: a reading of {given} in spec files and saved posteriors.")

    def to_spec(self) -> dict[str, str]:
        """The [population] section of a spec file that reads back as this model."""
        from noisewise.models.registry import model_to_spec

        return model_to_spec(self)

    @classmethod
    def from_spec(cls, spec: Mapping[str, str]) -> Self:
        """Read a [population] section."""
        from noisewise.models.registry import model_from_spec

        made = model_from_spec(spec)
        if not isinstance(made, cls):
            raise InvalidArgument(f"This section does not describe a {cls.__name__}.", argument="spec")
        return made

    def _lacks(self, member: str, what: str) -> Unsupported:
        return Unsupported(f"{type(self).__name__} has no {member}: {what}.")
