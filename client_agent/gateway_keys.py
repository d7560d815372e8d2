"""The gateway's keys as a device holds them: the log's key sets of the current and the previous period (P3).

A key set that this device has seen for a period is never replaced by another one: its leaf is kept, across restarts,
and given to the reader of the log, for which a second leaf in that place ends all trust. Which key is used depends on
the period and on nothing else, so all devices change keys at the same moment.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from client_agent.config import GatewayPin
from tacit import ohttp
from tacit.codec import b64url, unb64url
from tacit.errors import CryptoError, DecodeError
from tacit.ports import TransportError
from tacit.tlog.canonical import canonical_bytes, parse_canonical, validated
from tacit.tlog.leaves import Blob, Body, Hash, LeafType, OhttpConfig, SignedLeaf

SETS_KEPT = 4
"""Number of periods whose key set is kept: the next, the current, and two more in case the clock is set back."""


class _Kept(Body):
    pin: Hash
    leaves: list[Blob]


class GatewayKeys:
    """Key sets of one pinned gateway, from the log; until there is one, the pinned key in its own period."""

    def __init__(self, pin: GatewayPin) -> None:
        """Raises ``DecodeError`` if the pinned key is malformed."""
        self._pin = pin
        self._first = ohttp.KeyConfig.decode(unb64url(pin.key_config))
        self._leaves: dict[int, SignedLeaf] = {}
        self._sets: dict[int, OhttpConfig] = {}

    @property
    def leaves(self) -> tuple[SignedLeaf, ...]:
        """The key sets seen, to compare with whatever the log shows later."""
        return tuple(self._leaves.values())

    def unknown(self, leaves: Iterable[SignedLeaf], now: float) -> list[SignedLeaf]:
        """Those of ``leaves`` that ``learn`` would store: key sets of the current, the previous and the next period
        that this device has not seen."""
        return [leaf for leaf in leaves if self._is_new(leaf, now)]

    def _is_new(self, leaf: SignedLeaf, now: float) -> bool:
        config = self._ours(leaf)
        present = self.period(now)
        return config is not None and present - 1 <= config.period <= present + 1 and config.period not in self._sets

    def period(self, now: float) -> int:
        """The number of the period at ``now`` (POSIX seconds)."""
        return int(now) // self._pin.rotation_seconds

    def learn(self, leaves: Iterable[SignedLeaf], now: float) -> None:
        """Store verified leaves: key sets of the pinned gateway up to the next period. The reader of the log has
        checked that a period has only one leaf, also against ``leaves``."""
        for leaf in leaves:
            config = self._ours(leaf)
            if config is not None and self._is_new(leaf, now):
                self._leaves[config.period], self._sets[config.period] = leaf, config
        for period in sorted(self._sets)[:-SETS_KEPT]:
            del self._leaves[period], self._sets[period]

    def current(self, now: float) -> tuple[ohttp.KeyConfig, ...]:
        """The keys to seal to at ``now``, the active one first; empty if this device has none for this period."""
        period = self.period(now)
        keys: tuple[ohttp.KeyConfig, ...] = ()
        if period in self._sets:
            keys = _usable(self._sets[period].active, self._sets[period].previous)
        elif period - 1 in self._sets:
            keys = _usable(self._sets[period - 1].active)
        return keys or ((self._first,) if self._pin.period in {period, period - 1} else ())

    def with_learned(self, leaves: Iterable[SignedLeaf], now: float) -> GatewayKeys:
        """A copy of these keys after ``learn``; the originals stay as they are. Raises ``TransportError`` if there is
        then still no key for this time."""
        found = GatewayKeys(self._pin)
        found._leaves, found._sets = dict(self._leaves), dict(self._sets)
        found.learn(leaves, now)
        if not any(config.usable(now) for config in found._sets.values()):
            raise TransportError("the relay has no key set of the gateway for this time")
        return found

    def encode(self) -> bytes:
        """Bytes to store; they are only valid for the same pinned gateway."""
        leaves = [b64url(leaf.encode()) for _, leaf in sorted(self._leaves.items())]
        return canonical_bytes({"pin": b64url(self._digest()), "leaves": leaves})

    def restore(self, kept: bytes) -> None:
        """Load the bytes of ``encode``. Bytes for another gateway, or in another format, are ignored."""
        try:
            stored = validated(_Kept, parse_canonical(kept, "gateway keys"), "gateway keys")
            leaves = [SignedLeaf.decode(unb64url(leaf)) for leaf in stored.leaves]
        except DecodeError:
            return
        if unb64url(stored.pin) == self._digest():
            known = {config.period: (leaf, config) for leaf in leaves if (config := self._ours(leaf)) is not None}
            self._leaves = {period: leaf for period, (leaf, _) in known.items()}
            self._sets = {period: config for period, (_, config) in known.items()}

    def _ours(self, leaf: SignedLeaf) -> OhttpConfig | None:
        if leaf.type is not LeafType.OHTTP_CONFIG:
            return None
        try:
            config = leaf.body_as(OhttpConfig)
        except DecodeError:
            return None
        pinned = (self._pin.name, self._pin.rotation_seconds)
        return config if (config.gateway, config.rotation_seconds) == pinned else None

    def _digest(self) -> bytes:
        pin: Mapping[str, object] = {
            "name": self._pin.name,
            "signing_key": self._pin.signing_key,
            "rotation_seconds": self._pin.rotation_seconds,
        }
        return hashlib.sha256(canonical_bytes(dict(pin))).digest()


def _usable(*encoded: str | None) -> tuple[ohttp.KeyConfig, ...]:
    """Those of the encoded configurations that this device can seal to."""
    found = []
    for text in filter(None, encoded):
        try:
            key = ohttp.KeyConfig.decode(unb64url(text))
            key.suite()
        except (DecodeError, CryptoError):
            continue
        found.append(key)
    return tuple(found)
