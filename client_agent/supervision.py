"""Classifies errors for the code that supervises single recipes, reports, slots and answers of the log (P30).

If one of those raises, the device records what kind of error it was and goes on with the others. The store's own errors
(``AgentStore.errors``) are never swallowed, so that a full disk is noticed and nothing is lost.
"""

from __future__ import annotations

from tacit.errors import TacitError
from tacit.ports import TransportError


def unusable(error: Exception) -> str:
    """The journal's text for a recipe that raised an error which no rule covers."""
    return f"recipe-unusable: {type(error).__name__}"


def words_of(error: Exception) -> str:
    """The journal's text for an error: its message if it is raised on purpose, otherwise only its type, since its
    message may hold anything."""
    if isinstance(error, TacitError | TransportError):
        return str(error)
    return f"unexpected {type(error).__name__}"
