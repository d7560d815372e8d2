"""The device's tokens: one per slot of the coming epoch, each fetched at its own random time.

Which slots a device asks for, and when, depends on the log's directories and on fresh randomness only, never on a
recipe or a coin. A blinded message is in the journal before it is sent, so that a retry after a crash asks for
the same token again and the attester's quota (one per device and slot) is not spent twice. The key that a slot had
when it was planned is the only one that its token is ever asked for under.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from client_agent.config import Timing
from client_agent.journal import AgentStore, Fact, Prefetch, note
from client_agent.supervision import words_of
from tacit.backoff import NEVER, uniform
from tacit.errors import CryptoError, DecodeError
from tacit.media_types import JSON, PRIVATE_TOKEN_RESPONSE
from tacit.ports import Clock, Entropy, Transport, TransportError
from tacit.problem import problem_type
from tacit.retry_after import make_unanswered
from tacit.tlog.token_directories import IssuerDirectory
from tacit.tokens.attestation import Evidence, attestation_binding, challenge_of, token_request_body
from tacit.tokens.binding import PREIMAGE_SIZE, Preimages
from tacit.tokens.blind_rsa import TokenKey
from tacit.tokens.issuance import PendingToken, request_token
from tacit.tokens.slots import Slot, slot_challenge
from tacit.tokens.structures import TokenResponse

QUOTA_PROBLEM = "urn:tacit:problem:quota"
LATE_SHARE = 0.25
"""A device that joins during an epoch spreads its requests over this share of the rest of the epoch."""


class AttestedDevice(Protocol):
    """The identity with which a device proves itself to the attester."""

    def attest(self, binding: bytes) -> Evidence:
        """Evidence over ``binding`` (32 bytes from ``attestation_binding``)."""
        ...


@dataclass(frozen=True)
class HeldToken:
    """A token ready to be spent, with the two secrets that bind it to one report."""

    token: bytes
    preimages: Preimages
    key_id: bytes

    def __repr__(self) -> str:
        return "HeldToken()"


class TokenWallet:
    """Plans, fetches and hands out tokens."""

    def __init__(
        self,
        store: AgentStore,
        transport: Transport,
        attester_url: str,
        device: AttestedDevice,
        clock: Clock,
        entropy: Entropy,
        timing: Timing,
    ) -> None:
        self._store = store
        self._transport = transport
        self._attester_url = attester_url
        self._device = device
        self._clock = clock
        self._entropy = entropy
        self._timing = timing
        self._directories: dict[int, IssuerDirectory] = {}
        self._fetching = asyncio.Lock()

    async def plan(self, directories: Iterable[IssuerDirectory]) -> None:
        """Store the log's directories (of one issuer), and plan a random time for every new slot of the current and the
        next epoch."""
        now = self._clock.now()
        self._directories = {directory.epoch: directory for directory in directories}
        known, fresh = {prefetch.slot for prefetch in await self._store.prefetches()}, list[Prefetch]()
        for directory in self._directories.values():
            opens = directory.start - directory.epoch_seconds
            if not opens <= now < (directory.end if self._timing.join_late else directory.start):
                continue
            until = directory.start if now < directory.start else now + LATE_SHARE * (directory.end - now)
            for key in directory.keys:
                slot = Slot(directory.issuer, directory.epoch, key.slot)
                if slot not in known:
                    key_id = hashlib.sha256(directory.spki(key.slot) or b"").digest()
                    fresh.append(Prefetch(slot, uniform(self._entropy, now, until), key_id))
        if fresh:
            await self._store.put_prefetch(*fresh)

    async def step(self) -> float:
        """Fetch every token that is due; returns when the next one is due (POSIX seconds, ``inf`` for none)."""
        async with self._fetching:
            now, due_next = self._clock.now(), NEVER
            for prefetch in await self._store.prefetches():
                directory = self._directories.get(prefetch.slot.epoch)
                if prefetch.settled or directory is None or now >= directory.end:
                    continue
                after = await self._fetch_supervised(prefetch, directory) if prefetch.due_at <= now else prefetch
                if not after.token:
                    due_next = min(due_next, after.due_at)
            return due_next

    async def held(self, slot: Slot) -> HeldToken | None:
        """The unspent token of ``slot``; None before it was fetched, and after it was spent."""
        prefetch = await self._row(slot)
        if prefetch is None or not prefetch.usable:
            return None
        secrets = prefetch.preimages
        return HeldToken(prefetch.token, Preimages(secrets[:PREIMAGE_SIZE], secrets[PREIMAGE_SIZE:]), prefetch.key_id)

    async def may_come(self, slot: Slot, before: float) -> bool:
        """Whether the slot's token, which is not held yet, may still be fetched before the time ``before`` (POSIX
        seconds)."""
        if self._clock.now() >= before:
            return False
        prefetch = await self._row(slot)
        return prefetch is None or (not prefetch.spent and prefetch.due_at < before)

    async def _row(self, slot: Slot) -> Prefetch | None:
        return next((prefetch for prefetch in await self._store.prefetches() if prefetch.slot == slot), None)

    async def _fetch_supervised(self, prefetch: Prefetch, directory: IssuerDirectory) -> Prefetch:
        """``_fetch``; if a slot raises an unexpected error, that is recorded and the slot is tried again later."""
        try:
            after = await self._fetch(prefetch, directory)
        except self._store.errors:
            raise
        except Exception as error:  # an error of this slot's key, row or answer
            slot = f"slot {prefetch.slot.slot} of epoch {prefetch.slot.epoch}"
            await note(self._store, Fact.TOKEN_TROUBLE, f"{slot}: {words_of(error)}", self._clock.now())
            pause = self._timing.backoff.pause(prefetch.attempts, self._entropy)
            after = replace(prefetch, due_at=self._clock.now() + pause, attempts=prefetch.attempts + 1)
            await self._store.put_prefetch(after)
            return after
        if after.token:
            await note(self._store, Fact.TOKEN_TROUBLE, "", self._clock.now())
        return after

    async def _fetch(self, prefetch: Prefetch, directory: IssuerDirectory) -> Prefetch:
        key = _planned_key(prefetch, directory)
        try:
            blinded = None if key is None else await self._store_blinded(prefetch, key)
        except CryptoError:
            blinded = None
        if key is None or blinded is None:
            prefetch = replace(prefetch, due_at=directory.end)
            await self._store.put_prefetch(prefetch)
            return prefetch
        prefetch = blinded
        pending = PendingToken.decode(prefetch.pending)
        try:
            answer = await ask_attester(self._transport, self._attester_url, self._device, pending)
            token = pending.finalize(key, answer).encode()
            prefetch = replace(prefetch, token=token, pending=b"", attempts=prefetch.attempts + 1)
        except QuotaSpentError:
            prefetch = replace(prefetch, due_at=directory.end, attempts=prefetch.attempts + 1)
        except (TransportError, DecodeError, CryptoError) as error:
            asked = error.retry_after if isinstance(error, TransportError) else 0.0
            pause = self._timing.backoff.pause(prefetch.attempts, self._entropy, asked)
            prefetch = replace(prefetch, due_at=self._clock.now() + pause, attempts=prefetch.attempts + 1)
        await self._store.put_prefetch(prefetch)
        return prefetch

    async def _store_blinded(self, prefetch: Prefetch, key: TokenKey) -> Prefetch:
        """``prefetch`` with its blinded request, stored in the journal before anything is sent."""
        if prefetch.pending:
            return prefetch
        secrets = Preimages.draw(self._entropy)
        pending = request_token(key, slot_challenge(prefetch.slot), secrets.nonce, self._entropy)
        prefetch = replace(prefetch, pending=pending.encode(), preimages=secrets.r_leader + secrets.r_helper)
        await self._store.put_prefetch(prefetch)
        return prefetch


class QuotaSpentError(Exception):
    """The attester has given this device another token for the slot: a retry is useless."""


async def ask_attester(
    transport: Transport, attester_url: str, device: AttestedDevice, pending: PendingToken
) -> TokenResponse:
    """One attested token request: a fresh challenge, evidence over it, the issuer's answer.

    Raises ``QuotaSpentError``, and ``TransportError`` or ``DecodeError`` if the same request may be tried again.
    """
    answer = await transport.request("POST", f"{attester_url}/v1/challenge")
    if answer.status != 200:
        raise make_unanswered(f"the attester answered {answer.status}", answer.headers)
    challenge = challenge_of(answer.body)
    evidence = device.attest(attestation_binding(challenge, pending.request))
    answer = await transport.request(
        "POST",
        f"{attester_url}/v1/token-requests",
        headers={"content-type": JSON},
        body=token_request_body(evidence, challenge, pending.request),
    )
    if answer.status == 429 and problem_type(answer.body) == QUOTA_PROBLEM:
        raise QuotaSpentError
    if answer.status != 200 or not answer.is_a(PRIVATE_TOKEN_RESPONSE):
        raise make_unanswered(f"the attester answered {answer.status}", answer.headers)
    return TokenResponse.decode(answer.body)


def _planned_key(prefetch: Prefetch, directory: IssuerDirectory) -> TokenKey | None:
    """The slot's key, if the log still shows the one that was planned with, and it is a token key."""
    spki = directory.spki(prefetch.slot.slot)
    if spki is None or hashlib.sha256(spki).digest() != prefetch.key_id:
        return None
    try:
        return TokenKey.from_spki(spki)
    except DecodeError:
        return None
