"""The page that documents the API, open to everybody: the contents of ``/openapi.json``, with its examples."""

from __future__ import annotations

from functools import cache
from itertools import groupby
from typing import Any

from aiohttp import web

from services.admin.api.openapi import about
from services.admin.handlers.routes import ROUTES
from services.admin.pages.visits import Visit
from tacit.service.documents.described import Described, described
from tacit.service.documents.openapi import document


async def shown(visit: Visit) -> web.StreamResponse:
    """The page with every request, grouped by the first part of its path."""
    found, groups = _described(visit.admin.sign_in.cookie)
    return visit.show("api.html", info=found["info"], groups=groups, roles=about("").roles)


@cache
def _described(cookie: str) -> tuple[dict[str, Any], list[tuple[str, list[Described]]]]:
    found = document(ROUTES, about(cookie))
    parts = sorted(described(found), key=lambda one: one.path.split("/")[2])
    return found, [(name, list(some)) for name, some in groupby(parts, key=lambda one: one.path.split("/")[2])]
