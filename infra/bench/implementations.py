"""The ways to do a job's work that this installation has: what ``stages`` measures, found in one place."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from services.leader.config import LeaderConfig
from tacit import hpke, ohttp
from tacit.messages import AggregationJobInitReq, Report
from tacit.roles import helper as helper_role
from tacit.roles import leader as leader_role
from tacit.roles.aggregator import Party
from tacit.tokens.slots import TokenVerifier
from tacit.vdaf.native.batch import BatchVerifier
from tacit.vdaf.prio3 import Prio3

OPENSSL, BATCH_TOKENS, MULTIBUFFER = "openssl", "openssl, batch tokens", "multibuffer"
BATCH_CRYPTO = "batch_crypto"
"""The aggregators' setting that takes the multi-buffer cryptography instead of OpenSSL."""
Verify = Callable[..., object]
Sealed = tuple[bytes, bytes, bytes]
"""Encapsulated key, associated data, ciphertext."""


@dataclass(frozen=True)
class Crypto:
    """One implementation of a job's public-key work: its path's name, and an object with ``open_all`` and
    ``verify_tokens``."""

    path: str
    job: Any


def optional(module: str, name: str) -> Any:
    """``name`` of ``module``, or None where this installation has not got it."""
    try:
        return getattr(importlib.import_module(module), name, None)
    except ModuleNotFoundError:
        return None


def cryptos() -> list[Crypto]:
    """OpenSSL; where the multi-buffer kernels are there and this processor runs them also the aggregators' default,
    which takes them for tokens alone, and the kernels for everything."""
    found = [Crypto(OPENSSL, optional("tacit.roles.crypto", "OPENSSL") or OneByOne())]
    if has_multibuffer():
        make = optional("tacit.multibuffer.crypto", "BatchCrypto")
        found += [Crypto(BATCH_TOKENS, make(batch_hpke=False)), Crypto(MULTIBUFFER, make(batch_hpke=True))]
    return found


def has_multibuffer() -> bool:
    """Whether the multi-buffer kernels are installed and run here."""
    kernels = optional("tacit.multibuffer.library", "kernels")
    return kernels is not None and kernels() is not None


def sealer(public_key: bytes, suite: hpke.Suite) -> dict[str, Callable[[Sequence[bytes]], object]]:
    """By path, a call that seals each of some plaintexts to ``public_key``."""

    def one_by_one(plaintexts: Sequence[bytes]) -> object:
        return [hpke.seal(suite, public_key, b"", b"", plaintext, os.urandom) for plaintext in plaintexts]

    found: dict[str, Callable[[Sequence[bytes]], object]] = {OPENSSL: one_by_one}
    if has_multibuffer():
        batch = optional("tacit.multibuffer.hpke", "BatchSealer")(public_key, suite, b"")
        found[MULTIBUFFER] = lambda plaintexts: batch.seal_all([(b"", one) for one in plaintexts], os.urandom)
    return found


def decapsulator(gateway: ohttp.Gateway) -> dict[str, Callable[[Sequence[bytes]], object]]:
    """By path, a call that opens each of some requests to an OHTTP gateway."""
    found: dict[str, Callable[[Sequence[bytes]], object]] = {
        OPENSSL: lambda messages: [gateway.decapsulate_request(message) for message in messages]
    }
    batch = optional("tacit.multibuffer.ohttp", "decapsulate_all")
    if has_multibuffer() and batch is not None:
        found[MULTIBUFFER] = lambda messages: batch(gateway, messages)
    return found


def has_batch_crypto() -> bool:
    """Whether the aggregators have the setting, and this processor what it needs."""
    return BATCH_CRYPTO in LeaderConfig.model_fields and has_multibuffer()


class OneByOne:
    """Every operation by itself, through OpenSSL."""

    def open_all(self, key_pair: hpke.KeyPair, suite: hpke.Suite, info: bytes, sealed: Sequence[Sealed]) -> list[bytes]:
        """Plaintexts. Raises ``CryptoError`` for a share that does not open."""
        return [hpke.open_(suite, key_pair, enc, info, aad, text) for enc, aad, text in sealed]

    def verify_tokens(self, verifier: TokenVerifier, tokens: Sequence[bytes]) -> list[bool]:
        """True for each. Raises ``ReportRejected`` for one that is bad."""
        return [verifier.verify(token) is not None for token in tokens]


def batch_verifier(
    vdaf: Prio3[Any], verify_key: bytes, ctx: bytes
) -> tuple[Callable[..., object], Callable[..., object]]:
    """The Leader's and the Helper's ``verify_init`` of many reports, from lists of nonces, public shares, input shares
    and, for the Helper, the Leader's messages."""
    verifier: Any = BatchVerifier(vdaf, verify_key, ctx)
    if hasattr(verifier, "leader_init"):
        return verifier.leader_init, verifier.helper_init
    return verifier.leader, verifier.helper


def leader_job(party: Party, reports: Sequence[Report], now: float, crypto: Crypto) -> Callable[[], bytes]:
    """A call that does all of the Leader's work before the request for ``reports``; it returns the request."""
    prepare, encode = optional("tacit.roles.jobs", "prepare_leader"), optional("tacit.roles.jobs", "encode_request")
    if prepare is None or encode is None:
        return lambda: _request(party, reports, now)
    stored = [(report.report_metadata.report_id, report.encode()) for report in reports]

    def whole() -> bytes:
        job, rejections = prepare(party, stored, now, crypto.job)
        return bytes(_all_of(encode(party.task, job, None), rejections))

    return whole


def helper_job(party: Party, request: bytes, now: float, crypto: Crypto) -> Callable[[], object]:
    """A call that does all of the Helper's work on ``request`` before its commit."""
    prepare, read = optional("tacit.roles.jobs", "prepare_helper"), optional("tacit.messages.slices", "slice_job")
    if prepare is None or read is None:
        return lambda: _respond(party, request, now)

    def whole() -> object:
        job = prepare(party, read(request).reports, now, crypto.job)
        return _all_of(job, job.rejections)

    return whole


def _request(party: Party, reports: Sequence[Report], now: float) -> bytes:
    prepared = [leader_role.prepare_report(party, report, now) for report in reports]
    good = [one for one in prepared if isinstance(one, leader_role.Prepared)]
    _all_of(None, prepared[len(good) :])
    return leader_role.init_request(party.task, good, None).encode()


def _respond(party: Party, request: bytes, now: float) -> list[object]:
    inits = AggregationJobInitReq.decode(request).verify_inits
    verified = [helper_role.prepare_report(party, init, now) for init in inits]
    return [helper_role.respond(one) for one in verified]


def _all_of(result: Any, rejections: Sequence[object]) -> Any:
    """``result``, where nothing was rejected: a job of rejections would look fast."""
    if rejections:
        raise ValueError(f"{len(rejections)} reports of the measurement were rejected")
    return result
