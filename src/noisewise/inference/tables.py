"""A table of texts in four forms: for a terminal, for a notebook, for Markdown and for LaTeX.

Whoever named a column or a level may have put anything into it: each form escapes what it would take for its own marks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from noisewise.html import Section, escape, pieces
from noisewise.printable import printable

__all__ = ["TextTable"]

LATEX = {mark: f"\\{mark}" for mark in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
}


@dataclass(frozen=True, slots=True)
class TextTable:
    """A header and rows of texts; `right` are the columns of numbers."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: tuple[int, ...] = ()

    def text(self, notes: Sequence[str] = ()) -> str:
        """Aligned for a terminal, with notes under it."""
        rows = [tuple(map(printable, row)) for row in (self.header, *self.rows)]
        widths = [max(len(row[k]) for row in rows) for k in range(len(self.header))]
        lines = [
            "  ".join(
                cell.rjust(width) if k in self.right else cell.ljust(width)
                for k, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        return "\n".join([*lines, *map(printable, notes)])

    def markdown(self) -> str:
        """With pipes; numbers to the right."""
        rule = ["---:" if k in self.right else "---" for k in range(len(self.header))]
        rows = [[_markdown(cell) for cell in row] for row in (self.header, *self.rows)]
        return "\n".join(f"| {' | '.join(row)} |" for row in [rows[0], rule, *rows[1:]])

    def latex(self) -> str:
        """A tabular with the rules of booktabs."""
        kinds = "".join("r" if k in self.right else "l" for k in range(len(self.header)))
        head, *body = (_row_start(" & ".join(map(_latex, row))) + r" \\" for row in (self.header, *self.rows))
        inner = [rf"\begin{{tabular}}{{{kinds}}}", r"\toprule", head, r"\midrule", *body, r"\bottomrule"]
        return "\n".join([*inner, r"\end{tabular}"])

    def html(self, title: str, notes: Sequence[str] = ()) -> str:
        """A piece of HTML for a notebook: title, notes as paragraphs, the table."""
        return pieces(Section(title, "\n\n".join(notes), header=self.header, rows=self.rows))


def _markdown(cell: str) -> str:
    plain = escape(printable(cell))  # Markdown shows HTML as it is
    return "".join("\\" + mark if mark in "\\|`*_[]$~" else mark for mark in plain)


def _row_start(row: str) -> str:
    """A row after a line end, which would take a first bracket or star for its own."""
    return "{}" + row if row.lstrip().startswith(("[", "*")) else row


def _latex(cell: str) -> str:
    return "".join(LATEX.get(mark, mark) for mark in printable(cell))
