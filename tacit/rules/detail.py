"""The words of a refusal with the numbers that would pass, so that nobody has to read them out of a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Value = int | str
"""A member of a recipe as its JSON has it: whole numbers, and decimals and names as text."""


@dataclass(frozen=True, slots=True)
class Bound:
    """What a member may be: any number from ``at_least`` or beyond ``above`` to ``at_most``, ``exactly`` one value, or
    ``one_of`` some."""

    at_least: Value | None = None
    above: Value | None = None
    at_most: Value | None = None
    exactly: Value | None = None
    one_of: tuple[Value, ...] | None = None

    def document(self) -> dict[str, Any]:
        """As JSON, with the members that say something."""
        found = {name: getattr(self, name) for name in ("at_least", "above", "at_most", "exactly", "one_of")}
        return {name: list(said) if name == "one_of" else said for name, said in found.items() if said is not None}


Needed = Mapping[str, Bound]
"""By the path of a member of the recipe (such as ``batch.min_batch_size``): what all of them together must be."""


class Detail(str):
    """The words of a refusal. ``needed``: the ways to pass this rule, each enough by itself with all else as it is;
    claims that follow from a changed member are to be stated anew."""

    __slots__ = ("needed",)

    needed: tuple[Needed, ...]

    def __new__(cls, words: str, *needed: Needed) -> Detail:
        """Words, and the ways to pass."""
        made = super().__new__(cls, words)
        made.needed = needed
        return made


def needed_of(detail: str | None) -> list[dict[str, dict[str, Any]]]:
    """The ways to pass that a refusal's words have with them, as JSON; none where no number says it."""
    ways: Sequence[Needed] = detail.needed if isinstance(detail, Detail) else ()
    return [{member: bound.document() for member, bound in way.items()} for way in ways]


def at_least(member: str, value: Value) -> Needed:
    """The way in which one member is large enough."""
    return {member: Bound(at_least=value)}


def at_most(member: str, value: Value) -> Needed:
    """The way in which one member is small enough."""
    return {member: Bound(at_most=value)}


def exactly(**members: Value) -> Needed:
    """The way in which members, with ``__`` for the dots of their paths, have these values."""
    return {name.replace("__", "."): Bound(exactly=value) for name, value in members.items()}


def one_of(member: str, values: Sequence[Value]) -> tuple[Needed, ...]:
    """The way in which one member has one of these values; none where there are none."""
    return ({member: Bound(one_of=tuple(values))},) if values else ()
