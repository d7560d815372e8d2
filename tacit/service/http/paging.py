"""Lists that grow with history are told page by page, so that no answer grows with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aiohttp import web

from tacit.errors import DecodeError

DEFAULT_LIMIT, MOST_LIMIT = 50, 200


def page_response(member: str, rows: Sequence[Any], after: int, limit: int) -> web.Response:
    """A page of a list, whose window is ``page_of(request)``. ``rows``: as JSON, what follows the first ``after``, at
    least one more than ``limit`` where there are so many. ``next`` is the ``cursor`` of the next page or null."""
    following = str(after + limit) if len(rows) > limit else None
    return web.json_response({member: rows[:limit], "next": following})


def page_of(request: web.Request) -> tuple[int, int]:
    """The number after which a page begins, and the most items that it holds. Raises ``DecodeError``."""
    after = _counted(request.query.get("cursor"), "cursor", 0, 0, 2**53)
    return after, _counted(request.query.get("limit"), "limit", DEFAULT_LIMIT, 1, MOST_LIMIT)


def _counted(text: str | None, name: str, default: int, least: int, most: int) -> int:
    if text is None:
        return default
    # ``int`` takes digits of every script, signs, spaces and underscores, and is quadratic in long ones
    if not text.isascii() or not text.isdigit() or len(text) > 16 or not least <= int(text) <= most:
        raise DecodeError(f"{name} takes a number from {least} to {most}")
    return int(text)
