"""The issuer's directories that a device has seen (P8), so that no other ones can replace them later.

The log may hold one directory per (issuer, epoch). Those of the epochs around now are kept as leaves, across restarts,
and given to the reader of the log, for which a second directory ends all trust. A log that shows a device one directory
now and another an hour later therefore cannot mark the device's tokens.
"""

from __future__ import annotations

from collections.abc import Iterable

from client_agent.config import IssuerPin
from tacit.codec import b64url, unb64url
from tacit.errors import DecodeError
from tacit.tlog.canonical import canonical_bytes, parse_canonical, validated
from tacit.tlog.leaves import Blob, Body, IssuerDirectory, LeafType, SignedLeaf


class _Kept(Body):
    issuer: str
    signing_key: str
    leaves: list[Blob]


class SeenDirectories:
    """Directories of one pinned issuer: of the previous, the current and the next epoch."""

    def __init__(self, pin: IssuerPin) -> None:
        self._pin = pin
        self._leaves: dict[int, SignedLeaf] = {}

    @property
    def leaves(self) -> tuple[SignedLeaf, ...]:
        """The directories seen, to compare with whatever the log shows later."""
        return tuple(self._leaves.values())

    def learn(self, leaves: Iterable[SignedLeaf], now: float) -> None:
        """Store verified leaves (verified at ``now``, POSIX seconds), and drop those of epochs long past. The reader of
        the log has checked that an epoch has only one leaf, also against ``leaves``."""
        present = int(now) // self._pin.epoch_seconds
        for leaf in leaves:
            epoch = self._epoch(leaf)
            if epoch is not None and present - 1 <= epoch <= present + 1:
                self._leaves.setdefault(epoch, leaf)
        self._leaves = {epoch: leaf for epoch, leaf in self._leaves.items() if epoch >= present - 1}

    def _epoch(self, leaf: SignedLeaf) -> int | None:
        if leaf.type is not LeafType.ISSUER_DIRECTORY:
            return None
        try:
            directory = leaf.body_as(IssuerDirectory)
        except DecodeError:
            return None
        ours = (directory.issuer, directory.epoch_seconds) == (self._pin.name, self._pin.epoch_seconds)
        return directory.epoch if ours else None

    def encode(self) -> bytes:
        """Bytes to store; they are only valid for the same pinned issuer."""
        leaves = [b64url(leaf.encode()) for _, leaf in sorted(self._leaves.items())]
        return canonical_bytes({"issuer": self._pin.name, "signing_key": self._pin.signing_key, "leaves": leaves})

    def restore(self, kept: bytes) -> None:
        """Load the bytes of ``encode``. Bytes for another issuer, or in another format, are ignored."""
        try:
            stored = validated(_Kept, parse_canonical(kept, "directories"), "directories")
            leaves = [SignedLeaf.decode(unb64url(leaf)) for leaf in stored.leaves]
        except DecodeError:
            return
        if (stored.issuer, stored.signing_key) == (self._pin.name, self._pin.signing_key):
            self._leaves = {epoch: leaf for leaf in leaves if (epoch := self._epoch(leaf)) is not None}
