"""What requests and answers hold, as models from which both the checks and the OpenAPI document are made."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from services.admin.core.people import LEAST_PASSWORD, MOST_PASSWORD, NAME, Role

Label = Annotated[str, Field(max_length=64, pattern=r"^[^\x00-\x1f\x7f]*$")]
PosixSeconds = Annotated[int, Field(ge=0, le=2**53 - 1, description="POSIX seconds.")]


class Document(BaseModel):
    """An immutable document; unknown members are refused."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")


class Nothing(Document):
    """An empty object, or no body at all."""


class QuestionDocument(Document):
    """A question. ``survey``: what is asked, as it was written. ``hash`` and ``recipe``: the recipe that is fixed for
    it, if there is one; it waits for a signature while ``signed`` is false. ``position``: its place in the log."""

    id: str
    state: str
    revision: int
    survey: dict[str, Any]
    authors: list[str]
    approver: str | None
    created: PosixSeconds
    changed: PosixSeconds
    hash: str | None = None
    signed: bool = False
    position: int | None = None
    recipe: dict[str, Any] | None = None


class QuestionPage(Document):
    """Questions in the order in which they were written."""

    questions: list[QuestionDocument]
    next: str | None


class Told(BaseModel):
    """A document that another part of the system made; it may have further members."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="allow")


class Refused(Told):
    """A rule that refuses, with ``needed`` where numbers say what would pass."""

    rule: str
    detail: str


class CheckDocument(Told):
    """What every rule says of the recipe that the question would become now, and what that costs and gives."""

    hash: str
    stage: str
    accepted: bool
    rules: list[dict[str, Any]]
    refusals: list[Refused]
    recipe: dict[str, Any]


class DesignDocument(Document):
    """Ways to ask, the most accurate one first, each as ``tacit recipe design --json`` has it, and the one that is
    proposed; where none is allowed, ``refusals`` say why."""

    proposal: dict[str, Any] | None
    refusals: list[Refused]
    alternatives: list[dict[str, Any]]


class SignatureBody(Document):
    """A signed leaf, as ``tacit recipe sign`` writes it."""

    leaf: Annotated[dict[str, Any], Field(description="The leaf: type, version, body, signer and signature.")]


class PersonDocument(Document):
    """A person. ``has_password``: whether there is a local account; ``has_identity``: whether an account of the sign-in
    provider is bound."""

    id: str
    name: str
    role: Role
    disabled: bool
    has_password: bool
    has_identity: bool
    created: PosixSeconds
    counts_from: PosixSeconds | None = Field(
        default=None, description="From when approvals and consents count; null: from the beginning."
    )


class PersonPage(Document):
    """People in the order in which they were added."""

    people: list[PersonDocument]
    next: str | None


Password = Annotated[
    str | None, Field(min_length=LEAST_PASSWORD, max_length=MOST_PASSWORD, description="Of a local account.")
]


KeyDigest = Annotated[
    str | None,
    Field(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of a key in hexadecimal, as `tacit keys show` prints it."),
]


class PersonBody(Document):
    """A new person. ``key_sha256``: of a first key that the person made."""

    name: Annotated[str, Field(min_length=1, max_length=64, json_schema_extra={"pattern": f"^{NAME.pattern}$"})]
    role: Role
    password: Password = None
    key_sha256: KeyDigest = None


class PersonChange(Document):
    """The changes to a person; members that are left out stay as they are."""

    role: Role | None = None
    disabled: bool | None = None
    password: Password = None


class KeyDocument(Document):
    """A key without its text."""

    id: str
    person: str
    label: str
    created: PosixSeconds
    expires: PosixSeconds | None


class KeyList(Document):
    """A person's keys, the oldest first."""

    keys: list[KeyDocument]


class NewKey(KeyDocument):
    """A new key with its text, which is shown this once; null where the person made it."""

    key: str | None


class KeyBody(Document):
    """A new key. Without ``expires`` it opens until it is taken. ``sha256``: of one that the person made, so that
    nobody else sees its text."""

    label: Label = ""
    sha256: KeyDigest = None
    expires: PosixSeconds | None = None


class SignInBody(Document):
    """Either a key, or the name and password of a local account."""

    key: Annotated[str | None, Field(max_length=256)] = None
    name: Annotated[str | None, Field(max_length=64)] = None
    password: Annotated[str | None, Field(max_length=MOST_PASSWORD)] = None


