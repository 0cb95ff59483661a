"""Nothing can seed the noise (B4): not a generator, not a fork, not another module."""

import ast
import json
import os
import pathlib
import subprocess
import sys

import pytest

import noisewise

SOURCE = pathlib.Path(noisewise.__file__).parent


DRAW_EVERYTHING = """
import json, os, random, sys
import numpy
random.seed(1); numpy.random.seed(1)
from fractions import Fraction
from noisewise.holder import draw
from noisewise.laws import *
big = (2.0**40,) * 4, (1.0,) * 4
cells = RandomizedResponse(Fraction(1, 64), 64)
flat = [Fraction(1, 2**20)] * 2**10
def everything():
    return {
        "laplace": draw.noise(DiscreteLaplace(*big)),
        "gaussian": draw.noise(DiscreteGaussian(*big)),
        "rounded": draw.noise(RoundedGaussian(*big)),
        "records": draw.noise_per_record(DiscreteLaplace((2.0**40,), (1.0,)), 4).tolist(),
        "smooth-laplace": [draw.smooth_noise(SmoothLaplace(1, 0.1, 1.0), 2.0**40) for _ in range(4)],
        "smooth-cauchy": [draw.smooth_noise(SmoothCauchy(1, 0.1, 1.0), 2.0**40) for _ in range(4)],
        "answers": draw.answers(cells, numpy.zeros(40, dtype=int)).tolist(),
        "row": [draw.from_row([Fraction(1, 1024)] * 1024) for _ in range(20)],
        "weights": [draw.weighted_index([1] * 1024, [Fraction(1)] * 1024) for _ in range(20)],
    }
"""
ONCE = DRAW_EVERYTHING + "print(json.dumps(everything()))"
FORKED = (
    DRAW_EVERYTHING
    + """
everything()  # whatever state there is, the children inherit it
for _ in range(2):
    child = os.fork()
    if child == 0:
        print(json.dumps(everything()), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
print(json.dumps(everything()))
"""
)


def run(script):
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    finished = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True
    )
    return [json.loads(line) for line in finished.stdout.splitlines()]


def repeated(runs):
    """The drawers that gave the same output in two runs (each output has over 100 bits of entropy)."""
    return {
        name for name in runs[0] for i, first in enumerate(runs) for second in runs[:i] if first[name] == second[name]
    }


def test_seeding_every_generator_does_not_repeat_the_noise():
    runs = run(ONCE) + run(ONCE)
    assert len(runs) == 2
    assert len(runs[0]) == 9
    assert repeated(runs) == set()
    assert repeated([runs[0], runs[0]]) == set(runs[0])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_does_not_repeat_its_parent():
    runs = run(FORKED)
    assert len(runs) == 3
    assert repeated(runs) == set()


GENERATORS = {"random", "default_rng", "RandomState", "SystemRandom", "urandom", "getrandom", "rvs", "uuid1", "uuid4"}
NOISE = {"secrets", "make_laplace", "make_gaussian", "make_noise", "make_geometric", "make_randomized_response"}
NOISE |= {"then_laplace", "then_gaussian", "then_noise", "then_geometric", "measurements"}
# The ledger's secret salt and the data set's random id are no noise.
# Nor are a survey's invitations, receipts and operator's token, and the salt under which a server forgets who asked.
SALT = {"holder/ledger.py", "holder/ledger_chain.py", "collector/board.py", "collector/desk.py", "collector/limits.py"}


def names_in(source):
    """Every attribute and imported name in a module, and every use of the module `secrets` as `secrets.use`."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            names.add(node.attr)
            if isinstance(node.value, ast.Name) and node.value.id == "secrets":
                names.add(f"secrets.{node.attr}")
        elif isinstance(node, ast.Import):
            names.update(f"{alias.name}.*" for alias in node.names if alias.asname)
            names.update(part for alias in node.names for part in alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
            names.update([*(node.module or "").split("."), *(alias.name for alias in node.names)])
    # A variable may be called `secrets`; only the imported module is a source of randomness.
    return names if "secrets" in names else {name for name in names if not name.startswith("secrets.")}


def misused(path, source):
    """Names a module may not mention: any other generator in the holder's wing, any noise source outside draw.py."""
    names, found = names_in(source), set()
    if path.startswith("holder/"):
        found |= names & GENERATORS
    if path != "holder/draw.py":
        tokens = {"secrets", "secrets.token_hex", "secrets.token_bytes", "secrets.token_urlsafe"}
        allowed = tokens if path in SALT else set()
        found |= {name for name in names if name in NOISE or name.startswith("secrets.")} - allowed
    return found


def test_no_other_module_draws_noise_and_no_other_generator_is_used():
    modules = {path.relative_to(SOURCE).as_posix(): path.read_text("utf-8") for path in SOURCE.rglob("*.py")}
    assert "holder/draw.py" in modules
    assert {path: found for path, source in modules.items() if (found := misused(path, source))} == {}


@pytest.mark.parametrize(
    ("path", "planted"),
    [
        ("holder/draw.py", "import random"),
        ("holder/draw.py", "import numpy as np\nnoise = np.random.default_rng(0).normal()"),
        ("holder/curator.py", "from numpy.random import default_rng"),
        ("holder/curator.py", "from scipy import stats\nx = stats.norm.rvs()"),
        ("holder/table.py", "import os\nx = os.urandom(8)"),
        ("holder/curator.py", "import secrets\nx = secrets.randbits(8)"),
        ("holder/ledger.py", "import secrets\nx = secrets.randbelow(8)"),
        ("privacy/mechanism.py", "import opendp.prelude as dp\nm = dp.m.make_laplace(1)"),
        ("holder/ledger.py", "from secrets import randbelow"),
        ("holder/ledger.py", "import secrets as s"),
        ("likelihood/additive.py", "from secrets import token_bytes"),
        ("plan.py", "from opendp.measurements import make_gaussian"),
    ],
)
def test_the_source_scan_sees_a_planted_generator(path, planted):
    assert misused(path, planted)
