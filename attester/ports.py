"""The records that the attester keeps, and the interface of the store that keeps them."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tacit.service.store import MarkedStore


@dataclass(frozen=True, slots=True)
class Debit:
    """A device's request for its token of one slot, with a challenge that it answered in time.

    ``challenge_expires`` is the POSIX second in which the challenge expires; ``expires`` is the POSIX second after
    which the quota's row may be deleted.
    """

    challenge: bytes = field(repr=False)
    challenge_expires: int
    stable_id: bytes = field(repr=False)
    epoch: int
    slot: int
    request_hash: bytes = field(repr=False)
    expires: int

    @property
    def place(self) -> tuple[int, int]:
        """The epoch and the slot of the token."""
        return (self.epoch, self.slot)

    @property
    def quota(self) -> tuple[bytes, int, int]:
        """(stable id, epoch, slot): the key for which there is one token."""
        return (self.stable_id, self.epoch, self.slot)


class DebitResult(enum.Enum):
    """The outcome of a debit against a device's quota."""

    GRANTED = "granted"  # granted, now or before, for this very request: forward it
    EXHAUSTED = "exhausted"  # the device already sent another request for this slot
    FORGOTTEN = "forgotten"  # the slot is closed: the record of which devices had its tokens may have been deleted
    CHALLENGE_USED = (
        "challenge-used"  # the challenge was used before, or expired so long ago that its record may have been deleted
    )


@dataclass(frozen=True, slots=True)
class Issued:
    """Totals of one slot (P15), which never decrease. ``devices`` counts the devices whose token was debited,
    ``requested`` the requests that were released to the issuer (a repeated request counts again), ``answered`` the
    tokens that the issuer returned and that were passed on."""

    devices: int = 0
    requested: int = 0
    answered: int = 0


class AttesterStore(MarkedStore, Protocol):
    """Used challenges, quotas and counts. Every method is one transaction, durable when it returns."""

    async def debit(self, debits: Sequence[Debit]) -> list[DebitResult]:
        """Burn each challenge, take each quota, and count what is granted, all in one transaction. The results are in
        the order of ``debits``."""
        ...

    async def add_answered(self, answered: Mapping[tuple[int, int], int]) -> None:
        """Add the numbers of tokens, by (epoch, slot), that the issuer returned."""
        ...

    async def forget(self, now: float) -> int:
        """Delete the rows that ended by ``now``. Returns the floor in POSIX seconds, at or below which no challenge is
        accepted any more: the latest end among all rows that were ever deleted, stored together with the deletion."""
        ...

    async def issuance(self) -> dict[tuple[int, int], Issued]:
        """Totals so far, by (epoch, slot)."""
        ...
