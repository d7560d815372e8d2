"""Tasks with fresh keys, tokens for them, and reports that are good or bad in one chosen way.

``ReportFactory`` makes every bad report that an aggregator must refuse by name. It needs only what a Client has: the
task and a source of tokens.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from infra.lab.kit import spoiled
from infra.lab.kit.entropy import SeededEntropy
from tacit import hpke
from tacit.messages import (
    BatchMode,
    Extension,
    HpkeCiphertext,
    HpkeConfig,
    InputShareAad,
    Interval,
    PlaintextInputShare,
    Report,
    ReportMetadata,
    Role,
    TaskConfiguration,
    TaskExtension,
)
from tacit.ports import Entropy
from tacit.roles import client
from tacit.task import BatchClose, Task, verify_key_of
from tacit.tokens.binding import TOKEN_EXTENSION_TYPE, Preimages
from tacit.tokens.issuance import request_token
from tacit.tokens.issuer_key import IssuerKey, issue
from tacit.tokens.slots import Slot, slot_challenge
from tacit.vdaf.prio3 import Prio3, Prio3Histogram
from tacit.vdaf.registry import vdaf_configuration
from tacit.version import DAP_18, DapVersion

BOTH = (Role.LEADER, Role.HELPER)
UNKNOWN_EXTENSION_TYPE = 0x0102


@dataclass(frozen=True, slots=True)
class BoundToken:
    """A token and the two secrets behind its nonce."""

    token: bytes = field(repr=False)
    preimages: Preimages = field(repr=False)


TokenSource = Callable[[Slot], BoundToken]
"""Returns a fresh token for the given slot at each call."""


@cache
def issuer_key(number: int = 0) -> IssuerKey:
    """Return the ``number``-th issuer key of this process; making one takes a tenth of a second."""
    return IssuerKey.generate()


def no_tokens(slot: Slot) -> BoundToken:
    """The token source of a client that must be given each token. Raises ``ValueError``."""
    raise ValueError(f"no token of slot {slot.slot} was given")


def token_source(key: IssuerKey, entropy: Entropy) -> TokenSource:
    """A source of tokens signed directly with an issuer key, for any slot."""

    def draw(slot: Slot) -> BoundToken:
        preimages = Preimages.draw(entropy)
        pending = request_token(key.token_key, slot_challenge(slot), preimages.nonce, entropy)
        token = pending.finalize(key.token_key, issue(key, pending.request, entropy))
        return BoundToken(token.encode(), preimages)

    return draw


@dataclass(frozen=True)
class TaskKit:
    """A task and every secret of all its parties, which no single party ever holds."""

    task: Task
    key_pairs: dict[Role, hpke.KeyPair] = field(repr=False)
    verify_key_seed: bytes = field(repr=False)
    issuer_key: IssuerKey = field(repr=False)
    state_keys: dict[Role, Any] = field(default_factory=dict, repr=False)
    """The state keys of a pan-private task's aggregators; otherwise empty."""

    @property
    def verify_key(self) -> bytes:
        """The VDAF verify key of leader and helper."""
        return verify_key_of(self.verify_key_seed, self.task.task_id)

    def reports(self, seed: bytes | int = 0) -> ReportFactory:
        """A report factory for the task, reproducible by ``seed`` up to the tokens' signatures."""
        entropy = SeededEntropy(seed)
        return ReportFactory(self.task, token_source(self.issuer_key, entropy.child("tokens")), entropy)


