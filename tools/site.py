"""What mkdocs does beside its plugins: formulas become MathML while the pages are built.

A block of TeX in a `math` fence stands by itself, TeX between `$`` and ``$` inside a line, as it is written on the
pages of repositories. Browsers draw MathML by themselves: no script, no font and no request is needed to read it.
"""

from __future__ import annotations

import re
from html import escape
from typing import Any

from latex2mathml.converter import convert

BLOCK = re.compile(r"^```math\n(?P<tex>.*?)^```$", re.M | re.S)
INLINE = re.compile(r"\$`(?P<tex>[^`\n]+)`\$")


def mathml(tex: str, *, is_block: bool) -> str:
    """A formula with its source beside it, for those who copy it."""
    drawn = convert(tex.strip(), display="block" if is_block else "inline")
    inside = drawn.removesuffix("</math>")
    start, rest = inside.split(">", 1)
    note = f'<annotation encoding="application/x-tex">{escape(tex.strip())}</annotation>'
    return f"{start}><semantics>{rest}{note}</semantics></math>"


def with_formulas(text: str) -> str:
    """A page with its formulas in MathML."""
    text = BLOCK.sub(lambda found: f'<div class="formula">{mathml(found["tex"], is_block=True)}</div>', text)
    return INLINE.sub(lambda found: mathml(found["tex"], is_block=False), text)


def on_page_markdown(markdown: str, **_: Any) -> str:
    return with_formulas(markdown)
