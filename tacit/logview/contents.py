"""The contents of a log in memory, for readers that begin anew when they start."""

from __future__ import annotations

from tacit.logview.live import LiveLog
from tacit.logview.paged import Get, PagedReader
from tacit.logview.signers import LeafSigners
from tacit.logview.view import LogView
from tacit.recipe.policy import Policy
from tacit.tlog.checkpoint import LogPolicy


class RememberedLog:
    """A log's live entries in memory: a second reading must extend the first, and repeats nothing that it fetched."""

    def __init__(self, get: Get, required: LogPolicy, policy: Policy) -> None:
        """``get`` fetches from the log, which is under the pinned key and the cosignatures of ``required``; ``policy``
        pins the keys of issuers and gateways."""
        self._signers = LeafSigners(policy)
        self._view = LogView(required)
        self._pages = PagedReader(get)
        self._live = LiveLog()

    async def read(self) -> LiveLog:
        """The log as of now. Raises as ``PagedReader.read``."""
        entries = await self._pages.read(self._view, self._signers)
        if entries is not None:
            self._live = LiveLog.from_entries(entries)
        return self._live
