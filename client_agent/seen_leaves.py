"""The key sets (P3) and directories (P8) that a device has seen of its gateway and issuer, so that none replaces them.

The log may hold one leaf of each for a period. Those that a device has seen are kept as leaves, across restarts, and
given to the reader of the log, for which a second leaf in their place ends all trust. A log that shows a device one
directory now and another an hour later therefore cannot mark the device's tokens. Which of the gateway's keys is used
depends on the period and on nothing else, so all devices change keys at the same moment.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import ClassVar, Generic, TypeVar

from client_agent.config import GatewayPin, IssuerPin
from tacit import ohttp
from tacit.codec import b64url, unb64url
from tacit.errors import CryptoError, DecodeError
from tacit.ports import TransportError
from tacit.tlog.canonical import canonical_bytes, parse_canonical, validate
from tacit.tlog.fields import Blob, Body
from tacit.tlog.key_sets import OhttpConfig
from tacit.tlog.leaves import LeafType, SignedLeaf
from tacit.tlog.token_directories import IssuerDirectory

SETS_KEPT = 4
"""Number of periods whose key set is kept: the next, the current, and two more in case the clock is set back."""

B = TypeVar("B", bound=Body)


class _Kept(Body):
    leaves: list[Blob]


def over_epoch(current: int, shown: Collection[int]) -> int:
    """The first epoch that is not long past: the one before the ``current`` one of this device's clock, or before the
    one in which the newest directory was published, whichever is earlier (P37). The log takes a directory an epoch or
    two ahead, so the epoch before the newest one has begun. ``shown``: the epochs of signed directories; without any,
    nobody vouches for the clock, and nothing is past."""
    return min(current, max(shown, default=1) - 1) - 1


class SeenLeaves(ABC, Generic[B]):
    """Leaves of one pinned signer, one for each of its periods, with their contents."""

    WHAT: ClassVar[str]
    """What the leaves are, in errors."""

    def __init__(self, pin: Mapping[str, str], seconds: int) -> None:
        """``pin``: what is stored of the pin, so that leaves of another signer are not taken for its own; ``seconds``:
        the length of a period."""
        self._stored_pin = dict(pin)
        self._seconds = seconds
        self._seen: dict[int, tuple[SignedLeaf, B]] = {}

    @abstractmethod
    def _ours(self, leaf: SignedLeaf) -> tuple[int, B] | None:
        """The period and the content of a leaf of the pinned signer; None for any other leaf. Raises DecodeError."""

    @property
    def leaves(self) -> tuple[SignedLeaf, ...]:
        """The leaves seen, to compare with whatever the log shows later."""
        return tuple(leaf for leaf, _ in self._seen.values())

    def period(self, now: float) -> int:
        """The number of the period at ``now`` (POSIX seconds)."""
        return int(now) // self._seconds

    def unknown(self, leaves: Iterable[SignedLeaf], now: float) -> list[SignedLeaf]:
        """Those of ``leaves`` that ``learn`` would store: of the current, the previous and the next period, for which
        this device has not seen one."""
        return [leaf for leaf in leaves if self._new(leaf, now) is not None]

    def _new(self, leaf: SignedLeaf, now: float) -> tuple[int, B] | None:
        parsed = self._read(leaf)
        if parsed is None or parsed[0] in self._seen or abs(parsed[0] - self.period(now)) > 1:
            return None
        return parsed

    def _read(self, leaf: SignedLeaf) -> tuple[int, B] | None:
        try:
            return self._ours(leaf)
        except DecodeError:
            return None

    def learn(self, leaves: Iterable[SignedLeaf], now: float) -> None:
        """Store verified leaves up to the next period. The reader of the log has checked that a period has only one
        leaf, also against ``leaves``."""
        for leaf in leaves:
            parsed = self._new(leaf, now)
            if parsed is not None:
                self._seen[parsed[0]] = leaf, parsed[1]

    def encode(self) -> bytes:
        """Bytes to store; they are only valid for the same pin."""
        leaves = [b64url(leaf.encode()) for _, (leaf, _) in sorted(self._seen.items())]
        return canonical_bytes({**self._stored_pin, "leaves": leaves})

    def restore(self, kept: bytes) -> None:
        """Load the bytes of ``encode``. Bytes for another pin, or in another format, are ignored."""
        try:
            stored = parse_canonical(kept, self.WHAT)
            texts = validate(_Kept, {"leaves": stored.pop("leaves", None)}, self.WHAT).leaves
            leaves = [SignedLeaf.decode(unb64url(text)) for text in texts]
        except DecodeError:
            return
        if stored == self._stored_pin:
            known = ((leaf, self._read(leaf)) for leaf in leaves)
            self._seen = {found[0]: (leaf, found[1]) for leaf, found in known if found is not None}


class SeenDirectories(SeenLeaves[IssuerDirectory]):
    """Directories of one pinned issuer: of the previous, the current and the next epoch."""

    WHAT = "directories"

    def __init__(self, pin: IssuerPin) -> None:
        super().__init__({"issuer": pin.name, "signing_key": pin.signing_key}, pin.epoch_seconds)
        self._pin = pin

    def _ours(self, leaf: SignedLeaf) -> tuple[int, IssuerDirectory] | None:
        if leaf.type is not LeafType.ISSUER_DIRECTORY:
            return None
        body = leaf.body_as(IssuerDirectory)
        ours = (body.issuer, body.epoch_seconds) == (self._pin.name, self._pin.epoch_seconds)
        return (body.epoch, body) if ours else None

    def learn(self, leaves: Iterable[SignedLeaf], now: float) -> None:
        """Store verified leaves, and drop those of epochs long past, by this clock and by the leaves themselves."""
        super().learn(leaves, now)
        oldest = over_epoch(self.period(now), self._seen)
        self._seen = {epoch: seen for epoch, seen in self._seen.items() if epoch >= oldest}


class GatewayKeys(SeenLeaves[OhttpConfig]):
    """Key sets of one pinned gateway, from the log; until there is one, the pinned key in its own period."""

    WHAT = "gateway keys"

    def __init__(self, pin: GatewayPin) -> None:
        """Raises ``DecodeError`` if the pinned key is malformed."""
        named: dict[str, object] = pin.model_dump(include={"name", "signing_key", "rotation_seconds"})
        super().__init__({"pin": b64url(hashlib.sha256(canonical_bytes(named)).digest())}, pin.rotation_seconds)
        self._pin = pin
        self._first = ohttp.KeyConfig.decode(unb64url(pin.key_config))

    def _ours(self, leaf: SignedLeaf) -> tuple[int, OhttpConfig] | None:
        if leaf.type is not LeafType.OHTTP_CONFIG:
            return None
        body = leaf.body_as(OhttpConfig)
        ours = (body.gateway, body.rotation_seconds) == (self._pin.name, self._pin.rotation_seconds)
        return (body.period, body) if ours else None

    def learn(self, leaves: Iterable[SignedLeaf], now: float) -> None:
        """Store verified leaves, of the newest ``SETS_KEPT`` periods."""
        super().learn(leaves, now)
        for period in sorted(self._seen)[:-SETS_KEPT]:
            del self._seen[period]

    def current(self, now: float) -> tuple[ohttp.KeyConfig, ...]:
        """The keys to seal to at ``now``, the active one first; empty if this device has none for this period."""
        period = self.period(now)
        keys: tuple[ohttp.KeyConfig, ...] = ()
        if period in self._seen:
            config = self._seen[period][1]
            keys = _usable(config.active, config.previous)
        elif period - 1 in self._seen:
            keys = _usable(self._seen[period - 1][1].active)
        return keys or ((self._first,) if self._pin.period in {period, period - 1} else ())

    def with_learned(self, leaves: Iterable[SignedLeaf], now: float) -> GatewayKeys:
        """A copy of these keys after ``learn``; the originals stay as they are. Raises ``TransportError`` if there is
        then still no key for this time."""
        copy = GatewayKeys(self._pin)
        copy._seen = dict(self._seen)
        copy.learn(leaves, now)
        if not any(config.usable(now) for _, config in copy._seen.values()):
            raise TransportError("the relay has no key set of the gateway for this time")
        return copy


@lru_cache(maxsize=64)
def _usable(*encoded: str | None) -> tuple[ohttp.KeyConfig, ...]:
    """Those of the encoded configurations that this device can seal to."""
    configs = []
    for text in filter(None, encoded):
        try:
            key = ohttp.KeyConfig.decode(unb64url(text))
            key.suite()
        except (DecodeError, CryptoError):
            continue
        configs.append(key)
    return tuple(configs)
