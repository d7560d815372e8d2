"""Several encapsulated messages in one HTTP exchange between a relay and its own gateway.

Not part of RFC 9458, hence media types of our own; a relay uses it only where its configuration says so. A frame of
requests is a sequence of messages, each behind its length; a frame of answers has one answer per message, in the
same order, each with the status, media type and Retry-After that it would have had alone::

    requests = { u32 length, message } ...
    answers  = { u16 status, u8 kind, u32 retry_after, u32 length, body } ...      kind 1: OHTTP_RES, 2: PROBLEM_JSON

Nothing here opens a message: the relay uses this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tacit.codec import Reader
from tacit.errors import DecodeError
from tacit.media_types import OHTTP_RES, PROBLEM_JSON

REQUEST_OVERHEAD = 4
ANSWER_OVERHEAD = 11

_KINDS = {1: OHTTP_RES, 2: PROBLEM_JSON}
_NUMBERS = {media_type: number for number, media_type in _KINDS.items()}
_MAX_RETRY_AFTER = 999_999
_REQUESTS = "frame of requests"
_ANSWERS = "frame of answers"


@dataclass(frozen=True, slots=True)
class Answer:
    """What one message is answered: an ``OHTTP_RES`` or a ``PROBLEM_JSON``; ``retry_after`` is in seconds."""

    status: int
    content_type: str
    body: bytes = field(repr=False)
    retry_after: int | None = None


def encode_requests(messages: Sequence[bytes]) -> bytes:
    """Bytes of a frame of requests."""
    return b"".join(part for message in messages for part in (len(message).to_bytes(4, "big"), message))


def decode_requests(data: bytes, *, max_messages: int, max_message: int) -> list[bytes]:
    """Inverse of ``encode_requests``. Raises ``DecodeError`` for a frame that is empty, damaged or over the bounds."""
    reader = Reader(data, _REQUESTS)
    messages: list[bytes] = []
    while reader.remaining:
        if len(messages) == max_messages:
            raise DecodeError(f"a frame has at most {max_messages} messages")
        messages.append(reader.opaque(4, maximum=max_message))
    if not messages:
        raise DecodeError("a frame has at least one message")
    return messages


def encode_answers(answers: Sequence[Answer]) -> bytes:
    """Bytes of a frame of answers."""
    parts: list[bytes] = []
    for answer in answers:
        head = answer.status << 8 | _NUMBERS[answer.content_type]
        parts.append(head.to_bytes(3, "big") + (answer.retry_after or 0).to_bytes(4, "big"))
        parts += (len(answer.body).to_bytes(4, "big"), answer.body)
    return b"".join(parts)


def decode_answers(data: bytes, *, count: int, max_body: int) -> list[Answer]:
    """Inverse of ``encode_answers`` for ``count`` messages. Raises ``DecodeError``."""
    reader = Reader(data, _ANSWERS)
    answers: list[Answer] = []
    for _ in range(count):
        status, kind, retry_after = reader.uint(2), reader.uint(1), reader.uint(4)
        body = reader.opaque(4, maximum=max_body)
        if not 200 <= status <= 599 or kind not in _KINDS or retry_after > _MAX_RETRY_AFTER:
            raise DecodeError("a frame of answers holds an answer that nobody gives")
        answers.append(Answer(status, _KINDS[kind], body, retry_after or None))
    reader.end()
    return answers
