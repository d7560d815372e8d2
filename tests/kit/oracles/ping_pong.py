"""The last step of the Leader on one report (draft-irtf-cfrg-vdaf, section 5.7.1)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tacit.vdaf.ping_pong import MessageType, _payload
from tacit.vdaf.prio3 import Prio3, VerifyState


@dataclass(frozen=True, slots=True)
class Finished:
    """The Leader accepts, and nothing more is sent."""

    out_share: list[int] = field(repr=False)


def leader_continued(vdaf: Prio3[Any], ctx: bytes, agg_param: None, state: VerifyState, inbound: bytes) -> Finished:
    """Last step of the Leader, on the Helper's ``finish`` message."""
    if not vdaf.is_valid(agg_param, []):
        raise ValueError("Prio3 has no aggregation parameter")
    verifier_message = vdaf.decode_verifier_message(state, _payload(MessageType.FINISH, inbound))
    return Finished(vdaf.verify_next(ctx, state, verifier_message))
