"""The package as a whole: lazy names, light imports, and the rules of the house."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import noisewise as nw

SOURCE = Path(nw.__file__).parent
HEAVY = ["numba", "matplotlib", "arviz", "jax", "scipy.stats", "ibis", "duckdb", "opendp", "pandas", "polars"]


def loaded_after(code: str) -> set[str]:
    program = f"import sys\n{code}\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_package_loads_nothing_heavy() -> None:
    loaded = loaded_after("import noisewise")
    assert not loaded & {*HEAVY, "numpy", "scipy", "pydantic"}


def test_planning_loads_no_database_and_no_noise() -> None:
    code = (
        "import noisewise as nw\n"
        "s = nw.Schema({'x': nw.Bounded(0, 1)}, n=10, neighbours='change-one')\n"
        "nw.plan(nw.Mean(nw.column('x')), s, guarantee=nw.PureDP(1)).describe()"
    )
    assert not loaded_after(code) & set(HEAVY)


def test_releasing_from_the_command_line_never_loads_the_analysts_tools(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("x\n0.5\n0.25\n")
    (tmp_path / "s.toml").write_text(
        "[schema]\nn = 2\nneighbours = 'change-one'\n[schema.columns]\nx = { bounds = [0, 1] }\n"
        "[ledger]\nlimit = { epsilon = '1' }\n[release]\nstatistic = 'mean(x)'\nguarantee = { epsilon = '1' }\n"
    )
    arguments = ["release", "s.toml", "--data", "d.csv", "--ledger", "l", "--out", "o.json"]
    code = (
        f"import os\nos.chdir({str(tmp_path)!r})\nsys.argv = ['noisewise', *{arguments!r}]\n"
        "from noisewise.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit as stop:\n    assert not stop.code, stop.code"
    )
    loaded = loaded_after(code)
    assert (tmp_path / "o.json").exists()
    assert not loaded & {"numba", "matplotlib", "arviz", "jax", "scipy.stats"}
    assert "opendp" in loaded  # the test sees what it should


def test_a_release_is_read_where_there_are_no_records_and_no_holder(tmp_path: Path) -> None:
    """A6: reading a release loads nothing of the holder's wing; table and ledger may be gone."""
    golden = Path(__file__).parent / "golden"
    file = sorted(golden.glob("release-1-*.json"))[0]
    loaded = loaded_after(f"import noisewise as nw\nprint(nw.Release.load({str(file)!r}).estimate)")
    assert not {name for name in loaded if name.startswith("noisewise.holder")}
    assert not loaded & {"ibis", "duckdb", "opendp"}


def test_every_public_name_resolves_and_plan_stays_a_function() -> None:
    for name in nw.__all__:
        assert getattr(nw, name) is not None
    modules = {path.stem for path in SOURCE.iterdir()}
    assert modules & set(nw.__all__) == {"regression"}  # no module shadows a name, but the one that can be called
    assert set(nw.__all__) == set(nw._homes())


@pytest.mark.parametrize("first", ["", "nw.LinearRegression; ", "import noisewise.regression.model; "])
def test_the_room_of_regressions_can_be_called_whatever_was_imported_before(first: str) -> None:
    code = (
        f"import noisewise as nw; {first}"
        "s = nw.Schema({'x': nw.Bounded(0, 1), 'y': nw.Bounded(0, 1)}, n=10, neighbours='change-one'); "
        "assert str(nw.regression('y ~ x', s).response) == 'y'; "
        "import noisewise.regression.model as m; assert m.LinearRegression is nw.LinearRegression"
    )
    assert "noisewise.regression.formula" in loaded_after(code)


def test_the_module_runs_as_the_command_does() -> None:
    """`python -m noisewise` is there where no script stands in the path, and says its own name."""
    command = [sys.executable, "-m", "noisewise"]
    done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"noisewise {nw.__version__}\n"
    refused = subprocess.run([*command, "show", "nothing.json"], capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "nothing.json" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        nw.nonsense  # noqa: B018


def test_every_room_is_named_in_an_import_contract() -> None:
    """A new room cannot be built outside the rules: each package and module of the house appears in one of them."""
    project = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text())
    named = {
        module.split(".")[1]
        for contract in project["tool"]["importlinter"]["contracts"]
        for module in [*contract["source_modules"], *contract["forbidden_modules"]]
        if module.startswith("noisewise.")
    }
    rooms = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert rooms - {"__init__", "__main__"} <= named  # the package itself, and the command line by another name


def test_no_module_uses_a_global_random_generator_or_evaluates_text() -> None:
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("eval", "exec"), f"{path} evaluates text"
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("np.random", "numpy.random"):
                allowed = ("Generator", "default_rng", "SeedSequence")
                assert node.attr in allowed, f"{path} uses numpy.random.{node.attr}"


def test_no_file_names_a_machine_or_a_package_index() -> None:
    root = SOURCE.parents[1]
    words = ("index-" + "url", "/wo" + "rk/", "/ro" + "ot/")
    for folder in ("src", "papers", "tests", "docs", "benchmarks"):
        for path in (root / folder).rglob("*"):
            if path.suffix in (".py", ".md", ".toml", ".json"):
                text = path.read_text("utf-8")
                assert not any(word in text for word in words), path


def test_the_version_stands_in_one_place() -> None:
    """The package names its version; the build reads it there, and the citation agrees."""
    root = SOURCE.parents[1]
    project = tomllib.loads((root / "pyproject.toml").read_text())
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/noisewise/__init__.py"
    assert f"version: {nw.__version__}\n" in (root / "CITATION.cff").read_text()
    assert f'__version__ = "{nw.__version__}"\n' in (root / "papers/noisewise_papers/__init__.py").read_text()


def test_nothing_of_the_papers_is_in_the_package() -> None:
    """Without the package of the studies everything else runs, and `study` says where to find them."""
    assert not (SOURCE / "studies").exists()
    code = (
        "sys.modules['noisewise_papers'] = None\nsys.argv = ['noisewise', 'study']\n"
        "from noisewise.cli.main import main\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", f"import sys\n{code}"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install ./papers" in done.stderr
