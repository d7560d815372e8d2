"""Ways to spoil a report, each of them one change.

Everything that makes bad reports takes the change from here: ``infra.lab.kit.reports`` for one report, the thief of
``infra.lab.demo.attacks.common``, and ``infra.lab.devices.contributions`` for many at a time. The aggregators' required
answer is in ``infra.lab.devices.faults.FATE``.
"""

from __future__ import annotations

from dataclasses import replace

from tacit.messages import HpkeCiphertext, Role
from tacit.ports import Entropy
from tacit.tokens.binding import PREIMAGE_SIZE, Preimages


def broken_proof(leader_payload: bytes) -> bytes:
    """Return the Leader's VDAF input share with the first coordinate of its measurement share changed by one, after it
    was proved. Neither aggregator can detect this alone; both together can, by the proof."""
    return flip(leader_payload, 0)


def stolen(preimages: Preimages, entropy: Entropy, thief: Role = Role.LEADER) -> Preimages:
    """Return the secrets behind another report's token as the aggregator ``thief`` has them: it knows its own, and must
    guess the other aggregator's."""
    guess = entropy(PREIMAGE_SIZE)
    return replace(preimages, r_helper=guess) if thief is Role.LEADER else replace(preimages, r_leader=guess)


def garbled_token(token: bytes) -> bytes:
    """``token`` with one bit of its signature flipped."""
    return flip(token, len(token) - 1)


def garbled_ciphertext(sealed: HpkeCiphertext) -> HpkeCiphertext:
    """``sealed`` with one bit in the middle of its payload flipped."""
    return replace(sealed, payload=flip(sealed.payload, len(sealed.payload) // 2))


def flip(data: bytes, at: int) -> bytes:
    """``data`` with the lowest bit of byte ``at`` inverted."""
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
