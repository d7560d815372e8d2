"""Requests and answers of the test API: POST with a JSON object, answered by ``{"status": ..., "error"?: ...}``.

A command that was understood is answered with 200, whatever its outcome; a body that is not a JSON object with 400. The
media type must be ``application/json`` and, on loopback, the Host must be a loopback name, so that no page in a browser
can send commands to a server here.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit

from aiohttp import web

from infra.tools.interop.documents import Document, read
from tacit import media_types
from tacit.adapters.network.origins import is_loopback
from tacit.errors import Abort, Refusal, TacitError
from tacit.ports import TransportError
from tacit.service.app import read_body

PREFIX = "/internal/test/"
MAX_BODY = 1 << 20
MOST_TASKS = 1000
"""Most tasks of one process."""
LONGEST_ERROR = 500

Kind = TypeVar("Kind", bound=Document)
Command = Callable[[web.Request, Kind], Awaitable[dict[str, Any]]]
"""Carries out a request; returns the members besides ``status``, and optionally a different ``status``."""


def ready() -> web.RouteDef:
    """The route ``/internal/test/ready``, which always answers."""

    async def answer(_request: web.Request) -> web.Response:
        return web.json_response({})

    return web.post(f"{PREFIX}ready", answer)


def command(name: str, kind: type[Kind], run: Command[Kind]) -> web.RouteDef:
    """The route of POST ``/internal/test/{name}``. A ``TacitError``, ``TransportError`` or ``ValueError`` of ``run`` is
    answered with 200 and ``status`` "error"."""

    async def answer(request: web.Request) -> web.Response:
        _require_local(request)
        body = await read_body(request, MAX_BODY, media_types.JSON)
        try:
            data = json.loads(body)
        except (ValueError, RecursionError):
            data = None
        if not isinstance(data, dict):
            return web.json_response(_error("the body must be a JSON object"), status=400)
        try:
            return web.json_response({"status": "success", **await run(request, read(kind, data))})
        except (TacitError, TransportError, ValueError) as error:
            return web.json_response(_error(words_of(error)))

    return web.post(PREFIX + name, answer)


def words_of(error: Exception) -> str:
    """One line that says what was wrong with a request."""
    text = error.detail or error.title if isinstance(error, Abort) else str(error)
    text = f"{error.rule}: {error.detail}" if isinstance(error, Refusal) else text
    return " ".join((text or type(error).__name__).split())[:LONGEST_ERROR]


def _error(detail: str) -> dict[str, Any]:
    return {"status": "error", "error": detail}


def _require_local(request: web.Request) -> None:
    """Refuse a request that came to loopback under another name, as from a page whose name was made to resolve to
    loopback."""
    name = None if request.transport is None else request.transport.get_extra_info("sockname")
    if isinstance(name, tuple) and is_loopback(str(name[0])) and not is_loopback(_host(request)):
        raise Abort("about:blank", "the Host is not a name of this machine's loopback", status=403, title="Forbidden")


def _host(request: web.Request) -> str:
    try:
        return urlsplit(f"//{request.headers.get('Host', '')}").hostname or ""
    except ValueError:
        return ""
