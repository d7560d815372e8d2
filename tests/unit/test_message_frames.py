"""Frames of messages between a relay and its gateway."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import DecodeError
from tacit.media_types import OHTTP_RES, PROBLEM_JSON
from tacit.message_frames import (
    ANSWER_OVERHEAD,
    REQUEST_OVERHEAD,
    MessageAnswer,
    decode_answers,
    decode_requests,
    encode_answers,
    encode_requests,
)

ANSWERS = st.builds(
    MessageAnswer,
    status=st.integers(200, 599),
    content_type=st.sampled_from([OHTTP_RES, PROBLEM_JSON]),
    body=st.binary(max_size=50),
    retry_after=st.none() | st.integers(1, 999_999),
)


@given(st.lists(st.binary(max_size=50), min_size=1, max_size=9))
def test_requests_come_back_in_order(messages: list[bytes]) -> None:
    frame = encode_requests(messages)
    assert decode_requests(frame, max_messages=9, max_message=50) == messages
    assert len(frame) == sum(REQUEST_OVERHEAD + len(message) for message in messages)


@given(st.lists(ANSWERS, max_size=9))
def test_answers_come_back_in_order(answers: list[MessageAnswer]) -> None:
    frame = encode_answers(answers)
    assert decode_answers(frame, count=len(answers), max_body=50) == answers
    assert len(frame) == sum(ANSWER_OVERHEAD + len(answer.body) for answer in answers)


@given(st.lists(st.binary(max_size=9), min_size=1, max_size=3), st.integers(1, 30))
def test_a_truncated_frame_of_requests_is_refused_or_ends_between_messages(messages: list[bytes], cut: int) -> None:
    frame = encode_requests(messages)[:-cut]
    with contextlib.suppress(DecodeError):
        decoded = decode_requests(frame, max_messages=9, max_message=9)
        assert decoded == messages[: len(decoded)]
        assert encode_requests(decoded) == frame


@given(st.lists(ANSWERS, min_size=1, max_size=3), st.integers(1, 300))
def test_a_frame_of_answers_that_is_cut_or_has_another_number_of_them_is_refused(
    answers: list[MessageAnswer], cut: int
) -> None:
    frame = encode_answers(answers)
    for damaged, count in ((frame[:-cut], len(answers)), (frame, len(answers) - 1), (frame, len(answers) + 1)):
        with pytest.raises(DecodeError):
            decode_answers(damaged, count=count, max_body=50)


@given(st.binary(max_size=80))
def test_arbitrary_bytes_are_a_frame_or_a_decode_error(data: bytes) -> None:
    with contextlib.suppress(DecodeError):
        assert encode_requests(decode_requests(data, max_messages=3, max_message=20)) == data
    with contextlib.suppress(DecodeError):
        assert encode_answers(decode_answers(data, count=2, max_body=20)) == data


def test_bounds_hold_before_anything_is_taken() -> None:
    frame = encode_requests([b"a", b"bb"])
    assert decode_requests(frame, max_messages=2, max_message=2) == [b"a", b"bb"]
    for bounds in ({"max_messages": 1, "max_message": 2}, {"max_messages": 2, "max_message": 1}):
        with pytest.raises(DecodeError):
            decode_requests(frame, **bounds)
    with pytest.raises(DecodeError):
        decode_requests(b"", max_messages=1, max_message=1)
    for status in (199, 600, 65535):
        with pytest.raises(DecodeError):
            decode_answers(status.to_bytes(2, "big") + b"\x01" + bytes(8), count=1, max_body=9)
    with pytest.raises(DecodeError):
        decode_answers(encode_answers([MessageAnswer(200, OHTTP_RES, bytes(10))]), count=1, max_body=9)
