"""B1: every released component is a whole number of public steps. F4: nothing that comes out quotes a record."""

import json
import subprocess
import sys
from fractions import Fraction

import pytest

import noisewise as nw
from noisewise.audit.canary import everything_said, forms, leaks, whole_story
from noisewise.audit.cases import rows_of
from noisewise.audit.faults import public_part, released
from noisewise.audit.targets import target
from noisewise.errors import NoisewiseError
from noisewise.laws import AdditiveLaw
from noisewise.laws.finite import FiniteLaw, RandomizedResponse

ROWS = rows_of(None)

x = nw.column("x")
ROW_IDS = [f"{mechanism}-{kind.__name__}" for mechanism, kind in ROWS]


def steps_of(release):
    if isinstance(release.law, RandomizedResponse | FiniteLaw):
        return [1.0] * len(release.value)
    return list(release.law.step) if isinstance(release.law, AdditiveLaw) else [release.law.step]


# ---- B1 ----


@pytest.mark.parametrize(("mechanism", "kind"), ROWS, ids=ROW_IDS)
def test_neighbours_are_released_on_the_same_lattice_with_the_same_words(mechanism, kind):
    aimed = target(mechanism, kind)
    one, other = (released(aimed.plan, data) for data in (aimed.one, aimed.other))
    assert public_part(one) == public_part(other)
    assert all(type(value) is int for value in one.value + other.value)


@pytest.mark.parametrize("guarantee", [nw.PureDP("0.001"), nw.PureDP(20), nw.GaussianDP(1)], ids=str)
@pytest.mark.parametrize("bounds", [(0, 1), (-1e30, 1e30), (1e-30, 2e-30), (1e6, 1e6 + 3)], ids=str)
def test_extreme_bounds_and_values_stay_on_the_lattice(bounds, guarantee):
    low, high = bounds
    schema = nw.Schema({"x": nw.Bounded(low, high)}, n=4, neighbours="change-one")
    plan = nw.plan(nw.Mean(x), schema, guarantee=guarantee)
    pairs = [[low, high, -1e308, 1e308], [low, high, 5e-324, -0.0]]
    releases = [released(plan, {"x": data}) for data in pairs]
    assert public_part(releases[0]) == public_part(releases[1])
    for release in releases:
        (step,) = steps_of(release)
        assert Fraction(step).numerator == 1 or Fraction(step).denominator == 1  # a power of two, as published
        (read,) = json.loads(release.to_bytes())["value"]
        assert type(read) is int
        assert Fraction(float(release.estimate[0]) * 4) / Fraction(step) == pytest.approx(read, rel=1e-15)


# ---- the canary search has power ----


@pytest.mark.parametrize("form", [repr, "{:.6g}".format, "{:.3e}".format, "{:.8f}".format, float.hex,
                                  lambda v: str(Fraction(v)), lambda v: json.dumps({"scale": [v]})])  # fmt: skip
def test_a_secret_is_found_in_every_plausible_form(form):
    secret = 1.8273645564738291
    assert leaks([secret], f"scale = {form(secret)} units")
    assert not leaks([secret], "scale = 1.8 units", b"nothing here")
    assert any(len(one) == 8 for one in forms(secret))


def test_a_secret_in_a_cause_or_a_context_is_found():
    def careless():
        try:
            raise KeyError("value 73.7283919")
        except KeyError:
            raise NoisewiseError("a clean message") from None

    with pytest.raises(NoisewiseError) as caught:
        careless()
    assert leaks([73.7283919], whole_story(caught.value))
    assert not leaks([73.7283919], str(caught.value))


# ---- F4: the whole pipeline with canaries in the records ----

CANARY, OUTLIER, WORD = 73.728391946, 918273.6455463, "canary-zqxj"
SECRETS = (CANARY, OUTLIER, WORD)
STATISTICS = [nw.Mean(x, x**2), nw.Median(x), nw.Maximum(x), nw.Quantile(x, "0.9"), nw.Histogram("x", [50]),
              nw.Records(x), nw.Moments(["x"], x**2), nw.Sum(x**"0.3")]  # fmt: skip


def schema(**options):
    columns = {"x": nw.Bounded(0, 100), "g": nw.Levels(["a", "b"])}
    return nw.Schema(columns, n=3, neighbours="change-one", **options)


def good():
    return {"x": [CANARY, 5.5, OUTLIER], "g": ["a", "b", "a"]}


