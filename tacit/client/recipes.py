"""The log's recipes and their batches: how far they are filled, how to collect them, and their results."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from tacit.backoff import Backoff
from tacit.client.caller import Caller, part
from tacit.client.documents import Collection, LoggedRecipe, Question, RecipeSummary, read
from tacit.client.errors import NotFoundError, NotYetError, RuleError
from tacit.client.pages import items, pages
from tacit.client.results import Results
from tacit.errors import REFUSAL_PREFIX, UsageError
from tacit.operations.results import REFUSED, RELEASED, WAITING_RULES

ROOT = "/v1/recipes"
COLLECTIONS = "/v1/collections"
Hashed = Question | RecipeSummary | str
"""A published question, a recipe, or a recipe's hash."""
LOOKS: Final = Backoff(1.0, 10.0)
"""The pauses, in seconds, between two checks whether a batch was released."""
PENDING: Final = "pending"


class AsyncRecipes:
    """The recipes in the log, of this organisation and of others."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def all(self) -> AsyncIterator[RecipeSummary]:
        """Recipes in the order of the log, fetched page by page."""
        return items(self._caller, ROOT, "recipes", RecipeSummary)

    async def get(self, recipe: Hashed) -> LoggedRecipe:
        """A recipe with its body, which the service has verified, and how far its batch is filled."""
        return read(LoggedRecipe, await self._caller.get(f"{ROOT}/{part(hash_of(recipe))}"))

    async def collect(self, recipe: Hashed) -> Collection:
        """Ask for a recipe's batch. Asking again returns the same collection. Raises ``RuleError``, also while servers
        that have to opt in have not done so."""
        return read(Collection, (await self._caller.send("POST", COLLECTIONS, {"recipe": hash_of(recipe)})).document)

    async def collections(self) -> list[Collection]:
        """All collections of the collector; every page is fetched before it returns."""
        return [one async for one in items(self._caller, COLLECTIONS, "collections", Collection)]

    async def collection(self, collection: Collection | str) -> Collection:
        """A collection, or the one with this id, as it is now. Raises ``NotFoundError``."""
        name = collection.id if isinstance(collection, Collection) else collection
        return read(Collection, await self._caller.get(f"{COLLECTIONS}/{part(name)}"))

    async def results(self, recipe: Hashed | None = None) -> Results:
        """The released results of one recipe or of all, in the order of their release."""
        asked = None if recipe is None else hash_of(recipe)
        found = [page async for page in pages(self._caller, "/v1/results", "results", recipe=asked)]
        return Results.read({"results": [one for page in found for one in page]})

    async def wait_for_release(self, recipe: Hashed, seconds: float) -> Results:
        """Ask for a recipe's batch and wait until it is released, at most ``seconds``. Raises ``NotYetError`` if it is
        not released by then, and ``RuleError`` if the collection is refused (with fewer than B contributions, for
        example)."""
        until, looks = self._caller.clock.now() + seconds, 0
        collection: Collection | None = None
        while True:
            if collection is None:
                collection = await self._ask(recipe)
            elif collection.state not in {RELEASED, REFUSED}:
                collection = await self.collection(collection)
            if collection is not None and collection.state == REFUSED:
                raise _refusal_of(collection)
            if collection is not None and collection.state == RELEASED:
                found = await self.results(recipe)
                if released := Results(one for one in found if one.get("batch") == collection.batch):
                    return released
            pause = LOOKS.pause(looks, self._caller.entropy)
            if self._caller.clock.now() + pause > until:
                raise NotYetError(f"not released within {seconds:g} seconds; its collection is {_state(collection)}")
            await self._caller.clock.sleep(pause)
            looks += 1

    async def _ask(self, recipe: Hashed) -> Collection | None:
        """Ask for the collection; None while it is refused because something is still missing."""
        try:
            if (await self.get(recipe)).state == PENDING:
                return None
            return await self.collect(recipe)
        except NotFoundError:
            return None
        except RuleError as error:
            if error.rule not in WAITING_RULES:
                raise
            return None


def hash_of(recipe: Hashed) -> str:
    """The hash of the recipe. Raises ``UsageError`` for a question that is not published."""
    found = recipe if isinstance(recipe, str) else recipe.hash
    if not found:
        raise UsageError("the question has no recipe yet; publish it")
    return found


def _state(collection: Collection | None) -> str:
    """The state of a collection, and why its last attempt failed, if it did."""
    if collection is None:
        return PENDING
    rule = collection.rule.rsplit(":", 1)[-1]
    return f"{collection.state} ({rule}: {collection.detail})" if rule else collection.state


def _refusal_of(collection: Collection) -> RuleError:
    """The refusal of the collection's last attempt."""
    rule = collection.rule.rsplit(":", 1)[-1] or "collection"
    return RuleError(f"{REFUSAL_PREFIX}{rule}", collection.detail, status=409, title=f"refused by rule {rule}:")
