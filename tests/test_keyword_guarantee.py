"""A guarantee is given by name wherever a swap would be a privacy bug; by its old place it works, with a warning."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest
from scipy import stats

import noisewise as nw
from noisewise.deprecation import by_name
from noisewise.online.interval import best_interval

ONE = nw.PureDP(1)
NORMAL = nw.Normal(mean=stats.norm(5, 3), sd=2.0)
COIN = nw.Bernoulli(p=stats.beta(2, 2))


def survey(*given, **named):
    return nw.Survey(NORMAL, *given, **named, n_particles=50, seed=1).name


def estimator(*given, **named):
    return nw.optimal_estimator(COIN, "squared", *given, **named, n=3).risk


def interval(*given, **named):
    found = best_interval("normal", *given, **named)
    return found.low, found.high


CALLS: dict[str, Callable[..., object]] = {
    "Query": lambda *given, **named: nw.Query(*given, **named, low=0, high=1),
    "Query.clip": lambda *given, **named: nw.Query.clip(0, 1, *given, **named),
    "Query.cells": lambda *given, **named: nw.Query.cells([0.5], *given, **named),
    "Survey": survey,
    "optimal_estimator": estimator,
    "best_interval": interval,
}


@pytest.mark.parametrize("name", CALLS)
def test_by_its_place_it_means_the_same_and_a_warning_says_what_to_write(name):
    by_keyword = CALLS[name](guarantee=ONE)  # warnings are errors in these tests
    with pytest.warns(DeprecationWarning, match=r"guarantee=PureDP\(1\)") as caught:
        by_place = CALLS[name](ONE)
    assert by_place == by_keyword
    (told,) = caught
    assert told.filename == __file__  # it points at the caller
    assert f"{name}(" in str(told.message)


@pytest.mark.parametrize("name", CALLS)
def test_twice_or_not_at_all_is_an_error(name):
    with pytest.raises(TypeError, match="guarantee"):
        CALLS[name](ONE, guarantee=ONE)
    with pytest.raises(TypeError, match="guarantee"):
        CALLS[name]()


def test_what_followed_a_guarantee_by_its_place_keeps_its_place():
    with pytest.warns(DeprecationWarning, match="by its name"):
        assert nw.Query(ONE, 0, 1, None, "a") == nw.Query(guarantee=ONE, low=0, high=1, id="a")
    with pytest.raises(TypeError, match="places"):
        nw.Query(ONE, 0, 1, None, "a", 7)


def public_calls():
    """Every public function, constructor and method that a user can call."""
    for name in nw.__all__:
        thing = getattr(nw, name)
        if callable(thing):
            yield name, thing
        if inspect.isclass(thing):
            members = {member: getattr(thing, member) for member in dir(thing) if not member.startswith("_")}
            yield from ((f"{name}.{member}", one) for member, one in members.items() if callable(one))


# Records that `plan` and `make_release` fill in, the account's own transaction, which make_release alone calls, and
# what `plan` asks of a statistic.
NOT_CALLED_BY_USERS = {"Plan", "Release", "Ledger.find", "Ledger.release_once", "settle", "LaplaceEstimator"}


def test_no_public_call_takes_a_guarantee_by_its_place_alone():
    seen = set()
    for name, thing in public_calls():
        try:
            parameters = inspect.signature(thing).parameters
        except (TypeError, ValueError):
            continue
        if "guarantee" in parameters and not {name, name.rpartition(".")[2]} & NOT_CALLED_BY_USERS:
            seen.add(name)
            assert parameters["guarantee"].kind is inspect.Parameter.KEYWORD_ONLY, name
    assert seen >= {"plan", "Survey", "Query", "Query.clip", "Query.cells", "optimal_estimator", "best_clamp"}


def test_the_warning_is_no_more_than_that():
    @by_name("b", write="f(1, b=2)", places=("a", "b", "c"))
    def f(a, *, b, c=3):
        """Its words."""
        return a, b, c

    assert f.__doc__ == "Its words."
    assert f(1, b=2) == (1, 2, 3)
    with pytest.warns(DeprecationWarning, match=r"write|f\(1, b=2\)"):
        assert f(1, 2, 4) == (1, 2, 4)
    with pytest.raises(TypeError, match="'c' twice"):
        f(1, 2, 4, c=5)
