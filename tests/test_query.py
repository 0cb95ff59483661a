"""Questions and answers of the local model as plain data: whoever knows the question knows the law of the answer."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import noisewise as nw
from noisewise.errors import InvalidArgument, NoisewiseError, Unsupported
from noisewise.laws.finite import RandomizedResponse

QUERIES = {
    "clip, laplace": nw.Query.clip(-1, 3, guarantee=nw.PureDP(1)),
    "clip, odd bounds": nw.Query.clip(Fraction(1, 3), "0.7", guarantee=nw.PureDP("0.01"), id="round 7"),
    "clip, gaussian": nw.Query.clip(0, 250, guarantee=nw.GaussianDP(2)),
    "clip, concentrated": nw.Query.clip(0, 250, guarantee=nw.ZeroConcentratedDP("0.5")),
    "clip, approximate": nw.Query.clip(-250, 0, guarantee=nw.ApproxDP(1, "1e-6")),
    "one threshold": nw.Query.cells([0], guarantee=nw.PureDP(1)),
    "cells": nw.Query.cells([-1.5, 0, 2, 40], guarantee=nw.PureDP(5), id="é"),
    "far cells": nw.Query.cells([1e20], guarantee=nw.PureDP(5)),
}


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_and_its_answer_survive_the_trip_as_json(name: str) -> None:
    query = QUERIES[name]
    assert nw.Query.from_dict(json.loads(json.dumps(query.to_dict()))) == query
    answer = nw.Answer(query, 1)
    assert nw.Answer.from_dict(json.loads(json.dumps(answer.to_dict()))) == answer


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_that_understates_its_noise_is_refused(name: str) -> None:
    plain = json.loads(json.dumps(QUERIES[name].to_dict()))
    law = plain["law"]
    if "keep" in law:
        forged = [law | {"keep": "999/1000"}, law | {"cells": law["cells"] + 1}]
    else:
        forged = [law | {"scale": [law["scale"][0] / 2]}, law | {"step": [law["step"][0] * 2]}]
    for wrong in [*forged, {}, None, 5, [], "laplace", {"family": "finite", "rows": [["1"]], "actions": [0]}]:
        with pytest.raises(InvalidArgument, match="do not answer"):
            nw.Query.from_dict(plain | {"law": wrong})
    without = {key: value for key, value in plain.items() if key != "law"}
    assert nw.Query.from_dict(without) == QUERIES[name]  # the law is implied, never trusted


def test_a_reading_is_in_the_units_of_x_or_the_number_of_a_cell() -> None:
    clip = QUERIES["clip, laplace"]
    assert nw.Answer(clip, -7).reading == -7 * clip.law.step[0]
    assert nw.Answer(QUERIES["cells"], 4).reading == 4.0
    law = QUERIES["cells"].law
    assert isinstance(law, RandomizedResponse)
    assert law.cells == 5


@pytest.mark.parametrize("value", [-1, 5, 1.0, True, None, "1", 2**70], ids=repr)
def test_an_answer_that_is_no_cell_is_refused(value: Any) -> None:
    with pytest.raises(InvalidArgument, match="value"):
        nw.Answer(QUERIES["cells"], value)


@pytest.mark.parametrize("value", [1.0, True, None, "1", 2**70, -(2**70)], ids=repr)
def test_an_answer_off_the_lattice_is_refused(value: Any) -> None:
    with pytest.raises(InvalidArgument, match="value"):
        nw.Answer(QUERIES["clip, laplace"], value)


def test_a_number_of_numpy_is_kept_as_a_plain_one() -> None:
    for name, value in (("cells", np.int64(1)), ("clip, laplace", np.int32(-7))):
        answer = nw.Answer(QUERIES[name], value)
        assert type(answer.value) is int
        assert json.loads(json.dumps(answer.to_dict()))["value"] == value


BAD = [None, 5, "", "x", b"x", [], {}, True, float("nan"), float("inf"), 10**400, [None], {"a": 1}, np.array([2, 1]),
       {"family": "discrete-laplace", "scale": np.array([1, 2]), "step": [1]}]  # fmt: skip


@pytest.mark.parametrize("bad", BAD, ids=lambda v: repr(v)[:18])
def test_bad_plain_forms_are_refused_and_never_crash(bad: Any) -> None:
    plain = QUERIES["clip, laplace"].to_dict()
    for entry in ("guarantee", "low", "high", "law"):
        with pytest.raises(NoisewiseError):
            nw.Query.from_dict(plain | {entry: bad})
    if bad is not None:
        with pytest.raises(NoisewiseError):
            nw.Query.from_dict(plain | {"edges": bad})
    if not isinstance(bad, str) and bad is not None:
        with pytest.raises(InvalidArgument, match="id"):
            nw.Query.from_dict(plain | {"id": bad})
    with pytest.raises(NoisewiseError):
        nw.Query.from_dict(bad)
    with pytest.raises(NoisewiseError):
        nw.Answer.from_dict(bad)
    with pytest.raises(NoisewiseError):
        nw.Answer.from_dict({"query": bad, "value": 1})
    with pytest.raises(NoisewiseError):
        nw.Query.cells(bad, guarantee=nw.PureDP(1))
    with pytest.raises(NoisewiseError):
        nw.Query.clip(0, 1, guarantee=bad)
    with pytest.raises(InvalidArgument, match="query"):
        nw.Answer(bad, 1)


def test_questions_that_do_not_fit_together_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="either"):
        nw.Query(guarantee=nw.PureDP(1))
    with pytest.raises(InvalidArgument, match="either"):
        nw.Query(guarantee=nw.PureDP(1), low=0, high=1, edges=(0.5,))
    with pytest.raises(InvalidArgument, match="either"):
        nw.Query(guarantee=nw.PureDP(1), low=0, edges=(0.5,))
    with pytest.raises(InvalidArgument, match="low must be less"):
        nw.Query.clip(3, 1, guarantee=nw.PureDP(1))
    with pytest.raises(InvalidArgument, match="increase"):
        nw.Query.cells([1, 1], guarantee=nw.PureDP(1))
    with pytest.raises(Unsupported, match="randomized-response"):
        nw.Query.cells([1], guarantee=nw.GaussianDP(1))
    with pytest.raises(InvalidArgument):
        nw.Query.from_dict(QUERIES["cells"].to_dict() | {"x": 3})
