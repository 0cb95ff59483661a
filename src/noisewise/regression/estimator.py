"""Regressions with the manners of scikit-learn: `fit` takes releases, never data.

    estimator = PrivateLinearRegression(features=["age", "bmi"], response="cost")
    estimator.fit([release_a, release_b]).predict(X, return_std=True)
    cross_val_score(PrivateLogisticRegression(formula="relapse ~ age + smoker", releases=release), X, y)

Parameters are kept as given and read by `get_params`; what was learnt ends in an underscore. Where scikit-learn itself
calls `fit(X, y)`, in a pipeline or in a cross-validation, the releases are given beforehand, as a parameter: X and y
are then public rows to predict and to score on, and nothing is learnt from them. scikit-learn is not imported here; it
asks for its tags, which are made from its own classes when it does.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol, Self, cast

import numpy as np

from noisewise.errors import InvalidArgument, NoisewiseError, Unsupported
from noisewise.inference.posterior import Posterior
from noisewise.joining import listed_releases
from noisewise.models.registry import written_as
from noisewise.regression.formula import regression
from noisewise.regression.prediction import Prediction
from noisewise.regression.priors import INTERCEPT, NOISE_VARIANCE
from noisewise.regression.subject import MomentsRegression
from noisewise.release import NoisyValue
from noisewise.types import Floats

__all__ = [
    "PrivateLinearRegression",
    "PrivateLogisticRegression",
    "PrivatePoissonRegression",
    "PrivateProbitRegression",
]

Releases = NoisyValue | Sequence[NoisyValue]


class _Model(MomentsRegression, Protocol):
    """What an estimator asks of its model."""

    @property
    def posterior(self) -> Any: ...
    def predict(self, posterior: Posterior, X: object) -> Prediction: ...
    def predict_mean(self, posterior: Posterior, X: object) -> Floats: ...


class PrivateEstimator:
    """What the four share; each says its `family` and how its predictions are scored."""

    family: ClassVar[str]
    beliefs: ClassVar[tuple[str, ...]] = ("intercept", "coefficients", "covariates")  # what a model says itself
    estimator_type: ClassVar[str] = "regressor"

    model_: _Model
    posterior_: Posterior
    coef_: Floats
    intercept_: float
    n_features_in_: int
    feature_names_in_: object

    def __init__(
        self,
        features: object = None,
        response: object = None,
        *,
        formula: str | None = None,
        model: object = None,
        releases: Releases | None = None,
        intercept: bool = True,
        coefficients: object = None,
        covariates: object = None,
        method: str = "auto",
        draws: int = 1000,
        warmup: int = 1000,
        chains: int = 4,
        seed: int | None = None,
        n: int | Sequence[int] | None = None,
    ) -> None:
        self.features, self.response, self.formula, self.model = features, response, formula, model
        self.releases, self.intercept, self.coefficients, self.covariates = (
            releases,
            intercept,
            coefficients,
            covariates,
        )
        self.method, self.draws, self.warmup, self.chains, self.seed, self.n = method, draws, warmup, chains, seed, n

    # ---- learning ----

    def fit(self, X: object = None, y: object = None) -> Self:
        """Learn from releases of Moments: `fit(releases)`, or those given as `releases=` before.

        In the second case X and y, which a pipeline or a cross-validation hands over, are not looked at.
        """
        if self.releases is None and y is not None:
            raise InvalidArgument(
                "fit takes releases, which hold the response already; leave y out. Where scikit-learn calls fit(X, y) "
                f"itself, give {type(self).__name__}(..., releases=...) beforehand.",
                argument="y",
            )
        releases = cast(Releases, X if self.releases is None else self.releases)
        if releases is None:
            raise InvalidArgument("There are no releases to learn from: fit(releases).", argument="X")
        model = self._model(releases)
        self.posterior_ = model.posterior(
            releases,
            method=self.method,
            draws=self.draws,
            warmup=self.warmup,
            chains=self.chains,
            seed=self.seed,
            n=self.n,
            progress=False,
        )
        self.model_ = model
        mean = self.posterior_.mean
        self.coef_ = np.array([mean[str(feature)] for feature in model.features], float)
        self.intercept_ = float(mean.get(INTERCEPT, 0.0))
        self.n_features_in_ = len(model.features)
        self.feature_names_in_ = np.array([str(feature) for feature in model.features], dtype=object)
        return self

    def _model(self, releases: object) -> _Model:
        entry = written_as(f"{self.family}_regression")
        assert entry is not None  # every family is a registered model
        kind = entry.load()
        said = {
            "model": self.model is not None,
            "formula": self.formula is not None,
            "features and response": self.features is not None or self.response is not None,
        }
        if sum(said.values()) > 1:
            raise InvalidArgument("Give a model, or features and response, or a formula, not both.", argument="model")
        if said["model"]:
            return cast(_Model, self._checked(kind))
        beliefs = {name: getattr(self, name) for name in self.beliefs}
        if said["formula"]:
            beliefs.pop("intercept")  # a formula says it by - 1
            schema = listed_releases(releases)[0].schema
            return cast(_Model, regression(cast(str, self.formula), schema, family=self.family, **beliefs))
        if self.features is None or self.response is None:
            raise InvalidArgument("Give features and response, or a formula, or a model.", argument="features")
        return cast(_Model, cast(Any, kind)(self.features, self.response, **beliefs))

    def _checked(self, kind: type) -> object:
        if not isinstance(self.model, kind):
            raise InvalidArgument(f"model is a {type(self.model).__name__}, not a {kind.__name__}.", argument="model")
        if beside := [name for name in self.beliefs if not self._is_default(name, getattr(self, name))]:
            inside = ", ".join(f"{name}=..." for name in beside)
            raise InvalidArgument(
                f"A model was given, and beside it {', '.join(beside)}, which would be ignored. Give the model these, "
                f"{kind.__name__}(features, response, {inside}), or give features and response instead.",
                argument=beside[0],
            )
        return self.model

    # ---- predicting ----

    def _fitted(self) -> tuple[_Model, Posterior]:
        if "posterior_" not in vars(self):
            raise NoisewiseError("This regression has learnt nothing yet; call fit(releases) first.")
        return self.model_, self.posterior_

    def _means(self, X: object) -> Floats:
        """The posterior mean of the response at each row of X."""
        model, posterior = self._fitted()
        return np.asarray(model.predict_mean(posterior, X), float)

    # ---- scikit-learn's manners ----

    def get_params(self, deep: bool = True) -> dict[str, object]:
        """The parameters by name, as given."""
        del deep
        return {name: getattr(self, name) for name in self._parameters()}

    def set_params(self, **params: object) -> Self:
        """Change parameters by name; call `fit` again afterwards."""
        known = self._parameters()
        for name, value in params.items():
            if name not in known:
                raise InvalidArgument(f"{name!r} is not a parameter; there are {', '.join(known)}.", argument=name)
            setattr(self, name, value)
        return self

    def __sklearn_clone__(self) -> Self:
        """A new estimator with the same parameters; releases and models are values and need no copy."""
        return type(self)(**cast(dict[str, Any], self.get_params()))

    def __sklearn_tags__(self) -> object:
        """What scikit-learn (1.6 and later) wants to know, in its own words."""
        from sklearn.utils import ClassifierTags, InputTags, RegressorTags, Tags, TargetTags

        is_classifier = self.estimator_type == "classifier"
        return Tags(
            estimator_type=self.estimator_type,
            target_tags=TargetTags(required=False),
            transformer_tags=None,
            regressor_tags=None if is_classifier else RegressorTags(),
            classifier_tags=ClassifierTags(multi_class=False) if is_classifier else None,
            input_tags=InputTags(string=True, categorical=True),
        )

    @property
    def _estimator_type(self) -> str:
        """The same for scikit-learn before 1.6."""
        return self.estimator_type

    @classmethod
    def _parameters(cls) -> dict[str, inspect.Parameter]:
        """Those of `__init__`, of this class and of what it stands on."""
        makers = [vars(kind)["__init__"] for kind in reversed(cls.__mro__[:-1]) if "__init__" in vars(kind)]
        given = {name: one for make in makers for name, one in inspect.signature(make).parameters.items()}
        return {name: one for name, one in given.items() if name not in ("self", "others")}

    @classmethod
    def _is_default(cls, name: str, value: object) -> bool:
        """Whether a parameter was left as it is; values of other types, such as arrays, are not compared at all."""
        default = cls._parameters()[name].default
        return value is default or (type(value) is type(default) and bool(value == default))

    def __repr__(self) -> str:
        given = {name: value for name, value in self.get_params().items() if not self._is_default(name, value)}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in given.items())})"


class PrivateLinearRegression(PrivateEstimator):
    """Linear regression from releases, with the manners of scikit-learn: `fit`, `predict`, `score`, `coef_`,
    `posterior_`.

    Parameters
    ----------
    features, response
        As for `LinearRegression`; or `formula`, or a whole `model`. Default None.
    noise, prior
        What is believed of the noise, as for `LinearRegression`. Default None.
    others
        `formula`, `model`; `releases`, what `fit(X, y)` learns from where scikit-learn calls it (X and y are then not
        looked at); `intercept`, `coefficients`, `covariates` as for `LinearRegression`; `method`, `draws`, `warmup`,
        `chains`, `seed`, `n` as for `infer`.

    Examples
    --------
    >>> nw.PrivateLinearRegression(["age"], "cost", coefficients=stats.norm(0, 5), seed=1).get_params()["response"]
    'cost'
    """

    family: ClassVar[str] = "linear"
    beliefs: ClassVar[tuple[str, ...]] = ("intercept", "coefficients", "noise", "prior", "covariates")

    def __init__(
        self,
        features: object = None,
        response: object = None,
        *,
        noise: object = None,
        prior: object = None,
        **others: Any,
    ) -> None:
        super().__init__(features, response, **others)
        self.noise, self.prior = noise, prior

    def predict(self, X: object, return_std: bool = False) -> Any:
        """The predictive mean at each row of X, and with `return_std` the predictive sd of a new observation."""
        model, posterior = self._fitted()
        if not return_std:
            return self._means(X)
        if posterior.is_point or NOISE_VARIANCE not in posterior.draws:
            raise Unsupported(
                f"This regression was fitted by method={posterior.method!r}, which does not say how far a new "
                f"observation lies from its mean. Leave return_std out, or fit by method={posterior.instead!r}."
            )
        predicted = model.predict(posterior, X)
        return predicted.mean, predicted.sd

    def score(self, X: object, y: object) -> float:
        """R2 of the predictions at rows whose responses are y: 1 - sum (y - mean)^2 / sum (y - average)^2."""
        found, means = _numbers(y), self._means(X)
        return _explained((found - means) ** 2, (found - found.mean()) ** 2)


class PrivateClassifier(PrivateEstimator):
    """A yes/no response: class 1 is yes, class 0 no."""

    estimator_type: ClassVar[str] = "classifier"

    @property
    def classes_(self) -> object:
        """0 and 1, in the order of the columns of `predict_proba`."""
        self._fitted()
        return np.array([0, 1])

    def predict_proba(self, X: object) -> Floats:
        """P(y = 0) and P(y = 1) (rows, 2) of a new response at each row of X."""
        yes = self._means(X)
        return np.column_stack([1 - yes, yes])

    def predict(self, X: object) -> object:
        """1 where yes is more probable than no, else 0."""
        return (self._means(X) > 0.5).astype(int)

    def score(self, X: object, y: object) -> float:
        """The share of rows whose class is predicted; y is 0 and 1."""
        found = _numbers(y)
        if not np.isin(found, (0, 1)).all():
            raise InvalidArgument("y must hold 0 and 1 (1 where the response of the release holds).", argument="y")
        return float(np.mean(self.predict(X) == found))


class PrivateLogisticRegression(PrivateClassifier):
    """Logistic regression from releases: `fit`, `predict`, `predict_proba`, `score`, `coef_`, `posterior_`.

    Parameters
    ----------
    features, response
        As for `LogisticRegression`. Default None, with `formula` or `model`.
    formula
        The regression in words, in the place of features and response. Default None.
    model
        A whole `LogisticRegression`. Default None.
    releases
        What `fit(X, y)` learns from where scikit-learn calls it; X and y are then not looked at. Default None.
    intercept, coefficients, covariates
        What is believed, as for `LogisticRegression`.
    method, draws, warmup, chains, seed, n
        As for `infer`.

    Examples
    --------
    >>> nw.PrivateLogisticRegression(formula="relapse ~ age + smoker", seed=1).get_params()["formula"]
    'relapse ~ age + smoker'
    """

    family: ClassVar[str] = "logistic"


class PrivateProbitRegression(PrivateClassifier):
    """Probit regression from releases, with the manners of scikit-learn.

    Parameters
    ----------
    features, response, formula, model, releases, intercept, coefficients, covariates
        As of `PrivateLogisticRegression`.
    method, draws, warmup, chains, seed, n
        As of `PrivateLogisticRegression`.

    Examples
    --------
    >>> nw.PrivateProbitRegression(["dose"], nw.column("died").equals("yes"), seed=1).get_params()["draws"]
    1000
    """

    family: ClassVar[str] = "probit"


class PrivatePoissonRegression(PrivateEstimator):
    """Poisson regression from releases, with the manners of scikit-learn: `predict` is the rate.

    Parameters
    ----------
    features, response, formula, model, releases, intercept, coefficients, covariates
        As of `PrivateLogisticRegression`.
    method, draws, warmup, chains, seed, n
        As of `PrivateLogisticRegression`.

    Examples
    --------
    >>> nw.PrivatePoissonRegression(["age"], "visits", seed=1).get_params()["chains"]
    4
    """

    family: ClassVar[str] = "poisson"

    def predict(self, X: object) -> Floats:
        """The expected count, before any clamp, at each row of X."""
        return self._means(X)

    def score(self, X: object, y: object) -> float:
        """D2, the share of the Poisson deviance that is explained, as scikit-learn's PoissonRegressor has it."""
        found, means = _numbers(y), self._means(X)
        return _explained(_deviance(found, means), _deviance(found, np.full_like(found, found.mean())))


def _numbers(y: object) -> Floats:
    try:
        found = np.asarray(y, dtype=float).reshape(-1)
    except (TypeError, ValueError):
        raise InvalidArgument("y must hold numbers; write a yes/no response as 0 and 1.", argument="y") from None
    if not found.size or not np.isfinite(found).all():
        raise InvalidArgument("y must hold finite numbers, one for each row of X.", argument="y")
    return found


def _explained(left: Floats, whole: Floats) -> float:
    """1 - sum left / sum whole; where there is nothing to explain, 1 for a perfect prediction and 0 for others."""
    if whole.sum() == 0:
        return float(left.sum() == 0)
    return float(1 - left.sum() / whole.sum())


def _deviance(y: Floats, rate: Floats) -> Floats:
    """2 (y log(y / rate) - y + rate), with 0 log 0 = 0."""
    ratio = np.where(y > 0, y, 1.0) / np.where(y > 0, rate, 1.0)
    return np.asarray(2 * (y * np.log(ratio) - y + rate))
