"""Requesting batches from a collector, and reading the results that it has released."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tacit.errors import REFUSAL_PREFIX, Abort, Refusal
from tacit.operations.services import call, logged_recipe
from tacit.ports import Clock, Transport
from tacit.recipe.response import stated, with_response

POLL_SECONDS = 0.5
WAITING_RULES = frozenset({"opt-in-missing", "slot-key-missing"})
"""Refusals that leaves which are still to come may lift."""
PASSING = WAITING_RULES | {"unrecognizedTask", "invalidTask", "outdatedConfig"}
"""Refusals after which the same collection may be released later: leaves, or a server's opt-in, are still to come."""
RELEASED, REFUSED = "released", "refused"


@dataclass(frozen=True)
class CollectorAccess:
    """The address of an operator's collector, the recipe server that it reads, and ``token``, which returns the current
    bearer token for it."""

    url: str
    recipe_server: str
    token: Callable[[], str] = field(repr=False)

    @property
    def bearer(self) -> str:
        """The bearer token to send now, read anew each time."""
        return self.token()


def rule_of(collection: Mapping[str, Any]) -> str:
    """The rule that refused a collection's last attempt; empty where none did."""
    return str(collection.get("rule", "")).rsplit(":", 1)[-1]


def in_order(documents: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Sort results in the order of their release."""
    return sorted(map(dict, documents), key=lambda one: (one["released_at"], one["name"], one["batch"]))


async def collected(
    transport: Transport, at: CollectorAccess, recipe_hash: str, clock: Clock, *, wait: float, asked: int | None
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Request a recipe's batch and wait at most ``wait`` seconds. Returns the collection, and the results if it was
    released (empty: not yet). ``asked``: how many devices were asked, where that is known better than the recipe states
    it. Raises ``Refusal`` where it was refused, and as ``tacit.operations.services.call``."""
    until = clock.now() + wait
    collection = await _asked(transport, at, recipe_hash, clock, until)
    while collection["state"] not in {RELEASED, REFUSED} and clock.now() < until:
        await clock.sleep(POLL_SECONDS)
        collection = await call(transport, "GET", f"{at.url}/v1/collections/{collection['id']}", bearer=at.bearer)
    if collection["state"] == REFUSED:
        raise Refusal(rule_of(collection) or "collection", str(collection.get("detail", "")))
    if collection["state"] != RELEASED:
        return collection, []
    found = await released(transport, at, recipe_hash, asked)
    return collection, [one for one in found if one["batch"] == collection["batch"]]


async def _asked(
    transport: Transport, at: CollectorAccess, recipe_hash: str, clock: Clock, until: float
) -> dict[str, Any]:
    """Request the collection, repeatedly while the collector has not seen the recipe or its opt-ins in the log."""
    body = json.dumps({"recipe_hash": recipe_hash}).encode()
    while True:
        try:
            found = await call(transport, "POST", f"{at.url}/v1/collections", body=body, bearer=at.bearer)
        except Abort as problem:
            passing = problem.status == 404 or problem.type.removeprefix(REFUSAL_PREFIX) in WAITING_RULES
            if not passing or clock.now() + POLL_SECONDS >= until:
                raise
            await clock.sleep(POLL_SECONDS)
        else:
            return dict(found)


async def _results(transport: Transport, at: CollectorAccess, place: str) -> list[dict[str, Any]]:
    try:
        document = await call(transport, "GET", f"{at.url}/v1/results{place}", bearer=at.bearer)
    except Abort as problem:
        if place and problem.status == 404:
            return []  # nothing of this recipe was released yet
        raise
    return list(document["results"])


async def released(
    transport: Transport, at: CollectorAccess, recipe_hash: str | None = None, asked: int | None = None
) -> list[dict[str, Any]]:
    """Results in the order of their release, optionally of one recipe only; ``asked`` is the number of devices that
    were asked, where it is known. Raises as ``tacit.operations.services.call``."""
    found = in_order(await _results(transport, at, "" if recipe_hash is None else f"/{recipe_hash}"))
    if asked is None or recipe_hash is None:
        return found
    _, recipe = await logged_recipe(transport, at.recipe_server, recipe_hash)
    return [with_response(one, recipe, stated(asked)) for one in found]
