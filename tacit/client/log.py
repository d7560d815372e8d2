"""The log as the organisation's service has verified it: entries, series and censuses, and the accounts charged."""

from __future__ import annotations

from collections.abc import AsyncIterator

from tacit.client.caller import Caller, part
from tacit.client.documents import Census, Checkpoint, Entry, Keys, Ledger, LoggedSeries, Proof, Question, read
from tacit.client.pages import items
from tacit.codec import unb64url
from tacit.errors import CryptoError
from tacit.tlog.merkle import verify_inclusion

SERIES = "/v1/series"


class AsyncLog:
    """The log's checkpoint, entries and proofs, and the accounts and keys."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def checkpoint(self) -> Checkpoint:
        """The newest checkpoint that the service has verified."""
        return read(Checkpoint, await self._caller.get("/v1/log"))

    def entries(self) -> AsyncIterator[Entry]:
        """The summary of every entry, from the first one on, page by page."""
        return items(self._caller, "/v1/log/entries", "entries", Entry)

    async def proof(self, index: int) -> Proof:
        """The proof that the entry at ``index`` is in the tree of the newest checkpoint, verified by this client.
        Raises ``CryptoError`` if it does not lead to the root."""
        found = read(Proof, await self._caller.get(f"/v1/log/entries/{index}/proof"))
        path = [unb64url(one) for one in found.path]
        verify_inclusion(unb64url(found.leaf_hash), found.index, found.size, path, unb64url(found.root))
        if found.index != index:
            raise CryptoError("the proof is for another entry")
        return found

    async def ledger(self) -> Ledger:
        """What every account has spent and has left."""
        return read(Ledger, await self._caller.get("/v1/ledger"))

    async def keys(self) -> Keys:
        """The keys that the organisation's questions depend on, and when they end."""
        return read(Keys, await self._caller.get("/v1/keys"))


class AsyncSeries:
    """Series: recipes that are asked in rounds and charged together."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def all(self) -> AsyncIterator[LoggedSeries]:
        """Series in the order of the log, fetched page by page."""
        return items(self._caller, SERIES, "series", LoggedSeries)

    async def get(self, series: LoggedSeries | str) -> LoggedSeries:
        """The present state of a series, given as such or by hash. ``recipes.results`` has its rounds' results."""
        wanted = series.hash if isinstance(series, LoggedSeries) else series
        return read(LoggedSeries, await self._caller.get(f"{SERIES}/{part(wanted)}"))

    async def draft_next(self, series: LoggedSeries | str) -> Question:
        """Draft the next round of a search for frequent texts, which then needs an approval as every draft
        (``questions.submit``). Raises ``ConflictError`` if there is none now, or somebody has drafted it before."""
        wanted = series.hash if isinstance(series, LoggedSeries) else series
        answer = await self._caller.send("POST", f"{SERIES}/{part(wanted)}/rounds", {})
        return read(Question, answer.document, etag=answer.etag)

    async def end(self, series: LoggedSeries | str) -> LoggedSeries:
        """End a series in the log, for good: no further round is asked, and the slots and room that it has not
        used are free. Ending it again changes nothing. Raises ``InvalidError`` for a series of another analyst."""
        wanted = series.hash if isinstance(series, LoggedSeries) else series
        return read(LoggedSeries, (await self._caller.send("POST", f"{SERIES}/{part(wanted)}/end", {})).document)

    def censuses(self) -> AsyncIterator[Census]:
        """Censuses whose shares are all in the log, in the order of the log, fetched page by page."""
        return items(self._caller, "/v1/censuses", "censuses", Census)
