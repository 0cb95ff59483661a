"""The pages as readers get them: every link leads somewhere, nothing comes from elsewhere, and search finds.

Links inside the site are checked to the place on the page; links to other sites are listed and not visited.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[1]
OUTSIDE = {"archive.ics.uci.edu"}  # what pages may link to; whoever adds one says here that it is meant
LOADS = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "video": "src"}


class Page(HTMLParser):
    """The places of a page, what it links to, and what a browser loads to show it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.places: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        said = {name: value or "" for name, value in attributes}
        self.places |= {said[name] for name in ("id", "name") if name in said}
        if tag == "a" and "href" in said:
            self.links.append(said["href"])
        if tag in LOADS and LOADS[tag] in said and said.get("rel") not in ("canonical", "prev", "next"):
            self.loaded.append(said[LOADS[tag]])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    # Without --quiet: it would silence the warnings before they are counted.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path.read_text("utf-8")) for path in sorted(site.rglob("*.html"))}


def lost(site: Path, pages: dict[Path, Page]) -> list[str]:
    """Links inside the site that lead nowhere."""
    found = []
    for path, page in pages.items():
        if path.name == "404.html":
            continue  # it is shown at any address, so its links begin at the root
        for link in [*page.links, *page.loaded]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
            target = target / "index.html" if target.is_dir() else target
            if not target.exists() or (
                parts.fragment and target in pages and not is_place(parts.fragment, pages[target])
            ):
                found.append(f"{path.relative_to(site)} -> {link}")
    return found


def is_place(fragment: str, page: Page) -> bool:
    return unquote(fragment) in page.places or fragment.startswith("__")  # the theme's own switches


def test_every_link_inside_leads_somewhere(site: Path, pages: dict[Path, Page]) -> None:
    assert len(pages) > 60
    assert not lost(site, pages)


def test_a_link_that_leads_nowhere_is_caught(tmp_path: Path) -> None:
    path = tmp_path / "index.html"
    path.write_text('<a href="nowhere/">x</a><a href="#here">y</a><a href="#there">z</a><p id="here">')
    found = lost(tmp_path, {path: Page(path.read_text())})
    assert [one.split(" -> ")[1] for one in found] == ["nowhere/", "#there"]


def test_links_outside_are_those_that_are_listed(pages: dict[Path, Page]) -> None:
    hosts = {urlsplit(link).netloc for page in pages.values() for link in page.links} - {""}
    theme = {"squidfunk.github.io"}  # "made with", in every footer
    assert hosts <= OUTSIDE | theme


def test_nothing_is_loaded_from_elsewhere(site: Path, pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        assert not [address for address in page.loaded if urlsplit(address).netloc], path
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(?:@import|url\()\s*[\"']?(?:https?:)?//", sheet.read_text("utf-8")), sheet


def test_formulas_are_mathml_and_none_is_left_as_it_was_written(pages: dict[Path, Page]) -> None:
    drawn = 0
    for path in pages:
        text = path.read_text("utf-8")
        drawn += text.count("<math")
        shown = re.sub(
            r"<annotation.*?</annotation>", "", "".join(re.findall(r"<math.*?</math>", text, re.S)), flags=re.S
        )
        assert "\\" not in shown, f"{path}: TeX that was not understood"
        assert "language-math" not in text
        assert "mathjax" not in text.lower()
        assert "katex" not in text.lower()
    assert drawn >= 15


@pytest.mark.parametrize(
    ("asked", "page"),
    [
        ("variance", "glossary/"),
        ("group by", "glossary/"),
        ("confidence interval", "glossary/"),
        ("standard error", "glossary/"),
        ("weighting", "glossary/"),
        ("confidence interval", "faq/"),
        ("variance", "faq/"),
        ("infer", "reference/inference/"),
    ],
)
def test_the_words_of_statisticians_are_in_the_index_of_the_search(site: Path, asked: str, page: str) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text("utf-8"))
    titles = [entry["title"].lower() for entry in index["docs"] if entry["location"].startswith(page)]
    assert any(all(word in title for word in asked.split()) for title in titles), titles[:20]


def test_every_picture_of_the_gallery_is_drawn_by_the_lines_above_it() -> None:
    text = (ROOT / "docs" / "gallery.md").read_text("utf-8")
    shown = re.findall(r"```python\n((?:(?!```).)*?)```\n\n!\[[^\]]{20,}\]\(images/gallery/(\w+)\.png\)", text, re.S)
    assert len(shown) == text.count("](images/") >= 12
    for code, name in shown:
        assert f'.plot("{name}.png"' in code
        assert (ROOT / "docs" / "images" / "gallery" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
