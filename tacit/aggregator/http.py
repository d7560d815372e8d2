"""DAP over HTTP as both aggregators serve it: messages in, problem documents out, credentials checked first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from aiohttp import web

from tacit import media_types
from tacit.aggregator.batch_yield import Look, read_look
from tacit.aggregator.keys import HpkeKey
from tacit.codec import unb64url
from tacit.dap_errors import DapAbort, DapProblem
from tacit.errors import Abort, DecodeError
from tacit.messages import JOB_ID_SIZE, TASK_ID_SIZE, HpkeConfigList
from tacit.models.parties import SHUFFLER
from tacit.service.app import Handler, read_body
from tacit.service.http.callers import CALLERS

Message = TypeVar("Message")

HPKE_CONFIG_MAX_AGE = 86400
MOST_LOOK = 256
"""Largest body of a shuffler's look at the count, in bytes."""


async def read_message(request: web.Request, name: str, limit: int) -> bytes:
    """The body of a request that carries the DAP message ``name``."""
    return await read_body(request, limit, media_types.dap(name))


async def told_look(request: web.Request, limit: int) -> Look:
    """The look that a shuffler tells in a request's body, of at most ``limit`` bytes. Raises ``Abort`` (401 for anybody
    else, 413, 415) and ``DecodeError``."""
    request.app[CALLERS].require(request, SHUFFLER)
    return read_look(await read_body(request, min(limit, MOST_LOOK), media_types.JSON))


@web.middleware
async def name_task(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Add the task to every problem document of a task's resource (DAP-18 section 3.6)."""
    try:
        return await handler(request)
    except Abort as abort:
        abort.task_id = abort.task_id or known_task_id(request.match_info.get("task_id", ""))
        raise


def known_task_id(text: str) -> str | None:
    """Return ``text`` where it is the base64url of a task id; any other text is not echoed."""
    try:
        unb64url(text, length=TASK_ID_SIZE, what="task id")
    except DecodeError:
        return None
    return text


def decode(read: Callable[[bytes], Message], body: bytes) -> Message:
    """Return ``read(body)``; malformed bytes raise ``invalidMessage``."""
    try:
        return read(body)
    except DecodeError as error:
        raise DapAbort(DapProblem.INVALID_MESSAGE, str(error)) from error


def message(name: str, body: bytes, *, status: int = 200, location: str | None = None) -> web.Response:
    """A response with the media type of the DAP message ``name``, and ``location`` as its ``Location`` header if
    given."""
    headers = {"Content-Type": media_types.dap(name)}
    if location is not None:
        headers["Location"] = location
    return web.Response(status=status, body=body, headers=headers)


def resource_in_url(request: web.Request, problem: DapProblem = DapProblem.INVALID_MESSAGE) -> bytes:
    """The resource id in the URL (16 bytes). Raises ``DapAbort`` with ``problem`` for a malformed one."""
    try:
        return unb64url(request.match_info["resource_id"], length=JOB_ID_SIZE, what="resource id")
    except DecodeError as error:
        raise DapAbort(problem, str(error)) from error


def hpke_config_response(keys: Sequence[HpkeKey]) -> web.Response:
    """GET /hpke_config (DAP-18 section 4.4.1); Tacit's own clients take the key from the recipe (P2)."""
    response = message("hpke-config-list", HpkeConfigList(tuple(key.config for key in keys)).encode())
    response.headers["Cache-Control"] = f"max-age={HPKE_CONFIG_MAX_AGE}"
    return response
