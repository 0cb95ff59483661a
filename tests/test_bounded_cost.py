"""F0, of files and texts: no file of 1 MB costs more than 500 MB or 20 s, whatever is in it.

The files are written here and read in one other process, whose processor time and memory the system counts. Its
address space is limited, too, so that a test that fails does not take the machine with it.
"""

from __future__ import annotations

import copy
import hashlib
import importlib
import io
import json
import os
import subprocess
import sys
import time
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hostile_inputs import entangled
from scipy import stats

import noisewise as nw
from noisewise.errors import InvalidArgument, InvalidRelease, InvalidSpec, NoisewiseError
from noisewise.expressions import DEEPEST, LONGEST_NUMBER, parsed
from noisewise.files import read_json
from noisewise.inference.posterior import Posterior
from noisewise.inference.verdict import Verdict, Words
from noisewise.models.registry import MODELS
from noisewise.populations import text as populations_text
from noisewise.populations.text import population_from_spec, population_from_text
from noisewise.release import Release

SIZE = 2**20
MOST_MEGABYTES, MOST_SECONDS = 500, 20

READER = """
import json, resource, sys, warnings
from pathlib import Path
resource.setrlimit(resource.RLIMIT_AS, (3 * 2**30,) * 2)
resource.setrlimit(resource.RLIMIT_CPU, (400,) * 2)
import noisewise as nw
from noisewise.cli.spec import Spec
def spec(path):
    read = Spec.read(Path(path))
    return read.plans(), read.population()
def table(path):
    return nw.imports.table(path, nw.Schema({"x": nw.Bounded(0, 1)}, n=100, neighbours="change-one"))
load = {"release": nw.Release.load, "measurement": nw.Measurement.load,
        "posterior": nw.Posterior.load, "survey": nw.Survey.load, "spec": spec, "answers": nw.SurveyRelease.load,
         "csv": table, "parquet": table}
warnings.simplefilter("error")
def seconds():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
for path in sorted(Path(sys.argv[1]).iterdir()):
    before = seconds()
    try:
        told = "loaded " + repr(load[path.suffix[1:]](path))[:60]
    except nw.NoisewiseError as error:
        told = f"{type(error).__name__}: {error}"
    # The peak since this program began: ru_maxrss would begin with that of the process it was forked from.
    status = Path("/proc/self/status").read_text()
    peak = int(status.split("VmHWM:")[1].split()[0]) / 1024
    print(json.dumps([path.name, seconds() - before, peak, told]), flush=True)
"""


def release() -> Release:
    schema = nw.Schema({"x": nw.Bounded(0, 1)}, n=100, neighbours="change-one")
    plan = nw.plan(nw.Mean(nw.column("x")), schema, guarantee=nw.PureDP(1))
    return Release.of(plan, [50 * 2**20], dataset="d", ledger_head=None, simulated=False)


def forged(**changes: Any) -> str:
    """A release with other entries and the hash that fits them."""
    plain = {key: value for key, value in {**release().to_dict(), **changes}.items() if key != "hash"}
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    return json.dumps({**plain, "hash": "sha256:" + hashlib.sha256(text.encode()).hexdigest()}, separators=(",", ":"))


def mean_of(*features: str) -> dict[str, Any]:
    return {"kind": "mean", "features": list(features), "weights": ["1"] * len(features)}


def columns(**entries: Any) -> dict[str, Any]:
    return {**release().schema.to_dict(), "columns": entries}


