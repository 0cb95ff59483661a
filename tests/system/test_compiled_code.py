"""Compiled code is that of the sources: kept between runs of Python, never beyond an edit."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import noisewise

SOURCE = Path(noisewise.__file__).parent
OURS = "from noisewise.compilation import njit"
CALLEE = """
{njit}
FACTOR = {factor}
@njit(cache=True)
def value(x):
    return FACTOR * x
@njit(cache=True)
def density(position, data, gradient):
    gradient[:] = 0.0
    return {factor} * position[0]
"""
CALLER = """
{njit}
from noisewise.callee import FACTOR, value
@njit(cache=True)
def called(x):
    return value(x)
@njit(cache=True)
def constant(x):
    return FACTOR * x
"""
# Prints the values through the callers, and how many of the three came from the disk.
RUN = """
import numpy as np
from noisewise.callee import density
from noisewise.caller import called, constant
from noisewise.inference.hamiltonian import Chain, N_RECORDS, walk_of
walk = walk_of(density, "walk_of_callee")
records = np.zeros((1, 1 + N_RECORDS))
chain = Chain(np.eye(1), np.ones(1), np.zeros(6))
walk(0, chain, np.zeros((1, 1)), np.ones((1, 2)), records, False)
values = called(1.0), constant(1.0), records[0, 1]
print(*values, sum(f._cache_hits.total() for f in (called, constant, walk)))
"""

QUICK = """
from noisewise.caller import constant
print(constant(1.0), constant._cache_hits.total())
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the sources with two rooms more: a compiled callee and its callers."""
    copy = tmp_path / "copy" / "noisewise"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    write(copy, factor=1.0)
    return copy


def write(package: Path, *, factor: float, njit: str = OURS) -> None:
    (package / "callee.py").write_text(CALLEE.format(factor=factor, njit=njit))
    (package / "caller.py").write_text(CALLER.format(njit=njit))
    time.sleep(0.1)  # sources younger than a tick of the clock are not trusted


def environment(package: Path, **more: str) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("NUMBA_CACHE", "XDG_"))}
    return {**kept, "PYTHONPATH": str(package.parent), "HOME": str(package.parent / "home"), **more}


def run(package: Path, code: str = RUN, **more: str) -> list[float]:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment(package, **more)
    )
    assert done.returncode == 0, done.stderr
    return [float(word) for word in done.stdout.split()]


def folders(package: Path) -> list[Path]:
    return list((package / "__pycache__" / "noisewise-compiled").glob("*"))


def test_a_kept_caller_runs_the_edited_callee(package: Path) -> None:
    assert run(package) == [1.0, 1.0, 1.0, 0.0]
    assert run(package) == [1.0, 1.0, 1.0, 3.0]  # it is kept
    write(package, factor=2.0)
    assert run(package) == [2.0, 2.0, 2.0, 0.0]
    write(package, factor=1.0)
    assert run(package) == [1.0, 1.0, 1.0, 3.0]  # and found again by sources it was made from


def test_numbas_own_stamp_would_run_the_old_callee(package: Path) -> None:
    """The test above has power: with the plain decorator the callers keep the old code."""
    write(package, factor=1.0, njit="from numba import njit")
    run(package, RUN)
    write(package, factor=2.0, njit="from numba import njit")
    assert run(package)[:2] == [1.0, 1.0]


@pytest.mark.slow
def test_an_edit_of_the_normal_laplace_density_reaches_the_functions_compiled_on_it(package: Path) -> None:
    code = (
        "from noisewise.likelihood.normal_laplace_pair import log_density\n"
        "print(float(log_density([0.5, 1.0], mean=[0, 0], covariance=[[1, 0.5], [0.5, 1]], scale=[1, 2])))"
    )
    before = run(package, code)
    file = package / "likelihood" / "compiled.py"
    text = file.read_text()
    assert "ROOT_2 = math.sqrt(2.0)" in text
    file.write_text(text.replace("ROOT_2 = math.sqrt(2.0)", "ROOT_2 = math.sqrt(3.0)"))
    assert run(package, code) != before


def test_a_process_whose_sources_change_under_it_keeps_nothing(package: Path) -> None:
    """The callee of the new text is in memory with everything else old: neither of the two sources."""
    code = "from noisewise.compilation import njit\nfrom pathlib import Path\nimport noisewise.callee\n"
    edit = f"Path({str(package / 'plan.py')!r}).open('a').write('# edited')\n"
    values = run(package, code + edit + QUICK)
    assert values == [1.0, 0.0]
    assert not [file for folder in folders(package) for file in folder.rglob("*.nbi")]
    # Sources edited between the package's import and the first compiled function are not trusted either.
    assert run(package, "import noisewise\nfrom pathlib import Path\n" + edit + QUICK) == [1.0, 0.0]
    assert not [file for folder in folders(package) for file in folder.rglob("*.nbi")]


def test_folders_of_old_sources_do_not_pile_up(package: Path) -> None:
    first = [package / "__pycache__" / "noisewise-compiled" / f"{age}" for age in range(1, 7)]
    for age, folder in enumerate(first):
        (folder / "likelihood").mkdir(parents=True)
        os.utime(folder, (1e9 - age, 1e9 - age))
    run(package, QUICK)
    assert sorted(set(folders(package)) & set(first)) == first[:3]  # the last used
    write(package, factor=2.0)
    run(package, QUICK)
    assert sorted(set(folders(package)) & set(first)) == first[:2]
    assert run(package, QUICK) == [2.0, 1.0]
    assert len(folders(package)) == 4


def test_where_nothing_can_be_written_the_code_is_compiled_all_the_same(package: Path, tmp_path: Path) -> None:
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "noisewise-compiled").write_text("a file where a folder should be")
    (package.parent / "home").write_text("no home")
    assert run(package, QUICK, NUMBA_CACHE_DIR="/dev/null/nowhere") == [1.0, 0.0]
    assert run(package, QUICK) == [1.0, 0.0]
    # The user's own folder is used next, and NUMBA_CACHE_DIR comes first.
    (package.parent / "home").unlink()
    (package.parent / "home").mkdir()
    run(package, QUICK)
    assert run(package, QUICK) == [1.0, 1.0]
    run(package, QUICK, NUMBA_CACHE_DIR=str(tmp_path / "given"))
    assert list((tmp_path / "given").rglob("caller.constant-*.nbi"))


def test_processes_that_compile_at_the_same_time_do_not_disturb_each_other(package: Path) -> None:
    """One of them loses its folder half-way."""
    spoil = "import shutil, noisewise.compilation as c\nshutil.rmtree(c._folder())\n"
    codes = [QUICK, QUICK, spoil + QUICK]
    running = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment(package))
        for code in codes
    ]
    for process in running:
        out, _ = process.communicate()
        assert process.returncode == 0
        assert float(out.split()[0]) == 1.0


def test_every_compiled_function_goes_through_the_one_decorator() -> None:
    for path in SOURCE.rglob("*.py"):
        if path != SOURCE / "compilation.py":
            text = path.read_text("utf-8")
            past = re.search(r"numba import .*(jit|vectorize|cfunc)|^import numba|enable_caching", text, re.M)
            assert not past, f"{path} compiles past noisewise.compilation.njit"
