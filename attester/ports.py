"""What the attester keeps, and what it asks of whatever keeps it."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tacit.service.store import MarkedStore


@dataclass(frozen=True, slots=True)
class Debit:
    """One device asks for its token of one slot, with a challenge that it answered before it ended.

    ``challenge_expires`` is the POSIX second in which that is, ``expires`` the one after which the quota's row may be
    forgotten.
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
        """Epoch and slot."""
        return (self.epoch, self.slot)

    @property
    def quota(self) -> tuple[bytes, int, int]:
        """What there is one token of."""
        return (self.stable_id, self.epoch, self.slot)


class DebitResult(enum.Enum):
    """What became of a debit."""

    GRANTED = "granted"  # this request, now or before: forward it
    EXHAUSTED = "exhausted"  # the device had another request for this slot
    FORGOTTEN = "forgotten"  # who has had a token of this slot is not known any more
    CHALLENGE_USED = (
        "challenge-used"  # the challenge was used before, or ended so long ago that this is not known any more
    )


@dataclass(frozen=True, slots=True)
class Issued:
    """What one slot came to (P15); none of it ever falls. ``devices`` had their token debited, ``requested`` counts the
    requests that were released to the issuer (each again where a device asked again), ``answered`` the tokens that came
    back and were passed on."""

    devices: int = 0
    requested: int = 0
    answered: int = 0


class AttesterStore(MarkedStore, Protocol):
    """Challenges that were used, quotas and counts. Every method is one transaction, durable when it returns."""

    async def debit(self, debits: Sequence[Debit]) -> list[DebitResult]:
        """Burn each challenge, take each quota and count what is granted, all in one transaction."""
        ...

    async def add_answered(self, answered: Mapping[tuple[int, int], int]) -> None:
        """Count tokens, by (epoch, slot), that came back from the issuer."""
        ...

    async def forget(self, now: float) -> int:
        """Delete what ended by ``now``; returns the floor below which no challenge counts any more (POSIX seconds):
        the latest end of any that was ever deleted, kept with the deletion."""
        ...

    async def issuance(self) -> dict[tuple[int, int], Issued]:
        """What every slot came to so far, by (epoch, slot)."""
        ...
