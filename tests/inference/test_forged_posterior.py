"""A posterior file with one entry changed is refused in a sentence, or is as good as any other posterior."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats

import noisewise as nw
from noisewise.errors import NoisewiseError

X = nw.column("x")
NORMAL = nw.Normal(mean=stats.norm(0.5, 1), sd=stats.halfnorm(scale=1))
WRONG = (None, 1, -1, 1.5, "x", "\x1b[2J", [], {}, True, 1e308, 10**30, [1], "nan")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The header and the arrays of a posterior file."""
    schema = nw.Schema({"x": nw.Bounded(0, 1)}, n=2000, neighbours="change-one")
    plan = nw.plan(nw.Mean(X, X**2), schema, guarantee=nw.PureDP(1))
    release = nw.simulate(plan, NORMAL, at={"mean": 0.5, "sd": 0.2}, seed=1)
    path = tmp_path_factory.mktemp("saved") / "posterior.npz"
    nw.infer(release, NORMAL, seed=1, draws=200, progress=False).save(path)
    with np.load(path) as file:
        return json.loads(str(file["header"])), {name: file[name] for name in file.files if name != "header"}


def places(plain, path=()):
    """The paths of all entries that hold no others; releases check themselves."""
    if isinstance(plain, dict | list):
        for key, value in plain.items() if isinstance(plain, dict) else enumerate(plain):
            if path or key not in ("releases", "format"):
                yield from places(value, (*path, key))
    if not isinstance(plain, dict | list) or path in (("moments",), ("verdict",), ("names",)):
        yield path


def written(path, header, arrays):
    np.savez(path, header=np.array(json.dumps(header)), **arrays)
    return path


def test_no_single_forged_entry_of_a_header_breaks_a_reader(saved, tmp_path):
    header, arrays = saved
    for place in places(header):
        for wrong in WRONG:
            forged = json.loads(json.dumps(header))
            entry = forged
            for key in place[:-1]:
                entry = entry[key]
            entry[place[-1]] = wrong
            try:
                posterior = nw.Posterior.load(written(tmp_path / "forged.npz", forged, arrays))
                text = posterior.summary() + str(posterior.verdict) + posterior.because
                posterior.save(tmp_path / "again.npz")
            except NoisewiseError:
                continue
            assert "\x1b" not in text, place


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda sd: -sd, "outside"),
        (lambda sd: sd + np.nan, "finite"),
        (lambda sd: sd + np.inf, "finite"),
    ],
)
def test_draws_that_cannot_be_draws_of_their_parameter_are_refused(saved, tmp_path, change, reason):
    header, arrays = saved
    forged = arrays | {"draws_1": change(arrays["draws_1"])}
    with pytest.raises(NoisewiseError, match=reason):
        nw.Posterior.load(written(tmp_path / "forged.npz", header, forged))


def test_the_file_itself_loads(saved, tmp_path):
    header, arrays = saved
    assert nw.Posterior.load(written(tmp_path / "same.npz", header, arrays)).verdict.is_converged
