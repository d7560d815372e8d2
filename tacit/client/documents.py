"""The answers of the admin API as immutable documents, with the members of the service's own models
(``tacit.service.documents.admin`` and its neighbours). Members that this version does not know are kept.

Times are POSIX seconds. ``document()`` returns the JSON of a document.
"""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tacit.errors import DecodeError
from tacit.service.documents import admin as served
from tacit.service.documents import admin_log as in_log
from tacit.service.documents import admin_people as of_people
from tacit.service.documents.operator import JobDocument
from tacit.validation_words import reason_of


class Answer(BaseModel):
    """An answer, or part of one. It comes last among the bases of a class, so that further members are kept."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="allow")

    def document(self) -> dict[str, Any]:
        """The document as a JSON object, with the API's member names."""
        return self.model_dump(mode="json", by_alias=True)


class Question(served.QuestionDocument, Answer):
    """A question. ``state``: draft, submitted, approved, published, ended or missed; ``etag`` identifies the revision
    that was read."""

    etag: str = Field(default="", exclude=True)


class Check(served.CheckDocument, Answer):
    """The verdict of every rule on the recipe that a question would become now. ``refusals``: ``{"rule", "detail"}`` of
    each rule that refuses."""

    refusals: tuple[dict[str, Any], ...]  # type: ignore[assignment]


class Design(served.DesignDocument, Answer):
    """Ways to ask a question, the most accurate one first. ``refusals``: ``{"rule", "detail"}`` of each rule that
    refuses all of them."""

    refusals: tuple[dict[str, Any], ...]  # type: ignore[assignment]


class Person(of_people.PersonDocument, Answer):
    """A person. ``role``: viewer, analyst, approver or administrator, or one that this version does not know;
    ``has_identity`` is false where an older service does not tell it."""

    role: str  # type: ignore[assignment]
    has_identity: bool = False


class Key(of_people.KeyDocument, Answer):
    """A person's key without its text. ``expires``: None for never."""


class NewKey(of_people.NewKey, Key):
    """A new key. ``key``: its text, which is shown only once and is not in the repr; None if the person made the
    key."""


class Invitation(of_people.InvitationDocument, Answer):
    """An invitation with which a person binds an account of the sign-in provider or registers a passkey, once."""


class Change(of_people.ChangeDocument, Answer):
    """A change of an approver or administrator. ``kind``, ``state`` and ``role`` may be ones that this version does not
    know. ``invitation``: the text of an invitation that was asked for just now; it is not in the repr."""

    kind: str  # type: ignore[assignment]
    state: str  # type: ignore[assignment]
    role: str  # type: ignore[assignment]
    invitation: str | None = Field(default=None, repr=False)


class ConsentRule(of_people.RuleDocument, Answer):
    """How many administrators a change of an approver or administrator needs, and when it counts."""


class Changes(of_people.ChangeList, Answer):
    """The consent rule, and the changes that wait or do not count yet."""

    rule: ConsentRule
    changes: tuple[Change, ...]


class Session(of_people.SessionDocument, Answer):
    """The person who is signed in, and their permissions."""

    person: Person


class Act(of_people.ActDocument, Answer):
    """A row of the audit log. ``previous`` and ``hash``: 32 bytes in base64url."""


class AuditChain(Answer):
    """The result of checking the audit log. ``newest``: the hash of its last row (base64url), to be noted elsewhere;
    ``broken``: the number of the first row that does not match the rows before it, or None; ``holds``: whether the log
    still has the noted hash, None if none was given."""

    rows: int
    newest: str
    broken: int | None = None
    holds: bool | None = None

    @property
    def whole(self) -> bool:
        """Whether every row matches those before it, and the noted hash is still there."""
        return self.broken is None and self.holds is not False


class RecipeSummary(served.RecipeSummary, Answer):
    """A recipe in the log. ``state``: pending, active or over."""


class LoggedRecipe(served.RecipeDocument, Answer):
    """A recipe with its body. ``filled``: its yield against B (``contributions``, ``min_batch_size``, ``reached``,
    ``exact``), None while the collector tells none."""

    filled: dict[str, Any] | None = Field(default=None, alias="yield")  # type: ignore[assignment]


class Collection(served.CollectionDocument, Answer):
    """The collection of a batch. ``rule`` and ``detail``: why its last attempt failed, if it did."""

    rule: str = ""
    detail: str = ""


class Job(JobDocument, Answer):
    """Unfinished or continuing work of ``kind``. ``about``: what it is about (for a collection, its recipe's hash);
    ``stuck``: whether the last attempt failed or was refused, for the reason in ``detail``."""


class Fleet(Answer):
    """Counts of a staging deployment's devices. ``devices``: how many exist and work, at the time ``at``; ``report``: a
    comparison of the answers that they journalled with those that were released, None until ``tacit staging report``
    was run; ``troubles``: one message for each part that cannot be read."""

    devices: dict[str, Any] | None
    report: dict[str, Any] | None
    troubles: tuple[str, ...] = ()


class SeriesRound(served.RoundDocument, Answer):
    """A round of a series in the log: its number from 0, and its recipe's hash."""


class LoggedSeries(served.SeriesDocument, Answer):
    """A series in the log, with at most ``rounds`` rounds from ``start`` until ``end``."""

    published: tuple[SeriesRound, ...]


class Forecast(served.ForecastDocument, Answer):
    """A plan, and what its training run would cost, as ``tacit learn plan --json`` tells it."""


class RunRound(served.RunRoundDocument, Answer):
    """A round of a training run. ``contributions``: None without a release."""


class Run(served.RunDocument, Answer):
    """A training run, as ``tacit learn show --json`` tells it."""

    rounds: tuple[RunRound, ...]


class Census(served.CensusDocument, Answer):
    """A census whose shares are all in the log: its recipe's hash, and how many reports it sums."""


class Checkpoint(in_log.LogDocument, Answer):
    """The log's newest checkpoint (a signed note), verified together with every entry that it covers."""


class Entry(in_log.EntryDocument, Answer):
    """The summary of one entry of the log, with its size in bytes."""


class Proof(in_log.ProofDocument, Answer):
    """The proof that an entry is in the tree of ``size`` entries with ``root``."""


class Ledger(in_log.LedgerDocument, Answer):
    """Every account as of ``at``: what is spent and left (decimal text), and which recipes spent it."""


class AnalystKey(in_log.AnalystKeyDocument, Answer):
    """The key that signs recipes of ``model``, and whether the service holds it."""


class KeySet(in_log.KeySetDocument, Answer):
    """A key set of a gateway or issuer in the log. ``state``: next, current or over."""


class Certificate(in_log.CertificateDocument, Answer):
    """One of the service's own certificates. ``end``: None if the file cannot be read."""


class Keys(in_log.KeysDocument, Answer):
    """The keys that the organisation's questions depend on, and when they end, as of ``at``."""

    analyst: tuple[AnalystKey, ...]
    gateway: tuple[KeySet, ...]
    issuer: tuple[KeySet, ...]
    certificates: tuple[Certificate, ...]


D = TypeVar("D", bound=Answer)


def read(kind: type[D], document: Any, **members: Any) -> D:
    """Read ``document`` as a ``kind``, with further ``members``. Raises ``DecodeError``, which quotes no value."""
    if not isinstance(document, dict):
        raise DecodeError("the answer is not a JSON object")
    try:
        return kind.model_validate({**document, **members})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise DecodeError(f"the answer is not a valid {kind.__name__}: {place}: {reason_of(first)}") from None