class SessionDocument(Document):
    """Who is signed in, what the role may, and, of a session, the token that changing requests show in
    ``X-CSRF-Token``."""

    person: PersonDocument
    permissions: list[str]
    csrf: str | None = None


class ActDocument(Document):
    """A row of the audit log. ``person``: the id of who acted, which the hash covers, or empty for nobody who is known;
    ``who``: the name."""

    number: int
    at: PosixSeconds
    person: str
    who: str
    what: str
    target: str
    source: str
    outcome: str
    detail: str
    previous: str
    hash: str


class AuditPage(Document):
    """Acts in their order. ``newest``: the number of the newest one of all, 0 where there is none."""

    acts: list[ActDocument]
    next: str | None
    newest: int


class RecipeSummary(Told):
    """A recipe of the log. ``question``: its words; ``question_id``: the question here that it came from."""

    hash: str
    name: str
    index: int
    state: str
    question: str
    min_batch_size: int
    question_id: str | None


class RecipePage(Document):
    """Recipes in the order of the log."""

    recipes: list[RecipeSummary]
    next: str | None


class YieldDocument(Told):
    """How far the batch is filled against B, as coarsely as its server tells this organisation before the release, and
    when B may be expected; exact once there is a release."""

    contributions: int
    min_batch_size: int
    exact: bool
    reached: bool


class RecipeDocument(RecipeSummary):
    """A recipe with its body, the opt-ins in the log and its yield, which is null while the collector tells none.
    ``rejections``: by cause. The servers that reject tell them to their own operators alone, so that they are null."""

    recipe: dict[str, Any]
    opt_ins: dict[str, Any]
    yield_: Annotated[YieldDocument | None, Field(alias="yield")]
    rejections: dict[str, int] | None = None


class ResultList(Document):
    """Releases in their order, each as ``tacit results --json`` has it."""

    results: list[dict[str, Any]]
    next: str | None


class CollectionBody(Document):
    """The recipe whose batch is asked for."""

    recipe: Annotated[str, Field(min_length=43, max_length=43, description="The recipe's hash.")]


class CollectionDocument(Told):
    """A collection: how far it is, and the rule that it met, where it met one."""

    id: str
    recipe_hash: str
    batch: int
    state: str


class CollectionList(Document):
    """All collections."""

    collections: list[CollectionDocument]


class LedgerDocument(Told):
    """Every account of the policy: what is spent and left, and by which recipes. ``burn_down``: the same day by day,
    and when it would be used up at the pace of late, with bounds; a few minutes old at most."""

    at: PosixSeconds
    accounts: list[dict[str, Any]]
    burn_down: list[dict[str, Any]]


class AnalystKeyDocument(Document):
    """The key that signs recipes of a model, base64url (Ed25519). It ends when the parties name another one. ``held``:
    whether this service signs with it; else signatures come from elsewhere."""

    model: str
    operator: str
    signing_key: str
    held: bool


class KeySetDocument(Document):
    """A set of ``keys`` keys of ``owner``'s in the log, used from ``start`` until ``end``. ``number``: its period or
    epoch. ``state``: next, current or over."""

    owner: str
    number: int
    keys: int
    start: PosixSeconds
    end: PosixSeconds
    state: str


class CertificateDocument(Document):
    """A certificate of this service's own, by its ``use`` (listen or client). ``end`` is null where it cannot be
    read."""

    use: str
    end: PosixSeconds | None


class KeysDocument(Document):
    """Keys that the organisation's questions depend on, by what parties, log and configuration say; the newest sets
    first, and of those that are over the newest few."""

    at: PosixSeconds
    analyst: list[AnalystKeyDocument]
    gateway: list[KeySetDocument]
    issuer: list[KeySetDocument]
    certificates: list[CertificateDocument]


class LogDocument(Document):
    """The log's newest checkpoint (a signed note), verified with every entry behind it."""

    origin: str
    size: int
    root: str
    checkpoint: str


class EntryDocument(Document):
    """An entry of the log."""

    index: int
    type: str
    signer: str
    name: str | None
    size: Annotated[int, Field(description="Bytes.")]


class EntryPage(Document):
    """Entries of the log, in order."""

    entries: list[EntryDocument]
    next: str | None


class ProofDocument(Document):
    """That an entry is in the tree of ``size`` entries: the hashes from its leaf up, in base64url."""

    index: int
    size: int
    root: str
    leaf_hash: str
    path: list[str]
    checkpoint: str
