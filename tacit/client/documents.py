"""The answers of the admin API as immutable documents. Members that this version does not know are kept.

Times are POSIX seconds. ``document()`` returns the JSON of a document.
"""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tacit.errors import DecodeError


class Document(BaseModel):
    """An answer, or part of one."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="allow")

    def document(self) -> dict[str, Any]:
        """The document as a JSON object, with the API's member names."""
        return self.model_dump(mode="json", by_alias=True)


class Question(Document):
    """A question. ``state``: draft, submitted, approved, published, ended or missed. ``survey``: what is asked;
    ``authors`` and ``approver``: names. ``hash`` and ``recipe``: the recipe that is fixed for it, if there is one; the
    recipe waits for a signature while ``signed`` is false. ``position``: its index in the log. ``etag`` identifies this
    revision."""

    id: str
    state: str
    revision: int
    survey: dict[str, Any]
    authors: tuple[str, ...]
    approver: str | None = None
    created: int
    changed: int
    hash: str | None = None
    signed: bool = False
    position: int | None = None
    recipe: dict[str, Any] | None = None
    etag: str = Field(default="", exclude=True)


class Check(Document):
    """The verdict of every rule on the recipe that a question would become now. ``rules``: each rule with its numbers;
    ``refusals``: ``{"rule", "detail"}`` of each rule that refuses."""

    hash: str
    stage: str
    accepted: bool
    rules: tuple[dict[str, Any], ...]
    refusals: tuple[dict[str, Any], ...]
    recipe: dict[str, Any]


class Design(Document):
    """Ways to ask a question, the most accurate one first, each in the form of ``tacit recipe design --json``, and the
    one that is proposed. If none is allowed, ``refusals`` (``{"rule", "detail"}``) says why."""

    proposal: dict[str, Any] | None = None
    refusals: tuple[dict[str, Any], ...]
    alternatives: tuple[dict[str, Any], ...]


class Person(Document):
    """A person. ``role``: viewer, analyst, approver or administrator."""

    id: str
    name: str
    role: str
    disabled: bool
    has_password: bool
    has_identity: bool = False
    created: int
    counts_from: int | None = None
    """When approvals and consents begin to count; None: they always did."""


class Key(Document):
    """A person's key without its text. ``expires``: None for never."""

    id: str
    person: str
    label: str
    created: int
    expires: int | None = None


class NewKey(Key):
    """A new key. ``key``: its text, which is shown only once and is not in the repr; None if the person made the
    key."""

    key: str | None = Field(repr=False)


class Invitation(Document):
    """An invitation with which a person binds an account of the sign-in provider or registers a passkey, once.
    ``invitation``: its text, which is shown only once and is not in the repr; ``expires``: POSIX seconds."""

    person: str
    expires: int
    invitation: str = Field(repr=False)


class Change(Document):
    """A change of an approver or administrator. ``state``: waiting (for a second administrator's consent, until
    ``expires``) or done (the person's approvals and consents count from ``counts_from`` on). ``words``: what changes;
    ``asked_by`` and ``consented_by``: ids of people, or empty if nobody did. ``invitation``: the text of an invitation
    that was asked for just now, which becomes valid with the consent; it is not in the repr."""

    id: str
    kind: str
    state: str
    person: str
    name: str
    role: str
    words: str
    asked_by: str
    asked_by_name: str
    asked: int
    expires: int
    consented_by: str
    consented_by_name: str
    counts_from: int | None
    digest: str
    invitation: str | None = Field(default=None, repr=False)


class ConsentRule(Document):
    """How many administrators a change of an approver or administrator needs (``persons``), and after how many seconds
    it counts. ``until``: when a weaker configuration takes effect. ``administrators``: how many can ask and consent
    now."""

    persons: int
    approver_delay_seconds: int
    until: int | None
    administrators: int


class Changes(Document):
    """The consent rule, and the changes that wait or do not count yet."""

    rule: ConsentRule
    changes: tuple[Change, ...]


class Session(Document):
    """The person who is signed in, and their permissions."""

    person: Person
    permissions: tuple[str, ...]


class Act(Document):
    """A row of the audit log. ``who``: the person's name; ``person``: their id, which the hash covers; ``previous`` and
    ``hash``: 32 bytes in base64url."""

    number: int
    at: int
    who: str
    person: str
    what: str
    target: str
    source: str
    outcome: str
    detail: str
    previous: str
    hash: str


class AuditChain(Document):
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


class RecipeSummary(Document):
    """A recipe in the log. ``state``: pending, active or over; ``question``: its wording; ``question_id``: the question
    of this organisation that it came from, or None."""

    hash: str
    name: str
    index: int
    state: str
    question: str
    min_batch_size: int
    question_id: str | None = None


