"""The page that documents the API, open to everybody: the contents of ``/openapi.json``, with its examples."""

from __future__ import annotations

from functools import cache
from itertools import groupby

from aiohttp import web
from markupsafe import Markup

from services.admin.api.openapi import about
from services.admin.handlers.routes import ROUTES
from services.admin.pages.page_requests import PageRequest
from services.admin.pages.rendering import render
from tacit.service.documents.described import describe
from tacit.service.documents.openapi import document


async def show_api(page_request: PageRequest) -> web.StreamResponse:
    """The page with every request, grouped by the first part of its path."""
    return page_request.show("api.html", requests=_requests(page_request.admin.sign_in.cookie))


@cache
def _requests(cookie: str) -> Markup:
    """The requests, which are the same for everybody: rendered once, because that takes several milliseconds."""
    found = document(ROUTES, about(cookie))
    parts = sorted(describe(found), key=lambda one: one.path.split("/")[2])
    groups = [(name, list(some)) for name, some in groupby(parts, key=lambda one: one.path.split("/")[2])]
    return Markup(render("api_requests.html", info=found["info"], groups=groups, roles=about("").roles))  # noqa: S704
