"""Slots: which token belongs to which recipe, while the token reveals nothing about the recipe (rule P8).

An issuer has one key per (epoch, slot). A slot's challenge can be computed by everyone who knows the issuer's name, the
epoch and the slot, so a token can be fetched long before the recipe that will ask for it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from tacit.dap_errors import ReportError, ReportRejected
from tacit.errors import CryptoError, DecodeError
from tacit.tokens import blind_rsa
from tacit.tokens.blind_rsa import TokenKey
from tacit.tokens.structures import (
    AUTHENTICATOR_SIZE,
    BLIND_RSA_2048,
    NONCE_SIZE,
    TOKEN_SIZE,
    Token,
    TokenChallenge,
    token_input,
)

_CONTEXT_LABEL = b"sa2-slot"
_NONCE = slice(2, 2 + NONCE_SIZE)
_SIGNED_SIZE = TOKEN_SIZE - AUTHENTICATOR_SIZE


@dataclass(frozen=True, slots=True, order=True)
class Slot:
    """One slot of one epoch of one issuer; sorted by issuer, epoch and slot."""

    issuer: str
    epoch: int
    slot: int


def redemption_context(epoch: int, slot: int) -> bytes:
    """SHA-256("sa2-slot" || uint64 epoch || uint32 slot)."""
    return hashlib.sha256(_CONTEXT_LABEL + epoch.to_bytes(8, "big") + slot.to_bytes(4, "big")).digest()


def slot_challenge(slot: Slot) -> TokenChallenge:
    """The only challenge of a slot; it names no origin."""
    return TokenChallenge(BLIND_RSA_2048, slot.issuer, redemption_context(slot.epoch, slot.slot), "")


class TokenVerifier:
    """Checks tokens of one slot against that slot's key. Loads the key once; safe to share between threads."""

    def __init__(self, token_key_spki: bytes, slot: Slot) -> None:
        """Raises ``DecodeError`` where the key is not a token key of type 0x0002."""
        self.token_key = TokenKey.from_spki(token_key_spki)
        self.slot = slot
        self._challenge_digest = slot_challenge(slot).digest()
        expected = token_input(BLIND_RSA_2048, bytes(NONCE_SIZE), self._challenge_digest, self.token_key.token_key_id)
        self._type, self._facts = expected[: _NONCE.start], expected[_NONCE.stop :]

    def parse(self, token: bytes) -> Token:
        """Decode the token and check that its form, key and challenge are those of the slot; the signature is not
        checked.

        Raises ``ReportRejected`` with cause "token-malformed", "token-key" or "token-challenge".
        """
        try:
            parsed = Token.decode(token)
        except DecodeError as error:
            raise ReportRejected(ReportError.INVALID_MESSAGE, "token-malformed") from error
        if parsed.token_key_id != self.token_key.token_key_id:
            raise ReportRejected(ReportError.INVALID_MESSAGE, "token-key")
        if parsed.challenge_digest != self._challenge_digest:
            raise ReportRejected(ReportError.INVALID_MESSAGE, "token-challenge")
        return parsed

    def takes(self, token: bytes) -> bool:
        """Whether ``parse`` accepts the token; it is not decoded for that."""
        facts = token[_NONCE.stop : _SIGNED_SIZE]
        return len(token) == TOKEN_SIZE and facts == self._facts and token.startswith(self._type)

    def verify_signature(self, token: Token) -> None:
        """Verify the issuer's signature. Raises ``ReportRejected`` with cause "token-signature"."""
        try:
            blind_rsa.verify(self.token_key, token.authenticator_input(), token.authenticator)
        except CryptoError as error:
            raise ReportRejected(ReportError.INVALID_MESSAGE, "token-signature") from error

    def verify(self, token: bytes) -> Token:
        """``parse`` and ``verify_signature`` in this order."""
        parsed = self.parse(token)
        self.verify_signature(parsed)
        return parsed
