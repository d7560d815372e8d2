"""States as tables: the states of a stored thing, and every transition between them.

There is one table per thing, next to its owner. Two rules: every change of a state goes through the table, with
``check`` or, in SQL, with ``WHERE state IN (names_before(new))``; and a transition that the table does not contain
raises ``Fatal``, because then the program is wrong or another one wrote to its database. ``docs/schemas/states.md`` is
drawn from the tables.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from tacit.errors import Fatal

S = TypeVar("S", bound=enum.StrEnum)


@dataclass(frozen=True, slots=True)
class Move(Generic[S]):
    """One row of a table: a transition from ``before`` (``None``: it did not exist) to ``after`` (``None``: it is
    deleted), and ``when`` it happens, in words without a colon or a semicolon. ``before`` and ``after`` may be the
    same: its row is then rewritten."""

    before: S | None
    after: S | None
    when: str


class States(Generic[S]):
    """The table of one kind of thing."""

    def __init__(self, name: str, states: type[S], moves: Sequence[Move[S]]) -> None:
        """``name`` is the name of the thing, with its article. Raises ``Fatal`` for a table that contains a transition
        twice, or leaves a state out."""
        self.name = name
        self.states = tuple(states)
        self.moves = tuple(moves)
        self._allowed = {(move.before, move.after) for move in self.moves}
        if len(self._allowed) < len(self.moves):
            raise Fatal(f"the states of {name} contain one transition twice")
        if {move.after for move in self.moves} - {None} != set(states):
            raise Fatal(f"the table of {name} lacks a state")

    def allows(self, before: S | None, after: S | None) -> bool:
        """Whether the table contains this transition."""
        return (before, after) in self._allowed

    def check(self, before: S | None, after: S | None) -> None:
        """Raise ``Fatal`` unless the table contains this transition."""
        if not self.allows(before, after):
            raise Fatal(f"{self.name} cannot go from {before or 'nothing'} to {after or 'nothing'}")

    def before(self, after: S | None) -> frozenset[S]:
        """Every state of an existing thing from which it may go to ``after``. Raises ``Fatal`` where there is none."""
        found = frozenset(move.before for move in self.moves if move.after == after and move.before is not None)
        if not found:
            raise Fatal(f"{self.name} cannot go to {after or 'nothing'}")
        return found

    def names_before(self, after: S | None) -> list[str]:
        """``before`` as the values that a database column holds."""
        return sorted(state.value for state in self.before(after))

    def is_final(self, state: S) -> bool:
        """Whether a thing in this state never changes again."""
        return all(move.before != state for move in self.moves)

    @property
    def lasting(self) -> frozenset[S]:
        """The states that are not final: those from which the table has a move."""
        return frozenset(state for state in self.states if not self.is_final(state))

    def diagram(self) -> str:
        """The table as a Mermaid state diagram, one line per transition."""
        lines = ["stateDiagram-v2"]
        lines += [f'    state "{state}" as {_node(state)}' for state in self.states if "-" in state]
        lines += [f"    {_node(move.before)} --> {_node(move.after)}: {move.when}" for move in self.moves]
        return "\n".join(lines)


def _node(state: enum.StrEnum | None) -> str:
    return "[*]" if state is None else state.value.replace("-", "_")
