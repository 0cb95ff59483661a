"""The marks of the house: how much has to be known, touched and taken apart by hand, counted from the sources.

    python tools/marks.py            the table: at the start, the most allowed now, now
    python tools/marks.py --check    the same, and exit 1 where a mark has grown beyond what `tools/marks.toml` allows
    python tools/marks.py --write    allow no more than there is now (marks only ever go down)

Everything but the walk of `choose` is read from the syntax tree of `src/noisewise`, without importing it. A *kind* is a
class that stands for a law, a statistic, a guarantee, a population or a model; taking one apart by its class is what a
protocol should make unnecessary, so a protocol itself is no kind, nor is a named tuple, which is plain data.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "noisewise"
ALLOWED = ROOT / "tools" / "marks.toml"

# The rooms whose public classes are kinds, by the kind they stand for; files and folders, as far as they exist.
ROOMS_OF = {
    "law": ("laws", ),
    "statistic": ("statistics/additive.py", "statistics/tables.py", "statistics/moments.py", "statistics/moments",
                  "statistics/order.py", "statistics/local.py", "statistics/eigenvalue.py"),
    "guarantee": ("guarantees", "privacy/guarantee.py"),
    "population": ("populations",),
    "model": ("models", "regression/model.py", "graphical/model.py"),
}  # fmt: skip
SIZES = {"files", "lines"}  # they grow with what the program can do; the others have no reason to
SCHEMA_KINDS = {"Bounded", "Levels"}


def main(arguments: list[str]) -> int:
    sources = {path: ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}
    now = measured(sources)
    entries = tomllib.loads(ALLOWED.read_text()) if ALLOWED.exists() else {}
    start, allowed = entries.get("start", {}), entries.get("most", {})
    if "--write" in arguments:
        kept = {name: min(value, allowed.get(name, value)) for name, value in now.items()}
        ALLOWED.write_text(as_toml(start or now, kept))
        return 0
    print(table(start, allowed, now))
    grown = [name for name, value in now.items() if name not in SIZES and value > allowed.get(name, value)]
    for name in grown:
        print(f"grown: {name} is {now[name]}, at most {allowed[name]} is allowed (tools/marks.toml)")
    return 1 if "--check" in arguments and grown else 0


def measured(sources: dict[Path, ast.Module]) -> dict[str, int]:
    """Every mark by its name."""
    kinds = {kind: members(kind, sources) for kind in ROOMS_OF}
    every = set().union(*kinds.values()) | SCHEMA_KINDS
    marks = {f"files that name a {kind}": files_naming(names, sources) for kind, names in kinds.items()}
    trees = list(sources.values())
    marks |= {
        "isinstance on kinds": total(trees, lambda node: is_call(node, "isinstance") and bool(named(node) & every)),
        "isinstance in all": total(trees, lambda node: is_call(node, "isinstance")),
        "issubclass": total(trees, lambda node: is_call(node, "issubclass")),
        "type(x) is": total(trees, is_type_comparison),
        "class patterns in match": total(trees, lambda node: isinstance(node, ast.MatchClass)),
        "dictionaries keyed by class": total(trees, lambda node: is_class_keyed(node, every)),
        "hasattr and getattr probes": total(trees, is_probe),
        "except AttributeError": total(trees, is_attribute_probe),
        "Any in signatures": sum(any_in_signatures(tree) for tree in trees),
        "module names in strings": total(trees, is_module_text),
        "modules imported by name": total(trees, lambda node: is_call(node, "import_module")),
        "type: ignore": comments(sources, r"#\s*type:\s*ignore"),
        "fmt: skip": comments(sources, r"#\s*fmt:\s*(skip|off)"),
        "functions with more than ten parameters": total(trees, has_many_parameters),
        "files": len(sources),
        "lines": sum(len(path.read_text().splitlines()) for path in sources),
    }
    return marks


def members(kind: str, sources: dict[Path, ast.Module]) -> set[str]:
    """The public classes of the rooms of a kind."""
    found = set()
    for path, tree in sources.items():
        place = path.relative_to(PACKAGE).as_posix()
        if any(place == room or place.startswith(f"{room}/") for room in ROOMS_OF[kind]):
            for node in tree.body:
                bases = {name for base in getattr(node, "bases", ()) for name in names_in(base)}
                if isinstance(node, ast.ClassDef) and node.name[0] != "_" and not bases & {"Protocol", "NamedTuple"}:
                    found.add(node.name)
    return found


def files_naming(names: set[str], sources: dict[Path, ast.Module]) -> int:
    """The files in which at least one of these classes is named, the public list of names apart."""
    return sum(
        1
        for path, tree in sources.items()
        if path != PACKAGE / "__init__.py"
        and any(isinstance(node, ast.Name) and node.id in names for node in ast.walk(tree))
    )


def total(trees: list[ast.Module], is_counted: Callable[[ast.AST], bool]) -> int:
    return sum(is_counted(node) for tree in trees for node in ast.walk(tree))


def is_call(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and name == getattr(node.func, "id", getattr(node.func, "attr", ""))


def named(node: ast.AST) -> set[str]:
    """The names in the last argument of a call: the classes of an isinstance."""
    assert isinstance(node, ast.Call)
    return set(names_in(node.args[-1])) if node.args else set()


def names_in(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            yield part.id
        elif isinstance(part, ast.Attribute):
            yield part.attr


def is_type_comparison(node: ast.AST) -> bool:
    """`type(x) is C`, `type(x) == C`, `type(x) in (...)`."""
    return isinstance(node, ast.Compare) and any(is_call(side, "type") for side in (node.left, *node.comparators))


def is_class_keyed(node: ast.AST, kinds: set[str]) -> bool:
    return isinstance(node, ast.Dict) and any(isinstance(key, ast.Name) and key.id in kinds for key in node.keys)


def is_probe(node: ast.AST) -> bool:
    """A member asked for by its name in quotes."""
    return any(is_call(node, name) for name in ("hasattr", "getattr")) and any(
        isinstance(argument, ast.Constant)
        for argument in node.args[1:2]  # type: ignore[attr-defined]
    )


def is_attribute_probe(node: ast.AST) -> bool:
    if not isinstance(node, ast.ExceptHandler) or node.type is None:
        return False
    return "AttributeError" in set(names_in(node.type))


def any_in_signatures(tree: ast.Module) -> int:
    """How often `Any` stands in the annotation of a parameter, a result or a field."""
    count = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign):
            parts = [node.annotation]
        elif isinstance(node, ast.FunctionDef):
            parts = [node.returns]
        else:
            continue
        count += sum(name == "Any" for part in parts if part is not None for name in names_in(part))
    return count


def is_module_text(node: ast.AST) -> bool:
    """A string that is a module of this package, which no import rule can see."""
    return isinstance(node, ast.Constant) and bool(re.fullmatch(r"noisewise(\.[a-z_]+)+\.?", str(node.value)))


def has_many_parameters(node: ast.AST) -> bool:
    if not isinstance(node, ast.FunctionDef):
        return False
    return len(node.args.posonlyargs + node.args.args + node.args.kwonlyargs) > 10


def comments(sources: dict[Path, ast.Module], pattern: str) -> int:
    found = 0
    for path in sources:
        for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
            found += token.type == tokenize.COMMENT and re.search(pattern, token.string) is not None
    return found


def room_changes() -> int:
    """How often `choose` on the three plans of the README goes from one room to another."""
    from scipy import stats

    import noisewise as nw

    schema = nw.Schema({"income": nw.Bounded(0, 250)}, n=4000, neighbours="change-one")
    x = nw.column("income")
    population = nw.Normal(mean=stats.norm(50, 50), sd=stats.halfnorm(scale=50))
    statistics = (nw.Mean(x), nw.Mean(x, x**2), nw.Mean(x.clip(0, 120), x.clip(0, 120) ** 2))
    plans = [nw.plan(statistic, schema, guarantee=nw.PureDP(1)) for statistic in statistics]
    nw.choose(plans, population)  # compile and import first
    changes: Counter[str] = Counter()
    stack: list[str] = []

    def entered(frame, event, _):  # type: ignore[no-untyped-def]
        if event == "call":
            file = Path(frame.f_code.co_filename)
            inside = PACKAGE in file.parents
            room = file.relative_to(PACKAGE).parts[0] if inside else (stack[-1] if stack else "")
            if stack and room != stack[-1]:
                changes["changes"] += 1
            stack.append(room)
        elif event == "return" and stack:
            stack.pop()

    sys.setprofile(entered)
    try:
        nw.choose(plans, population)
    finally:
        sys.setprofile(None)
    return changes["changes"]


def table(start: dict[str, int], allowed: dict[str, int], now: dict[str, int]) -> str:
    width = max(map(len, now))
    rows = [f"{'mark':<{width}}  {'start':>7}  {'most':>7}  {'now':>7}"]
    for name, value in now.items():
        rows.append(f"{name:<{width}}  {start.get(name, '-'):>7}  {allowed.get(name, '-'):>7}  {value:>7}")
    return "\n".join(rows)


def as_toml(start: dict[str, int], most: dict[str, int]) -> str:
    text = ["# Counted by tools/marks.py: at the start of the rebuilding, and the most that is allowed now."]
    for title, marks in (("start", start), ("most", most)):
        text += ["", f"[{title}]", *(f'"{name}" = {value}' for name, value in marks.items())]
    return "\n".join(text) + "\n"


if __name__ == "__main__":
    if "--walk" in sys.argv:
        print(f"room changes in choose: {room_changes()}")
    else:
        sys.exit(main(sys.argv[1:]))
