"""Whoever follows a link, a path or a quoted heading of a document finds it."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PARTIES = ("relay/*.md", "attester/*.md", "services/*/*.md", "recipe_server/*.md", "client_agent/*.md")
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/*.md", "docs/*/*.md", "benchmarks/*.md", "examples/*/*.md", *PARTIES)
    for path in ROOT.glob(pattern)
)
LINK = re.compile(r"\]\((?!https?:)([^)\s#]*)(?:#([^)\s]*))?\)(?:,\s+\"([^\"]+)\")?")
NAMED = re.compile(r"`((?:docs/|\.\./)?[A-Za-z_/-]+\.md)`(?:,\s+\"([^\"]+)\")?")


@functools.cache
def headings(page: Path) -> list[str]:
    """The headings of a page, and the bold words that stand for one."""
    text = page.read_text()
    return [*re.findall(r"(?m)^#+ (.+)$", text), *(" ".join(one.split()) for one in re.findall(r"\*\*(.+?)\*\*", text))]


def anchors(page: Path) -> set[str]:
    """The anchors of a page as a web site makes them of its headings."""
    return {re.sub(r"[^a-z0-9 _-]", "", one.lower()).replace(" ", "-") for one in headings(page)}


def followed(page: Path) -> Iterator[tuple[str, list[Path], str | None, str | None]]:
    """What stands in the page, where that may lie, and the anchor and heading that it names there."""
    text = page.read_text()
    for link in LINK.finditer(text):
        yield link[0], [page.parent / link[1] if link[1] else page], link[2], link[3]
    for named in NAMED.finditer(text):
        yield named[0], [ROOT / named[1], page.parent / named[1], ROOT / "docs" / named[1]], None, named[2]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_page_leads_to_pages_that_are_there(page: Path) -> None:
    wrong = []
    for words, places, anchor, heading in followed(page):
        there = [place.resolve() for place in places if place.exists()]
        said = " ".join((heading or "").split())
        found = there and (not anchor or anchor in anchors(there[0]))
        if not found or not any(one.startswith(said) for one in (headings(there[0]) if said else [""])):
            wrong.append(words)
    assert wrong == []


def test_links_are_found() -> None:
    assert len(PAGES) > 30
    assert sum(len(list(followed(page))) for page in PAGES) > 200
