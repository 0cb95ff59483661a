"""Regression from noisy moments: one method a file, any number of holders. Yes/no responses and counts: `glm/`.

The room can be called, `nw.regression("cost ~ age + smoker", schema, family="linear")`: see `formula.regression`.

The model, and what is believed:
    model               LinearRegression: features, response, beliefs, and what can be asked of them
    priors, units       beliefs in the units of the columns, and the way to the units of a release's rows and back
    formula             the model in words: "cost ~ age + smoker"
    text, words         the model in a spec file, and what it assumes in sentences
    subject             what all regressions on moments have
What is observed:
    observed            releases as holders of noisy sums; pooled: their sum
    problem             Problem and Fit: all that a method is given, and all that it gives back
    released            the covariates' moments as published
Methods, each a function from a Problem to a Fit:
    learn, methods      releases to a Posterior; the methods by name, and which of them `auto` takes
    marginal            the normal law of the noisy sums, nothing latent
    exact_gibbs         the exact law of the sums, which are drawn
    those of the papers, which `auto` never takes, stand in `published.regression`
What `marginal` is made of:
    coordinates         the unknowns as points of the real space, with their prior
    density, given      the log density and its gradient, for normal covariates and for given moments
    changed             the same where rows were clamped or shortened
    shortened, radial   the moments of such rows; points: the fixed points of their quadrature
    configurations      what yes/no conditions can be together, and features within each combination
    location            covariates with yes/no conditions: the general location model
    location_density    its log density and gradient
    moments, groups     means and covariances of products of a row; holders sorted for speed
What the Gibbs samplers are made of:
    loadings            what was published as linear functions of the sums; start: where a chain begins
    exact_moments       sums of normal rows and steps that keep their law
    shear               steps that move sums and parameters together
    normal_product      the sums as if normal; conjugate: the parameters given them
    wishart, chains     Wishart draws in compiled loops; what is kept of a chain
Answers, once there is a posterior or before there is a release:
    prediction          a response at new covariates; estimator: the manners of scikit-learn
    cleaning            how many rows were clamped or shortened, by the fitted model
    confidential        the sums before noise
    row_law, replicate  the law of one row; releases simulated from it, for checks, calibration and studies
    location_rows       the same with yes/no features
    information         how much a release would tell: what `choose` asks; location_information: with yes/no features
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from noisewise.regression.subject import MomentsRegression
    from noisewise.schema import Schema


class _Room(ModuleType):
    """This room. `nw.regression` names it as soon as anything in it was imported, so the room itself can be called."""

    def __call__(self, formula: str, schema: Schema, *, family: str = "linear", **beliefs: Any) -> MomentsRegression:
        """The regression that a formula describes: see `noisewise.regression.formula.regression`."""
        from noisewise.regression.formula import regression

        return regression(formula, schema, family=family, **beliefs)


sys.modules[__name__].__class__ = _Room
