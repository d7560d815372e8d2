"""Work off the event loop, and in an order that tells nothing."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from typing import TypeVar
from urllib.parse import urljoin

from tacit.ports import Entropy

Item = TypeVar("Item")
Result = TypeVar("Result")

CHUNK = 32
"""Reports per hand-over to a thread: the loop gets its turn between two chunks."""


async def in_chunks(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """``function`` of every item, in order, computed in a worker thread."""
    results: list[Result] = []
    for start in range(0, len(items), CHUNK):
        chunk = items[start : start + CHUNK]
        results += await asyncio.to_thread(lambda part: [function(item) for item in part], chunk)
    return results


def shuffled(items: Sequence[Item], entropy: Entropy) -> list[Item]:
    """A uniformly random order: sorted by 16 random bytes each."""
    return [item for _, item in sorted(((entropy(16), item) for item in items), key=lambda pair: pair[0])]


def resource_id(kind: bytes, task_id: bytes, body: bytes, generation: int = 0) -> bytes:
    """The 16-byte id of the resource that a POST of ``body`` creates: the same body, the same resource."""
    digest = hashlib.sha256(b"tacit resource " + kind + b"\0" + task_id + generation.to_bytes(4, "big"))
    digest.update(hashlib.sha256(body).digest())
    return digest.digest()[:16]


def resource_url(collection: str, location: str) -> str:
    """The URL of a resource that was created under ``collection``, from its Location header; empty for a Location
    elsewhere, because our credentials go to no other place."""
    url = urljoin(collection, location)
    return url if url.startswith(collection + "/") else ""