class LoggedRecipe(RecipeSummary):
    """A recipe with its body. ``filled``: its yield against B (``contributions``, ``min_batch_size``, ``reached``,
    ``exact``), None while the collector tells none; ``rejections``: rejected reports by cause, None if they are not
    known."""

    recipe: dict[str, Any]
    opt_ins: dict[str, Any]
    filled: dict[str, Any] | None = Field(default=None, alias="yield")
    rejections: dict[str, int] | None = None


class Collection(Document):
    """The collection of a batch. ``rule`` and ``detail``: why its last attempt failed, if it did."""

    id: str
    recipe_hash: str
    batch: int
    state: str
    rule: str = ""
    detail: str = ""


class Job(Document):
    """Unfinished or continuing work of ``kind``. ``about``: what it is about (for a collection, its recipe's hash);
    ``stuck``: whether the last attempt failed or was refused, for the reason in ``detail``; ``next_attempt``: POSIX
    seconds."""

    id: str
    kind: str
    about: str
    state: str
    stuck: bool | None = None
    detail: str = ""
    next_attempt: int | None = None


class Fleet(Document):
    """Counts of a staging deployment's devices. ``devices``: how many exist and work, at the time ``at``; ``report``: a
    comparison of the answers that they journalled with those that were released, None until ``tacit staging report``
    was run; ``troubles``: one message for each part that cannot be read."""

    devices: dict[str, Any] | None
    report: dict[str, Any] | None
    troubles: tuple[str, ...] = ()


class SeriesRound(Document):
    """A round of a series in the log: its number from 0, and its recipe's hash."""

    index: int
    recipe: str


class LoggedSeries(Document):
    """A series in the log, with at most ``rounds`` rounds from ``start`` until ``end``. ``claim``: the privacy claim of
    all rounds together; ``published``: the rounds that are in the log; ``series``: its body."""

    hash: str
    name: str
    index: int
    rounds: int
    start: int
    end: int
    claim: dict[str, Any]
    published: tuple[SeriesRound, ...]
    series: dict[str, Any]


class Census(Document):
    """A census: its recipe's hash, and how many reports it sums. ``index``: the log index of its last share; ``end``:
    the end of its interval, from which its age counts."""

    recipe: str
    name: str
    index: int
    report_count: int
    end: int


class Checkpoint(Document):
    """The log's newest checkpoint, verified together with every entry that it covers. ``root``: base64url;
    ``checkpoint``: the signed note."""

    origin: str
    size: int
    root: str
    checkpoint: str


class Entry(Document):
    """An entry of the log; ``size`` in bytes."""

    index: int
    type: str
    signer: str
    name: str | None = None
    size: int


class Proof(Document):
    """The proof that an entry is in the tree of ``size`` entries with ``root``. ``path``: the hashes from its leaf up,
    in base64url."""

    index: int
    size: int
    root: str
    leaf_hash: str
    path: tuple[str, ...]
    checkpoint: str


class Ledger(Document):
    """Every account as of ``at``: what is spent and left (decimal text), and which recipes spent it. ``burn_down``: the
    same day by day, with a forecast (and its bounds) of when the account is used up at the recent pace."""

    at: int
    accounts: tuple[dict[str, Any], ...]
    burn_down: tuple[dict[str, Any], ...]


class AnalystKey(Document):
    """The key that signs recipes of ``model`` (base64url). ``held``: whether the service holds it and signs."""

    model: str
    operator: str
    signing_key: str
    held: bool


class KeySet(Document):
    """A key set of ``owner`` in the log, with ``keys`` keys, used from ``start`` until ``end``. ``number``: its period
    or epoch; ``state``: next, current or over."""

    owner: str
    number: int
    keys: int
    start: int
    end: int
    state: str


class Certificate(Document):
    """One of the service's own certificates, by its ``use``. ``end``: None if the file cannot be read."""

    use: str
    end: int | None


class Keys(Document):
    """The keys that the organisation's questions depend on, and when they end, as of ``at``."""

    at: int
    analyst: tuple[AnalystKey, ...]
    gateway: tuple[KeySet, ...]
    issuer: tuple[KeySet, ...]
    certificates: tuple[Certificate, ...]


D = TypeVar("D", bound=Document)


def read(kind: type[D], document: Any, **members: Any) -> D:
    """Read ``document`` as a ``kind``, with further ``members``. Raises ``DecodeError``, which quotes no value."""
    if not isinstance(document, dict):
        raise DecodeError("the answer is not a JSON object")
    try:
        return kind.model_validate({**document, **members})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise DecodeError(f"the answer is not a valid {kind.__name__}: {place}: {first['msg']}") from None
