"""Documents about jobs, series and censuses."""

from __future__ import annotations

from typing import Any

from services.admin.core.documents import Document, PosixSeconds
from tacit.service.operator_documents import JobDocument


class JobList(Document):
    """The jobs of this service and of the collector."""

    jobs: list[JobDocument]
    next: str | None


class RoundDocument(Document):
    """A round of a series in the log: its number from 0, and the hash of its recipe."""

    index: int
    recipe: str


class SeriesDocument(Document):
    """A series in the log. ``claim``: the privacy claim of all rounds together; ``published``: the rounds that are in
    the log; ``series``: the body."""

    hash: str
    name: str
    index: int
    rounds: int
    start: PosixSeconds
    end: PosixSeconds
    claim: dict[str, Any]
    published: list[RoundDocument]
    series: dict[str, Any]


class SeriesPage(Document):
    """Series in the order of the log."""

    series: list[SeriesDocument]
    next: str | None


class CensusDocument(Document):
    """A census whose shares are all in the log. ``report_count``: how many reports it sums; ``index``: the log index of
    its last share; ``end``: the end of its interval, from which its age counts."""

    recipe: str
    name: str
    index: int
    report_count: int
    end: PosixSeconds


class CensusPage(Document):
    """Censuses in the order of the log."""

    censuses: list[CensusDocument]
    next: str | None
