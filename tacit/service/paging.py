"""Lists that grow with history are told page by page, so that no answer grows with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aiohttp import web


def page_response(member: str, rows: Sequence[Any], after: int, limit: int) -> web.Response:
    """A page of a list, whose window is ``page_of(request)``. ``rows``: as JSON, what follows the first ``after``, at
    least one more than ``limit`` where there are so many. ``next`` is the ``cursor`` of the next page or null."""
    following = str(after + limit) if len(rows) > limit else None
    return web.json_response({member: rows[:limit], "next": following})
