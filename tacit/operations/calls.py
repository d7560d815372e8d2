"""The services' HTTP interfaces as their operator uses them: JSON in, JSON out, problem documents as errors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from tacit.answers import REDIRECTED
from tacit.errors import REFUSAL_PREFIX, Abort, DecodeError
from tacit.media_types import JSON, OCTET_STREAM, PROBLEM_JSON
from tacit.ports import HttpResponse, Transport, TransportError
from tacit.problem import Problem, read_problem

MOST_A_PAGE = 200
"""The largest page that a service tells of a list."""


class NoAnswerError(TransportError):
    """Nothing answers at an address; ``brief`` states that without advice."""

    def __init__(self, url: str, cause: Exception) -> None:
        self.brief = f"{url} does not answer"
        super().__init__(f"{self.brief}; is it running? ({cause})")


async def call(transport: Transport, method: str, url: str, *, body: bytes = b"", bearer: str | None = None) -> Any:
    """Make one request to a service and return the JSON of a successful answer. Raises ``Abort`` for a problem document
    (its title names the rule of a refusal) or a redirect, and ``NoAnswerError`` where nothing answers."""
    headers = {"Content-Type": JSON} if body else {}
    if bearer is not None:
        headers["Authorization"] = f"Bearer {bearer}"
    answer = await _answer(transport, method, url, headers, body)
    if not 200 <= answer.status < 300:
        raise problem_of(answer)
    return _json(answer, url)


async def list_pages(transport: Transport, url: str, member: str, *, bearer: str | None = None) -> list[Any]:
    """Every item of a list that a service tells page by page. Raises as ``call`` does, and ``DecodeError`` for what is
    no page of it, or pages without end."""
    found: list[Any] = []
    cursor, seen = "", set[str]()
    while True:
        place = f"?limit={MOST_A_PAGE}" + (f"&cursor={cursor}" if cursor else "")
        page = await call(transport, "GET", url + place, bearer=bearer)
        if isinstance(page, list):  # of a service from before its list had pages
            return page
        if not isinstance(page, dict) or not isinstance(page.get(member), list):
            raise DecodeError(f"{url}: the answer is not a page of {member}")
        found += page[member]
        following = page.get("next")
        if following is None:
            return found
        if not isinstance(following, str) or not following.isalnum() or following in seen:
            raise DecodeError(f"{url}: the pages go in a circle")
        seen.add(cursor := following)


async def readiness(transport: Transport, url: str) -> tuple[bool, dict[str, Any]]:
    """Whether the service at ``url`` is ready, and its readiness page. Raises as ``call`` does."""
    answer = await _answer(transport, "GET", f"{url}/readyz")
    page = _json(answer, url) if answer.is_a(JSON) else None
    if answer.status not in (HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE) or not isinstance(page, dict):
        raise problem_of(answer)
    return answer.status == HTTPStatus.OK, page


async def get_bytes(transport: Transport, url: str, *, bearer: str | None = None) -> bytes:
    """The bytes at ``url``, requested with ``bearer`` if given. Raises as ``call`` does, for any status but 200."""
    headers = None if bearer is None else {"Authorization": f"Bearer {bearer}"}
    answer = await _answer(transport, "GET", url, headers)
    if answer.status != 200:
        raise problem_of(answer)
    return answer.body


async def put_bytes(transport: Transport, url: str, body: bytes) -> None:
    """Put ``body`` at ``url`` as ``application/octet-stream``. Raises as ``call`` does."""
    answer = await _answer(transport, "PUT", url, {"Content-Type": OCTET_STREAM}, body)
    if not 200 <= answer.status < 300:
        raise problem_of(answer)


async def _answer(
    transport: Transport, method: str, url: str, headers: Mapping[str, str] | None = None, body: bytes = b""
) -> HttpResponse:
    try:
        return await transport.request(method, url, headers=headers, body=body)
    except TransportError as error:
        raise NoAnswerError(url, error) from error


def problem_of(answer: HttpResponse) -> Abort:
    """An answer without success as an error for a person: a redirect, or a problem document."""
    if 300 <= answer.status < 400:
        return Abort("about:blank", status=answer.status, title=REDIRECTED)
    problem = read_problem(answer.body) if answer.is_a(PROBLEM_JSON) else Problem()
    title = problem.title or f"the service answered {answer.status}"
    if problem.type.startswith(REFUSAL_PREFIX):
        title = f"refused by rule {problem.type.removeprefix(REFUSAL_PREFIX)}:"
    return Abort(problem.type, problem.detail, status=answer.status, title=title)


def _json(answer: HttpResponse, url: str) -> Any:
    try:
        return json.loads(answer.body)
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"{url}: the answer is not JSON") from error


async def recipes_of(transport: Transport, server: str) -> list[dict[str, Any]]:
    """Every recipe's summary, in the order of the log. Raises as ``list_pages`` does."""
    found: list[dict[str, Any]] = []
    after: int | None = -1
    while after is not None:
        page = await call(transport, "GET", f"{server}/v1/recipes" + (f"?after={after}" if after >= 0 else ""))
        if not isinstance(page, dict) or not isinstance(page.get("recipes"), list):
            raise DecodeError(f"{server}: the answer is not a page of recipes")
        following = page.get("next")
        if following is not None and (type(following) is not int or following <= after):
            raise DecodeError(f"{server}: the pages of recipes go in a circle")
        found += page["recipes"]
        after = following
    return found
