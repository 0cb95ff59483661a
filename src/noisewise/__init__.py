"""Noisewise: differentially private Bayesian estimation, end to end.

The public names are resolved when they are first used, so importing the package is immediate and a holder who only
publishes never loads what an analyst needs.
"""

from __future__ import annotations

import functools
import importlib
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from noisewise.design.choice import Choice, choose
    from noisewise.design.continuous import best_cells, best_clamp, best_exponent, best_weights
    from noisewise.design.curve import design_curve
    from noisewise.design.expected import Precision, precision
    from noisewise.design.information import Information, information
    from noisewise.design.precision import epsilon_for
    from noisewise.errors import (
        BudgetExceeded,
        DifferentRecords,
        Incomparable,
        InvalidArgument,
        InvalidData,
        InvalidRelease,
        InvalidSpec,
        LedgerError,
        NoisewiseError,
        SurveyError,
        Unsupported,
    )
    from noisewise.evaluate.calibration import calibrate
    from noisewise.graphical.model import GraphicalModel
    from noisewise.grouped.model import Grouped
    from noisewise.holder.check import RecordCheck
    from noisewise.holder.curator import make_release, make_releases
    from noisewise.holder.ledger import Ledger
    from noisewise.holder.respond import respond
    from noisewise.holder.respondent import Respondent
    from noisewise.holder.table import Table
    from noisewise.inference.infer import infer
    from noisewise.inference.open_likelihood import likelihood_of
    from noisewise.inference.population_methods import register_method
    from noisewise.inference.posterior import Posterior
    from noisewise.laws import gaussian_noise, geometric_noise, laplace_noise
    from noisewise.measuring import Measurement, measurement, randomized_response
    from noisewise.models.simulate import simulate
    from noisewise.online.survey import Survey
    from noisewise.planning import Plan, plan
    from noisewise.point.estimator import Estimator
    from noisewise.point.laplace import LaplaceEstimator, laplace_estimator
    from noisewise.point.models import FiniteModel
    from noisewise.point.optimal import optimal_estimator
    from noisewise.populations.correlation import LKJ
    from noisewise.populations.exponential_family import ExponentialFamily
    from noisewise.populations.mixture import Mixture
    from noisewise.populations.multivariate import MultivariateNormal
    from noisewise.populations.population import (
        Bernoulli,
        Categorical,
        Exponential,
        Gamma,
        Joint,
        LocationScale,
        LogNormal,
        Normal,
        Poisson,
        Population,
        Uniform,
    )
    from noisewise.populations.simulator import Simulator
    from noisewise.privacy.guarantee import ApproxDP, GaussianDP, PureDP, ZeroConcentratedDP
    from noisewise.query import Answer, Query
    from noisewise.regression.estimator import (
        PrivateLinearRegression,
        PrivateLogisticRegression,
        PrivatePoissonRegression,
        PrivateProbitRegression,
    )
    from noisewise.regression.formula import regression
    from noisewise.regression.glm.given_rows import GivenRows
    from noisewise.regression.glm.model import LogisticRegression, PoissonRegression, ProbitRegression
    from noisewise.regression.model import LinearRegression
    from noisewise.regression.priors import GivenMoments, NormalCovariates, NormalInverseGamma
    from noisewise.release import Release
    from noisewise.schema import Bounded, Levels, Schema
    from noisewise.statistics import (
        Count,
        Histogram,
        Marginals,
        Maximum,
        Mean,
        Median,
        Minimum,
        Moments,
        Quantile,
        Records,
        SmallestEigenvalue,
        Sum,
        TruncatedSum,
        column,
        statistic,
    )
    from noisewise.survey_release import SurveyRelease

__version__ = "0.1.0"
# `compilation` keeps nothing on disk in a process that is older than a source file.
IMPORTED_AT = time.time_ns()

__all__ = [
    "LKJ",
    "Answer",
    "ApproxDP",
    "Bernoulli",
    "Bounded",
    "BudgetExceeded",
    "Categorical",
    "Choice",
    "Count",
    "DifferentRecords",
    "Estimator",
    "Exponential",
    "ExponentialFamily",
    "FiniteModel",
    "Gamma",
    "GaussianDP",
    "GivenMoments",
    "GivenRows",
    "GraphicalModel",
    "Grouped",
    "Histogram",
    "Incomparable",
    "Information",
    "InvalidArgument",
    "InvalidData",
    "InvalidRelease",
    "InvalidSpec",
    "Joint",
    "LaplaceEstimator",
    "Ledger",
    "LedgerError",
    "Levels",
    "LinearRegression",
    "LocationScale",
    "LogNormal",
    "LogisticRegression",
    "Marginals",
    "Maximum",
    "Mean",
    "Measurement",
    "Median",
    "Minimum",
    "Mixture",
    "Moments",
    "MultivariateNormal",
    "NoisewiseError",
    "Normal",
    "NormalCovariates",
    "NormalInverseGamma",
    "Plan",
    "Poisson",
    "PoissonRegression",
    "Population",
    "Posterior",
    "Precision",
    "PrivateLinearRegression",
    "PrivateLogisticRegression",
    "PrivatePoissonRegression",
    "PrivateProbitRegression",
    "ProbitRegression",
    "PureDP",
    "Quantile",
    "Query",
    "RecordCheck",
    "Records",
    "Release",
    "Respondent",
    "Schema",
    "Simulator",
    "SmallestEigenvalue",
    "Sum",
    "Survey",
    "SurveyError",
    "SurveyRelease",
    "Table",
    "TruncatedSum",
    "Uniform",
    "Unsupported",
    "ZeroConcentratedDP",
    "best_cells",
    "best_clamp",
    "best_exponent",
    "best_weights",
    "calibrate",
    "choose",
    "column",
    "design_curve",
    "epsilon_for",
    "gaussian_noise",
    "geometric_noise",
    "infer",
    "information",
    "laplace_estimator",
    "laplace_noise",
    "likelihood_of",
    "make_release",
    "make_releases",
    "measurement",
    "optimal_estimator",
    "plan",
    "precision",
    "randomized_response",
    "register_method",
    "regression",
    "respond",
    "simulate",
    "statistic",
]  # fmt: skip


@functools.cache
def _homes() -> dict[str, str]:
    """The module of each public name, read from the imports above: written once, where the import rules see them."""
    import ast
    import pkgutil

    found: dict[str, str] = {}

    class Imports(ast.NodeVisitor):
        def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
            found.update({alias.name: str(node.module) for alias in node.names if alias.name in __all__})

    Imports().visit(ast.parse(pkgutil.get_data(__name__, "__init__.py") or b""))
    return found


def __getattr__(name: str) -> Any:
    if name == "imports":
        import noisewise.imports

        return noisewise.imports
    if name == "bridges":
        import noisewise.bridges

        return noisewise.bridges
    if name not in __all__:
        raise AttributeError(f"module 'noisewise' has no attribute {name!r}")
    value = getattr(importlib.import_module(_homes()[name]), name)
    # The room `regression` has the name of its function: importing it has set the name by now, and it can be called.
    return vars(sys.modules[__name__]).setdefault(name, value)


def __dir__() -> list[str]:
    return sorted([*__all__, "bridges", "imports"])
