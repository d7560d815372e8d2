"""Errors as RFC 9457 problem documents."""

from __future__ import annotations

import json
from http import HTTPStatus

from aiohttp import web

from tacit import media_types
from tacit.errors import Abort


def problem_response(abort: Abort) -> web.Response:
    """The RFC 9457 document of ``abort``: type, title, status, detail, taskid and the extension members."""
    document: dict[str, object] = {**abort.extensions, "type": abort.type, "status": abort.status}
    document["title"] = abort.title or phrase_of(abort.status)
    if abort.detail:
        document["detail"] = abort.detail
    if abort.task_id is not None:
        document["taskid"] = abort.task_id
    return web.Response(
        status=abort.status,
        body=json.dumps(document, separators=(",", ":")).encode(),
        headers={**abort.headers, "Content-Type": media_types.PROBLEM_JSON},
    )


def phrase_of(status: int) -> str:
    """The reason phrase of a status."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"
