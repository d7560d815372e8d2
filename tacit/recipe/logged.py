"""A recipe of the log as services describe it: its state, and a short summary."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from typing import Any

from tacit.codec import b64url
from tacit.recipe.charges import cost_of
from tacit.recipe.derive import task_id
from tacit.recipe.model import Recipe
from tacit.states import Move, States


class RecipeState(enum.StrEnum):
    """What a reader may do with a recipe: wait for opt-ins, answer, or look at results."""

    PENDING = "pending"
    ACTIVE = "active"
    OVER = "over"


RECIPE_STATES = States(
    "a recipe in the log",
    RecipeState,
    [
        Move(None, RecipeState.PENDING, "it is published"),
        Move(RecipeState.PENDING, RecipeState.ACTIVE, "the last opt-in that it needs is in the log"),
        Move(RecipeState.PENDING, RecipeState.OVER, "its interval has ended"),
        Move(RecipeState.ACTIVE, RecipeState.OVER, "its interval has ended"),
    ],
)
"""The states that ``recipe_state`` returns as the log grows and time passes. None of it is stored."""


def recipe_state(roles: Collection[str], opted_in: Collection[str], ends_at: int, now: float) -> RecipeState:
    """The state at ``now`` of a recipe that needs the opt-ins of ``roles``, when those of ``opted_in`` are in the log
    and its interval ends at ``ends_at`` (POSIX seconds)."""
    if now >= ends_at:
        return RecipeState.OVER
    return RecipeState.ACTIVE if set(roles) <= set(opted_in) else RecipeState.PENDING


def stated_members(recipe: Recipe) -> dict[str, Any]:
    """The part of a recipe's summary that does not depend on the time; it never changes."""
    return {
        "name": recipe.name,
        "question": recipe.question.text,
        "analyst": recipe.parties.analyst.operator,
        "interval": recipe.interval.model_dump(mode="json"),
        "min_batch_size": recipe.batch.min_batch_size,
        "token": recipe.token.model_dump(mode="json"),
        "epsilon": f"{cost_of(recipe).epsilon:f}",
        "delta": recipe.privacy.delta,
    }


def in_full(recipe: Recipe, leaf: bytes, opt_ins: Mapping[str, tuple[int, bytes]]) -> dict[str, Any]:
    """The further members when a recipe is returned in full. ``opt_ins``: index and leaf by role."""
    return {
        "task_id": b64url(task_id(recipe)),
        "recipe": recipe.body(),
        "leaf": b64url(leaf),
        "opt_ins": {role: {"index": index, "leaf": b64url(data)} for role, (index, data) in opt_ins.items()},
    }


def summary(recipe_hash: str, index: int, state: RecipeState, said: Mapping[str, Any]) -> dict[str, Any]:
    """A recipe at ``index`` of the log, as lists have it. ``said``: the result of ``stated_members``."""
    return {"hash": recipe_hash, "index": index, "state": state, **said}
