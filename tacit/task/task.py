"""A task as leader, helper, client and collector hold it, and its derivations (draft-ietf-ppm-dap-taskprov)."""

from __future__ import annotations

import enum
import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tacit import hpke
from tacit.codec import b64url
from tacit.errors import DecodeError, Refusal
from tacit.messages import (
    TASK_ID_SIZE,
    BatchMode,
    HpkeConfig,
    Interval,
    Role,
    TaskConfiguration,
    TaskExtensionType,
)
from tacit.tokens.slots import Slot
from tacit.vdaf.count_vec import Prio3CountVec
from tacit.vdaf.prio3 import Prio3
from tacit.vdaf.registry import vdaf_from_configuration
from tacit.version import DAP_18, DapVersion

VERIFY_KEY_SIZE = 32
VERIFY_KEY_SEED_SIZE = 32
RECIPE_HASH_SIZE = 32
CLOCK_LEEWAY = 300.0
"""Seconds by which a Client's clock may run ahead of ours."""

_TASK_ID_PREFIX = hashlib.sha256(b"dap-taskprov task id").digest()
_VERIFY_KEY_SALT = hashlib.sha256(b"dap-taskprov").digest()


def task_id_of(configuration: TaskConfiguration) -> bytes:
    """Task id (32 bytes) of a configuration: taskprov's rule, so that every party derives the same one."""
    return hashlib.sha256(_TASK_ID_PREFIX + configuration.encode()).digest()


def verify_key_of(seed: bytes, task_id: bytes, length: int = VERIFY_KEY_SIZE) -> bytes:
    """VDAF verify key of a task from the seed (32 bytes) that only leader and helper share: HKDF-SHA256 with
    taskprov's salt and the task id as info."""
    if len(seed) != VERIFY_KEY_SEED_SIZE or len(task_id) != TASK_ID_SIZE:
        raise ValueError("the seed and the task id of a verify key must have 32 bytes each")
    return hpke.expand(hpke.extract(_VERIFY_KEY_SALT, seed), task_id, length)


def verify_key_confirmation(verify_key: bytes) -> bytes:
    """Digest (32 bytes) with which both aggregators' opt-ins show that they hold the same verify key."""
    return hashlib.sha256(b"tacit vk confirm" + verify_key).digest()


class BatchClose(enum.StrEnum):
    """When a batch ends: with the task interval, or as soon as it holds B reports. ``ON_QUERY``: when it is queried and
    holds B reports, for whatever part of the task interval; this is in DAP-18 but in no recipe (P13)."""

    INTERVAL_END = "interval_end"
    AT_B = "at_B"
    ON_QUERY = "on_query"


MODE_OF_CLOSE = {
    BatchClose.INTERVAL_END: BatchMode.TIME_INTERVAL,
    BatchClose.AT_B: BatchMode.LEADER_SELECTED,
}
"""The batch mode for each way to close, for tasks of recipes (P13)."""


