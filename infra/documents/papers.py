"""Forms of JSON documents that the code reads without a model of its own, for their schemas."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from tacit.tlog.leaves import Blob, Hash, Key32


class Strict(BaseModel):
    """Base of the documents whose members are all known."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Open(BaseModel):
    """Base of the documents that may hold further members, which a reader passes over."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)


class ChallengeBody(Open):
    """The attester's answer to POST /v1/challenge: 32 bytes that are good once."""

    challenge: Hash


class PeerFile(Strict):
    """What leader and helper share and nobody else has (mode 0600): the name of the seed as opt-ins state it, the seed
    of the verify keys, and the leader's bearer token at the helper."""

    seed_id: str = Field(min_length=1)
    verify_key_seed: Key32
    credentials: str = Field(min_length=1)


class HpkeKeyFile(Strict):
    """An HPKE configuration with its private key (mode 0600)."""

    config: Blob
    private_key: Key32


class Problem(Open):
    """Problem document (RFC 9457). ``taskid`` where the URL held a well-formed task id; ``error_id`` with our own
    faults: the server's log has the details under it."""

    type: str
    title: str
    status: int = Field(ge=400, le=599)
    detail: str | None = None
    taskid: Hash | None = None
    error_id: str | None = None


class Bucket(Open):
    """One entry of a result: its label, the randomised count as it was summed, estimate and standard error."""

    label: str
    count: int
    estimate: float
    stderr: float


class Span(Strict):
    """POSIX second and seconds."""

    start: int
    duration: int


class ResultDocument(Open):
    """A released batch as the collector publishes it and ``GET /v1/results/<hash>`` serves it. ``estimate`` and
    ``stderr`` are totals of the whole population, or its mean; ``privacy`` is the recipe's claim."""

    recipe_hash: Hash
    name: str
    question: str
    statistic: str
    batch: int = Field(ge=0)
    batch_id: str
    report_count: int = Field(ge=1)
    interval: Span
    released_at: int
    buckets: list[Bucket]
    sampling: dict[str, Any]
    missing: dict[str, Any]
    privacy: dict[str, Any]
