"""What an aggregator tells its operator and its collector about recipes: state and reason, but nothing about
reports."""

from __future__ import annotations

from collections.abc import Iterable

from tacit.aggregator.records import TaskRow
from tacit.codec import b64url


def recipe_status(rows: Iterable[TaskRow]) -> list[dict[str, str]]:
    """One mapping per recipe: its hash, task id, state, and the rule and detail of a refusal."""
    return [
        {
            "recipe_hash": b64url(row.recipe_hash),
            "task_id": b64url(row.task_id) if row.task_id is not None else "",
            "state": row.state.value,
            "rule": row.rule,
            "detail": row.detail,
        }
        for row in rows
    ]
