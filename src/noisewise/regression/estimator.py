"""A regression with the manners of scikit-learn: `fit` takes releases, never data.

    estimator = PrivateLinearRegression(features=["age", "bmi"], response="cost")
    estimator.fit([release_a, release_b]).predict(X, return_std=True)
Parameters are kept as given and read by `get_params`; what was learnt ends in an underscore.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np

from noisewise.errors import InvalidArgument, NoisewiseError, Unsupported
from noisewise.inference.posterior import Posterior
from noisewise.regression.model import LinearRegression
from noisewise.regression.priors import INTERCEPT, NOISE_VARIANCE
from noisewise.regression.problem import Floats
from noisewise.release import Release

SAID_BY_A_MODEL = ("intercept", "coefficients", "noise", "prior", "covariates")


class PrivateLinearRegression:
    """Linear regression from releases: `fit`, `predict`, `coef_`, `intercept_`, `posterior_`."""

    model_: LinearRegression
    posterior_: Posterior
    coef_: Floats
    intercept_: float
    n_features_in_: int
    feature_names_in_: Any

    def __init__(
        self,
        features: Any = None,
        response: Any = None,
        *,
        model: LinearRegression | None = None,
        intercept: bool = True,
        coefficients: Any = None,
        noise: Any = None,
        prior: Any = None,
        covariates: Any = None,
        method: str = "auto",
        draws: int = 1000,
        warmup: int = 1000,
        chains: int = 4,
        seed: int | None = None,
        n: int | Sequence[int] | None = None,
    ) -> None:
        self.features = features
        self.response = response
        self.model = model
        self.intercept = intercept
        self.coefficients = coefficients
        self.noise = noise
        self.prior = prior
        self.covariates = covariates
        self.method = method
        self.draws = draws
        self.warmup = warmup
        self.chains = chains
        self.seed = seed
        self.n = n

    def fit(self, releases: Release | Sequence[Release], y: None = None) -> PrivateLinearRegression:
        """Learn from releases of Moments; `y` is there for scikit-learn's sake and must be left out."""
        if y is not None:
            raise InvalidArgument("fit takes releases, which hold the response already; leave y out.", argument="y")
        model = self._model()
        self.posterior_ = model.posterior(
            releases, method=self.method, draws=self.draws, warmup=self.warmup, chains=self.chains, seed=self.seed,
            n=self.n, progress=False,
        )  # fmt: skip
        self.model_ = model
        mean = self.posterior_.mean
        self.coef_ = np.array([mean[str(feature)] for feature in model.features], float)
        self.intercept_ = float(mean.get(INTERCEPT, 0.0))
        self.n_features_in_ = len(model.features)
        self.feature_names_in_ = np.array([str(feature) for feature in model.features], dtype=object)
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The predictive mean at each row of X, and with `return_std` the predictive sd of a new observation."""
        if not hasattr(self, "posterior_"):
            raise NoisewiseError("This regression has learnt nothing yet; call fit(releases) first.")
        if not return_std:
            return self.model_.predict_mean(self.posterior_, X)
        if self.posterior_.is_point or NOISE_VARIANCE not in self.posterior_.draws:
            raise Unsupported(
                f"This regression was fitted by method={self.posterior_.method!r}, which does not say how far a new "
                f"observation lies from its mean. Leave return_std out, or fit by method={self.posterior_.instead!r}."
            )
        predicted = self.model_.predict(self.posterior_, X)
        return predicted.mean, predicted.sd

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name, as given."""
        del deep
        return {name: getattr(self, name) for name in _parameters()}

    def set_params(self, **params: Any) -> PrivateLinearRegression:
        """Change parameters by name; call `fit` again afterwards."""
        for name, value in params.items():
            if name not in _parameters():
                raise InvalidArgument(
                    f"{name!r} is not a parameter; there are {', '.join(_parameters())}.", argument=name
                )
            setattr(self, name, value)
        return self

    def _model(self) -> LinearRegression:
        if self.model is not None:
            if self.features is not None or self.response is not None:
                raise InvalidArgument("Give a model, or features and response, not both.", argument="model")
            if not isinstance(self.model, LinearRegression):
                raise InvalidArgument(f"model is a {type(self.model).__name__}, not a LinearRegression.",
                                      argument="model")  # fmt: skip
            if beside := [name for name in SAID_BY_A_MODEL if not _is_default(name, getattr(self, name))]:
                inside = ", ".join(f"{name}=..." for name in beside)
                raise InvalidArgument(
                    f"A model was given, and beside it {', '.join(beside)}, which would be ignored. Give the model "
                    f"these, LinearRegression(features, response, {inside}), or give features and response instead.",
                    argument=beside[0],
                )
            return self.model
        if self.features is None or self.response is None:
            raise InvalidArgument("Give features and response, or a model.", argument="features")
        return LinearRegression(
            self.features, self.response, intercept=self.intercept, coefficients=self.coefficients, noise=self.noise,
            prior=self.prior, covariates=self.covariates,
        )  # fmt: skip

    def __repr__(self) -> str:
        given = {name: value for name, value in self.get_params().items() if not _is_default(name, value)}
        return f"PrivateLinearRegression({', '.join(f'{name}={value!r}' for name, value in given.items())})"


def _parameters() -> dict[str, inspect.Parameter]:
    found = dict(inspect.signature(PrivateLinearRegression.__init__).parameters)
    found.pop("self")
    return found


def _is_default(name: str, value: object) -> bool:
    """Whether a parameter was left as it is; values of other types, such as arrays, are not compared at all."""
    default = _parameters()[name].default
    return value is default or (type(value) is type(default) and bool(value == default))
