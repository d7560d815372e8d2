"""The ping-pong topology for two Aggregators (draft-irtf-cfrg-vdaf, section 5.7.1), as DAP runs Prio3.

::

    Leader                                          Helper
    leader_initialized -> Continued
                         initialize{verifier_share} ->
                                                    helper_initialized -> FinishedWithOutbound
                         <- finish{verifier_message}

The Leader's last step, on the answer, is ``tacit.vdaf.native.batch``'s, for many reports at once.

Bytes in, bytes out. Every function raises ``DecodeError`` for bytes of the wrong form and ``VerifyError`` for
a report that does not verify; either way the report is rejected. A wrong key, nonce or aggregation parameter
is the caller's mistake and a ``ValueError``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from tacit.codec import Reader, Writer
from tacit.errors import DecodeError
from tacit.vdaf.prio3 import Prio3, VerifyState

LEADER = 0
HELPER = 1


class MessageType(IntEnum):
    """First byte of a message. ``CONTINUE`` belongs to VDAFs of more than one round and is refused here."""

    INITIALIZE = 0
    CONTINUE = 1
    FINISH = 2


@dataclass(frozen=True, slots=True)
class Continued:
    """The Leader waits for the answer to ``outbound``."""

    state: VerifyState = field(repr=False)
    outbound: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class FinishedWithOutbound:
    """The Helper accepts; the Leader does so once it has ``outbound``."""

    out_share: list[int] = field(repr=False)
    outbound: bytes = field(repr=False)


def leader_initialized(
    vdaf: Prio3[Any],
    verify_key: bytes,
    ctx: bytes,
    agg_param: None,
    nonce: bytes,
    public_share: bytes,
    input_share: bytes,
) -> Continued:
    """First step of the Leader, on its own share."""
    state, verifier_share = vdaf.verify_init(
        verify_key,
        ctx,
        LEADER,
        agg_param,
        nonce,
        vdaf.decode_public_share(public_share),
        vdaf.decode_input_share(LEADER, input_share),
    )
    return Continued(state, message(MessageType.INITIALIZE, vdaf.encode_verifier_share(verifier_share)))


def helper_initialized(
    vdaf: Prio3[Any],
    verify_key: bytes,
    ctx: bytes,
    agg_param: None,
    nonce: bytes,
    public_share: bytes,
    input_share: bytes,
    inbound: bytes,
) -> FinishedWithOutbound:
    """The Helper's only step: its own share and the Leader's ``initialize`` message."""
    state, helper_share = vdaf.verify_init(
        verify_key,
        ctx,
        HELPER,
        agg_param,
        nonce,
        vdaf.decode_public_share(public_share),
        vdaf.decode_input_share(HELPER, input_share),
    )
    leader_share = vdaf.decode_verifier_share(state, _payload(MessageType.INITIALIZE, inbound))
    # the Leader's first: joint randomness parts enter the seed in the order of the aggregators' ids
    verifier_message = vdaf.verifier_shares_to_message(ctx, agg_param, [leader_share, helper_share])
    # before the message is sent: whatever the Leader is told to finish, the Helper has accepted
    out_share = vdaf.verify_next(ctx, state, verifier_message)
    encoded = vdaf.encode_verifier_message(verifier_message)
    return FinishedWithOutbound(out_share, message(MessageType.FINISH, encoded))


def message(kind: MessageType, payload: bytes) -> bytes:
    """A message of the exchange: its type, the length of its payload, the payload."""
    return head(kind, len(payload)) + payload


def head(kind: MessageType, size: int) -> bytes:
    """The beginning of every message of this type whose payload has ``size`` bytes."""
    return Writer().uint(kind, 1).uint(size, 4).bytes()


def _payload(kind: MessageType, inbound: bytes) -> bytes:
    reader = Reader(inbound, "ping-pong message")
    message_type = reader.uint(1)
    if message_type != kind:
        raise DecodeError(f"ping-pong message of type {message_type} where {kind.value} is expected")
    payload = reader.opaque(4)
    reader.end()
    return payload
