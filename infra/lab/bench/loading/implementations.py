"""The implementations of a job's work that this installation has; ``stages`` measures them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tacit import hpke, ohttp
from tacit.messages import Report
from tacit.messages.slices import slice_job
from tacit.multibuffer.crypto import BatchCrypto
from tacit.multibuffer.library import kernels
from tacit.multibuffer.ohttp import decapsulate_all
from tacit.multibuffer.sealing import BatchSealer
from tacit.roles.aggregator import Party
from tacit.roles.crypto import OPENSSL as OPENSSL_CRYPTO
from tacit.roles.crypto import JobCrypto
from tacit.roles.jobs import encode_request, prepare_helper, prepare_leader
from tacit.vdaf.native.batch import BatchVerifier
from tacit.vdaf.prio3 import Prio3

OPENSSL, BATCH_TOKENS, MULTIBUFFER = "openssl", "openssl, batch tokens", "multibuffer"
Sealed = tuple[bytes, bytes, bytes]
"""(encapsulated key, associated data, ciphertext)."""


@dataclass(frozen=True)
class Crypto:
    """One implementation of a job's public-key work: its path's name, and an object with ``open_all`` and
    ``verify_tokens``."""

    path: str
    job: JobCrypto


def cryptos() -> list[Crypto]:
    """List the implementations: OpenSSL and, if the multi-buffer kernels are installed and run on this processor, the
    aggregators' default, which uses them for tokens only, and the kernels for everything."""
    found = [Crypto(OPENSSL, OPENSSL_CRYPTO)]
    if has_multibuffer():
        found.append(Crypto(BATCH_TOKENS, BatchCrypto(batch_hpke=False)))
        found.append(Crypto(MULTIBUFFER, BatchCrypto(batch_hpke=True)))
    return found


def has_multibuffer() -> bool:
    """Whether the multi-buffer kernels are installed and run here."""
    return kernels() is not None


def multibuffer_set() -> str:
    """The instruction set of the multi-buffer kernels here (``avx2``, ``ifma``), empty without them."""
    found = kernels()
    return "" if found is None else found.level


def sealer(public_key: bytes, suite: hpke.Suite) -> dict[str, Callable[[Sequence[bytes]], object]]:
    """Return, by path, a function that seals each of several plaintexts to ``public_key``."""

    def one_by_one(plaintexts: Sequence[bytes]) -> object:
        return [hpke.seal(suite, public_key, b"", b"", plaintext, os.urandom) for plaintext in plaintexts]

    found: dict[str, Callable[[Sequence[bytes]], object]] = {OPENSSL: one_by_one}
    if has_multibuffer():
        batch = BatchSealer(public_key, suite, b"")
        found[MULTIBUFFER] = lambda plaintexts: batch.seal_all([(b"", one) for one in plaintexts], os.urandom)
    return found


def decapsulators(keys: ohttp.Decapsulator) -> dict[str, Callable[[Sequence[bytes]], object]]:
    """Return, by path, a function that opens each of several requests to an OHTTP gateway."""
    found: dict[str, Callable[[Sequence[bytes]], object]] = {
        OPENSSL: lambda messages: [keys.decapsulate_request(message) for message in messages]
    }
    if has_multibuffer():
        found[MULTIBUFFER] = lambda messages: decapsulate_all(keys, messages)
    return found


def batch_verifier(
    vdaf: Prio3[Any], verify_key: bytes, ctx: bytes
) -> tuple[Callable[..., object], Callable[..., object]]:
    """Return the Leader's and the Helper's ``verify_init`` for many reports. Both take lists of nonces, public shares
    and input shares; the Helper's also takes the Leader's messages."""
    verifier = BatchVerifier(vdaf, verify_key, ctx)
    return verifier.leader, verifier.helper


def leader_job(party: Party, reports: Sequence[Report], now: float, crypto: Crypto) -> Callable[[], bytes]:
    """Return a function that does all of the Leader's work on ``reports`` before its request, and returns the
    request."""
    stored = [report.encode() for report in reports]

    def whole() -> bytes:
        job, rejections = prepare_leader(party, stored, now, crypto.job)
        return bytes(_all_of(encode_request(party.task, job, None), rejections))

    return whole


def helper_job(party: Party, request: bytes, now: float, crypto: Crypto) -> Callable[[], object]:
    """Return a function that does all of the Helper's work on ``request`` before its commit."""

    def whole() -> object:
        job = prepare_helper(party, slice_job(request).reports, now, crypto.job)
        return _all_of(job, job.rejections)

    return whole


def _all_of(result: Any, rejections: Sequence[object]) -> Any:
    """Return ``result``. Raises ``ValueError`` if a report was rejected: a job of rejections would look fast."""
    if rejections:
        raise ValueError(f"{len(rejections)} reports of the measurement were rejected")
    return result
