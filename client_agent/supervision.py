"""Whose fault an error is, for the supervisors of single recipes, reports, slots and answers of the log (P30).

Whatever one of those holds, the device writes down what kind of error it met and goes on with the others. What the
device's own store raises (``AgentStore.errors``) is no such error: it is never swallowed, so that a full disk is seen
and nothing is lost.
"""

from __future__ import annotations

from tacit.errors import TacitError
from tacit.ports import TransportError


def unusable(error: Exception) -> str:
    """What the journal says of a recipe that raised what no rule foresees."""
    return f"recipe-unusable: {type(error).__name__}"


def words_of(error: Exception) -> str:
    """What the journal says: the words of an error that is raised on purpose, else its type alone, since its words may
    hold anything."""
    if isinstance(error, TacitError | TransportError):
        return str(error)
    return f"unexpected {type(error).__name__}"
