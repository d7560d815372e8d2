"""Answers of the admin API about questions, recipes, collections and series. The service makes them and its OpenAPI
document from these models, and the client reads them with the same models."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

PosixSeconds = Annotated[int, Field(ge=0, le=2**53 - 1, description="POSIX seconds.")]


class Document(BaseModel):
    """An immutable document; unknown members are refused."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")


class OpenDocument(BaseModel):
    """A document that another part of the system makes; it may have further members."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="allow")


class SeriesPlace(Document):
    """A round of a series: the hash of the series, and the number of the round, from 0."""

    series: str
    index: int


class QuestionDocument(Document):
    """A question. ``survey``: what is asked, as it was written; of the next round of a series, which nobody writes,
    ``name``, ``model``, ``text`` and ``metric``; of a training run these and ``epsilon``, and ``plan`` is its plan in
    full. ``round``: which round of which series it is, if it is one. ``hash``
    and ``recipe``: the recipe that is fixed for it, if there is one; the recipe waits for a signature while ``signed``
    is false. ``position``: its index in the log; ``over``: whether the recipe's interval has ended."""

    id: str
    state: str
    revision: int
    survey: dict[str, Any]
    authors: tuple[str, ...]
    approver: str | None
    created: PosixSeconds
    changed: PosixSeconds
    hash: str | None = None
    signed: bool = False
    position: int | None = None
    over: bool = False
    round: SeriesPlace | None = None
    recipe: dict[str, Any] | None = None
    plan: dict[str, Any] | None = None


class Refused(OpenDocument):
    """A rule that refuses the recipe. A further member ``needed`` holds the numbers that would pass, if there are
    any."""

    rule: str
    detail: str


class CheckDocument(OpenDocument):
    """The verdict of every rule on the recipe that the question would become now, and that recipe's privacy cost and
    accuracy; of a training run on its first round, with the members of a forecast."""

    hash: str
    stage: str
    accepted: bool
    rules: tuple[dict[str, Any], ...]
    refusals: tuple[Refused, ...]
    recipe: dict[str, Any]


class DesignDocument(Document):
    """Ways to ask, the most accurate one first, each in the form of ``tacit recipe design --json``, and the one that is
    proposed. If none is allowed, ``refusals`` says why."""

    proposal: dict[str, Any] | None
    refusals: tuple[Refused, ...]
    alternatives: tuple[dict[str, Any], ...]


class RecipeSummary(OpenDocument):
    """A recipe in the log. ``question``: its wording; ``question_id``: the question of this service that it came from,
    or null."""

    hash: str
    name: str
    index: int
    state: str
    question: str
    min_batch_size: int
    question_id: str | None


class YieldDocument(OpenDocument):
    """How many of the B contributions the batch has, and when it may be expected to reach B. Before the release the
    number is as coarse as the server tells this organisation; afterwards it is exact."""

    contributions: int
    min_batch_size: int
    exact: bool
    reached: bool


class RecipeDocument(RecipeSummary):
    """A recipe with its body, its opt-ins in the log and its yield, which is null while the collector tells none.
    ``rejections``: rejected reports by cause; null, because servers tell them only to their own operators."""

    recipe: dict[str, Any]
    opt_ins: dict[str, Any]
    filled: Annotated[YieldDocument | None, Field(alias="yield")]
    rejections: dict[str, int] | None = None


class CollectionDocument(OpenDocument):
    """A collection: its state, and the rule that refused it, if one did."""

    id: str
    recipe_hash: str
    batch: int
    state: str


class RoundDocument(Document):
    """A round of a series in the log: its number from 0, and the hash of its recipe."""

    index: int
    recipe: str


class SeriesDocument(Document):
    """A series in the log. ``claim``: the privacy claim of all rounds together; ``published``: the rounds that are in
    the log; ``series``: the body; ``ended``: the index of the leaf that has ended it."""

    hash: str
    name: str
    index: int
    rounds: int
    start: PosixSeconds
    end: PosixSeconds
    claim: dict[str, Any]
    published: tuple[RoundDocument, ...]
    series: dict[str, Any]
    ended: int | None = None


class ForecastDocument(Document):
    """A plan, and what its training run costs and how noisy it is, as ``tacit learn plan --json`` tells it."""

    plan: dict[str, Any]
    forecast: dict[str, Any]


class RunRoundDocument(Document):
    """A round of a training run. ``contributions``: how many took part, null without a release; ``loss`` and
    ``accuracy``: null, as no party has an example of a device."""

    round: int
    contributions: int | None
    loss: float | None
    accuracy: float | None
    recipe_hash: str
    log_index: int


class RunDocument(Document):
    """A training run, as ``tacit learn show --json`` tells it. ``epsilon``: the claim of all rounds by adversary;
    ``model``: the hash of the newest model, null where the run's plan is not here; ``seconds``: from the first round's
    beginning to the newest one's end."""

    series: dict[str, Any]
    devices: int
    rounds: tuple[RunRoundDocument, ...]
    accuracy: float | None
    central_accuracy: float | None
    private: bool
    epsilon: dict[str, str]
    delta: str
    clip: float | None
    model: str | None
    seconds: int


class CensusDocument(Document):
    """A census whose shares are all in the log. ``report_count``: how many reports it sums; ``index``: the log index of
    its last share; ``end``: the end of its interval, from which its age counts."""

    recipe: str
    name: str
    index: int
    report_count: int
    end: PosixSeconds
