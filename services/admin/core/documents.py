"""Models of the bodies of requests and answers. The checks and the OpenAPI document are made from them."""

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
    it, if there is one; the recipe waits for a signature while ``signed`` is false. ``position``: its index in the
    log."""

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
    """A document that another part of the system makes; it may have further members."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="allow")


class Refused(Told):
    """A rule that refuses the recipe. A further member ``needed`` holds the numbers that would pass, if there are
    any."""

    rule: str
    detail: str


class CheckDocument(Told):
    """The verdict of every rule on the recipe that the question would become now, and that recipe's privacy cost and
    accuracy."""

    hash: str
    stage: str
    accepted: bool
    rules: list[dict[str, Any]]
    refusals: list[Refused]
    recipe: dict[str, Any]


class DesignDocument(Document):
    """Ways to ask, the most accurate one first, each in the form of ``tacit recipe design --json``, and the one that is
    proposed. If none is allowed, ``refusals`` says why."""

    proposal: dict[str, Any] | None
    refusals: list[Refused]
    alternatives: list[dict[str, Any]]


class SignatureBody(Document):
    """A signed leaf, as ``tacit recipe sign`` writes it."""

    leaf: Annotated[dict[str, Any], Field(description="The leaf: type, version, body, signer and signature.")]


class PersonDocument(Document):
    """A person. ``has_password``: whether they have a local account; ``has_identity``: whether an account of the
    sign-in provider is bound to them."""

    id: str
    name: str
    role: Role
    disabled: bool
    has_password: bool
    has_identity: bool
    created: PosixSeconds
    counts_from: PosixSeconds | None = Field(
        default=None, description="When approvals and consents begin to count; null: they always did."
    )


class PersonPage(Document):
    """People in the order in which they were added."""

    people: list[PersonDocument]
    next: str | None


Password = Annotated[
    str | None,
    Field(min_length=LEAST_PASSWORD, max_length=MOST_PASSWORD, description="The password of a local account."),
]


KeyDigest = Annotated[
    str | None,
    Field(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of a key in hexadecimal, as `tacit keys show` prints it."),
]


class PersonBody(Document):
    """A new person. ``key_sha256``: the digest of a first key, which the person made."""

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
    """What is shown of an API key: everything but its text."""

    id: str
    person: str
    label: str
    created: PosixSeconds
    expires: PosixSeconds | None


class KeyList(Document):
    """A person's keys, the oldest first."""

    keys: list[KeyDocument]


class NewKey(KeyDocument):
    """A new key with its text (``key``), which is shown only once; null if the person made it."""

    key: str | None


class KeyBody(Document):
    """A new key. Without ``expires`` it is valid until it is revoked. ``sha256``: the digest of a key that the person
    made, so that nobody else sees its text."""

    label: Label = ""
    sha256: KeyDigest = None
    expires: PosixSeconds | None = None


class SignInBody(Document):
    """Either a key, or the name and password of a local account."""

    key: Annotated[str | None, Field(max_length=256)] = None
    name: Annotated[str | None, Field(max_length=64)] = None
    password: Annotated[str | None, Field(max_length=MOST_PASSWORD)] = None


class SessionDocument(Document):
    """The person who is signed in, their role's permissions, and, for a browser session, the token that requests which
    change anything must send in ``X-CSRF-Token``."""

    person: PersonDocument
    permissions: list[str]
    csrf: str | None = None


class ActDocument(Document):
    """A row of the audit log. ``person``: the id of the person who acted, or empty if that is not known (the hash
    covers the id); ``who``: their name."""

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
    """Acts in order. ``newest``: the number of the newest act in the whole log, 0 if there is none."""

    acts: list[ActDocument]
    next: str | None
    newest: int


class RecipeSummary(Told):
    """A recipe in the log. ``question``: its wording; ``question_id``: the question of this service that it came from,
    or null."""

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
    yield_: Annotated[YieldDocument | None, Field(alias="yield")]
    rejections: dict[str, int] | None = None


class ResultList(Document):
    """Releases in order, each in the form of ``tacit results --json``."""

    results: list[dict[str, Any]]
    next: str | None


class CollectionBody(Document):
    """The request to collect the batch of a recipe."""

    recipe: Annotated[str, Field(min_length=43, max_length=43, description="The recipe's hash.")]


class CollectionDocument(Told):
    """A collection: its state, and the rule that refused it, if one did."""

    id: str
    recipe_hash: str
    batch: int
    state: str


class CollectionList(Document):
    """All collections of the collector."""

    collections: list[CollectionDocument]


class LedgerDocument(Told):
    """Every account of the policy: what is spent and left, and which recipes spent it. ``burn_down``: the same day by
    day, with a forecast (and its bounds) of when the account is used up at the recent pace. At most a few minutes
    old."""

    at: PosixSeconds
    accounts: list[dict[str, Any]]
    burn_down: list[dict[str, Any]]


class AnalystKeyDocument(Document):
    """The key that signs recipes of a model (Ed25519, base64url). It is valid until the parties name another one.
    ``held``: whether this service holds the key; otherwise signatures are made elsewhere."""

    model: str
    operator: str
    signing_key: str
    held: bool


class KeySetDocument(Document):
    """A key set of ``owner`` in the log, with ``keys`` keys, used from ``start`` until ``end``. ``number``: its period
    or epoch. ``state``: next, current or over."""

    owner: str
    number: int
    keys: int
    start: PosixSeconds
    end: PosixSeconds
    state: str


class CertificateDocument(Document):
    """One of this service's own certificates, by its ``use`` (listen or client). ``end`` is null if the file cannot be
    read."""

    use: str
    end: PosixSeconds | None


class KeysDocument(Document):
    """The keys that the organisation's questions depend on, from the parties, the log and the configuration. Key sets
    are listed newest first; of those that are over, only the newest few."""

    at: PosixSeconds
    analyst: list[AnalystKeyDocument]
    gateway: list[KeySetDocument]
    issuer: list[KeySetDocument]
    certificates: list[CertificateDocument]


class LogDocument(Document):
    """The log's newest checkpoint (a signed note), verified together with every entry that it covers."""

    origin: str
    size: int
    root: str
    checkpoint: str


class EntryDocument(Document):
    """The summary of one entry of the log."""

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
    """A proof that an entry is in the tree of ``size`` entries. ``path``: the hashes from its leaf up, in base64url."""

    index: int
    size: int
    root: str
    leaf_hash: str
    path: list[str]
    checkpoint: str
