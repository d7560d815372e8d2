"""What a service reports to its own operator, as the models of the answers and of the OpenAPI document."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Document(BaseModel):
    """Immutable; unknown members are refused."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")


class NumberDocument(Document):
    """A number of the metrics as they show it. ``rule``: exact; or coarse or level, which change in steps of ``step``
    and show one event with probability 1/``step``."""

    name: str
    labels: dict[str, str]
    value: float
    rule: str


class StatusDocument(Document):
    """The state of the service. ``trouble``: what keeps it from working; ``step``: the step in which inexact numbers
    change."""

    service: str
    version: str
    at: int
    ready: bool
    trouble: list[str]
    step: int
    numbers: list[NumberDocument]


class JobDocument(Document):
    """A job. ``stuck`` is null where an answer would reveal something about single devices: see the numbers beside
    it."""

    id: str
    kind: str
    about: str
    state: str
    stuck: bool | None
    detail: str
    next_attempt: int | None


class JobPage(Document):
    """Jobs, and the ``numbers`` of those that devices cause, by state."""

    jobs: list[JobDocument]
    numbers: list[NumberDocument]
    next: str | None


class CauseDocument(Document):
    """Why something was refused, and how often since the start of the process."""

    cause: str
    count: float
    rule: str


class RequestsDocument(Document):
    """Requests to one route that were refused (4xx) or failed (5xx)."""

    route: str
    status: str
    count: float


class RejectionsDocument(Document):
    """What was refused, by cause. Counts are those of the metrics: multiples of ``step``, right on average; one event
    adds ``step`` with probability 1/``step``."""

    step: int
    causes: list[CauseDocument]
    requests: list[RequestsDocument]


class EpochDocument(Document):
    """Token signatures of one epoch."""

    epoch: str
    tokens: float


class IssuanceDocument(Document):
    """Token signatures of the open epochs, by this process since its start, in steps of ``step``."""

    step: int
    epochs: list[EpochDocument]


class HeldKeyDocument(Document):
    """A key, by its public name. ``ends`` is null where it lasts until it is replaced."""

    use: str
    name: str
    ends: int | None


class CertificateDocument(Document):
    """The certificate that is shown to callers (listen), or to the services that this service calls (client)."""

    use: str
    ends: int


class HeldKeysDocument(Document):
    """Every key and certificate of the service; no secrets."""

    at: int
    keys: list[HeldKeyDocument]
    certificates: list[CertificateDocument]


class RetriedDocument(Document):
    """The answer to a retry: which job is tried again."""

    id: str = Field(description="The job's id.")