def make_task_kit(
    vdaf: Prio3[Any] | None = None,
    *,
    min_batch_size: int = 10,
    batch_close: BatchClose = BatchClose.INTERVAL_END,
    interval: Interval | None = None,
    time_precision: int = 60,
    expected_contributions: int = 250,
    leader_url: str = "http://127.0.0.1:8081",
    helper_url: str = "http://127.0.0.1:8082",
    seed: bytes | int = 0,
    version: DapVersion = DAP_18,
) -> TaskKit:
    """A task for ``vdaf`` (default: a histogram of 4 buckets) with keys drawn from ``seed``; its recipe hash
    is random. ``interval`` is in units of ``time_precision`` seconds (default: 100 units from 1000 on)."""
    chosen = vdaf or Prio3Histogram(2, 4, 2)
    entropy = SeededEntropy(seed).child("task kit")
    key_pairs = {role: hpke.generate_key_pair(entropy) for role in (Role.COLLECTOR, *BOTH)}
    configs = {
        role: HpkeConfig(10 + role, hpke.KEM_X25519, hpke.KDF_HKDF_SHA256, hpke.AEAD_AES128GCM, pair.public)
        for role, pair in key_pairs.items()
    }
    at_b = batch_close is BatchClose.AT_B
    configuration = TaskConfiguration(
        task_info=entropy(32),
        leader_aggregator_endpoint=leader_url,
        helper_aggregator_endpoint=helper_url,
        time_precision=time_precision,
        min_batch_size=min_batch_size,
        batch_mode=BatchMode.LEADER_SELECTED if at_b else BatchMode.TIME_INTERVAL,
        batch_config=b"",
        vdaf_type=chosen.ID,
        vdaf_configuration=vdaf_configuration(chosen),
        extensions=(TaskExtension.task_interval(interval or Interval(1000, 100)),),
    )
    task = Task.from_configuration(
        configuration,
        leader_hpke_config=configs[Role.LEADER],
        helper_hpke_config=configs[Role.HELPER],
        collector_hpke_config=configs[Role.COLLECTOR],
        slot=Slot("issuer.example", 7, 3),
        token_key_spki=issuer_key().token_key.spki,
        version=version,
        batch_close=batch_close,
        expected_contributions=expected_contributions,
    )
    return TaskKit(task, key_pairs, entropy(32), issuer_key())


