"""Answers about jobs, series and censuses."""

from __future__ import annotations

from typing import Any

from services.admin.core.documents import Document, PosixSeconds
from tacit.service.operator_documents import JobDocument


class JobList(Document):
    """Jobs of this service and of the collector."""

    jobs: list[JobDocument]
    next: str | None


class RoundDocument(Document):
    """A round of a series that the log has: its number from 0, and its recipe's hash."""

    index: int
    recipe: str


class SeriesDocument(Document):
    """A series of the log: what all rounds together claim, which rounds are ``published``, and its body."""

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
    """A census of which the log has all shares: its recipe, and how many reports it sums. ``index``: that of its last
    share; ``end``: of its interval, from which its age counts."""

    recipe: str
    name: str
    index: int
    report_count: int
    end: PosixSeconds


class CensusPage(Document):
    """Censuses in the order of the log."""

    censuses: list[CensusDocument]
    next: str | None
