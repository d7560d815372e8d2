"""Several messages in one HTTP exchange: encapsulated ones between a relay and its own gateway, and uploads between a
gateway and a leader that knows it.

Neither is part of a standard, hence media types of our own; whoever sends frames does so only where its configuration
says so. A frame of requests is a sequence of messages, each behind its length; a frame of answers has one answer per
message, in the same order, each with the status, media type and Retry-After that it would have had alone::

    requests = { u32 length, message } ...
    answers  = { u16 status, u8 kind, u32 retry_after, u32 length, body } ...

``kind`` is 0 for an answer without a body, 1 for OHTTP_RES, 2 for PROBLEM_JSON, 3 for a DAP UploadErrors. The message
of an upload is its task id (32 bytes) and the body that the upload would have alone.

Nothing here opens a message: the relay uses this module.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from tacit.codec import Reader
from tacit.errors import DecodeError
from tacit.media_types import OHTTP_RES, PROBLEM_JSON, dap

_ANSWER = struct.Struct(">HBII")
REQUEST_OVERHEAD = 4
ANSWER_OVERHEAD = _ANSWER.size

MOST_UPLOADS, MOST_UPLOAD_BYTES = 256, 2 << 20
"""Most uploads in a frame, and most bytes of it."""
TASK_ID_BYTES = 32

_KINDS = {0: "", 1: OHTTP_RES, 2: PROBLEM_JSON, 3: dap("upload-errors")}
_NUMBERS = {media_type: number for number, media_type in _KINDS.items()}
_MAX_RETRY_AFTER = 999_999
_REQUESTS = "frame of requests"


@dataclass(slots=True)
class MessageAnswer:
    """The answer to one message; ``content_type`` is empty where it has no body, ``retry_after`` is in seconds.

    Made twice per message, so not frozen, which would cost four times as much; treat it as immutable.
    """

    status: int
    content_type: str
    body: bytes = field(repr=False)
    retry_after: int | None = None


def encode_requests(messages: Sequence[bytes]) -> bytes:
    return b"".join(part for message in messages for part in (len(message).to_bytes(4, "big"), message))


def decode_requests(data: bytes, *, max_messages: int, max_message: int) -> list[bytes]:
    """Inverse of ``encode_requests``. Raises ``DecodeError`` for a frame that is empty, damaged or over the bounds."""
    reader = Reader(data, _REQUESTS)
    messages: list[bytes] = []
    while reader.remaining:
        if len(messages) == max_messages:
            raise DecodeError(f"a frame must have at most {max_messages} messages")
        messages.append(reader.opaque(4, maximum=max_message))
    if not messages:
        raise DecodeError("a frame must have at least one message")
    return messages


def decode_uploads(data: bytes) -> list[tuple[bytes, bytes]]:
    """Task id and body of each upload in a frame. Raises ``DecodeError`` for a frame that is empty, damaged or over the
    bounds."""
    messages = decode_requests(data, max_messages=MOST_UPLOADS, max_message=MOST_UPLOAD_BYTES)
    if any(len(message) < TASK_ID_BYTES for message in messages):
        raise DecodeError("an upload in a frame must name its task")
    return [(message[:TASK_ID_BYTES], message[TASK_ID_BYTES:]) for message in messages]


def encode_answers(answers: Sequence[MessageAnswer]) -> bytes:
    parts: list[bytes] = []
    for answer in answers:
        number = _NUMBERS[answer.content_type]
        parts += (_ANSWER.pack(answer.status, number, answer.retry_after or 0, len(answer.body)), answer.body)
    return b"".join(parts)


def decode_answers(data: bytes, *, count: int, max_body: int) -> list[MessageAnswer]:
    """Inverse of ``encode_answers`` for ``count`` messages. Raises ``DecodeError``."""
    answers: list[MessageAnswer] = []
    at = 0
    for _ in range(count):
        body = at + ANSWER_OVERHEAD
        if body > len(data):
            raise DecodeError("frame of answers is truncated")
        status, kind, retry_after, size = _ANSWER.unpack_from(data, at)
        at = body + size
        if not 200 <= status <= 599 or kind not in _KINDS or retry_after > _MAX_RETRY_AFTER or size > max_body:
            raise DecodeError("a frame of answers holds an invalid answer")
        if size and not kind:
            raise DecodeError("an answer without a media type must be empty")
        if at > len(data):
            raise DecodeError("frame of answers is truncated")
        answers.append(MessageAnswer(status, _KINDS[kind], data[body:at], retry_after or None))
    if at != len(data):
        raise DecodeError(f"frame of answers has {len(data) - at} trailing bytes")
    return answers
