"""The attester: one token per attested device and slot.

A request is handled in this order. The key id names an open slot. The challenge is one of ours and has not expired. The
evidence covers the challenge and the request. The challenge is burnt and the quota taken in one durable transaction.
Only then does a fresh request go to the issuer. A client that only asks for challenges leaves nothing behind. A crash
after the debit costs the device a retry with the same blinded message, which is forwarded again without a second debit;
another blinded message gets 429.

The attester learns the device and the slot, never a recipe, a token or a report. Its counts by slot (P15) bound the
issuer's count from both sides: requests are counted before they are sent, tokens after they came back.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import asdict

from attester.challenges import Challenges
from attester.config import AttesterConfig
from attester.directory import KeyDirectory, SlotWindow
from attester.software_root import RevocationList
from attester.store import AttesterStore, Debit, DebitResult, Issued
from attester.verification import AttestationVerifier, EvidenceError
from tacit import media_types
from tacit.errors import Abort, DecodeError
from tacit.service.app import ServiceEnv, voucher_of
from tacit.service.base.group_commit import GroupCommitter
from tacit.service.base.log import get_logger
from tacit.service.http.live_tokens import ShownToken
from tacit.service.metrics import Reading, by_label
from tacit.tokens.attestation import Evidence, attestation_binding
from tacit.tokens.structures import TokenRequest, TokenResponse

ATTESTATION_PROBLEM = "urn:tacit:problem:attestation"
QUOTA_PROBLEM = "urn:tacit:problem:quota"
ISSUER_PROBLEM = "urn:tacit:problem:issuer"
TOKEN_REQUEST_PROBLEM = "urn:tacit:problem:token-request"  # noqa: S105
TAG_SIZE = 4
OPEN_EPOCHS = 2
"""Number of epochs whose tokens are issued at the same time."""


def _not_attested() -> Abort:
    """The one answer for every way in which attestation can fail."""
    return Abort(ATTESTATION_PROBLEM, status=403, title="The device could not be attested.")


def unsignable(detail: str) -> Abort:
    """The answer to a request that no issuer would sign."""
    return Abort(TOKEN_REQUEST_PROBLEM, detail, status=422, title="The token request cannot be signed.")


def make_closed_abort() -> Abort:
    return unsignable("the slot is closed: the record of which devices had its tokens was deleted")


class Attester:
    """The attester's state and operations. Call ``open`` before use and ``close`` after."""

    def __init__(
        self,
        config: AttesterConfig,
        deps: ServiceEnv,
        store: AttesterStore,
        verifiers: list[AttestationVerifier],
        secret: bytes,
    ) -> None:
        """``secret`` has 32 bytes and is shared by all processes of this attester. Raises ``UsageError`` if the issuer
        credential cannot be read."""
        self._config = config
        self._deps = deps
        self._verifiers = {verifier.fmt: verifier for verifier in verifiers}
        self._directory = KeyDirectory(config.issuer_url, voucher_of(deps, "the issuer"), deps.clock)
        self.credential = ShownToken(config.issuer_credential)
        """The credential with which this attester authenticates to the issuer."""
        self._log = get_logger("attester")
        self._refusals: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._logged: dict[tuple[int, int], Issued] = {}
        self._answered: Counter[tuple[int, int]] = Counter()
        self._challenges = Challenges(secret, config.challenge_seconds)
        self._floor = 0
        self._store = store

    async def open(self) -> None:
        """Open the store and delete what expired."""
        store = self._store
        await store.open()
        items, delay, clock = self._config.group_items, self._config.group_delay, self._deps.clock
        self._debits = GroupCommitter[Debit, DebitResult](store.debit, items, delay, clock)
        self._floor = await self._forget()
        self._logged = await store.issuance()

    async def close(self) -> None:
        """Write what is still buffered, and close the store."""
        await self._debits.close()
        await self.issuance()
        await self._store.close()

    async def _forget(self) -> int:
        """Delete what expired, by the issuer's clock too; returns the POSIX second at or below which no challenge is
        accepted. After a restore from a backup this includes challenges that may have been used between the backup and
        the restore."""
        floor = await self._store.forget(max(self._deps.vouched.past(), 0.0))
        closed = self._store.closed_until
        return max(floor, closed + self._config.challenge_seconds) if closed else floor

    def challenge(self) -> bytes:
        """A fresh single-use challenge; nothing is stored."""
        return self._challenges.fresh(self._time(), self._deps.entropy)

    def _time(self) -> float:
        """The time for challenges: never earlier than the expiry of a challenge that was deleted."""
        return max(self._deps.clock.now(), self._floor)

    async def request_token(self, evidence: Evidence, challenge: bytes, token_request: bytes) -> bytes:
        """The issuer's answer (256 bytes) to an attested device's token request.

        Raises ``Abort``: 422 for a token request that is malformed, names a key that is not open, or is not below the
        key's modulus (RFC 9578 section 6.2); 403 for every failure of attestation; 429 for a second token; 502 if the
        issuer does not sign. A request that no issuer can sign costs the device nothing.
        """
        request, window = await self._signable(token_request)
        ends, stable = self._attest(evidence, challenge, request)
        outcome = await self._debits.submit(
            Debit(
                challenge=challenge,
                challenge_expires=ends,
                stable_id=stable,
                epoch=window.epoch,
                slot=window.slot,
                request_hash=hashlib.sha256(request.blinded_msg).digest(),
                expires=window.not_after + self._config.quota_grace_seconds,
            )
        )
        if outcome is DebitResult.CHALLENGE_USED:
            raise self._refuse("challenge")
        if outcome is DebitResult.FORGOTTEN:
            raise make_closed_abort()
        if outcome is DebitResult.EXHAUSTED:
            self._refusals["quota"] += 1
            raise Abort(QUOTA_PROBLEM, status=429, title="This device has had its token of this slot.")
        self._deps.saw("attester", device=stable[:TAG_SIZE].hex(), epoch=window.epoch, slot=window.slot)
        response = await self._forward(request)
        self._answered[window.epoch, window.slot] += 1
        return response

    async def _signable(self, token_request: bytes) -> tuple[TokenRequest, SlotWindow]:
        """The request and the slot whose key signs it. Raises ``Abort`` (422)."""
        try:
            request = TokenRequest.decode(token_request)
        except DecodeError as error:
            raise unsignable(str(error)) from error
        window = await self._directory.open_slot(request.truncated_token_key_id)
        if window is None:
            raise unsignable("no key of this id is open for issuance")
        if window.not_before < self._store.closed_until:
            raise make_closed_abort()
        try:
            window.token_key.number_of(request.blinded_msg)
        except DecodeError as error:
            raise unsignable(str(error)) from error
        return request, window

    def _attest(self, evidence: Evidence, challenge: bytes, request: TokenRequest) -> tuple[int, bytes]:
        """The POSIX second in which the challenge expires, and the stable id of the device behind the evidence. Raises
        ``Abort`` (403)."""
        now = self._deps.clock.now()
        ends = self._challenges.expires(challenge, self._time())
        if ends is None:
            raise self._refuse("challenge")
        verifier = self._verifiers.get(evidence.fmt)
        if verifier is None:
            raise self._refuse("format")
        try:
            device = verifier.verify(evidence, attestation_binding(challenge, request), now)
        except EvidenceError as error:
            raise self._refuse(error.reason) from error
        if device.expires <= now:
            raise self._refuse("expired")
        return ends, device.stable_id

    def _refuse(self, reason: str) -> Abort:
        self._refusals[reason] += 1
        return _not_attested()

    async def _forward(self, request: TokenRequest) -> bytes:
        """Send a fresh request to the issuer. Nothing of the client's is in it except the 259 bytes of the token
        request."""
        url = self._config.issuer_url + "/token-request"
        headers = {"Content-Type": media_types.PRIVATE_TOKEN_REQUEST, **self.credential.headers()}
        response = await self._deps.transport.request("POST", url, headers=headers, body=request.encode())
        if response.status == 200:
            try:
                return TokenResponse.decode(response.body).encode()
            except DecodeError:
                self._log.warning("issuer_answer_malformed")
        else:
            self._log.warning("issuer_refused", status=response.status)
        raise Abort(ISSUER_PROBLEM, status=502, title="The issuer did not sign the request.")

    async def housekeeping(self) -> None:
        """Delete what expired; log refusals by reason, and counts by slot (P15), where they changed."""
        self._floor = await self._forget()
        refusals, self._refusals = self._refusals, Counter()
        self._refused += refusals
        if refusals:
            self._log.info("refused", **{f"by_{reason}": count for reason, count in sorted(refusals.items())})
        counts = await self.issuance()
        for (epoch, slot), count in counts.items():
            if self._logged.get((epoch, slot)) != count:
                self._log.info("issued", epoch=epoch, slot=slot, **asdict(count))
        self._logged = counts

    async def refused_by_cause(self) -> Reading:
        """Metric: attestations refused since the start, by cause."""
        return by_label(self._refused + self._refusals)

    async def answered_by_epoch(self) -> Reading:
        """Metric: tokens passed on, by epoch, for the last two epochs."""
        counts: Counter[int] = Counter()
        for (epoch, _), issued in (await self._store.issuance()).items():
            counts[epoch] += issued.answered
        return by_label({str(epoch): counts[epoch] for epoch in sorted(counts)[-OPEN_EPOCHS:]})

    async def issuance(self) -> dict[tuple[int, int], Issued]:
        """Totals of every slot so far. The numbers of tokens that came back are written here first; a crash before
        loses some of them, so ``answered`` is never too large."""
        answered, self._answered = self._answered, Counter()
        try:
            if answered:
                await self._store.add_answered(answered)
        except BaseException:
            self._answered.update(answered)
            raise
        return await self._store.issuance()


class HousekeepingDriver:
    """One step deletes what expired, logs the counters, and reads the revocation list again if it changed."""

    def __init__(self, attester: Attester, revoked: RevocationList) -> None:
        self._attester = attester
        self._revoked = revoked

    async def step(self) -> int:
        """Always 0: nothing more is due until time passes. Raises ``UsageError`` for a broken revocation list."""
        await self._attester.housekeeping()
        if self._revoked.reload():
            get_logger("attester").info("revocations_read")
        return 0
