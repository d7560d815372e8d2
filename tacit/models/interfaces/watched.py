"""What the models have in common whose devices watch an event and keep its state encrypted."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

from tacit.codec import unb64url
from tacit.errors import DecodeError, Refusal
from tacit.models.interfaces.device import DeviceSide
from tacit.panprivate.elgamal import Ciphertext, PublicKey
from tacit.panprivate.stored import OneServer, TwoServers
from tacit.panprivate.two_servers import SharedCell
from tacit.ports import Entropy
from tacit.recipe.model import Recipe

S = TypeVar("S", OneServer, TwoServers)
Stored = OneServer | TwoServers
"""How a state is kept: encrypted to one server, or shared between two."""
RandomisedCells = Sequence[Ciphertext] | Sequence[SharedCell]
"""What is sent: ciphertexts for one server, or secret shares for two."""


class WatchedDeviceSide(DeviceSide):
    """The device side of a model whose devices watch an event over time, and keep its state encrypted."""

    @abstractmethod
    def stored(self, recipe: Recipe) -> Stored:
        """The form in which a device keeps the state of the event that it watches for the recipe. Raises refusal
        ``state-key-invalid`` for keys to which nothing can be encrypted."""

    @abstractmethod
    def randomised(self, recipe: Recipe, state: bytes, entropy: Entropy) -> RandomisedCells:
        """The answer made from a kept ``state``: the recipe's randomizer is applied to the ciphertexts. The state is
        not decrypted, and cannot be recognised in the answer. Raises as ``stored``."""


def asks_whether(recipe: Recipe) -> bool:
    """Whether the recipe asks only if the event happened at all, not how often."""
    return recipe.question.statistic == "count"


def made_once(recipe: Recipe, make: Callable[[], S]) -> S:
    """The form in which the recipe's state is kept: ``make`` is called once for each recipe, because it decodes keys
    and derives the task, and a fleet asks for every device."""
    found = recipe.derived.get("stored")
    if found is None:
        found = recipe.derived["stored"] = make()
    stored: S = found
    return stored


def public_key(text: str) -> PublicKey:
    """The state key that a recipe names (base64url). Raises refusal ``state-key-invalid``."""
    try:
        return PublicKey(unb64url(text))
    except DecodeError as error:
        raise Refusal("state-key-invalid", str(error)) from error