def hostile_releases() -> Iterator[tuple[str, str]]:
    yield "good", release().to_bytes().decode()
    yield "lists", "[" + "[]," * (SIZE // 3) + "[]]"
    yield "objects", "[" + "{}," * (SIZE // 3) + "{}]"
    yield "nested", "[" * SIZE
    yield "nested-less", "[" * 90_000 + "]" * 90_000
    yield "whole-numbers", "[" + "1," * (SIZE // 2) + "1]"
    yield "one-number", "[" + "9" * SIZE + "]"
    yield "exponents", "[" + "1e99999999," * (SIZE // 11) + "1]"
    yield "texts", "[" + '"",' * (SIZE // 3) + '""]'
    yield "values", forged(value=[1] * (SIZE // 2))
    yield "long-feature", forged(statistic=mean_of("x" + "+x" * (SIZE // 2)))
    yield "wide-feature", forged(statistic=mean_of("x" + "+x" * 49_000))
    yield "signs", forged(statistic=mean_of("-" * 90_000 + "x"))
    yield "many-features", forged(statistic=mean_of(*["x**2"] * (SIZE // 30)))
    yield "brackets", forged(statistic=mean_of(*["(" * 90 + "x" + ")" * 90] * (SIZE // 200)))
    yield "calls", forged(statistic=mean_of("abs(" * 20_000 + "x" + ")" * 20_000))
    yield "escapes", forged(statistic=mean_of(r"column('\d')"))
    yield "powers", forged(statistic=mean_of("x*10**5000"))
    yield "many-columns", forged(schema=columns(**{f"c{k}": {"bounds": [0, 1]} for k in range(40_000)}))
    yield "a-large-bound", forged(schema=columns(x={"bounds": [0, 10**900]}))


def dear_releases(count: int) -> Iterator[Any]:
    """Releases whose noise takes seconds to check, each of another statistic."""
    four = columns(**{f"x{i}": {"bounds": [0, 1]} for i in range(4)})
    law = {"family": "discrete-laplace", "scale": [9.0], "step": [2.0**-17]}
    for k in range(count):
        statistic = {**mean_of(entangled(20, 4, k)), "weights": ["1/14"]}
        yield json.loads(forged(schema=four, statistic=statistic, law=law, value=[0]))


def hostile_measurements() -> Iterator[tuple[str, str]]:
    """The same entries that make a release dear, and those of noise and of many cells."""
    schema = nw.Schema({"x": nw.Bounded(0, 1)}, n=100, neighbours="change-one")
    made = nw.measurement(nw.Mean("x"), schema, 0.5, noise=nw.laplace_noise(scale=0.01)).to_dict()

    def changed(**entries: Any) -> str:
        plain = {key: value for key, value in {**made, **entries}.items() if key != "hash"}
        text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
        digest = "sha256:" + hashlib.sha256(text.encode()).hexdigest()
        return json.dumps({**plain, "hash": digest}, separators=(",", ":"))

    many = SIZE // 4
    cliques = {"kind": "marginals", "cliques": [["a", "b", "c", "d"]]}
    levels = {name: {"levels": [str(k) for k in range(9000)]} for name in "abcd"}
    yield "good", changed()
    yield "nested", "[" * SIZE
    yield "values", changed(value=[0.5] * many)
    yield "scales", changed(noise={"kind": "laplace", "scale": [1.5] * many, "rounded": False})
    yield "answers", changed(statistic={"kind": "records", "feature": "x"}, value=[0.5] * many)
    yield (
        "many-answers",
        changed(
            statistic={"kind": "records", "feature": "x"}, value=[0.5] * many, schema={**made["schema"], "n": many}
        ),
    )
    yield "cells", changed(statistic=cliques, schema={**made["schema"], "columns": levels})
    yield "response", changed(noise={"kind": "randomized-response", "keep": "1/2", "cells": 10**9})
    yield "long-keep", changed(noise={"kind": "randomized-response", "keep": "1/" + "9" * 900_000, "cells": 2})
    yield "long-feature", changed(statistic={"kind": "mean", "features": ["x" + "+x" * (SIZE // 2)]})
    yield "many-features", changed(statistic={"kind": "mean", "features": ["x**2"] * (SIZE // 30)})
    yield "tiny-scale", changed(noise={"kind": "laplace", "scale": [1e-90], "rounded": False})


def hostile_csv() -> Iterator[tuple[str, str]]:
    """Tables of measurements: a header is short beside the rows that it makes, and a row beside what is read of it."""
    header, row = "statistic,value,noise,scale\n", "mean(x),0.5,laplace,0.1\n"
    yield "one", header + row
    yield "many", header + row * 20_000
    yield "wide", ",".join(f"{k:x}" for k in range(100_000)) + "\n" + "a\n" * (SIZE // 5)
    yield "no-fields", header + ",\n" * (SIZE // 2)
    yield "one-number", header + row.replace("0.5", "9" * 120_000)
    yield "nested", header + row.replace("0.5", '"' + "[" * 100_000 + '"')
    yield "values", header + row.replace("0.5", '"[' + "1," * 60_000 + '1]"')
    yield "long-feature", header + row.replace("x)", "abs(" * 20_000 + "x" + ")" * 20_000 + ")")


def hostile_parquet() -> Iterator[tuple[str, bytes]]:
    """A few hundred bytes that unfold to rows, texts or lists without end."""
    pyarrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")

    def written(rows: int, **changes: Any) -> bytes:
        columns = {"statistic": "mean(x)", "value": 0.5, "noise": "laplace", "scale": 0.1}
        entries = {name: pyarrow.repeat(value, rows) for name, value in columns.items()} | changes
        stream = io.BytesIO()
        parquet.write_table(pyarrow.table(entries), stream, compression="zstd")
        return stream.getvalue()

    yield "good", written(2)
    yield "rows", written(20_000_000)
    yield "texts", written(50_000, source=pyarrow.DictionaryArray.from_arrays([0] * 50_000, ["x" * 500_000]))
    yield "lists", written(1, value=pyarrow.array([np.ones(20_000_000)]))
    yield "columns", written(1, **{f"c{k}": [0] for k in range(3000)})
    yield "cut", written(2)[:-20]


def npy(array: Any) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asarray(array))
    return stream.getvalue()


def npy_header(shape: tuple[int, ...], kind: str) -> bytes:
    text = repr({"descr": kind, "fortran_order": False, "shape": shape}).ljust(116) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


def archive(header: Any, members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as file:
        file.writestr("header.npy", npy(json.dumps(header)))
        for name, data in members.items():
            file.writestr(f"{name}.npy", data)
    return stream.getvalue()


def pieces(path: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The header and the arrays of an honest file."""
    with np.load(path) as file:
        return json.loads(str(file["header"])), {name: npy(file[name]) for name in file.files if name != "header"}


def posterior() -> Posterior:
    draws = {"mean": np.linspace(0, 1, 4000).reshape(4, 1000)}
    population = nw.Normal(mean=stats.norm(0.5, 1), sd=0.2)
    return Posterior(draws, "exact", "b", "auto", Verdict(Words("v")), population, (release(),))


def overlapping(header: Any) -> bytes:
    """An archive whose directory lists one member five thousand times."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        file.writestr("header.npy", npy(json.dumps(header)))
        file.writestr("draws_0.npy", npy(np.zeros(60_000)))
        for k in range(1, 5000):
            again = copy.copy(file.getinfo("draws_0.npy"))
            again.filename = f"draws_{k}.npy"
            file.filelist.append(again)
    return stream.getvalue()


def hostile_posteriors(folder: Path) -> Iterator[tuple[str, bytes]]:
    posterior().save(folder / "p")
    header, arrays = pieces(folder / "p")
    (folder / "p").unlink()

    def of(model: str, name: str = "") -> bytes:
        spec = {"class": name, "spec": {"*": model}} if name else {"spec": {"*": model}}
        return archive({**header, "population": spec}, arrays)

    yield "good", archive(header, arrays)
    yield "compressed", archive(header, {"draws_0": npy(np.zeros((4, 5_000_000)))}, zipfile.ZIP_DEFLATED)
    yield "compressed-header", archive({**header, "because": " " * 10**7}, arrays, zipfile.ZIP_DEFLATED)
    yield "shape", archive(header, {"draws_0": npy_header((4, 10**10), "<f8")})
    yield "empty-texts", archive(header, {"draws_0": npy_header((4, 10**9), "<U0")})
    yield "empty-voids", archive(header, {"draws_0": npy_header((4, 10**9), "|V0")})
    yield "overlapping", overlapping(header)
    yield "lists", archive({**header, "moments": [[]] * 60_000}, arrays)
    yield "dear-releases", archive({**header, "releases": list(dear_releases(200))}, arrays)
    yield "many-releases", archive({**header, "releases": [release().to_dict()] * 400}, arrays)
    yield "a-module", of("", "noisewise.cli.main:main")
    yield "categories", of(f"categorical(p=dirichlet([{'1,' * 9000}1]))")
    yield "heavy-tail", of("population(zipf, a=uniform(1.0001, 0.0001), loc=0)")
    levels = {name: list(range(15_000)) for name in "ab"}
    yield "levels", of(f"graphical_model(cliques=[['a', 'b']], levels={levels})", "GraphicalModel")
    yield "cliques", of(f"graphical_model(cliques=[{'[],' * 80_000}], levels={{}})", "GraphicalModel")


def hostile_surveys(folder: Path) -> Iterator[tuple[str, bytes]]:
    population = nw.Normal(mean=stats.norm(50, 50), sd=stats.halfnorm(scale=50))
    survey = nw.Survey(population, guarantee=nw.PureDP(2), n_particles=100)
    survey.answer(survey.query(), 0)
    survey.save(folder / "s")
    header, arrays = pieces(folder / "s")
    (folder / "s").unlink()
    yield "good", archive(header, arrays)
    yield "particles", archive({**header, "n_particles": 10**9}, arrays)
    yield "compressed", archive(header, {**arrays, "position": npy(np.zeros((5_000_000, 2)))}, zipfile.ZIP_DEFLATED)
    yield (
        "edges",
        archive({**header, "fixed": [nw.Query.cells(range(30_000), guarantee=nw.PureDP(2)).to_dict()]}, arrays),
    )
    asked = [[k, nw.Query.clip(0, 1 + k, guarantee=nw.PureDP(2)).to_dict()] for k in range(1, 1000)]
    kinds, numbers = np.array([0, 1] + [0] * 999, np.uint8), np.array([0, *range(1000)], np.int64)
    log = {"log_kind": npy(kinds), "log_number": npy(numbers)}
    yield "open", archive({**header, "issued": 1000, "open": asked}, {**arrays, **log})
    yield "log", archive({**header, "issued": 10**6}, {**arrays, "log_number": npy(np.zeros(10**5, np.int64))})
    yield "heavy-tail", archive({**header, "population": {"x": "population(zipf, a=uniform(1.0001, 0.0001), loc=0)"}},
                                arrays)  # fmt: skip


def hostile_answers() -> Iterator[tuple[str, str]]:
    """A survey's release with others inside: statistics whose noise takes seconds to check, two thousand of them."""
    made = nw.SurveyRelease.of("s", {nw.Query.clip(0, 1, guarantee=nw.PureDP(2)): [1]}, simulated=True)
    plain = json.loads(made.to_bytes())

    def of(*releases: Any) -> str:
        changed = {**plain, "releases": releases}
        del changed["hash"]
        text = json.dumps(changed, sort_keys=True, separators=(",", ":"))
        return json.dumps({**changed, "hash": "sha256:" + hashlib.sha256(text.encode()).hexdigest()})

    yield "good", of(*plain["releases"])
    yield "dear", of(*dear_releases(800))
    yield "many", of(*plain["releases"] * 1300)
    yield "lists", of(*[[]] * (SIZE // 4))


def hostile_specs() -> Iterator[tuple[str, str]]:
    yield "dotted", "a" + ".a" * (SIZE // 2 - 10) + "=1"
    yield "quoted", '"a"' + '."a"' * (SIZE // 4 - 10) + "=1"
    yield "lists", "schema=[" + "[]," * (SIZE // 3 - 10) + "]"
    yield "tables", "[[release]]\n" * (SIZE // 12)
    yield "nested", "a=" + "[" * (SIZE - 10)
    yield "hexadecimal", "[schema]\nn=0x" + "f" * (SIZE - 100) + "\n"
    yield "words", "[population]\nx='" + "normal(" * (SIZE // 7 - 10) + "'\n"
    yield "headers", "".join(f"[{'.'.join('a' * 20)}.b{k}]\n" for k in range(SIZE // 50))
    four = "".join(f"[schema.columns.x{i}]\nbounds = [0, 1]\n" for i in range(4))
    dear = "".join(
        f"[[release]]\nstatistic = 'mean({entangled(20, 4, k)})'\nguarantee = {{ epsilon = 1 }}\n" for k in range(200)
    )
    yield "dear-releases", f"[schema]\nn = 100\nneighbours = 'change-one'\n{four}{dear}"


GOOD = {"good.release", "good.posterior", "good.survey", "heavy-tail.posterior", "edges.survey", "open.survey",
        "categories.posterior", "many-releases.posterior", "good.measurement", "many-answers.measurement",
        "good.answers", "one.csv", "many.csv", "good.parquet"}  # fmt: skip


def test_no_file_of_a_megabyte_costs_more_than_it_may(tmp_path: Path) -> None:
    folder = tmp_path / "hostile"
    folder.mkdir()
    kinds: dict[str, Iterator[tuple[str, Any]]] = {
        "release": hostile_releases(), "posterior": hostile_posteriors(tmp_path), "survey": hostile_surveys(tmp_path),
        "spec": hostile_specs(), "measurement": hostile_measurements(), "answers": hostile_answers(),
        "csv": hostile_csv(), "parquet": hostile_parquet(),
    }  # fmt: skip
    names = set()
    for kind, files in kinds.items():
        for name, data in files:
            written = data if isinstance(data, bytes) else data.encode()
            assert len(written) < 1.1 * SIZE, name
            (folder / f"{name}.{kind}").write_bytes(written)
            names.add(f"{name}.{kind}")
    run = subprocess.run([sys.executable, "-c", READER, str(folder)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-500:] + run.stderr[-2000:]
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    assert {row[0] for row in rows} == names
    for name, seconds, peak, told in rows:
        assert seconds < MOST_SECONDS, (name, seconds, told)
        assert peak < MOST_MEGABYTES, (name, peak, told)
        assert told.startswith("loaded") == (name in GOOD), (name, told)
        assert len(told) < 5000
        assert told.isprintable()


# ---- what is no plain file ----


@pytest.mark.parametrize(
    "load",
    [nw.Release.load, nw.Measurement.load, nw.Posterior.load, nw.Survey.load],
    ids=["release", "measurement", "posterior", "survey"],
)
def test_what_is_no_plain_file_is_refused_and_not_waited_for(load: Any, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, word in ((tmp_path / "pipe", "pipe or a device"), (Path("/dev/zero"), "pipe or a device"),
                       (tmp_path, "folder"), (tmp_path / "nothing", "No such file")):  # fmt: skip
        with pytest.raises(NoisewiseError, match=word):
            load(path)
    for bad in ("", 3, None, b"x", "a\0b"):
        with pytest.raises(NoisewiseError, match="not the path of a file"):
            load(bad)


def test_a_spec_that_is_no_plain_file_is_refused(tmp_path: Path) -> None:
    from noisewise.cli.spec import Spec

    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(InvalidSpec, match="Cannot read"):
            Spec.read(path)
    (tmp_path / "large").write_text("#" * (SIZE + 1))
    with pytest.raises(InvalidSpec, match="larger than 1 MB"):
        Spec.read(tmp_path / "large")


def test_a_file_larger_than_its_kind_is_refused_before_it_is_read(tmp_path: Path) -> None:
    for load in (nw.Release.load, nw.Posterior.load):
        with (tmp_path / "sparse").open("wb") as stream:
            stream.truncate(2**40)
        with pytest.raises(NoisewiseError, match=r"larger than \d+ MB"):
            load(tmp_path / "sparse")


# ---- JSON and the grammars ----


@pytest.mark.parametrize(
    ("text", "reason"),
    [("[" * 65 + "]" * 65, "inside each other"), ("1" * 1001, "digits"), ("1e400", "too large"),
     ("NaN", "not a number"), ('{"a": 1, "a": 2}', "twice"), ("[1.0" + "0" * 1001 + "]", "too long")],
)  # fmt: skip
def test_json_beyond_its_limits_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_json(text)


def test_json_within_its_limits_is_read_as_python_reads_it() -> None:
    text = json.dumps({"a": [1, -2.5e-300, 10**300, None, True, "\u202e"], "b": {}})
    assert read_json(text) == json.loads(text)
    assert read_json("[" * 64 + "]" * 64) == json.loads("[" * 64 + "]" * 64)
    assert np.isnan(read_json("NaN", is_finite=False))


HOSTILE_TEXTS = [r"mean(column('\d'))", "mean(1if x else 2)", "mean(0x1for x)", "mean(1.if x else 2)", "mean(f'{x}')",
                 "mean(b'x')", "mean(x" + ")" * 300, "(" * 300 + "x", "mean(" + "9" * 5000 + "*x)", "mean(x)\\\n",
                 "mean(x) # comment", "mean(x*1e999)", "mean(x**0x" + "f" * 5000 + ")", "mean(x;y)", "mean('\ud800')",
                 "mean('''\n\\d''')", "mean(x is 1)", "mean('a'(1))", "mean(\x00x)", "mean(1_000_x)"]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE_TEXTS, ids=range(len(HOSTILE_TEXTS)))
def test_a_hostile_text_is_refused_in_a_sentence_without_a_warning(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for read in (nw.statistic, population_from_text, lambda t: nw.GraphicalModel.from_spec({"*": t})):
            with pytest.raises(NoisewiseError) as caught:
                read(text)
            assert str(caught.value).isprintable()


def test_the_words_of_every_grammar_are_still_read() -> None:
    for text in ("mean(abs(x)**0.5)", "mean(x.clip(-1, 2e-3))", "count(equals(column('\\x1b\\u202e'), \"it's\"))",
                 "histogram(x, [.5, 5., 0x10, 1_000])", "moments([x, y], z)", "mean(größe)"):  # fmt: skip
        assert parsed(text) is not None
        nw.statistic(text)
    assert parsed("(" * DEEPEST + "x" + ")" * DEEPEST) is not None
    assert parsed("1" * LONGEST_NUMBER) is not None


def test_a_population_of_slow_distributions_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(populations_text, "LONGEST_SECONDS", 0.2)
    slow = {f"c{k}": "normal(mean=studentized_range(3, 10), sd=1)" for k in range(100)}  # each a few tenths of a second
    joint = ", ".join(f"{name!r}: {text}" for name, text in slow.items())
    for table in (slow, {"*": f"joint({{{joint}}})"}):
        before = time.thread_time()
        with pytest.raises(InvalidSpec, match=r"more than 0\.2 seconds to read"):
            population_from_spec(table)
        assert time.thread_time() - before < 5
    assert population_from_text("normal(mean=norm(0, 1), sd=1)").free == ("mean",)


# ---- what a posterior file may hold ----


def test_a_posterior_names_its_model_by_a_fixed_list(tmp_path: Path) -> None:
    path = tmp_path / "posterior"
    assert set(MODELS) >= {"LinearRegression", "GraphicalModel"}
    regression = nw.LinearRegression(["x"], "y", coefficients=stats.norm(0, 1), noise=stats.invgamma(3))
    made = posterior()
    Posterior(made.draws, "exact", "b", "auto", Verdict(Words("v")), regression, ()).save(path)
    header, arrays = pieces(path)
    assert header["population"]["class"] == "LinearRegression"
    for name in ("LinearRegression", "noisewise.regression.model:LinearRegression"):  # the second as 0.1 wrote it
        header["population"]["class"] = name
        path.write_bytes(archive(header, arrays))
        assert nw.Posterior.load(path).population.to_spec() == regression.to_spec()
    for name in ("os:system", "noisewise.cli.main:main", "noisewise.regression.model:Path", "Posterior", "", "x.y"):
        header["population"]["class"] = name
        path.write_bytes(archive(header, arrays))
        before = set(sys.modules)
        with pytest.raises(InvalidArgument, match="is not one of LinearRegression, GraphicalModel"):
            nw.Posterior.load(path)
        assert set(sys.modules) == before


def test_a_large_honest_posterior_still_loads_with_every_bit(tmp_path: Path, rng: np.random.Generator) -> None:
    draws = {
        "mean": rng.normal(size=(4, 50_000)),
        "matrix": rng.normal(size=(4, 50_000, 2, 2)),
        "none": np.empty((4, 50_000, 0)),
    }
    population = nw.Normal(mean=stats.norm(0.5, 1), sd=0.2)
    moments = {name: (np.full(value.shape[2:], np.nan), np.zeros(value.shape[2:])) for name, value in draws.items()}
    Posterior(draws, "exact", "b", "auto", Verdict(Words("v")), population, (release(),), moments=moments).save(
        tmp_path / "p"
    )
    again = nw.Posterior.load(tmp_path / "p")
    assert all(np.array_equal(again.draws[name], value) for name, value in draws.items())
    assert again.releases == (release(),)


# ---- values on the lattice ----


@pytest.mark.parametrize(
    "value", [[47.3], [47.0], [True], ["47"], [None], [np.float64(3)], [2**100], 47, "47", None, [[1]]], ids=repr
)
def test_a_value_that_is_not_in_lattice_steps_makes_no_release(value: Any) -> None:
    plan = nw.plan(nw.Mean(nw.column("x")), release().schema, guarantee=nw.PureDP(1))
    with pytest.raises(InvalidArgument, match=r"whole numbers? of lattice steps") as caught:
        Release.of(plan, value, dataset="d", ledger_head=None, simulated=True)
    assert "47" not in str(caught.value)
    with pytest.raises(InvalidRelease, match="lattice steps"):
        Release("d", plan.schema, plan.statistic, plan.weights, plan.law, plan.guarantee, (47.3,))  # type: ignore[arg-type]


def test_whole_numbers_of_every_kind_make_a_release() -> None:
    plan = nw.plan(nw.Mean(nw.column("x")), release().schema, guarantee=nw.PureDP(1))
    for value in ([3], (np.int64(3),), np.array([3]), iter([3])):
        assert Release.of(plan, value, dataset="d", ledger_head=None, simulated=True).value == (3,)  # type: ignore[arg-type]
