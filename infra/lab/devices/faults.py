"""Faults that a simulated fleet injects into shares of the sampled devices, and what must become of them.

``FATE`` is the whole table: whether the device's contribution counts in the end, whether the leader stores it, and
under which causes leader and helper must have rejected it. The oracle (``tacit fleet run --oracle``) compares it with
what they say.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.errors import UsageError


class Fault(enum.IntEnum):
    """What is wrong with one device's contribution; the values are part of the prepared file's format."""

    NONE = 0
    BAD_PROOF = 1
    STOLEN_TOKEN = 2
    GARBLED_TOKEN = 3
    SPENT_TOKEN = 4
    DUPLICATE = 5
    FLIPPED_LEADER = 6
    FLIPPED_HELPER = 7
    TRUNCATED = 8
    LATE = 9
    ABORT = 10
    SLOW = 11
    VANISH = 12

    @property
    def word(self) -> str:
        """The fault's name on the command line."""
        return self.name.lower().replace("_", "-")


@dataclass(frozen=True)
class Fate:
    """What must become of a contribution. ``leader``, ``helper``: causes of which that aggregator must count one; empty
    if the report does not reach it, or if the other aggregator refuses it first."""

    counts: bool = True
    stored: bool = True
    leader: tuple[str, ...] = ()
    helper: tuple[str, ...] = ()


FATE: dict[Fault, Fate] = {
    Fault.NONE: Fate(),
    Fault.BAD_PROOF: Fate(False, True, ("helper-vdaf-verify-error", "proof"), ("proof",)),
    Fault.STOLEN_TOKEN: Fate(False, True, ("helper-invalid-message",), ("token-binding",)),
    Fault.GARBLED_TOKEN: Fate(False, True, ("token-signature",)),
    Fault.SPENT_TOKEN: Fate(False, True, ("token-spent", "helper-report-replayed")),
    Fault.DUPLICATE: Fate(),
    Fault.FLIPPED_LEADER: Fate(False, True, ("hpke-decrypt",)),
    Fault.FLIPPED_HELPER: Fate(False, True, ("helper-hpke-decrypt-error",), ("hpke-decrypt",)),
    Fault.TRUNCATED: Fate(False, False),
    Fault.LATE: Fate(False, False),
    Fault.ABORT: Fate(),
    Fault.SLOW: Fate(),
    Fault.VANISH: Fate(False, False),
}
"""A spent token is sent with the same measurement as the contribution that it repeats, so that it does not matter
which of the two the leader meets first."""

WORDS = {fault.word: fault for fault in Fault if fault is not Fault.NONE}
OF_WATCHED = frozenset({Fault.NONE, Fault.DUPLICATE, Fault.TRUNCATED, Fault.ABORT, Fault.SLOW, Fault.VANISH})
"""Faults that devices which answer from kept state can have."""
CHURN = {Fault.ABORT: 0.1, Fault.VANISH: 0.05}
"""What the profile ``churn`` adds: devices that break off and come back, and devices that do not come back."""


@dataclass(frozen=True)
class FaultMix:
    """The share of the sampled devices that get each fault."""

    shares: tuple[tuple[Fault, float], ...] = ()

    def draw(self, count: int, generator: np.random.Generator) -> NDArray[np.uint8]:
        """A fault for each of ``count`` devices, independently with the probabilities ``shares``: shape (count,),
        values of ``Fault``, 0 for none."""
        faults = np.zeros(count, dtype=np.uint8)
        drawn = generator.random(count)
        edge = 0.0
        for fault, share in self.shares:
            faults[(drawn >= edge) & (drawn < edge + share)] = fault
            edge += share
        return faults

    def require_of_watched(self) -> None:
        """Raise ``UsageError`` for a fault that devices which watched an event, or whose reports a shuffler passes on,
        cannot have."""
        wrong = [fault.word for fault, _ in self.shares if fault not in OF_WATCHED]
        if wrong:
            possible = ", ".join(fault.word for fault in sorted(OF_WATCHED - {Fault.NONE}))
            recipes = "recipes that watch an event or name a shuffler"
            raise UsageError(f"--faults: {wrong[0]} is not for {recipes}; choose among: {possible}")

    def with_churn(self) -> FaultMix:
        """Return the mix with ``CHURN`` added; shares that the mix itself states win."""
        return _mix({**CHURN, **dict(self.shares)})


NO_FAULTS = FaultMix()


def parse_faults(text: str) -> FaultMix:
    """Parse a mix such as ``bad-proof=0.01,late=0.005``. Raises ``UsageError``."""
    shares: dict[Fault, float] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        word, _, number = part.partition("=")
        if word not in WORDS:
            raise UsageError(f"--faults: {word!r} is not known; choose among: {', '.join(WORDS)}")
        if WORDS[word] in shares:
            raise UsageError(f"--faults: {word} is given twice")
        try:
            share = float(number)
        except ValueError as error:
            raise UsageError(f"--faults: {word} needs a share of the devices, such as {word}=0.01") from error
        if not 0 <= share <= 1:
            raise UsageError(f"--faults: the share of {word} must be from 0 to 1")
        shares[WORDS[word]] = share
    return _mix(shares)


def _mix(shares: dict[Fault, float]) -> FaultMix:
    if sum(shares.values()) > 1:
        raise UsageError("--faults: the shares add up to more than 1")
    return FaultMix(tuple(sorted(shares.items())))
