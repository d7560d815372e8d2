"""Models of JSON documents that the code reads without a model of its own; they are used for the schemas."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tacit.methods.result import MOST_ITEM_BYTES, MOST_ITEMS
from tacit.service.http.token_files import MOST_TOKENS
from tacit.tlog.fields import Blob, Hash, Key32

Token = Annotated[str, Field(pattern="^[!-~]+$")]
"""A bearer token as JSON text."""


class Strict(BaseModel):
    """Base of the documents that may hold no unknown members."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid", strict=True)


class Open(BaseModel):
    """Base of the documents that may hold additional members, which a reader ignores."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="allow", strict=True)


class ChallengeBody(Open):
    """The attester's answer to POST /v1/challenge: 32 bytes that can be used once."""

    challenge: Hash


class PeerFile(Strict):
    """The secrets that only leader and helper have (mode 0600): the name of the seed as opt-ins state it, the seed of
    the verify keys, and the leader's bearer token at the helper, or a list of tokens while it is being replaced."""

    seed_id: str = Field(min_length=1)
    verify_key_seed: Key32
    credentials: Token | Annotated[list[Token], Field(min_length=1, max_length=MOST_TOKENS)]


class HpkeKeyFile(Strict):
    """An HPKE configuration with its private key (mode 0600)."""

    config: Blob
    private_key: Key32


class Problem(Open):
    """Problem document (RFC 9457). ``taskid`` is there if the URL held a well-formed task id; ``error_id`` for internal
    errors: the server's log has the details under it."""

    type: str
    title: str
    status: int = Field(ge=400, le=599)
    detail: str | None = None
    taskid: Hash | None = None
    error_id: str | None = None


class Bucket(Open):
    """One entry of a result: its label, the randomised count as it was summed, estimate and standard error. ``share``:
    share of the devices that answered, with its standard error (histograms and counts); ``population_low`` and
    ``population_high``: 95 % interval for all devices that were asked, if their number is known."""

    label: str
    count: int
    estimate: float
    stderr: float
    share: float | None = None
    share_stderr: float | None = None
    population_low: float | None = None
    population_high: float | None = None


class RankedItem(Open):
    """An answer that was found, with its estimate and standard error."""

    item: str = Field(min_length=1, max_length=MOST_ITEM_BYTES)
    """At most 256 bytes of UTF-8, of any characters."""
    estimate: float
    stderr: float = Field(ge=0)


class RankedRest(Strict):
    """With ``probability``, the true number of every answer that is not listed is less than ``below``."""

    below: float = Field(gt=0)
    probability: float = Field(gt=0, le=1)


class RankedThreshold(Strict):
    """The least estimate of a listed answer, and the largest probability that any answer which no device has is
    listed."""

    estimate: float
    false_positive_rate: float = Field(gt=0, le=1)


class RankedOutside(Strict):
    """How many devices have a text that the question's domain does not hold: an estimate with its standard error."""

    estimate: float
    stderr: float = Field(ge=0)


class RankedMember(Strict):
    """The answers that were found among more than can be listed, in falling order of their estimates. ``outside`` is
    absent where texts outside the domain are not counted."""

    items: list[RankedItem] = Field(max_length=MOST_ITEMS)
    rest: RankedRest
    threshold: RankedThreshold
    outside: RankedOutside | None = None


class AskedDevices(Strict):
    """Bounds on the number of devices that were asked, and who states them."""

    least: int = Field(ge=1)
    most: int = Field(ge=1)
    by: Literal["recipe", "analyst"]


class AnsweredDevices(Strict):
    """How many devices answered: an estimate with its standard error."""

    estimate: float
    stderr: float


class ExpectedContributions(Strict):
    """The ``contributions`` that all asked devices are expected to make, and the counted ones as a ``share`` of them,
    if that depends on no answer. With probability ``false_alarm`` the count is outside ``low`` to ``high`` by
    chance."""

    contributions: float | None = None
    share: float | None = None
    low: int
    high: int
    false_alarm: float


class ResponseMember(Strict):
    """Which devices a result is about. ``verdict``: whether the counted contributions are as expected of a full
    response; ``unknown`` if nothing says how many devices were asked."""

    estimates_are_of: Literal["devices that answered"]
    counted: int = Field(ge=1)
    answered: AnsweredDevices | None = None
    asked: AskedDevices | None = None
    expected: ExpectedContributions | None = None
    verdict: Literal["expected", "fewer", "more", "unknown"]


class Span(Strict):
    """Start in POSIX seconds, and duration in seconds."""

    start: int
    duration: int


class ResultDocument(Open):
    """A released batch as the collector publishes it and ``GET /v1/results/<hash>`` serves it, with either
    ``buckets`` (an entry for each label of the question) or ``ranked``. ``estimate`` and ``stderr`` are totals over
    the devices that answered, or their mean; ``response`` describes these devices; ``warnings``: what a reader must
    know before using the numbers, one sentence each (both absent in results of older releases); ``privacy`` is the
    recipe's claim."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["buckets"]}, {"required": ["ranked"]}]})

    recipe_hash: Hash
    name: str
    question: str
    statistic: str
    batch: int = Field(ge=0)
    batch_id: str
    report_count: int = Field(ge=1)
    interval: Span
    released_at: int
    buckets: list[Bucket] | None = None
    ranked: RankedMember | None = None
    response: ResponseMember | None = None
    warnings: list[str] = []
    sampling: dict[str, Any]
    missing: dict[str, Any]
    privacy: dict[str, Any]
