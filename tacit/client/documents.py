"""What the admin API answers, as immutable documents. Members that this version does not know are kept.

Times are POSIX seconds. ``document()`` is the JSON of each.
"""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tacit.errors import DecodeError


class Document(BaseModel):
    """An answer, or part of one."""

    model_config = ConfigDict(frozen=True, extra="allow")

    def document(self) -> dict[str, Any]:
        """The document as a JSON object, with the API's member names."""
        return self.model_dump(mode="json", by_alias=True)


class Question(Document):
    """A question. ``state``: draft, submitted, approved, published, ended or missed. ``survey``: what is asked;
    ``authors`` and ``approver``: names. ``hash`` and ``recipe``: the recipe that is fixed for it, if there is one,
    which waits for a signature while ``signed`` is false; ``position``: its place in the log. ``etag`` says which
    text this is."""

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
    """What every rule says of the recipe that a question would become now. ``rules``: each with its numbers;
    ``refusals``: ``{"rule", "detail"}`` of those that refuse."""

    hash: str
    stage: str
    accepted: bool
    rules: tuple[dict[str, Any], ...]
    refusals: tuple[dict[str, Any], ...]
    recipe: dict[str, Any]


class Design(Document):
    """Ways to ask a question, the most accurate one first, each as ``tacit recipe design --json`` has it, and the one
    that is proposed; where none is allowed ``refusals`` (``{"rule", "detail"}``) say why."""

    proposal: dict[str, Any] | None = None
    refusals: tuple[dict[str, Any], ...]
    alternatives: tuple[dict[str, Any], ...]


class Person(Document):
    """Somebody with a ``role``: viewer, analyst, approver or administrator."""

    id: str
    name: str
    role: str
    disabled: bool
    has_password: bool
    has_identity: bool = False
    created: int
    counts_from: int | None = None
    """From when approvals and consents count; None: from the beginning."""


class Key(Document):
    """A person's key without its text. ``expires``: None for never."""

    id: str
    person: str
    label: str
    created: int
    expires: int | None = None


class NewKey(Key):
    """A new key. ``key`` is its text, which is shown this once and stands in no repr; None where the person made it."""

    key: str | None = Field(repr=False)


class Invitation(Document):
    """By which a person binds an account of the sign-in provider, once. ``invitation`` is its text, which is shown
    this once and stands in no repr; ``expires``: POSIX second."""

    person: str
    expires: int
    invitation: str = Field(repr=False)


class Change(Document):
    """A change of an approver or administrator. ``state``: waiting for a second administrator's consent until
    ``expires``, or done, and then the person's approvals and consents count from ``counts_from`` on. ``words``: what
    changes; ``asked_by`` and ``consented_by`` (ids, with names beside them) are empty where no person did.
    ``invitation``: of one that was asked for just now, its text, which is worth something after the consent; it stands
    in no repr."""

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
    it counts. ``until``: when a weaker configuration holds instead. ``administrators``: how many can ask and consent
    now."""

    persons: int
    approver_delay_seconds: int
    until: int | None
    administrators: int


class Changes(Document):
    """The rule, and the changes that wait or do not count yet."""

    rule: ConsentRule
    changes: tuple[Change, ...]


class Session(Document):
    """The person who is signed in, and the permissions."""

    person: Person
    permissions: tuple[str, ...]


class Act(Document):
    """A row of the audit log. ``who``: a name; ``person``: the id, which the hash covers; ``previous`` and ``hash``:
    32 bytes in base64url."""

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
    """What checking the audit log found. ``newest``: the hash of its last row (base64url), to be kept elsewhere;
    ``broken``: the number of the first row that does not follow; ``holds``: whether the log still has the hash that
    was kept, where one was given."""

    rows: int
    newest: str
    broken: int | None = None
    holds: bool | None = None

    @property
    def whole(self) -> bool:
        """Whether every row follows from those before it, and the hash that was kept is still there."""
        return self.broken is None and self.holds is not False


class RecipeSummary(Document):
    """A recipe of the log. ``state``: pending, active or over; ``question``: its words; ``question_id``: the question
    that it came from, where that is this organisation's."""

    hash: str
    name: str
    index: int
    state: str
    question: str
    min_batch_size: int
    question_id: str | None = None


