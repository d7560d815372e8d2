"""The server side of a model with one server: its task, and how that server reads a report.

Devices must not import a server side, because it can decrypt.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from tacit.ports import StateKey
from tacit.recipe.model import Recipe
from tacit.roles.analyzer import Reading
from tacit.task.one_server import OneServerTask
from tacit.task.onward import Onward
from tacit.task.shuffled import Bundling


class ServerSide(ABC):
    """What the one server of a model knows and does beyond opening and counting reports."""

    @abstractmethod
    def task(self, recipe: Recipe, slot_key: bytes) -> OneServerTask:
        """The recipe's task; ``slot_key`` is the token key (SPKI) of its slot. Raises refusal ``hpke-key-invalid`` or
        ``task-hpke``."""

    def state_key(self, recipe: Recipe) -> str | None:
        """The public key (base64url) to which devices encrypt what they keep; None if they keep nothing."""
        del recipe
        return None

    def bundling(self, recipe: Recipe, slot_key: bytes) -> Bundling | None:
        """How devices make the messages that a shuffler forwards to the analyzer; None in a model without a
        shuffler."""
        del recipe, slot_key
        return None

    def onward(self, recipe: Recipe, slot_key: bytes) -> Onward | None:
        """What this server forwards, a shuffler; None for any other."""
        del recipe, slot_key
        return None

    @abstractmethod
    def reading(self, recipe: Recipe, key: StateKey | None) -> Reading:
        """How the payloads of the recipe are read; ``key`` is the private key to ``state_key``. Raises refusal
        ``randomizer-parameters``."""
