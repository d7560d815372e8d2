"""The collector's releases that have been read so far: a short record of each release, and the newest documents.

A release never changes and none is withdrawn, so each is read once; a reading asks the collector only for the last
known release and those after it. If the last known one has changed, the collector's database was set back, and all are
read again. Up to ``MOST_BYTES`` of documents are kept; the others are fetched again when they are shown.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from services.admin.base.problems import Problem, away, refuse
from services.admin.questions.log import blaming
from tacit.errors import Abort
from tacit.methods.result import rows
from tacit.operations.calls import call
from tacit.operations.results import CollectorAccess
from tacit.ports import Transport

MOST_BYTES: Final = 16 << 20
"""How many bytes of documents (as JSON) are kept; the one that was shown longest ago is dropped first."""
PAGE: Final = 200
"""The most releases in one exchange."""


@dataclass(frozen=True, slots=True)
class Release:
    """A release. ``place``: its number, from 1; ``start``: the beginning of its interval, in POSIX seconds like
    ``released_at``; ``answers``: a digest of its labels (the same for all
    ranked ones, whose labels differ from release to release), None if it has none; ``digest``: of its document."""

    place: int
    recipe: str
    name: str
    released_at: float
    start: int
    report_count: int
    answers: bytes | None
    digest: bytes


class Releases:
    """Reads and keeps the releases of the collector ``at``."""

    def __init__(self, transport: Transport, at: CollectorAccess) -> None:
        self._transport = transport
        self._at = at
        self._reading = asyncio.Lock()
        self._listed: list[Release] = []
        self._of: dict[str, list[Release]] = {}
        self._documents: OrderedDict[int, bytes] = OrderedDict()
        self._bytes = 0

    async def listed(self, recipe_hash: str | None = None) -> Sequence[Release]:
        """Every release as of now, or those of one recipe, in order. Raises ``Abort``."""
        async with self._reading:
            cursor: int | None = max(0, len(self._listed) - 1)
            while cursor is not None:
                releases, more = await self._page(cursor, PAGE)
                try:
                    cursor = self._next(cursor, releases, more=more)
                except (AttributeError, KeyError, TypeError, ValueError) as error:
                    self._forget()
                    raise _unreadable() from error
            return tuple(self._listed if recipe_hash is None else self._of.get(recipe_hash, ()))

    async def documents(self, wanted: Sequence[Release]) -> list[dict[str, Any]]:
        """The result documents of these releases, in their order. Raises ``Abort``."""
        found = {one.place: text for one in wanted if (text := self._kept_release(one)) is not None}
        missing = sorted((one for one in wanted if one.place not in found), key=lambda one: one.place)
        while missing:
            first = missing[0].place
            run = sum(1 for at, one in enumerate(missing[:PAGE]) if one.place == first + at)
            texts = [_text(one) for one in (await self._page(first - 1, run))[0]]
            if not texts or any(_digest(text) != one.digest for one, text in zip(missing, texts, strict=False)):
                raise away("collector", "what it released is being read again")
            for one, text in zip(missing, texts, strict=False):
                found[one.place] = text
                self._keep(one, text)
            missing = missing[len(texts) :]
        return [json.loads(found[one.place]) for one in wanted]

    def _next(self, cursor: int, found: Sequence[Any], *, more: bool) -> int | None:
        """Add the releases ``found`` after the first ``cursor`` ones. Returns where the next page begins, or None if
        there are no ``more``. Raises ``ValueError`` if the pages would never end."""
        if cursor < len(self._listed):
            if not found or _digest(_text(found[0])) != self._listed[cursor].digest:
                self._forget()
                return 0
            found = found[1:]
        for one in found:
            self._add(one)
        if more and len(self._listed) <= cursor:
            raise ValueError("a page without releases says that more follow")
        return len(self._listed) if more else None

    def _add(self, document: Mapping[str, Any]) -> None:
        text = _text(document)
        labels = ["ranked"] if "ranked" in document else [row["label"] for row in rows(document)]
        release = Release(
            len(self._listed) + 1,
            document["recipe_hash"],
            document["name"],
            document["released_at"],
            document.get("interval", {}).get("start", 0),
            int(document["report_count"]),
            _digest(json.dumps(labels).encode()) if labels else None,
            _digest(text),
        )
        self._listed.append(release)
        self._of.setdefault(release.recipe, []).append(release)
        self._keep(release, text)

    def _keep(self, release: Release, text: bytes) -> None:
        self._bytes += len(text) - len(self._documents.pop(release.place, b""))
        self._documents[release.place] = text
        while self._bytes > MOST_BYTES and len(self._documents) > 1:
            self._bytes -= len(self._documents.popitem(last=False)[1])

    def _forget(self) -> None:
        self._listed, self._of, self._bytes = [], {}, 0
        self._documents.clear()

    def _kept_release(self, release: Release) -> bytes | None:
        text = self._documents.get(release.place)
        if text is None or _digest(text) != release.digest:
            return None
        self._documents.move_to_end(release.place)
        return text

    async def _page(self, cursor: int, limit: int) -> tuple[list[Any], bool]:
        """The documents after the first ``cursor`` ones, and whether more follow. Raises ``Abort``."""
        url = f"{self._at.url}/v1/results?cursor={cursor}&limit={limit}"
        async with blaming("collector"):
            page = await call(self._transport, "GET", url, bearer=self._at.bearer)
        if not isinstance(page, dict) or not isinstance(page.get("results"), list):
            raise _unreadable()
        return page["results"], page.get("next") is not None


def _unreadable() -> Abort:
    return refuse(Problem.PEER_ANSWER, "what the collector released cannot be read")


def _text(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()[:16]
