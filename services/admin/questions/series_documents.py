"""Documents about jobs, series and censuses."""

from __future__ import annotations

from tacit.service.documents.admin import CensusDocument, Document, SeriesDocument
from tacit.service.documents.operator import JobDocument


class JobList(Document):
    """The jobs of this service and of the collector."""

    jobs: list[JobDocument]
    next: str | None


class SeriesPage(Document):
    """Series in the order of the log."""

    series: list[SeriesDocument]
    next: str | None


class CensusPage(Document):
    """Censuses in the order of the log."""

    censuses: list[CensusDocument]
    next: str | None
