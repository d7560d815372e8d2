"""Prints the verdicts of the rules on a recipe for a person: rules that passed, then those that refuse and what would
pass instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group
from rich.text import Text

from infra.views.policy_words import for_authors
from infra.views.terminal import plain_table


def rules_text(verdicts: Sequence[Mapping[str, Any]]) -> Group:
    """Return ``verdicts``, which are documents of ``RuleVerdict``, as text: the names of rules that passed, then a
    table row for each rule that refuses."""
    passed = [str(one["rule"]) for one in verdicts if one["passed"]]
    refused = [one for one in verdicts if not one["passed"]]
    parts: list[Any] = [Text(f"passed {len(passed)}: {', '.join(passed)}", style="dim")] if passed else []
    if refused:
        table = plain_table("refused by", "why", "what would pass")
        for one in refused:
            ways = "\nor ".join(way_text(way) for way in one.get("needed", ()))
            table.add_row(Text(str(one["rule"]), style="bold red"), Text(for_authors(str(one["detail"]))), Text(ways))
        parts += [Text(""), table]
    return Group(*parts, Text(""))


def way_text(way: Mapping[str, Mapping[str, Any]]) -> str:
    """Return members of a recipe with the values that would pass: ``batch.min_batch_size at least 20``."""
    return " and ".join(f"{member} {bound_text(bound)}" for member, bound in way.items())


def bound_text(bound: Mapping[str, Any]) -> str:
    """Return a bound as text, such as ``at least 20``; several values are separated by commas."""
    return " ".join(
        f"{word.replace('_', ' ')} {', '.join(map(str, value)) if isinstance(value, list) else value}"
        for word, value in bound.items()
    )