@pytest.mark.parametrize("statistic", STATISTICS, ids=str)
def test_no_output_log_or_printed_form_of_a_release_holds_a_record(statistic, tmp_path):
    with everything_said() as said:
        table = nw.Table.read(good(), schema())
        plan = nw.plan(statistic, schema(), guarantee=nw.PureDP("0.1"))
        with nw.Ledger.open(tmp_path / "ledger", limit=nw.PureDP("0.1")) as ledger:
            release = nw.make_release(table, plan, ledger=ledger)
            release.save(tmp_path / "out.json")
            shown = [str(ledger), repr(ledger), repr(ledger.entries()), repr(table), plan.describe(), repr(release)]
            with pytest.raises(NoisewiseError) as caught:
                nw.make_release(table, nw.plan(nw.Mean(x), schema(), guarantee=nw.PureDP(1)), ledger=ledger)
            shown.append(whole_story(caught.value))
    outputs = [*shown, said.getvalue(), (tmp_path / "out.json").read_bytes(), (tmp_path / "ledger").read_bytes()]
    assert leaks(SECRETS, *outputs) == []


BAD = {
    "outside": ({"x": [CANARY, OUTLIER, 1.0], "g": ["a", "b", "a"]}, {"outside": "refuse"}),
    "unparsable": ({"x": [str(CANARY), WORD, "1"], "g": ["a", "b", "a"]}, {}),
    "unknown level": ({"x": [CANARY, 1.0, 2.0], "g": ["a", WORD, "a"]}, {}),
    "missing": ({"x": [CANARY, None, 2.0], "g": ["a", "b", "a"]}, {}),
    "infinite": ({"x": [CANARY, float("inf"), 2.0], "g": ["a", "b", "a"]}, {}),
    "row count": ({"x": [CANARY, 1.0], "g": ["a", "b"]}, {}),
    "mixed types": ({"x": [CANARY, WORD, b"\xff"], "g": ["a", "b", "a"]}, {}),
    "lists": ({"x": [[CANARY], [WORD], []], "g": ["a", "b", "a"]}, {}),
    "ragged": ({"x": [CANARY, 1.0, 2.0], "g": ["a", WORD]}, {}),
    "no column": ({WORD: [CANARY, 1.0, 2.0], "g": ["a", "b", "a"]}, {}),
}


@pytest.mark.parametrize("name", BAD)
def test_refused_records_are_quoted_nowhere(name):
    data, options = BAD[name]
    with everything_said() as said, pytest.raises(NoisewiseError) as caught:
        nw.Table.read(data, schema(**options))
    assert leaks(SECRETS, whole_story(caught.value), said.getvalue()) == []


def test_a_defect_while_noise_is_drawn_quotes_no_record(monkeypatch, tmp_path):
    from noisewise.holder import draw

    def broken(law):
        raise ValueError(f"cannot add noise to {CANARY}")

    monkeypatch.setattr(draw, "noise", broken)
    plan = nw.plan(nw.Mean(x), schema(), guarantee=nw.PureDP(1))
    with nw.Ledger.open(tmp_path / "ledger", limit=nw.PureDP(1)) as ledger:
        with everything_said() as said, pytest.raises(NoisewiseError) as caught:
            nw.make_release(nw.Table.read(good(), schema()), plan, ledger=ledger)
        assert ledger.spent() is None
    assert leaks(SECRETS, str(caught.value), repr(caught.value.fields), said.getvalue()) == []
    assert leaks(SECRETS, whole_story(caught.value)) == [], "not even as the error's context"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), str(CANARY), [CANARY], True, None])
def test_an_answer_refused_in_the_local_model_quotes_no_value(value):
    query = nw.Query.clip(0, 100, guarantee=nw.PureDP(1))
    with pytest.raises(NoisewiseError) as caught:
        nw.respond(query, value, cap=nw.PureDP(1))
    assert leaks(SECRETS, whole_story(caught.value)) == []


SPEC = """
[schema]
n = 3
neighbours = "change-one"
outside = "refuse"
[schema.columns]
x = { bounds = [0, 100] }
[release]
statistic = "mean(x)"
guarantee = { epsilon = "1" }
"""


@pytest.mark.parametrize("rows", [f"{CANARY}\n{OUTLIER}\n1", f"{CANARY}\n{WORD}\n1", f'{CANARY}\n"{WORD}\n1',
                                  f"{CANARY},{WORD}\n1\n2"])  # fmt: skip
def test_the_command_line_quotes_no_record_and_shows_no_traceback(rows, tmp_path):
    (tmp_path / "spec.toml").write_text(SPEC)
    (tmp_path / "data.csv").write_text(f"x\n{rows}\n")
    script = "import sys; from noisewise.cli.main import main; sys.argv = ['noisewise', *sys.argv[1:]]; main()"
    options = [f"--{name}={tmp_path / file}" for name, file in
               (("data", "data.csv"), ("ledger", "l"), ("out", "o.json"))]  # fmt: skip
    run = subprocess.run(
        [sys.executable, "-c", script, "release", str(tmp_path / "spec.toml"), *options], capture_output=True
    )
    assert run.returncode == 2
    assert b"Traceback" not in run.stderr
    assert leaks(SECRETS, run.stdout, run.stderr) == []
