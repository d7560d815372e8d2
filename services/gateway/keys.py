"""The gateway's keys: one OHTTP key per period, and the Ed25519 key that signs its leaves.

Time is cut into numbered periods of ``rotation_seconds``. The key of a period is made one period ahead, so that the log
can show it before anybody uses it. It is active in its period and accepted as the previous key in the next one. Then it
is deleted for good, once others vouch that this time is over (P37): of a key that the log still shows, devices make
use, and no second one can take its place. Both files are made on the first start, with mode 0600.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, ValidationError

from tacit import ohttp
from tacit.codec import b64url, unb64url
from tacit.errors import DecodeError, UsageError
from tacit.hpke import KeyPair, generate_key_pair, key_pair_from_private
from tacit.ohttp import KeyConfig
from tacit.ports import Entropy
from tacit.service.base.config_files import Frozen
from tacit.service.base.secret_files import read_secret, write_secret
from tacit.service.base.vouched import BOUND_SECONDS, UNVOUCHED
from tacit.signing import KEY_SIZE
from tacit.tlog.key_sets import OhttpConfig

MOST_KEYS = 64
"""Most keys of one ring, which makes some for every period in which its clock was once believed to be."""


def _check_private(text: str) -> str:
    unb64url(text, length=KEY_SIZE)
    return text


class _StoredKey(Frozen):
    period: int = Field(ge=0)
    private: Annotated[str, AfterValidator(_check_private)] = Field(repr=False)


class _StoredRing(Frozen):
    version: int = Field(ge=2, le=2)
    rotation_seconds: int
    keys: tuple[_StoredKey, ...] = Field(min_length=1, max_length=MOST_KEYS)


@dataclass(frozen=True, slots=True)
class GatewayKey:
    """The key of one period: the configuration that clients see (RFC 9458 section 3.1), and its HPKE key pair."""

    period: int
    config: KeyConfig
    pair: KeyPair

    @classmethod
    def of(cls, period: int, pair: KeyPair) -> GatewayKey:
        """``pair`` as the key of ``period``, whose number gives the key identifier."""
        return cls(period, ohttp.key_config_for(period % 256, pair)[0], pair)


class KeyRing:
    """The OHTTP keys in one file: those of the previous, the current and the next period, and whatever a wrong clock
    has left until it is over."""

    def __init__(self, path: Path, rotation: int, keys: Mapping[int, GatewayKey]) -> None:
        self._path = path
        self.rotation = rotation
        self.period = -1
        self._keys = dict(keys)

    @classmethod
    def open(cls, path: Path, rotation: int, entropy: Entropy, now: float) -> KeyRing:
        """Load the file, or make it with its first keys; deletes nothing. Raises ``UsageError`` for a file that is not
        a key ring, or whose periods have another length."""
        ring = cls(path, rotation, _load(path, rotation) if path.exists() else {})
        ring.rotate_if_due(entropy, now)
        return ring

    @property
    def keys(self) -> tuple[GatewayKey, ...]:
        """Every key that opens requests: the active one first, then the previous one, then the next."""
        order = (self.period, self.period - 1, self.period + 1)
        return tuple(self._keys[period] for period in order if period in self._keys)

    @property
    def active(self) -> GatewayKey:
        """The key that clients should use."""
        return self._keys[self.period]

    @property
    def ends(self) -> float:
        """When the last period ends that has a key, without a gap from now on (POSIX seconds)."""
        last = self.period
        while last + 1 in self._keys:
            last += 1
        return float((last + 1) * self.rotation)

    def by_period(self) -> dict[int, KeyConfig]:
        return {period: key.config for period, key in sorted(self._keys.items())}

    def configs(self) -> list[KeyConfig]:
        """The configurations to offer: the active one and the previous one."""
        return [key.config for key in self.keys if self.period - 1 <= key.period <= self.period]

    def decapsulator(self) -> ohttp.Decapsulator:
        return ohttp.Decapsulator([(key.config, key.pair) for key in self.keys])

    def key_set(self, gateway: str, period: int) -> OhttpConfig:
        """The body of the leaf for a period whose key is in this ring (P3): the period's configuration, and that of the
        period before while its key is here. Raises ``KeyError`` for a period without a key."""
        previous = self._keys.get(period - 1)
        return OhttpConfig(
            gateway=gateway,
            period=period,
            rotation_seconds=self.rotation,
            active=b64url(self._keys[period].config.encode()),
            previous=None if previous is None else b64url(previous.config.encode()),
        )

    def rotate_if_due(
        self, entropy: Entropy, now: float, past: float = UNVOUCHED, shown: Collection[bytes] = ()
    ) -> bool:
        """Make the keys of the current and the next period, and delete those that are over; returns whether anything
        changed.

        ``past``: a time that is over by others' clocks too, by which it is judged what is over. ``shown``: the encoded
        configurations that the log still shows as ours; their keys stay in any case. Raises ``UsageError`` where the
        ring would have more than ``MOST_KEYS``.
        """
        self.period = self._period_at(now, past)
        wanted = (self.period, self.period + 1)
        keys = {
            period: key
            for period, key in self._keys.items()
            if past < (period + 2) * self.rotation or key.config.encode() in shown
        }
        keys |= {period: GatewayKey.of(period, generate_key_pair(entropy)) for period in wanted if period not in keys}
        if keys == self._keys:
            return False
        if len(keys) > MOST_KEYS:
            raise UsageError(f"{self._path}: keys of {len(keys)} periods; is this machine's clock right?")
        self._save(keys)
        return True

    def _period_at(self, now: float, past: float) -> int:
        """The period of ``now``. A clock that is behind the ring's own keys would have a key made that the log has or
        refuses. So it is not followed while nobody vouches for it, nor for some seconds before a period that has a key.
        """
        period, first = int(now) // self.rotation, min(self._keys, default=-1)
        is_behind = past == UNVOUCHED or now > first * self.rotation - BOUND_SECONDS
        return first if period < first and is_behind else period

    def _save(self, keys: Mapping[int, GatewayKey]) -> None:
        stored = [{"period": period, "private": b64url(key.pair.private)} for period, key in sorted(keys.items())]
        content = {"version": 2, "rotation_seconds": self.rotation, "keys": stored}
        # on the disk before it is held: what is held is shown in the log, and then no second key can take its place
        write_secret(self._path, json.dumps(content, indent=1).encode())
        self._keys = dict(keys)


def read_key_ring(path: Path) -> KeyRing:
    """The keys that a gateway made, unchanged. Raises ``UsageError``."""
    rotation = _read_stored(path).rotation_seconds
    return KeyRing(path, rotation, _load(path, rotation))


def _read_stored(path: Path) -> _StoredRing:
    try:
        return _StoredRing.model_validate_json(read_secret(path))
    except (ValidationError, DecodeError) as error:
        raise UsageError(f"{path}: not a file of gateway keys; remove it, and new keys are made") from error


def _load(path: Path, rotation: int) -> dict[int, GatewayKey]:
    ring = _read_stored(path)
    if len({stored.period for stored in ring.keys}) != len(ring.keys):
        raise UsageError(f"{path}: two keys are of the same period")
    if ring.rotation_seconds != rotation:
        raise UsageError(f"{path}: its periods have {ring.rotation_seconds} seconds; a gateway keeps its rotation")
    pairs = {stored.period: key_pair_from_private(unb64url(stored.private)) for stored in ring.keys}
    return {period: GatewayKey.of(period, pair) for period, pair in pairs.items()}
