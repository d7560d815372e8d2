"""Errors as RFC 9457 problem documents."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import NamedTuple

from aiohttp import web

from tacit import media_types
from tacit.errors import Abort


class Answer(NamedTuple):
    """What a handler of a fast route answers."""

    body: bytes = b""
    headers: Mapping[str, str] = {}
    status: int = 200


def problem_answer(abort: Abort) -> Answer:
    """The RFC 9457 document of ``abort``: type, title, status, detail, taskid and the extension members."""
    # the members of RFC 9457 last: no extension can replace one
    document: dict[str, object] = {**abort.extensions, "type": abort.type, "status": abort.status}
    document["title"] = abort.title or phrase_of(abort.status)
    if abort.detail:
        document["detail"] = abort.detail
    if abort.task_id is not None:
        document["taskid"] = abort.task_id
    content = json.dumps(document, separators=(",", ":")).encode()
    return Answer(content, {**abort.headers, "Content-Type": media_types.PROBLEM_JSON}, abort.status)


def problem_response(abort: Abort) -> web.Response:
    """``problem_answer`` as an aiohttp response."""
    answer = problem_answer(abort)
    return web.Response(status=answer.status, body=answer.body, headers=answer.headers)


def status_abort(status: int, detail: str, headers: dict[str, str] | None = None) -> Abort:
    """A problem that its status says all about."""
    return Abort("about:blank", detail, status=int(status), title=phrase_of(status), headers=headers)


def too_large(limit: int) -> Abort:
    """The answer (413) to a body of more than ``limit`` bytes."""
    return status_abort(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body may have at most {limit} bytes")


def too_slow() -> Abort:
    """The answer (408) to a body that does not come in time."""
    return status_abort(HTTPStatus.REQUEST_TIMEOUT, "the body did not arrive in time")


def bad_request() -> Abort:
    """The answer (400) to bytes that are not HTTP/1.1; it says nothing of them."""
    return status_abort(HTTPStatus.BAD_REQUEST, "")


def internal_error() -> Abort:
    """The answer (500) where no answer could be made; it says nothing of the reason."""
    return status_abort(HTTPStatus.INTERNAL_SERVER_ERROR, "")


def require_lines(text: str, lines: int) -> None:
    """Raise ``ValueError`` unless ``text``, a part of an answer's head, has so many lines, each ended by CRLF: a value
    that ends its line early would forge what follows."""
    if not text.count("\r") == text.count("\n") == lines or "\0" in text:
        raise ValueError("a field of an answer has a line end")


def phrase_of(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"
