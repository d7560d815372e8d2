"""The text of a refusal together with the numbers that would pass, so that programs need not parse the text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Value = int | str
"""A member of a recipe as in its JSON: an integer, or text for decimals and names."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The allowed values of a member: any number from ``at_least`` or above ``above`` up to ``at_most``, ``exactly``
    one value, or ``one_of`` several."""

    at_least: Value | None = None
    above: Value | None = None
    at_most: Value | None = None
    exactly: Value | None = None
    one_of: tuple[Value, ...] | None = None

    def document(self) -> dict[str, Any]:
        """The bound as a JSON object of the members that are set."""
        found = {name: getattr(self, name) for name in ("at_least", "above", "at_most", "exactly", "one_of")}
        return {name: list(said) if name == "one_of" else said for name, said in found.items() if said is not None}


Needed = Mapping[str, Bound]
"""By the path of a member of the recipe (such as ``batch.min_batch_size``): the values that all of them must have
together."""


class Detail(str):
    """The text of a refusal. ``needed``: the ways to pass this rule, each sufficient by itself with everything else
    unchanged; claims that depend on a changed member must be stated again."""

    __slots__ = ("needed",)

    needed: tuple[Needed, ...]

    def __new__(cls, words: str, *needed: Needed) -> Detail:
        """Make a detail from its text and the ways to pass."""
        made = super().__new__(cls, words)
        made.needed = needed
        return made


def needed_of(detail: str | None) -> list[dict[str, dict[str, Any]]]:
    """The ways to pass that a refusal carries, as JSON; empty where no change of a number would pass."""
    ways: Sequence[Needed] = detail.needed if isinstance(detail, Detail) else ()
    return [{member: bound.document() for member, bound in way.items()} for way in ways]


def at_least(member: str, value: Value) -> Needed:
    """A way to pass: with this member at ``value`` or above, all others as they are."""
    return {member: Bound(at_least=value)}


def at_most(member: str, value: Value) -> Needed:
    """A way to pass: with this member at ``value`` or below, all others as they are."""
    return {member: Bound(at_most=value)}


def exactly(**members: Value) -> Needed:
    """The way to pass in which members, with ``__`` for the dots of their paths, have these values."""
    return {name.replace("__", "."): Bound(exactly=value) for name, value in members.items()}


def one_of(member: str, values: Sequence[Value]) -> tuple[Needed, ...]:
    """The ways to pass in which one member has one of these values; empty where there are none."""
    return ({member: Bound(one_of=tuple(values))},) if values else ()
