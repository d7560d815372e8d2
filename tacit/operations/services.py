"""Calls the services' HTTP interfaces as their operator does: JSON in, JSON out, problem documents as errors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from tacit.codec import unb64url
from tacit.errors import REFUSAL_PREFIX, Abort, DecodeError
from tacit.media_types import JSON, PROBLEM_JSON
from tacit.monitor.reading import WholeLog
from tacit.ports import HttpResponse, Transport, TransportError
from tacit.problem import Problem, read_problem
from tacit.recipe.live import LeafSigners, LiveLog
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.tlog.checkpoint import LogPolicy, NoteKey
from tacit.tlog.client import LogView, signed_entries
from tacit.tlog.leaves import SignedLeaf
from tacit.tlog.pages import PagedReader


class NoAnswerError(TransportError):
    """Nothing answers at an address. ``brief``: the message without advice."""

    def __init__(self, url: str, cause: Exception) -> None:
        self.brief = f"{url} does not answer"
        super().__init__(f"{self.brief}; is it running? ({cause})")


async def call(transport: Transport, method: str, url: str, *, body: bytes = b"", bearer: str | None = None) -> Any:
    """Make one request to a service and return the JSON of a successful answer. Raises ``Abort`` for a problem document
    (its title names the rule of a refusal), ``NoAnswerError`` if nothing answers, and ``DecodeError``."""
    headers = {"Content-Type": JSON} if body else {}
    if bearer is not None:
        headers["Authorization"] = f"Bearer {bearer}"
    answer = await _answer(transport, method, url, headers, body)
    if answer.status >= 400:
        raise problem_of(answer)
    return _json(answer, url)


async def readiness(transport: Transport, url: str) -> tuple[bool, dict[str, Any]]:
    """Whether the service at ``url`` is ready, and its readiness page. Raises as ``call`` does."""
    answer = await _answer(transport, "GET", f"{url}/readyz")
    page = _json(answer, url) if answer.headers.get("content-type", "").startswith(JSON) else None
    if answer.status not in (HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE) or not isinstance(page, dict):
        raise problem_of(answer)
    return answer.status == HTTPStatus.OK, page


async def get_bytes(transport: Transport, url: str, *, bearer: str | None = None) -> bytes:
    """The bytes at ``url``, requested with ``bearer`` if given. Raises as ``call`` does."""
    headers = None if bearer is None else {"Authorization": f"Bearer {bearer}"}
    answer = await _answer(transport, "GET", url, headers)
    if answer.status != 200:
        raise problem_of(answer)
    return answer.body


async def _answer(
    transport: Transport, method: str, url: str, headers: Mapping[str, str] | None = None, body: bytes = b""
) -> HttpResponse:
    try:
        return await transport.request(method, url, headers=headers, body=body)
    except TransportError as error:
        raise NoAnswerError(url, error) from error


def problem_of(answer: HttpResponse) -> Abort:
    """Turn a problem document into an error with a message for people."""
    declared = answer.headers.get("content-type", "").startswith(PROBLEM_JSON)
    problem = read_problem(answer.body) if declared else Problem()
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
    """The summary of every recipe, in the order of the log."""
    found: list[dict[str, Any]] = []
    after: int | None = -1
    while after is not None:
        page = await call(transport, "GET", f"{server}/v1/recipes" + (f"?after={after}" if after >= 0 else ""))
        found += page["recipes"]
        after = page["next"]
    return found


async def logged_recipe(transport: Transport, server: str, recipe_hash: str) -> tuple[dict[str, Any], Recipe]:
    """What the recipe server reports about a recipe, and the recipe itself. Its hash and its analyst's signature are
    checked. Raises ``CryptoError`` and ``DecodeError``, and as ``call`` does."""
    document = await call(transport, "GET", f"{server}/v1/recipes/{recipe_hash}")
    leaf = SignedLeaf.decode(unb64url(document["leaf"]))
    recipe = Recipe.from_body(leaf.body)
    leaf.verify(unb64url(recipe.parties.analyst.signing_key))
    if recipe.hash_text != recipe_hash:
        raise DecodeError("the recipe server answered with another recipe")
    return document, recipe


async def verified_log(transport: Transport, server: str, key: NoteKey, policy: Policy) -> LiveLog:
    """Read the current log of the recipe server at ``server``, and check checkpoint, inclusion and signatures. Raises
    ``Refusal``, and as ``call`` does."""

    async def get(path: str) -> bytes:
        return await get_bytes(transport, f"{server}{path}")

    return LiveLog.from_entries(await PagedReader(get).read(LogView(LogPolicy(key)), LeafSigners(policy)) or ())


async def whole_log(transport: Transport, server: str, key: NoteKey, policy: Policy) -> LiveLog:
    """Read every leaf of the log at ``server`` since its beginning, and check the leaves against the checkpoint and
    their signatures. Raises ``Refusal`` and ``NoAnswerError``."""
    log = WholeLog(transport, server, key)
    try:
        await log.read(await log.checkpoint(), 0)
    except TransportError as error:
        raise NoAnswerError(server, error) from error
    leaves = [SignedLeaf.decode(entry) for entry in log.tree.entries]
    return LiveLog.from_entries(signed_entries(range(len(leaves)), leaves, LeafSigners(policy)))
