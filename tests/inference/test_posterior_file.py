"""Posteriors in files: what is saved comes back whole, and what is no posterior is refused in one sentence (E7)."""

import contextlib
import io
import json
import math

import numpy as np
import pytest
from normal_posteriors import POPULATION, kept
from scipy import stats

from noisewise.errors import InvalidArgument, NoisewiseError, Unsupported
from noisewise.inference.diagnostics import verdict
from noisewise.inference.posterior import Posterior
from noisewise.inference.verdict import Verdict, Words
from noisewise.populations.population import Bernoulli, Joint, LocationScale, Normal, Population
from noisewise.populations.text import population_to_spec

SAID = Verdict(Words("as it was said"))


def assert_same(one, other):
    assert list(one.draws) == list(other.draws)
    for name in one.draws:
        assert np.array_equal(one.draws[name], other.draws[name])
    assert one.releases == other.releases
    assert population_to_spec(one.population) == population_to_spec(other.population)
    for name in ("method", "because", "likelihood", "seed", "is_point", "log_evidence", "seconds", "stated_n",
                 "instead", "verdict"):  # fmt: skip
        assert getattr(one, name) == getattr(other, name), name
    assert (one.moments is None) == (other.moments is None)
    if one.moments is not None:
        for name, pair in one.moments.items():
            assert [np.asarray(v).tolist() for v in pair] == [np.asarray(v).tolist() for v in other.moments[name]]
    assert np.array_equal(one.energy, other.energy) if one.energy is not None else other.energy is None


@pytest.mark.parametrize("name", ["posterior.npz", "posterior", "posterior.json"])
def test_a_saved_posterior_comes_back_in_every_field_and_answers_the_same(posterior, tmp_path, name):
    posterior.save(tmp_path / name)
    assert [file.name for file in tmp_path.iterdir()] == [name]
    loaded = Posterior.load(tmp_path / name)
    assert_same(posterior, loaded)
    assert loaded.check == posterior.check
    assert np.array_equal(loaded.statistic.draws, posterior.statistic.draws)
    assert loaded.summary() == posterior.summary()


def test_every_kind_of_posterior_survives_a_file(rng, tmp_path):
    x = rng.standard_normal((2, 50))
    joint = Joint(x=Normal(mean=stats.norm(0, 1), sd=stats.halfnorm(scale=3)), smoker=Bernoulli(p=stats.beta(1, 1)))
    made = [
        Posterior(
            {"x.mean": x, "x.sd": np.exp(x), "smoker.p": 1 / (1 + np.exp(x))},
            "nuts", "because", "clt", verdict(x[:, :, None]), joint, (), seed=3, stated_n=[400, 20], energy=x,
        ),
        Posterior.point({"mean": 1.0}, method="map", how="", population=POPULATION, releases=[], instead="exact"),
        Posterior(
            {"mean": x}, "mh", "", "auto", SAID, POPULATION, (), moments={"mean": (math.nan, math.inf)}, seconds=1.0
        ),
    ]  # fmt: skip
    for k, posterior in enumerate(made):
        posterior.save(tmp_path / str(k))
        loaded = Posterior.load(tmp_path / str(k))
        if k == 1:
            assert loaded.is_point
        if k == 2:
            assert math.isnan(loaded.mean["mean"])
            assert loaded.sd["mean"] == math.inf
            posterior, loaded = (Posterior(**kept(p) | {"moments": None}) for p in (posterior, loaded))
        if k == 0:
            assert isinstance(loaded.verdict, Verdict)
            assert str(loaded.verdict) == str(posterior.verdict)
            posterior, loaded = (Posterior(**kept(p) | {"verdict": SAID}) for p in (posterior, loaded))
        assert_same(posterior, loaded)


def altered(path, change):
    """The file with its header changed."""
    with np.load(path, allow_pickle=False) as file:
        arrays = {key: file[key] for key in file.files}
    header = json.loads(str(arrays["header"]))
    change(header, arrays)
    arrays["header"] = np.array(json.dumps(header))
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    path.write_bytes(stream.getvalue())


def test_bad_files_are_refused_in_one_sentence(posterior, tmp_path):
    path = tmp_path / "p"
    changes = {
        "a newer version": lambda h, _: h.update(format="noisewise-posterior/3"),
        "a missing field": lambda h, _: h.pop("method"),
        "missing draws": lambda _, a: a.pop("draws_0"),
        "an edited release": lambda h, _: h["releases"][0].update(value=[1]),
        "a hostile model": lambda h, _: h.update(population={"class": "os:system", "spec": "true"}),
        "a hostile population": lambda h, _: h.update(population={"spec": {"x": "__import__('os')"}}),
        "draws of another shape": lambda _, a: a.update(draws_0=np.ones(3)),
        "an unknown verdict": lambda h, _: h.update(verdict={"kind": "Verdict"}),
        "a verdict of no kind": lambda h, _: h.update(verdict={"kind": "os.system", "text": "true"}),
        "a verdict without numbers": lambda h, _: h["verdict"].update(non_finite=["a"]),
        "a check without numbers": lambda h, _: h.update(
            check={"components": {"a": "b"}, "overall": 0, "replicates": 0}
        ),
        "a check of nothing": lambda h, _: h.update(check=[]),
        "draws of nothing": lambda _, a: a.update(draws_0=a["draws_0"][:, :0]),
        "chains of nothing": lambda _, a: a.update(draws_0=a["draws_0"][:0]),
    }
    for name, change in changes.items():
        posterior.save(path)
        altered(path, change)
        with pytest.raises(InvalidArgument, match="saved posterior") as error:
            Posterior.load(path)
        assert error.value.argument == "path", name
    posterior.save(path)
    altered(path, lambda h, _: h.update(log_evidence=10**400, seconds=10**400))
    with contextlib.suppress(InvalidArgument):  # refused, or a number that can be said
        Posterior.load(path).summary()
    posterior.save(path)
    whole = path.read_bytes()
    np.save(tmp_path / "one.npy", np.ones(3))
    np.savez(tmp_path / "pickled.npz", header=np.array([{"format": "noisewise-posterior/1"}], dtype=object))
    one, pickled = ((tmp_path / name).read_bytes() for name in ("one.npy", "pickled.npz"))
    for data in (b"", b"{}", whole[: len(whole) // 2], one, pickled):
        path.write_bytes(data)
        with pytest.raises(InvalidArgument, match="saved posterior"):
            Posterior.load(path)
    with pytest.raises(InvalidArgument, match="saved posterior"):
        Posterior.load(tmp_path / "nowhere")
    for bad in ("", None, 3):
        with pytest.raises(InvalidArgument) as error:
            Posterior.load(bad)
        assert error.value.argument == "path"
    with pytest.raises(NoisewiseError, match="Cannot write"):
        posterior.save(tmp_path / "no" / "folder")


class Triangular(stats.rv_continuous):
    """A distribution scipy.stats does not know by name."""

    def _pdf(self, x):
        return np.where(np.abs(x) < 1, 1 - np.abs(x), 0.0)


def test_a_population_that_cannot_be_written_is_a_clear_error(rng, tmp_path):
    for population in (
        Population(Triangular(a=-1, b=1, name="triangular"), loc=stats.norm(), scale=1),
        LocationScale(Triangular(a=-1, b=1, name="triangular")(), loc=stats.norm(), scale=1),
    ):
        posterior = Posterior({"loc": rng.normal(size=(2, 20))}, "mh", "", "auto", SAID, population, ())
        with pytest.raises(Unsupported, match="cannot be saved, because its population cannot be written"):
            posterior.save(tmp_path / "p")
        assert not list(tmp_path.iterdir())
