"""Tokens for the sampled devices of a fleet.

``IssuedTokens`` does what a device does: an attestation identity of its own, a fresh challenge, a blinded request, the
attester, the issuer, and the check of the answer. ``DirectTokens`` signs with the slot's key. It is for load tests on a
local stack whose issuer's store the operator can read, and every report says so. Real devices fetch the token of every
slot whatever their coin says (``client_agent.wallet``); a simulated device that is not sampled fetches none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from client_agent.wallet import HeldToken, QuotaSpentError, ask_attester
from tacit.backoff import Backoff
from tacit.errors import CryptoError, DecodeError, UsageError
from tacit.ports import Clock, Entropy, Transport, TransportError
from tacit.tokens.binding import Preimages
from tacit.tokens.blind_rsa import TokenKey
from tacit.tokens.issuance import request_token
from tacit.tokens.slots import Slot, slot_challenge
from tacit.tokens.software_root import SoftwareRoot
from tacit.tokens.structures import BLIND_RSA_2048, Token, token_input

CONCURRENCY = 32
ATTEMPTS = 12
BACKOFF = Backoff(0.5, 8.0)
SALT_SIZE = 48


class TokenSource(Protocol):
    """Where the tokens of one slot come from."""

    async def fetch(self, devices: Sequence[int]) -> list[HeldToken | None]:
        """Return a token for each device, ``None`` for a device that could not get one."""
        ...


@dataclass(frozen=True)
class SlotKey:
    """One slot, and the public key that the log shows for it."""

    slot: Slot
    key: TokenKey = field(repr=False)


class IssuedTokens:
    """Gets tokens as devices do, for many devices at a time."""

    def __init__(
        self,
        slot_key: SlotKey,
        authority: SoftwareRoot,
        transport: Transport,
        attester_url: str,
        clock: Clock,
        entropy: Entropy,
    ) -> None:
        self._slot_key = slot_key
        self._authority = authority
        self._transport = transport
        self._attester_url = attester_url
        self._clock = clock
        self._entropy = entropy

    async def fetch(self, devices: Sequence[int]) -> list[HeldToken | None]:
        """Get a token for each device, ``CONCURRENCY`` at a time; None if the quota is spent or every attempt fails."""
        found: list[HeldToken | None] = [None] * len(devices)
        waiting = iter(enumerate(devices))

        async def worker() -> None:
            for place, device in waiting:
                found[place] = await self._fetch(device)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(CONCURRENCY, len(devices))):
                group.create_task(worker())
        return found

    async def _fetch(self, device: int) -> HeldToken | None:
        identity = self._authority.issue(f"fleet-{device}", self._entropy, self._clock.now())
        secrets = Preimages.draw(self._entropy)
        key = self._slot_key.key
        pending = request_token(key, slot_challenge(self._slot_key.slot), secrets.nonce, self._entropy)
        for attempt in range(ATTEMPTS):
            try:
                answer = await ask_attester(self._transport, self._attester_url, identity, pending)
                return HeldToken(pending.finalize(key, answer).encode(), secrets, key.token_key_id)
            except QuotaSpentError:
                return None
            except (TransportError, DecodeError, CryptoError):
                await self._clock.sleep(BACKOFF.pause(attempt, self._entropy))
        return None


class DirectTokens:
    """Signs tokens itself, with the issuer's private key of the slot."""

    def __init__(self, slot_key: SlotKey, private_key: bytes, entropy: Entropy) -> None:
        """``private_key`` is PKCS#8. Raises ``UsageError`` if it is not the slot's."""
        try:
            loaded = serialization.load_der_private_key(private_key, password=None, unsafe_skip_rsa_key_validation=True)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise UsageError("the issuer's slot key does not load") from error
        public = TokenKey.from_public_key(loaded.public_key()) if isinstance(loaded, rsa.RSAPrivateKey) else None
        if not isinstance(loaded, rsa.RSAPrivateKey) or public != slot_key.key:
            raise UsageError("the issuer's store holds another key for the slot than the log shows")
        self._private_key = loaded
        self._key_id = slot_key.key.token_key_id
        self._digest = slot_challenge(slot_key.slot).digest()
        self._entropy = entropy
        self._hash = hashes.SHA384()
        self._padding = padding.PSS(mgf=padding.MGF1(self._hash), salt_length=SALT_SIZE)

    async def fetch(self, devices: Sequence[int]) -> list[HeldToken | None]:
        """Sign a token for each device; none is ever missing."""
        found: list[HeldToken | None] = []
        for number, _ in enumerate(devices):
            found.append(self._sign())
            if number % CONCURRENCY == 0:
                await asyncio.sleep(0)
        return found

    def _sign(self) -> HeldToken:
        secrets = Preimages.draw(self._entropy)
        message = token_input(BLIND_RSA_2048, secrets.nonce, self._digest, self._key_id)
        signature = self._private_key.sign(message, self._padding, self._hash)
        token = Token(secrets.nonce, self._digest, self._key_id, signature)
        return HeldToken(token.encode(), secrets, self._key_id)
