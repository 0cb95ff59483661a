"""A self-contained HTML page: headings, text, tables and plots in one file that needs nothing from outside.

Without the page around them the same sections are what a value shows of itself in a notebook (`_repr_html_`).
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape as escape_marks

from noisewise.printable import printable_lines

MOST_SHOWN = 40  # rows of what a value shows of itself in a notebook
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1d2733; max-width: 54rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.7rem; margin-bottom: .2rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
p.lead { color: #51606f; margin-top: 0; } img { max-width: 100%; }
pre { background: #f4f6f8; padding: .8rem 1rem; font-size: .85rem; line-height: 1.4;
  white-space: pre-wrap; overflow-wrap: anywhere; }
table { border-collapse: collapse; } th, td { text-align: left; padding: .25rem .9rem .25rem 0; }
th { border-bottom: 1px solid #b8c2cc; font-weight: 600; }
"""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page: text paragraphs, then optionally a block of fixed-width text, a table, a PNG."""

    title: str
    text: str = ""
    block: str = ""
    header: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    png: bytes = b""

    def html(self) -> str:
        pieces = [f"<h2>{escape(self.title)}</h2>"]
        pieces += [f"<p>{escape(paragraph)}</p>" for paragraph in self.text.split("\n\n") if paragraph]
        if self.block:
            pieces.append(f"<pre>{escape(self.block)}</pre>")
        if self.rows:
            head = "".join(f"<th>{escape(cell)}</th>" for cell in self.header)
            body = "".join("<tr>" + "".join(f"<td>{escape(c)}</td>" for c in row) + "</tr>" for row in self.rows)
            pieces.append(f"<table><tr>{head}</tr>{body}</table>")
        if self.png:
            data = base64.b64encode(self.png).decode()
            pieces.append(f'<img alt="{escape(self.title)}" src="data:image/png;base64,{data}">')
        return "\n".join(pieces)


def pieces(*sections: Section) -> str:
    """Sections alone, for a notebook, whose page has a style of its own."""
    return "\n".join(section.html() for section in sections)


def page(title: str, lead: str, sections: Sequence[Section]) -> str:
    """The whole page as one HTML text."""
    body = pieces(*sections)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n<body><h1>{escape(title)}</h1>"
        f'<p class="lead">{escape(lead)}</p>\n{body}\n</body></html>\n'
    )


def escape(text: str) -> str:
    """Text as HTML shows it, whoever wrote it."""
    return escape_marks(printable_lines(text))