@dataclass(frozen=True)
class Task:
    """Everything public about one task. Times are in units of ``time_precision`` unless a name says seconds.

    Make one with ``from_configuration``, which checks that this implementation can take part. The verify key is not
    here: only leader and helper derive it (``verify_key_of``). An HPKE configuration is ``None`` only in a task without
    a recipe (``tacit serve interop``), where no party knows all of them.
    """

    task_id: bytes
    configuration: TaskConfiguration
    vdaf: Prio3[Any] = field(repr=False, compare=False)
    leader_hpke_config: HpkeConfig | None
    helper_hpke_config: HpkeConfig | None
    collector_hpke_config: HpkeConfig | None
    slot: Slot
    token_key_spki: bytes = field(repr=False)
    interval: Interval
    batch_close: BatchClose
    expected_contributions: int
    recipe_hash: bytes
    version: DapVersion = field(default=DAP_18, repr=False)
    aggregator_flips: int = 0
    """Coin flips that each aggregator adds to every number of its aggregate share; 0: none."""
    publishes_share: bool = False
    """Each aggregator publishes its aggregate share in the log after the release (a census)."""
    leader_state_key: bytes | None = None
    """The ElGamal key (32 bytes, an element of ristretto255) to which devices encrypt the Leader's input shares,
    beneath the HPKE seal; ``None`` where they do not."""
    helper_state_key: bytes | None = None
    """The ElGamal key (32 bytes) for the Helper's input shares; ``None`` where they are not encrypted."""
    is_mixed: bool = False
    """Reports reach the Leader through a shuffler, in one batch after the interval, and from nobody else."""

    @classmethod
    def from_configuration(
        cls,
        configuration: TaskConfiguration,
        *,
        leader_hpke_config: HpkeConfig,
        helper_hpke_config: HpkeConfig,
        collector_hpke_config: HpkeConfig,
        slot: Slot,
        token_key_spki: bytes,
        batch_close: BatchClose,
        expected_contributions: int,
        version: DapVersion = DAP_18,
        aggregator_flips: int = 0,
        publishes_share: bool = False,
        leader_state_key: bytes | None = None,
        helper_state_key: bytes | None = None,
    ) -> Task:
        """Make the task of ``configuration``; its recipe hash is the configuration's ``task_info``.

        Raises ``Refusal`` with rule ``task-extension``, ``task-interval``, ``task-vdaf``, ``task-batch``,
        ``task-recipe-hash``, ``task-hpke`` or ``task-state-key``.
        """
        _check_batch(configuration, batch_close)
        interval = interval_of(configuration)
        if interval is None or interval.duration < 1:
            raise Refusal("task-interval", "the task has no interval in which reports may be made")
        if len(configuration.task_info) != RECIPE_HASH_SIZE:
            raise Refusal("task-recipe-hash", "task_info is not a recipe hash of 32 bytes")
        _check_hpke(leader_hpke_config, helper_hpke_config, collector_hpke_config)
        return cls(
            task_id=task_id_of(configuration),
            configuration=configuration,
            vdaf=_vdaf_with(configuration, leader_state_key, helper_state_key),
            leader_hpke_config=leader_hpke_config,
            helper_hpke_config=helper_hpke_config,
            collector_hpke_config=collector_hpke_config,
            slot=slot,
            token_key_spki=token_key_spki,
            interval=interval,
            batch_close=batch_close,
            expected_contributions=expected_contributions,
            recipe_hash=configuration.task_info,
            version=version,
            aggregator_flips=aggregator_flips,
            publishes_share=publishes_share,
            leader_state_key=leader_state_key,
            helper_state_key=helper_state_key,
        )

    @cached_property
    def ctx(self) -> bytes:
        """VDAF context: version tag and task id."""
        return self.version.vdaf_context(self.task_id)

    @cached_property
    def aad_prefix(self) -> bytes:
        """Task id and encoded configuration, with which every AAD of the task begins."""
        return self.task_id + self.configuration.encode()

    @cached_property
    def task_id_text(self) -> str:
        """The task id as written in URLs and problem documents."""
        return b64url(self.task_id)

    @property
    def time_precision(self) -> int:
        """The task's time precision: seconds in one unit of DAP time."""
        return self.configuration.time_precision

    @property
    def min_batch_size(self) -> int:
        """B: no aggregate over fewer reports is released."""
        return self.configuration.min_batch_size

    @property
    def batch_mode(self) -> BatchMode:
        return self.configuration.batch_mode

    @property
    def start_seconds(self) -> int:
        """POSIX seconds at which reports may first be made."""
        return self.interval.start * self.time_precision

    @property
    def end_seconds(self) -> int:
        """POSIX seconds from which no report may be made."""
        return self.interval.end * self.time_precision

    def hpke_config(self, role: Role) -> HpkeConfig:
        """The configuration to which shares for ``role`` are sealed. The Client has none, and one may be unknown
        (``KeyError``)."""
        found = {
            Role.LEADER: self.leader_hpke_config,
            Role.HELPER: self.helper_hpke_config,
            Role.COLLECTOR: self.collector_hpke_config,
        }[role]
        if found is None:
            raise KeyError(role)
        return found

    def state_key(self, role: Role) -> bytes | None:
        """The key to which devices encrypt input shares for ``role``, if they do; always None for the Collector and the
        Client."""
        return {Role.LEADER: self.leader_state_key, Role.HELPER: self.helper_state_key}.get(role)

    def url(self, role: Role, resource: str) -> str:
        """URL of one of the task's resources at an aggregator. The endpoint's bytes are in every AAD unchanged; here
        exactly one slash follows them, whether or not they end with one."""
        endpoint = {
            Role.LEADER: self.configuration.leader_aggregator_endpoint,
            Role.HELPER: self.configuration.helper_aggregator_endpoint,
        }[role]
        return f"{endpoint.removesuffix('/')}/tasks/{self.task_id_text}/{resource}"

    def report_time(self, now: float) -> int:
        """The time in a report made at ``now`` (POSIX seconds): in units of the task's precision, rounded down."""
        return int(now // self.time_precision)

    def too_early(self, time: int, now: float, leeway: float = CLOCK_LEEWAY) -> bool:
        """Whether ``time`` is further ahead of ``now`` (POSIX seconds) than clocks may differ."""
        return time * self.time_precision > now + leeway


def _check_hpke(*configs: HpkeConfig) -> None:
    for config in configs:
        suite = hpke.Suite(config.kem_id, config.kdf_id, config.aead_id)
        if not suite.supported or len(config.public_key) != hpke.PUBLIC_KEY_SIZE:
            raise Refusal("task-hpke", f"HPKE configuration {config.id} has a suite or key that is not supported")


def _vdaf_with(configuration: TaskConfiguration, leader: bytes | None, helper: bytes | None) -> Prio3[Any]:
    """The task's VDAF. Either both aggregators have different state keys, or neither has one. Shares encrypted on
    devices require a VDAF whose cells are each proved separately, because other proofs need the whole measurement at
    once."""
    vdaf = vdaf_of(configuration)
    if leader is None and helper is None:
        return vdaf
    if leader is None or helper is None or leader == helper:
        raise Refusal("task-state-key", "leader and helper each need a state key of their own")
    if not isinstance(vdaf, Prio3CountVec):
        raise Refusal("task-state-key", "state keys require Prio3CountVec")
    return vdaf


def _check_batch(configuration: TaskConfiguration, batch_close: BatchClose) -> None:
    if configuration.batch_config:
        raise Refusal("task-batch", "batch_config is not empty")
    if configuration.batch_mode is not MODE_OF_CLOSE.get(batch_close):
        raise Refusal("task-batch", f"batch close {batch_close} does not go with the batch mode")
    if configuration.time_precision < 1 or configuration.min_batch_size < 1:
        raise Refusal("task-batch", "time precision and minimum batch size must be at least 1")


def interval_of(configuration: TaskConfiguration) -> Interval | None:
    """The task interval, if there is one; raises ``Refusal`` for an unknown extension, as the draft requires of every
    party (``task-extension``), and for a malformed interval (``task-interval``)."""
    found: Interval | None = None
    for extension in configuration.extensions:
        if extension.extension_type != TaskExtensionType.TASK_INTERVAL:
            raise Refusal("task-extension", f"task extension {extension.extension_type} is not known")
        try:
            found = Interval.decode(extension.extension_data)
        except DecodeError as error:
            raise Refusal("task-interval", "the task interval is malformed") from error
    return found


def vdaf_of(configuration: TaskConfiguration) -> Prio3[Any]:
    """The task's VDAF; raises ``Refusal`` (``task-vdaf``)."""
    try:
        return vdaf_from_configuration(configuration.vdaf_type, configuration.vdaf_configuration)
    except ValueError as error:
        raise Refusal("task-vdaf", f"VDAF type {configuration.vdaf_type} is not supported as configured") from error
