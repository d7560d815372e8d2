"""Requests batches from a collector, and reads the results that it has released."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tacit.answers import may_pass
from tacit.errors import REFUSAL_PREFIX, Abort, DecodeError, Refusal
from tacit.operations.calls import call, list_pages
from tacit.ports import Clock, Transport

M = TypeVar("M")
POLL_SECONDS = 0.5
WAITING_RULES = frozenset({"opt-in-missing", "slot-key-missing"})
"""Rules whose refusal may end with leaves that are still missing from the log."""
PASSING = WAITING_RULES | {"unrecognizedTask", "invalidTask", "outdatedConfig"}
"""Refusals after which the same collection may be released later, because leaves or a server's opt-in are still
missing."""
RELEASED, REFUSED = "released", "refused"


@dataclass(frozen=True)
class CollectorAccess:
    """The address of an operator's collector (``url``), the address of the recipe server that it reads, and ``token``,
    which returns the current bearer token for the collector."""

    url: str
    recipe_server: str
    token: Callable[[], str] = field(repr=False)

    @property
    def bearer(self) -> str:
        """The bearer token to send now, read anew each time."""
        return self.token()


def rule_of(collection: Mapping[str, Any]) -> str:
    """The rule that refused a collection's last attempt, or an empty text."""
    return str(collection.get("rule", "")).rsplit(":", 1)[-1]


def in_order(documents: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Sort results by the time of their release, those of the same time by name and batch."""
    return sorted(map(dict, documents), key=lambda one: (one["released_at"], one["name"], one["batch"]))


async def collected(
    transport: Transport, at: CollectorAccess, recipe_hash: str, clock: Clock, *, wait: float, asked: int | None
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Request a recipe's batch and wait at most ``wait`` seconds. Returns the collection, and its results (empty if it
    is not released yet). ``asked``: how many devices were asked, if that is known better than the recipe states it.
    Raises ``Refusal`` if the collection was refused, and as ``read_results``."""
    until = clock.now() + wait
    collection = await _request_collection(transport, at, recipe_hash, clock, until)
    while _member(at, collection, "state", str) not in {RELEASED, REFUSED} and clock.now() < until:
        await clock.sleep(POLL_SECONDS)
        collection = await call(transport, "GET", f"{at.url}/v1/collections/{collection['id']}", bearer=at.bearer)
    if collection["state"] == REFUSED:
        raise Refusal(rule_of(collection) or "collection", str(collection.get("detail", "")))
    if collection["state"] != RELEASED:
        return collection, []
    found = await read_results(transport, at, recipe_hash, asked)
    return collection, [one for one in found if one["batch"] == collection["batch"]]


async def _request_collection(
    transport: Transport, at: CollectorAccess, recipe_hash: str, clock: Clock, until: float
) -> dict[str, Any]:
    """Request the collection, repeatedly while the collector has not seen the recipe or its opt-ins in the log."""
    body = json.dumps({"recipe_hash": recipe_hash}).encode()
    while True:
        try:
            found = await call(transport, "POST", f"{at.url}/v1/collections", body=body, bearer=at.bearer)
        except Abort as problem:
            rule = problem.type.removeprefix(REFUSAL_PREFIX)
            passing = problem.status == 404 or may_pass(problem.status) or rule in WAITING_RULES
            if not passing or clock.now() + POLL_SECONDS >= until:
                raise
            await clock.sleep(POLL_SECONDS)
        else:
            _member(at, found, "id", str)
            return dict(found)


def _member(at: CollectorAccess, document: Any, name: str, kind: type[M]) -> M:
    """A member of what the collector answered. Raises ``DecodeError``."""
    found = document.get(name) if isinstance(document, dict) else None
    if not isinstance(found, kind):
        raise _unreadable(at)
    return found


def _unreadable(at: CollectorAccess) -> DecodeError:
    return DecodeError(f"{at.url}: not the answer of a collector")


async def _results(transport: Transport, at: CollectorAccess, place: str) -> list[dict[str, Any]]:
    try:
        return await list_pages(transport, f"{at.url}/v1/results{place}", "results", bearer=at.bearer)
    except DecodeError as error:
        raise _unreadable(at) from error
    except Abort as problem:
        if place and problem.status == 404:
            return []  # this recipe has no release yet
        raise


async def read_results(
    transport: Transport, at: CollectorAccess, recipe_hash: str | None = None, asked: int | None = None
) -> list[dict[str, Any]]:
    """The results of one recipe or of all, in the order of their release. ``asked``: how many devices were asked, if
    that is known. Raises ``DecodeError`` for an answer that cannot be read, and as ``tacit.operations.calls.call``."""
    documents = await _results(transport, at, "" if recipe_hash is None else f"/{recipe_hash}")
    try:
        found = in_order(documents)
    except (LookupError, TypeError, ValueError) as error:
        raise _unreadable(at) from error
    if asked is None or recipe_hash is None:
        return found
    from tacit.operations.services import logged_recipe
    from tacit.recipe.response import stated_asked, with_response

    _, recipe = await logged_recipe(transport, at.recipe_server, recipe_hash)
    return [with_response(one, recipe, stated_asked(asked)) for one in found]
