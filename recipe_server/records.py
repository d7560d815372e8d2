"""The recipe server's records: where the leaves of each kind are in the log, and released results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LoggedRecipe:
    """A recipe in the log with the indices of its opt-ins by role. ``ends_at`` is in POSIX seconds."""

    hash: bytes
    index: int
    ends_at: int
    opt_ins: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class LoggedSeries:
    """A series in the log. ``ends_at`` is in POSIX seconds; ``is_open``: whether rounds may still come until then."""

    hash: bytes
    index: int
    ends_at: int
    analyst: str
    is_open: bool = True
    end_index: int | None = None
    """The index of the leaf that has ended it."""


@dataclass(frozen=True, slots=True)
class LoggedCensus:
    """Index of a census, and the index of each published share by role. ``ends_at`` is in POSIX seconds."""

    index: int
    ends_at: int
    shares: dict[str, int]


@dataclass(frozen=True, slots=True)
class LoggedDirectory:
    """Index of the directory of (issuer, epoch)."""

    issuer: str
    epoch: int
    epoch_seconds: int
    index: int


@dataclass(frozen=True, slots=True)
class LoggedKeySet:
    """Index of the key set of (gateway, period)."""

    gateway: str
    period: int
    rotation_seconds: int
    index: int

    @property
    def end(self) -> int:
        """POSIX second from which the key set is no longer used (``OhttpConfig.end``)."""
        return (self.period + 2) * self.rotation_seconds


@dataclass(frozen=True, slots=True)
class PublishedResult:
    """One released result: the bytes that the collector sent and when (POSIX seconds)."""

    recipe_hash: bytes
    batch_id: str
    body: bytes
    published_at: int
