"""What is built for others to install holds what it needs, and nothing else.

`make dist` goes on from here: it installs wheel and sdist, each into an empty environment, and runs the demo there.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from email import message_from_string
from pathlib import Path

import pytest

import noisewise as nw

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist; the wheel is made from the sdist, as an installer makes it."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]
    return folder


def test_the_wheel_holds_every_file_of_the_package_and_no_other(built: Path) -> None:
    names = zipfile.ZipFile(next(built.glob("*.whl"))).namelist()
    found = {name for name in names if ".dist-info/" not in name}
    package = ROOT / "src" / "noisewise"
    kept = {".py", ".html", ".typed"}
    expected = {path.relative_to(ROOT / "src").as_posix() for path in package.rglob("*") if path.suffix in kept}
    expected = {name for name in expected if "__pycache__" not in name} | {"noisewise/py.typed"}
    assert found == expected
    assert "noisewise/collector/pages/respond.html" in found


def test_the_wheel_says_what_it_is(built: Path) -> None:
    wheel = zipfile.ZipFile(next(built.glob("*.whl")))
    metadata = next(name for name in wheel.namelist() if name.endswith("dist-info/METADATA"))
    said = message_from_string(wheel.read(metadata).decode())
    assert said["Version"] == nw.__version__
    assert said["Requires-Python"] == ">=3.11"
    assert said["License-Expression"] == "Apache-2.0"
    assert "# Noisewise" in said.get_payload()
    assert {"Typing :: Typed", "Intended Audience :: Science/Research"} <= set(said.get_all("Classifier"))


def test_the_sdist_can_be_tested_and_documented_again(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    needed = ("pyproject.toml", "mkdocs.yml", "Makefile", "requirements-dev.txt", "conftest.py", "tools/marks.py",
              "docs/index.md", "tests/test_dist.py", "papers/pyproject.toml", "src/noisewise/__main__.py")  # fmt: skip
    assert not set(needed) - names
    assert not [name for name in names if "__pycache__" in name or ".venv" in name]