class ReportFactory:
    """Makes reports for ``task``. Each method returns one report with a fresh token unless ``token`` is given, at
    ``time`` (default: the first unit of the task interval). If ``roles`` is an argument, only the shares of these
    aggregators are bad."""

    def __init__(self, task: Task, tokens: TokenSource, entropy: Entropy) -> None:
        self.task = task
        self._tokens = tokens
        self._entropy = entropy

    def token(self, slot: Slot | None = None) -> BoundToken:
        """A fresh token, by default of the task's slot."""
        return self._tokens(slot or self.task.slot)

    def valid(
        self,
        measurement: Any,
        *,
        token: BoundToken | None = None,
        time: int | None = None,
        report_id: bytes | None = None,
    ) -> Report:
        """A report that both aggregators accept (once)."""
        bound = token or self.token()
        metadata = self._metadata(time, report_id)
        return client.make_report(
            self.task,
            measurement,
            bound.token,
            bound.preimages,
            metadata.report_id,
            metadata.time,
            self._entropy,
        )

    def bad_proof(self, measurement: Any, *, token: BoundToken | None = None, time: int | None = None) -> Report:
        """A report whose measurement was changed after it was proved: only both aggregators together can detect this,
        by the proof."""

        def break_proof(role: Role, share: PlaintextInputShare) -> PlaintextInputShare:
            changed = spoiled.broken_proof(share.payload) if role is Role.LEADER else share.payload
            return dataclasses.replace(share, payload=changed)

        return self._changed(measurement, break_proof, token, time)

    def truncated_share(
        self,
        measurement: Any,
        *,
        roles: Collection[Role] = BOTH,
        token: BoundToken | None = None,
        time: int | None = None,
    ) -> Report:
        """A report whose VDAF input shares lack their last byte."""

        def truncate(role: Role, share: PlaintextInputShare) -> PlaintextInputShare:
            return dataclasses.replace(share, payload=share.payload[:-1]) if role in roles else share

        return self._changed(measurement, truncate, token, time)

    def unknown_extension(
        self,
        measurement: Any,
        *,
        roles: Collection[Role] = BOTH,
        token: BoundToken | None = None,
        time: int | None = None,
    ) -> Report:
        """A report with an undefined private extension before the token's."""
        return self._with_extensions(
            measurement, roles, lambda own: (Extension(UNKNOWN_EXTENSION_TYPE, b""), *own), token, time
        )

    def duplicated_extension(
        self,
        measurement: Any,
        *,
        roles: Collection[Role] = BOTH,
        token: BoundToken | None = None,
        time: int | None = None,
    ) -> Report:
        """A report with its token extension twice in the shares for ``roles``."""
        return self._with_extensions(measurement, roles, lambda own: (*own, *own), token, time)

    def without_token(self, measurement: Any, *, roles: Collection[Role] = BOTH, time: int | None = None) -> Report:
        """A report with no extension in the shares for ``roles``."""
        return self._with_extensions(measurement, roles, lambda own: (), None, time)

    def moved_token(
        self,
        measurement: Any,
        stolen: BoundToken,
        *,
        thief: Role = Role.LEADER,
        time: int | None = None,
    ) -> Report:
        """A new report with the token of another one, as the aggregator ``thief`` could make it: it knows the
        token, its own secret and the hash of the other's, and must guess the other's secret."""
        secrets = spoiled.stolen(stolen.preimages, self._entropy, thief)

        def move(role: Role, share: PlaintextInputShare) -> PlaintextInputShare:
            kept = stolen.preimages if role is thief else secrets
            # the honest client's ``token_extension`` refuses secrets that are not the token's
            extension = Extension(TOKEN_EXTENSION_TYPE, kept.extension(stolen.token, role))
            return dataclasses.replace(share, private_extensions=(extension,))

        return self._changed(measurement, move, stolen, time)

    def wrong_slot(self, measurement: Any, *, time: int | None = None) -> Report:
        """A report with a good token of the next slot of the same epoch."""
        slot = dataclasses.replace(self.task.slot, slot=self.task.slot.slot + 1)
        return self.valid(measurement, token=self.token(slot), time=time)

    def trailing_bytes(
        self,
        measurement: Any,
        *,
        roles: Collection[Role] = BOTH,
        token: BoundToken | None = None,
        time: int | None = None,
    ) -> Report:
        """A report whose sealed plaintexts have one extra byte at the end."""
        metadata, public_share, shares = self._parts(measurement, token, time)
        sealed = {
            role: self._seal_bytes(role, metadata, public_share, share.encode() + (b"\x00" if role in roles else b""))
            for role, share in shares.items()
        }
        return Report(metadata, public_share, sealed[Role.LEADER], sealed[Role.HELPER])

    def _metadata(self, time: int | None, report_id: bytes | None = None) -> ReportMetadata:
        chosen = self.task.interval.start if time is None else time
        return ReportMetadata(report_id or self._entropy(16), chosen)

    def _parts(
        self, measurement: Any, token: BoundToken | None, time: int | None
    ) -> tuple[ReportMetadata, bytes, dict[Role, PlaintextInputShare]]:
        bound = token or self.token()
        metadata = self._metadata(time)
        public_share, payloads = client.shard(self.task, measurement, metadata.report_id, self._entropy)
        shares = {
            role: PlaintextInputShare((client.token_extension(bound.token, bound.preimages, role),), payload)
            for role, payload in payloads.items()
        }
        return metadata, public_share, shares

    def _changed(
        self,
        measurement: Any,
        change: Callable[[Role, PlaintextInputShare], PlaintextInputShare],
        token: BoundToken | None,
        time: int | None,
    ) -> Report:
        metadata, public_share, shares = self._parts(measurement, token, time)
        changed = {role: change(role, share) for role, share in shares.items()}
        return client.seal_report(self.task, metadata, public_share, changed, self._entropy)

    def _with_extensions(
        self,
        measurement: Any,
        roles: Collection[Role],
        extensions: Callable[[tuple[Extension, ...]], tuple[Extension, ...]],
        token: BoundToken | None,
        time: int | None,
    ) -> Report:
        def replaced(role: Role, share: PlaintextInputShare) -> PlaintextInputShare:
            if role not in roles:
                return share
            return dataclasses.replace(share, private_extensions=extensions(share.private_extensions))

        return self._changed(measurement, replaced, token, time)

    def _seal_bytes(
        self, role: Role, metadata: ReportMetadata, public_share: bytes, plaintext: bytes
    ) -> HpkeCiphertext:
        task = self.task
        config = task.hpke_config(role)
        aad = InputShareAad(task.task_id, task.configuration, metadata, public_share).encode()
        enc, payload = hpke.seal(
            hpke.Suite(config.kem_id, config.kdf_id, config.aead_id),
            config.public_key,
            task.version.input_share_info(role),
            aad,
            plaintext,
            self._entropy,
        )
        return HpkeCiphertext(config.id, enc, payload)
