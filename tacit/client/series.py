"""The series and censuses in the log, as the organisation's service has verified them."""

from __future__ import annotations

from collections.abc import AsyncIterator

from tacit.client.caller import Caller, part
from tacit.client.documents import Census, LoggedSeries, read
from tacit.client.pages import items

ROOT = "/v1/series"


class AsyncSeries:
    """Series: recipes that are asked in rounds and charged together."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def all(self) -> AsyncIterator[LoggedSeries]:
        """Series in the order of the log, fetched page by page."""
        return items(self._caller, ROOT, "series", LoggedSeries)

    async def get(self, series: LoggedSeries | str) -> LoggedSeries:
        """The present state of a series, given as such or by hash. ``recipes.results`` has its rounds' results."""
        wanted = series.hash if isinstance(series, LoggedSeries) else series
        return read(LoggedSeries, await self._caller.get(f"{ROOT}/{part(wanted)}"))

    def censuses(self) -> AsyncIterator[Census]:
        """Censuses whose shares are all in the log, in the order of the log, fetched page by page."""
        return items(self._caller, "/v1/censuses", "censuses", Census)
