"""An index of the log's recipes, in order and by hash, with the documents that a recipe server shows of them."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

from tacit.logview.live import LiveLog, LiveRecipe
from tacit.recipe.logged import in_full, recipe_state, stated, summary
from tacit.recipe.model import Recipe


class RecipeIndex:
    """The recipes of ``live``. ``before``: an index of the same log when it was shorter, whose work is used again."""

    def __init__(self, live: LiveLog, before: RecipeIndex | None = None) -> None:
        self._recipes = live.recipes
        self._places = [one.index for one in live.recipes]
        self._by_hash = {one.recipe.hash_text: one for one in live.recipes}
        self._said: dict[str, dict[str, Any]] = {} if before is None else before._said

    def page(self, first: int, limit: int, now: float) -> tuple[list[dict[str, Any]], int | None]:
        """At most ``limit`` summaries from index ``first`` of the log on, as of ``now`` (POSIX seconds), and the index
        at which the next page begins, or None."""
        begin = bisect_left(self._places, first)
        end = begin + limit
        found = [self._summary(one, now) for one in self._recipes[begin:end]]
        return found, self._places[end - 1] + 1 if end < len(self._places) else None

    def in_full(self, recipe_hash: str, now: float) -> tuple[dict[str, Any], Recipe] | None:
        """The document of the recipe with this hash, and the recipe itself; None if the log does not have it."""
        live = self._by_hash.get(recipe_hash)
        if live is None:
            return None
        opt_ins = {role: (entry.index, entry.leaf.encode()) for role, entry in live.opt_in_entries.items()}
        return {**self._summary(live, now), **in_full(live.recipe, live.leaf.encode(), opt_ins)}, live.recipe

    def _summary(self, live: LiveRecipe, now: float) -> dict[str, Any]:
        recipe = live.recipe
        if (said := self._said.get(recipe.hash_text)) is None:
            said = self._said[recipe.hash_text] = stated(recipe)
        state = recipe_state(live.roles, live.opt_ins, recipe.interval.end, now)
        return summary(recipe.hash_text, live.index, state, said)
