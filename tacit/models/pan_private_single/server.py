"""Local pan-privacy with one server, the analyzer: how it reads what devices encrypted to it (P24)."""

from __future__ import annotations

from dataclasses import dataclass, field

from tacit.dap_errors import ReportError, ReportRejected
from tacit.errors import CryptoError, DecodeError, Refusal
from tacit.models.interfaces.server import ServerSide
from tacit.models.one_server import analyzer_of
from tacit.models.pan_private_single.form import state_key_of
from tacit.models.pan_private_single.task import one_server_task
from tacit.panprivate.discrete_logarithm import DiscreteLogarithm
from tacit.panprivate.elgamal import PrivateKey, ciphertext_size
from tacit.ports import StateKey
from tacit.recipe.derive import randomizer_of
from tacit.recipe.encoder import labels
from tacit.recipe.model import Recipe
from tacit.roles.analyzer import Counting, Reading
from tacit.task.one_server import OneServerTask

_CIPHERTEXT = ReportRejected(ReportError.INVALID_MESSAGE, "state-ciphertext")
_NO_BIT = ReportRejected(ReportError.INVALID_MESSAGE, "state-no-bit")
_NO_NUMBER = ReportRejected(ReportError.INVALID_MESSAGE, "state-no-number")


@dataclass(frozen=True, slots=True)
class EncryptedBits(Counting):
    """Pan-private counts and histograms: one encrypted bit for each cell, in the order of cells."""

    key: PrivateKey = field(repr=False)

    def numbers(self, payload: bytes) -> tuple[int, ...]:
        """See ``Counting.numbers``; causes ``state-ciphertext`` for an ephemeral element that is invalid or the
        identity, ``state-no-bit`` for any other content that is not a bit."""
        width, bit = ciphertext_size(self.key.group), self.key.open_bit
        try:
            return tuple(bit(payload[at : at + width]) for at in range(0, len(payload), width))
        except DecodeError as error:
            raise _CIPHERTEXT from error
        except CryptoError as error:
            raise _NO_BIT from error


@dataclass(frozen=True, slots=True)
class EncryptedNumber(Counting):
    """Pan-private means: one encrypted number in the range of ``logarithm``."""

    key: PrivateKey = field(repr=False)
    logarithm: DiscreteLogarithm = field(repr=False)

    def numbers(self, payload: bytes) -> tuple[int, ...]:
        """See ``Counting.numbers``; causes ``state-ciphertext`` for an invalid ciphertext, ``state-no-number`` for one
        that does not hold a number in the range."""
        try:
            return (self.logarithm.of(self.key.open(payload)),)
        except DecodeError as error:
            raise _CIPHERTEXT from error
        except CryptoError as error:
            raise _NO_NUMBER from error


class PanPrivateSingleServer(ServerSide):
    def task(self, recipe: Recipe, slot_key: bytes) -> OneServerTask:
        """Derive the task of a recipe. Raises the refusals of ``one_server_task``."""
        return one_server_task(recipe, slot_key)

    def state_key(self, recipe: Recipe) -> str | None:
        """The analyzer's key (base64url), to which devices encrypt their state. Raises as ``state_key_of``."""
        return state_key_of(analyzer_of(recipe.parties))

    def reading(self, recipe: Recipe, key: StateKey | None) -> Reading:
        """Bits for counts and histograms; for a mean, whose method is noise shares, one number."""
        method = randomizer_of(recipe)
        if not isinstance(key, PrivateKey):
            raise Refusal("own-state-key", "the recipe's answers are encrypted, and there is no key for them")
        if method.noise_share is None:
            return EncryptedBits(key)
        if len(labels(recipe)) != 1:
            raise Refusal("randomizer-parameters", "noise shares answer one number in this model")
        try:
            return EncryptedNumber(key, DiscreteLogarithm(0, method.largest))
        except ValueError as error:
            raise Refusal("randomizer-parameters", f"answers up to {method.largest}: {error}") from error
