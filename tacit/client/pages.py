"""Reads the lists of the admin API, which come in pages: ``{NAME: [...], "next": cursor or null}``."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from tacit.client.caller import Caller
from tacit.client.documents import D, read
from tacit.errors import DecodeError

LIMIT = 100
"""How many items to request for each page."""


async def items(
    caller: Caller, path: str, name: str, kind: type[D], cursor: str | None = None, **query: str | None
) -> AsyncIterator[D]:
    """Every item of every page after ``cursor`` (default: of all pages). A page is fetched only when it is needed.
    Raises ``DecodeError`` if pages repeat without end, and as ``Caller.get``."""
    async for page in pages(caller, path, name, cursor, **query):
        for one in page:
            yield read(kind, one)


async def pages(
    caller: Caller, path: str, name: str, cursor: str | None = None, **query: str | None
) -> AsyncIterator[list[Any]]:
    """The items, one page at a time. Raises as ``items``."""
    seen: set[str] = set()
    while True:
        page = await caller.get(path, limit=LIMIT, cursor=cursor, **query)
        if not isinstance(page, dict) or not isinstance(page.get(name), list):
            raise DecodeError(f"the answer is not a page of {name}")
        yield page[name]
        following = page.get("next")
        if following is None:
            return
        cursor = str(following)
        if cursor in seen:
            raise DecodeError(f"the pages of {name} go in a circle")
        seen.add(cursor)