class LoggedRecipe(RecipeSummary):
    """A recipe with its body. ``filled``: its yield against B (``contributions``, ``min_batch_size``, ``reached``,
    ``exact``), None while the collector tells none; ``rejections``: by cause, None where nobody tells them."""

    recipe: dict[str, Any]
    opt_ins: dict[str, Any]
    filled: dict[str, Any] | None = Field(default=None, alias="yield")
    rejections: dict[str, int] | None = None


class Collection(Document):
    """A batch that was asked for. ``rule`` and ``detail``: why its last attempt failed, if it did."""

    id: str
    recipe_hash: str
    batch: int
    state: str
    rule: str = ""
    detail: str = ""


class Job(Document):
    """Work that does not end by itself, of ``kind``, ``about`` something (of a collection: its recipe's hash).
    ``stuck``: it failed last time, or was refused, and ``detail`` says why; ``next_attempt``: POSIX second."""

    id: str
    kind: str
    about: str
    state: str
    stuck: bool | None = None
    detail: str = ""
    next_attempt: int | None = None


class Fleet(Document):
    """The devices of a staging deployment, in counts. ``devices``: those that there are and that work, as told last
    (``at``); ``report``: whether what they journalled is what was released, once ``tacit staging report`` was given;
    ``troubles``: what of it cannot be read."""

    devices: dict[str, Any] | None
    report: dict[str, Any] | None
    troubles: tuple[str, ...] = ()


class SeriesRound(Document):
    """A round that the log has: its number from 0, and its recipe's hash."""

    index: int
    recipe: str


class LoggedSeries(Document):
    """A series of the log, of at most ``rounds`` rounds from ``start`` until ``end``. ``claim``: what all of them
    together cost; ``published``: those that the log has; ``series``: its body."""

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
    """A census: its recipe's hash, and how many reports it sums. ``index``: of its last share in the log; ``end``: of
    its interval (POSIX second), from which its age counts."""

    recipe: str
    name: str
    index: int
    report_count: int
    end: int


class Checkpoint(Document):
    """The log's newest checkpoint, verified with every entry behind it. ``root``: base64url; ``checkpoint``: the signed
    note."""

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
    """The proof that an entry is in the tree of ``size`` entries with ``root``: hashes from its leaf up, base64url."""

    index: int
    size: int
    root: str
    leaf_hash: str
    path: tuple[str, ...]
    checkpoint: str


class Ledger(Document):
    """Every account: what is spent and left (decimal text), and by which recipes; as of ``at``. ``burn_down``: the same
    day by day, and when it would be used up at the pace of late, with bounds."""

    at: int
    accounts: tuple[dict[str, Any], ...]
    burn_down: tuple[dict[str, Any], ...]


class AnalystKey(Document):
    """The key that signs recipes of ``model`` (base64url); ``held``: the service signs with it."""

    model: str
    operator: str
    signing_key: str
    held: bool


class KeySet(Document):
    """``keys`` keys of ``owner``'s in the log, from ``start`` until ``end`` (POSIX seconds); ``number``: its period or
    epoch; ``state``: next, current or over."""

    owner: str
    number: int
    keys: int
    start: int
    end: int
    state: str


class Certificate(Document):
    """A certificate of the service's own, by its ``use``; ``end`` (POSIX second) is None where it cannot be read."""

    use: str
    end: int | None


class Keys(Document):
    """Keys that the organisation's questions depend on, and when they end; as of ``at``."""

    at: int
    analyst: tuple[AnalystKey, ...]
    gateway: tuple[KeySet, ...]
    issuer: tuple[KeySet, ...]
    certificates: tuple[Certificate, ...]


D = TypeVar("D", bound=Document)


def read(kind: type[D], document: Any, **members: Any) -> D:
    """``document`` as one of these; ``members`` are further ones. Raises ``DecodeError``, which quotes no value."""
    if not isinstance(document, dict):
        raise DecodeError("the answer is no JSON object")
    try:
        return kind.model_validate({**document, **members})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise DecodeError(f"the answer is no {kind.__name__}: {place}: {first['msg']}") from None
