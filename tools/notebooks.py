"""Run the notebooks in docs/notebooks and keep what they show: no Jupyter is needed.

    python tools/notebooks.py           run every notebook and write its outputs into it
    python tools/notebooks.py --check   run them, and exit 1 where one fails or shows other kinds than it holds

A notebook is plain JSON (nbformat 4). Its code cells run in order, in one namespace and one empty folder; a cell shows
what it prints and the value of its last expression, as text, as HTML (`_repr_html_`) or as a picture (`_repr_png_`).
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "notebooks"
LONGEST = 2000  # characters of a value as text


def main(arguments: list[str]) -> int:
    failed = 0
    for path in sorted(FOLDER.glob("*.ipynb")):
        notebook = json.loads(path.read_text("utf-8"))
        before = kinds(notebook)
        with tempfile.TemporaryDirectory() as folder, inside(folder):
            run(notebook, path.name)
        if "--check" in arguments:
            failed += kinds(notebook) != before
        else:
            path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")
        print(f"{path.name}: {len(kinds(notebook))} code cells")
    return int(failed > 0)


def run(notebook: dict[str, Any], name: str) -> None:
    """Run the code cells and replace their outputs, in place."""
    names: dict[str, Any] = {"__name__": "__main__"}
    count = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        count += 1
        printed, value = shown_by("".join(cell["source"]), names, f"{name}, cell {count}")
        outputs: list[dict[str, Any]] = []
        if printed:
            outputs.append({"name": "stdout", "output_type": "stream", "text": lines(printed)})
        if value is not None:
            outputs.append(
                {"data": bundle(value), "execution_count": count, "metadata": {}, "output_type": "execute_result"}
            )
        cell["execution_count"], cell["outputs"] = count, outputs


def shown_by(source: str, names: dict[str, Any], where: str) -> tuple[str, object]:
    """What a cell prints, and the value of its last expression."""
    tree = ast.parse(source, where)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    value: object = None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, where, "exec"), names)
        if isinstance(last, ast.Expr) and not source.rstrip().endswith(";"):
            value = eval(compile(ast.Expression(last.value), where, "eval"), names)
        elif isinstance(last, ast.Expr):
            exec(compile(ast.Module([last], []), where, "exec"), names)
    return without_folder(printed.getvalue()), value


def without_folder(text: str) -> str:
    """Text without the folder in which it was made."""
    return text.replace(f"{Path.cwd()}{os.sep}", "")


def bundle(value: object) -> dict[str, Any]:
    """A value in every form in which it shows itself."""
    data: dict[str, Any] = {}
    html, png = getattr(value, "_repr_html_", None), getattr(value, "_repr_png_", None)
    if png is not None:
        data["image/png"] = base64.b64encode(png()).decode()
    if html is not None:
        data["text/html"] = lines(without_folder(html()))
    data["text/plain"] = lines(without_folder(repr(value))[:LONGEST])
    return data


def kinds(notebook: dict[str, Any]) -> list[list[str]]:
    """For each code cell, the forms in which it shows something."""
    return [
        [kind for output in cell["outputs"] for kind in sorted(output.get("data", {output["output_type"]: None}))]
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
    ]


def lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


@contextlib.contextmanager
def inside(folder: str) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
