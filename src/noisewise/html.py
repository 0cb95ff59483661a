"""Pages and pieces of HTML that need nothing from outside: one file, no script, no request.

    page        a whole report: headline, lead, pictures, sections
    pieces      sections alone, for a notebook's cell (`_repr_html_`), whose page has a style of its own
Everything that others wrote is escaped. A page follows the reader's light or dark scheme, prints in black on white, and
is read on a telephone without scrolling sideways: a wide table becomes one card for each row there, and a picture may
bring a narrow drawing of itself. In the dark, pictures (drawn on transparent ground) are inverted and their hues turned
back, so that one drawing serves both.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape as escape_marks

from noisewise.printable import printable_lines

__all__ = ["MOST_SHOWN", "Picture", "Section", "Table", "escape", "page", "pieces"]

CSS_PIXELS = 96 / 150  # a PNG's pixels at 150 to the inch, in those of a style sheet
MOST_SHOWN = 40  # rows of what a value shows of itself in a notebook
FEW_COLUMNS, FEW_LETTERS = 3, 36  # that fit on a telephone side by side
NUMBER = re.compile(r"[-+−]?\d[\d.,]*(e[-+]?\d+)?( ?%)?|[-–]|")

STYLE = """
:root { color-scheme: light dark; --ink: #1d2733; --soft: #51606f; --paper: #ffffff; --card: #f3f5f7; --line: #ccd4db;
  --accent: #0072b2; }
* { box-sizing: border-box; }
body { font: 17px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 58rem;
  margin: 2rem auto 4rem; padding: 0 1.1rem; overflow-wrap: break-word; }
h1 { font-size: 1.9rem; line-height: 1.25; margin: .2rem 0 .6rem; text-wrap: balance; }
h2 { font-size: 1.3rem; margin: 2.6rem 0 .4rem; border-top: 1px solid var(--line); padding-top: 1.1rem; }
p { max-width: 44rem; margin: .6rem 0; }
p.kicker { color: var(--accent); font-weight: 600; margin: 0; }
p.lead { color: var(--soft); font-size: 1.1rem; margin-top: 0; }
figure { margin: 1.2rem 0; } figcaption { color: var(--soft); font-size: .9rem; max-width: 44rem; }
img { display: block; max-width: 100%; height: auto; }
pre { background: var(--card); padding: .8rem 1rem; font-size: .85rem; line-height: 1.4; white-space: pre-wrap;
  overflow-wrap: anywhere; }
table { border-collapse: collapse; margin: .9rem 0; font-size: .95rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--soft); padding-bottom: .3rem; }
th, td { text-align: left; vertical-align: top; padding: .3rem 1.1rem .3rem 0; }
td:first-child { overflow-wrap: anywhere; min-width: 7rem; }
th { border-bottom: 1px solid var(--line); font-weight: 600; } td { border-bottom: 1px solid var(--card); }
th.number, td.number { text-align: right; white-space: nowrap; }
dl { display: grid; grid-template-columns: minmax(7rem, max-content) 1fr; gap: .3rem 1.2rem; max-width: 50rem; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
@media (max-width: 600px) {
  body { font-size: 16px; margin-top: 1rem; } h1 { font-size: 1.45rem; } h2 { font-size: 1.15rem; }
  dl { display: block; } dd { margin-bottom: .5rem; }
  table { width: 100%; } th, td { padding-right: .6rem; overflow-wrap: anywhere; }
  td.number, th.number { white-space: normal; }
  table.wide, table.wide caption, table.wide tbody, table.wide tr, table.wide td { display: block; }
  table.wide thead { display: none; } table.wide tr { border-bottom: 1px solid var(--line); padding: .5rem 0; }
  table.wide td, table.wide td.number { border: 0; padding: .05rem 0; text-align: left; }
  table.wide td::before { content: attr(data-label); color: var(--soft); margin-right: .5rem; }
  table.wide td:first-child { font-weight: 600; } table.wide td:first-child::before { content: none; }
  table.wide td:empty { display: none; }
}
@media screen and (prefers-color-scheme: dark) {
  :root { --ink: #e4e9ee; --soft: #a3b0bc; --paper: #14191e; --card: #20272e; --line: #3a4550; --accent: #62b6ea; }
  img { filter: invert(.92) hue-rotate(180deg); }
}
@media print {
  :root { color-scheme: light; } body { max-width: none; margin: 0; font-size: 10.5pt; }
  figure, tr, dl, p { break-inside: avoid; } h1, h2, caption, h2 + p, p:has(+ figure) { break-after: avoid; }
  h2 { margin-top: 1.4rem; } img { max-height: 22cm; width: auto; }
}
"""
# A notebook has its own page; this touches only what is inside the pieces.
PIECES_STYLE = (
    ".noisewise h2{font-size:1.1em;margin:.3em 0}.noisewise table{border-collapse:collapse;margin:.5em 0}"
    ".noisewise th,.noisewise td{text-align:left;padding:.2em 1em .2em 0}"
    ".noisewise th{border-bottom:1px solid #8886}.noisewise .number{text-align:right}"
    ".noisewise p{margin:.4em 0;max-width:46em}.noisewise dl{display:grid;"
    "grid-template-columns:max-content 1fr;gap:.15em 1em;max-width:56em;margin:.5em 0}"
    ".noisewise dt{opacity:.7}.noisewise dd{margin:0}.noisewise img{max-width:100%;height:auto;background:#fff}"
)


@dataclass(frozen=True, slots=True)
class Picture:
    """A PNG with what it shows in words (`alt`), optionally drawn again for a telephone, with a caption."""

    png: bytes
    alt: str
    narrow: bytes = b""
    caption: str = ""

    def html(self) -> str:
        source = ""
        if self.narrow:
            size = " ".join(f'{name}="{number}"' for name, number in _size(self.narrow))
            source = f'<source media="(max-width: 600px)" srcset="{_data(self.narrow)}" {size}>'
        size = " ".join(f'{name}="{number}"' for name, number in _size(self.png))
        image = f'<img alt="{escape(self.alt)}" src="{_data(self.png)}" {size}>'
        caption = f"<figcaption>{escape(self.caption)}</figcaption>" if self.caption else ""
        return f"<figure><picture>{source}{image}</picture>{caption}</figure>"


@dataclass(frozen=True, slots=True)
class Table:
    """A table with a heading for each column; columns of numbers stand right."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""

    def html(self) -> str:
        columns = range(max((len(row) for row in self.rows), default=len(self.header)))
        names = [*self.header, *("" for _ in columns[len(self.header) :])]
        marks = [
            ' class="number"' if all(NUMBER.fullmatch(row[k]) for row in self.rows if k < len(row)) else ""
            for k in columns
        ]
        marks[:1] = [""]
        head = "".join(f"<th{mark}>{escape(name)}</th>" for name, mark in zip(names, marks, strict=False))
        body = "".join(
            "<tr>"
            + "".join(
                f'<td{mark} data-label="{escape(name)}">{escape(cell)}</td>'
                for cell, name, mark in zip(row, names, marks, strict=False)
            )
            + "</tr>"
            for row in self.rows
        )
        caption = f"<caption>{escape(self.caption)}</caption>" if self.caption else ""
        letters = sum(max(map(len, column)) for column in zip(names, *self.rows, strict=False)) if self.rows else 0
        wide = ' class="wide"' if len(columns) > FEW_COLUMNS or letters > FEW_LETTERS else ""
        return f"<table{wide}>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page: paragraphs, then pictures, facts (term and text), tables, and a block of fixed-width text."""

    title: str
    text: str = ""
    block: str = ""
    header: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    png: bytes = b""
    pictures: Sequence[Picture] = ()
    facts: Sequence[tuple[str, str]] = ()
    tables: Sequence[Table] = ()
    ending: str = ""  # paragraphs after the tables

    def html(self) -> str:
        pictures = [*self.pictures, *([Picture(self.png, self.title)] if self.png else [])]
        tables = [*([Table(self.header, self.rows)] if self.rows else []), *self.tables]
        pieces = [f"<h2>{escape(self.title)}</h2>"] if self.title else []
        pieces += [
            _paragraphs(self.text),
            *(picture.html() for picture in pictures),
            _facts(self.facts),
            *(table.html() for table in tables),
            f"<pre>{escape(self.block)}</pre>" if self.block else "",
            _paragraphs(self.ending),
        ]
        return "\n".join(piece for piece in pieces if piece)


def page(
    title: str, lead: str, sections: Sequence[Section], *, headline: str = "", pictures: Sequence[Picture] = ()
) -> str:
    """The whole page as one HTML text; a headline, where there is one, stands large and the title small above it."""
    top = (
        f'<p class="kicker">{escape(title)}</p><h1>{escape(headline)}</h1>' if headline else f"<h1>{escape(title)}</h1>"
    )
    drawn = "\n".join(picture.html() for picture in pictures)
    body = "\n".join(f"<section>\n{section.html()}\n</section>" for section in sections)
    leads = "".join(f'<p class="lead">{escape(part)}</p>' for part in lead.split("\n\n") if part)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n<body><header>{top}"
        f"{leads}\n{drawn}</header>\n<main>\n{body}\n</main></body></html>\n"
    )


def pieces(*sections: Section) -> str:
    """Sections alone: what a value shows of itself in a notebook."""
    body = "\n".join(section.html() for section in sections)
    return f'<div class="noisewise"><style>{PIECES_STYLE}</style>\n{body}\n</div>'


def escape(text: str) -> str:
    """Text as HTML shows it, whoever wrote it."""
    return escape_marks(printable_lines(text))


def _paragraphs(text: str) -> str:
    return "\n".join(f"<p>{escape(paragraph)}</p>" for paragraph in text.split("\n\n") if paragraph)


def _facts(facts: Sequence[tuple[str, str]]) -> str:
    inside = "".join(f"<dt>{escape(term)}</dt><dd>{escape(told)}</dd>" for term, told in facts)
    return f"<dl>{inside}</dl>" if inside else ""


def _data(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def _size(png: bytes) -> list[tuple[str, int]]:
    """Width and height as a PNG's header states them, in the pixels of a style sheet."""
    if len(png) < 24 or not png.startswith(b"\x89PNG"):
        return []
    return [
        (name, round(CSS_PIXELS * int.from_bytes(png[start : start + 4], "big")))
        for name, start in (("width", 16), ("height", 20))
    ]
