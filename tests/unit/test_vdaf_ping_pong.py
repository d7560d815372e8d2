"""The two-party exchange of one report, in bytes, with honest and with malformed messages."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import DecodeError
from tacit.vdaf.ping_pong import (
    Continued,
    FinishedWithOutbound,
    helper_initialized,
    leader_initialized,
)
from tacit.vdaf.prio3 import Prio3, Prio3Count, Prio3Histogram, VerifyError
from tests.kit.oracles.ping_pong import Finished, leader_continued

CTX = b"dap-18" + bytes(32)
KEY = bytes(range(32))
NONCE = bytes(range(16))


class Report:
    """One sharded measurement, encoded as DAP carries it."""

    def __init__(self, vdaf: Prio3[Any], measurement: int) -> None:
        self.vdaf = vdaf
        public_share, shares = vdaf.shard(CTX, measurement, NONCE, bytes(range(vdaf.RAND_SIZE)))
        self.public_share = vdaf.encode_public_share(public_share)
        self.leader, self.helper = [vdaf.encode_input_share(share) for share in shares]

    def leader_initialized(self) -> Continued:
        return leader_initialized(self.vdaf, KEY, CTX, None, NONCE, self.public_share, self.leader)

    def helper_initialized(self, inbound: bytes) -> FinishedWithOutbound:
        return helper_initialized(self.vdaf, KEY, CTX, None, NONCE, self.public_share, self.helper, inbound)

    def leader_continued(self, inbound: bytes) -> Finished:
        return leader_continued(self.vdaf, CTX, None, self.leader_initialized().state, inbound)


HISTOGRAM = Report(Prio3Histogram(2, 16, 6), 5)
COUNT = Report(Prio3Count(2), 1)
REPORTS = [HISTOGRAM, COUNT]


def _message(kind: int, payload: bytes) -> bytes:
    return struct.pack(">BI", kind, len(payload)) + payload


@pytest.mark.parametrize(("report_", "expected"), [(HISTOGRAM, [0] * 5 + [1] + [0] * 10), (COUNT, 1)])
def test_honest_exchange_ends_in_shares_of_the_measurement(report_: Report, expected: object) -> None:
    first = report_.leader_initialized()
    assert first.outbound[0] == 0
    helper = report_.helper_initialized(first.outbound)
    assert helper.outbound[0] == 2
    leader = leader_continued(report_.vdaf, CTX, None, first.state, helper.outbound)
    assert report_.vdaf.unshard(None, [leader.out_share, helper.out_share], 1) == expected


def test_finish_message_of_a_count_is_five_bytes() -> None:
    helper = COUNT.helper_initialized(COUNT.leader_initialized().outbound)
    assert helper.outbound == bytes.fromhex("0200000000")


@pytest.mark.parametrize("report_", REPORTS)
def test_malformed_initialize_message_is_refused(report_: Report) -> None:
    good = report_.leader_initialized().outbound
    payload = good[5:]
    bad = [
        b"",
        good[:4],
        good[:-1],
        good + b"\0",
        _message(1, payload),
        _message(2, payload),
        _message(255, payload),
        _message(0, payload[:-1]),
        _message(0, payload + b"\0"),
        _message(0, b""),
        _message(0, b"\xff" * len(payload)),
        b"\0\xff\xff\xff\xff" + payload,
    ]
    for inbound in bad:
        with pytest.raises(DecodeError):
            report_.helper_initialized(inbound)


@pytest.mark.parametrize("report_", REPORTS)
def test_malformed_finish_message_is_refused(report_: Report) -> None:
    good = report_.helper_initialized(report_.leader_initialized().outbound).outbound
    payload = good[5:]
    bad = [b"", good[:4], good + b"\0", _message(0, payload), _message(1, payload), _message(2, payload + b"\0")]
    for inbound in bad:
        with pytest.raises(DecodeError):
            report_.leader_continued(inbound)


@settings(max_examples=60, deadline=None)
@given(inbound=st.binary(max_size=64))
def test_arbitrary_inbound_bytes_are_refused(inbound: bytes) -> None:
    for report in REPORTS:
        with pytest.raises((DecodeError, VerifyError)):
            report.helper_initialized(inbound)
    with pytest.raises((DecodeError, VerifyError)):
        HISTOGRAM.leader_continued(inbound)


def test_wrong_verifier_share_is_rejected() -> None:
    good = bytearray(HISTOGRAM.leader_initialized().outbound)
    good[5] ^= 1
    with pytest.raises(VerifyError):
        HISTOGRAM.helper_initialized(bytes(good))


def test_wrong_joint_randomness_part_of_the_leader_is_rejected() -> None:
    outbound = HISTOGRAM.leader_initialized().outbound
    with pytest.raises(VerifyError, match="joint randomness"):
        HISTOGRAM.helper_initialized(outbound[:-32] + bytes(32))


def test_wrong_verifier_message_is_rejected_by_the_leader() -> None:
    with pytest.raises(VerifyError, match="joint randomness"):
        HISTOGRAM.leader_continued(_message(2, bytes(32)))


def test_truncated_shares_are_refused() -> None:
    vdaf, public_share = HISTOGRAM.vdaf, HISTOGRAM.public_share
    inbound = HISTOGRAM.leader_initialized().outbound
    with pytest.raises(DecodeError, match="public share"):
        leader_initialized(vdaf, KEY, CTX, None, NONCE, public_share[:-1], HISTOGRAM.leader)
    with pytest.raises(DecodeError, match="input share"):
        leader_initialized(vdaf, KEY, CTX, None, NONCE, public_share, HISTOGRAM.leader[:-1])
    with pytest.raises(DecodeError, match="public share"):
        helper_initialized(vdaf, KEY, CTX, None, NONCE, b"", HISTOGRAM.helper, inbound)
    with pytest.raises(DecodeError, match="input share"):
        helper_initialized(vdaf, KEY, CTX, None, NONCE, public_share, HISTOGRAM.leader, inbound)


def test_aggregation_parameter_is_refused() -> None:
    parameter: Any = b""
    with pytest.raises(ValueError, match="no aggregation parameter"):
        leader_initialized(COUNT.vdaf, KEY, CTX, parameter, NONCE, b"", COUNT.leader)
    with pytest.raises(ValueError, match="no aggregation parameter"):
        leader_continued(COUNT.vdaf, CTX, parameter, COUNT.leader_initialized().state, b"")


def test_no_state_shows_a_share() -> None:
    first = HISTOGRAM.leader_initialized()
    helper = HISTOGRAM.helper_initialized(first.outbound)
    leader = leader_continued(HISTOGRAM.vdaf, CTX, None, first.state, helper.outbound)
    assert [repr(value) for value in (first, helper, leader)] == [
        "Continued()",
        "FinishedWithOutbound()",
        "Finished()",
    ]
