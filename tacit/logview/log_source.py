"""What is fetched from a log, wherever it is, and the proof of consistency that a reader computes from its hashes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import lru_cache

from tacit.errors import DecodeError
from tacit.ports import Transport, TransportError
from tacit.retry_after import make_unanswered
from tacit.tlog.hashes import Hashes, block_of

PROOFS_KEPT = 8

Get = Callable[[str], Awaitable[bytes | None]]
"""Fetches the content of a path of the log, at most a page; None where the log has none (404). Raises
``TransportError``."""


def log_at(transport: Transport, url: str) -> Get:
    """A ``Get`` that asks the log at ``url`` itself: None for status 404, ``TransportError`` for any other but 200."""

    async def get(path: str) -> bytes | None:
        answer = await transport.request("GET", f"{url}{path}")
        if answer.status == 404:
            return None
        if answer.status != 200:
            raise make_unanswered(f"the log answered with status {answer.status}", answer.headers)
        return answer.body

    return get


async def consistency(get: Get, known: int, size: int) -> tuple[bytes, ...]:
    """The proof that the log's tree of ``size`` extends the one of ``known`` entries, computed from the log's hashes.
    Raises ``TransportError`` where the log does not deliver them, and ``DecodeError``."""
    if not 0 < known < size:
        return ()
    content = await get(f"/v1/hashes/{size}/{block_of(known, size)}")
    if content is None:
        raise TransportError("the log has no hashes of its tree")
    return _proof_in(content, known, size)


@lru_cache(maxsize=PROOFS_KEPT)
def _proof_in(content: bytes, known: int, size: int) -> tuple[bytes, ...]:
    """The proof that these hashes give; cached for readers in one process that stopped at the same tree. It proves
    nothing until it is verified."""
    hashes = Hashes.decode(content)
    if hashes.size != size:
        raise DecodeError("hashes: they belong to another tree")
    return hashes.prove(known)
