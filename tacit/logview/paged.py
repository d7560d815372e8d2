"""Reading a log's live entries in pages (``tacit.tlog.pages``).

A reader takes the head, the hashes for its consistency proof, and the pages that it names, and gives them to its
``LogView``, which accepts or refuses them all together. Every reader of one tree makes the same requests.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence

from tacit.codec import b64url
from tacit.errors import DecodeError
from tacit.logview.log_source import Get, consistency
from tacit.logview.view import Bundle, LogState, LogView, VerifiedEntry
from tacit.ports import TransportError
from tacit.tlog.checkpoint import Checkpoint
from tacit.tlog.entries import BundleEntry
from tacit.tlog.hashes import block_of
from tacit.tlog.leaves import LeafKeys, SignedLeaf
from tacit.tlog.pages import Head, decode_page

ATTEMPTS = 4


class PagedReader:
    """Reads one log's answers for one ``LogView``; remembers which it accepted last, so as not to fetch them again."""

    def __init__(self, get: Get) -> None:
        self._get = get
        self._accepted: tuple[Checkpoint, tuple[bytes, ...], LogState] | None = None

    async def read(self, view: LogView, keys: LeafKeys, known: Sequence[SignedLeaf] = ()) -> list[VerifiedEntry] | None:
        """The live entries, verified by ``view`` (see ``LogView.accept``); None: they are the same as at the last
        reading.

        If the log grows while its pages are read, reading starts again from the head. Raises ``TransportError`` where
        that happens at every attempt or a piece is missing, ``DecodeError``, and the refusals of ``LogView``.
        """
        for _ in range(ATTEMPTS):
            content = await self._get("/v1/bundle")
            if content is None:
                raise TransportError("the log has no head")
            head = Head.decode(content)
            checkpoint = view.opened(head.checkpoint)
            if self._accepted == (checkpoint, head.pages, view.state):
                view.advance(head.checkpoint, ())
                return None
            proof = await self._consistency(view.state.size, checkpoint.size)
            entries = await self._entries(head)
            if entries is None:
                continue
            found = view.accept(Bundle(head.checkpoint, proof, tuple(entries)), keys, known)
            self._accepted = (checkpoint, head.pages, view.state)
            return found
        raise TransportError("the log changed each time while its pages were read")

    async def _consistency(self, known: int, size: int) -> tuple[bytes, ...]:
        """As ``consistency``; a reader that needs no proof, because it is new or knows this tree, still requests the
        hashes that everybody requests, so as not to reveal that."""
        if size and not 0 < known < size:
            await self._get(f"/v1/hashes/{size}/{block_of(size, size)}")
        return await consistency(self._get, known, size)

    async def _entries(self, head: Head) -> list[BundleEntry] | None:
        """The entries on all pages; None: the log no longer has one of the pages."""
        found: list[BundleEntry] = []
        for digest in head.pages:
            page = await self._get(f"/v1/bundle/{b64url(digest)}")
            if page is None:
                return None
            if hashlib.sha256(page).digest() != digest:
                raise DecodeError("page: it is not the one that was requested")
            found += decode_page(page)
        if any(later.index <= earlier.index for earlier, later in itertools.pairwise(found)):
            raise DecodeError("pages: entries are not in the order of the log")
        return found
