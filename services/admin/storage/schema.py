"""The admin service's tables."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Index, LargeBinary, MetaData, String, Table, Text

from tacit.adapters.databases.upsert import Int64

MIGRATIONS = "services.admin.migrations"

METADATA = MetaData()

QUESTIONS = Table(
    "questions",
    METADATA,
    Column("number", Int64, primary_key=True, autoincrement=True),
    Column("id", String(32), nullable=False, unique=True),
    Column("state", String(16), nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("text", Text, nullable=False),
    Column("authors", Text, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("changed", BigInteger, nullable=False),
    Column("approver", String(32), nullable=False),
    Column("approval", LargeBinary(32), nullable=False),
    Column("recipe", LargeBinary, nullable=False),
    Column("recipe_hash", String(43), nullable=False),
    Column("leaf", LargeBinary, nullable=False),
    Column("position", BigInteger),
    Column("series_hash", String(43)),
    Column("round_index", BigInteger),
    Column("trains", Boolean, nullable=False),
    Column("over_at", BigInteger),
    Index("questions_recipe_hash", "recipe_hash"),
    Index("questions_round", "series_hash", "round_index", unique=True),
    Index("questions_state", "state"),
    info={
        "holds": (
            "state, revision (its ETag), the survey as canonical JSON (of a series' next round its recipe, "
            "with series and number; of a training run its plan, and when it was over), everybody who wrote any of "
            "it, who approved it and what exactly, the "
            "recipe that is fixed for it, the same signed, its place in the log"
        ),
        "kept": "drafts until deleted, all else always",
    },
)
PEOPLE = Table(
    "people",
    METADATA,
    Column("number", Int64, primary_key=True, autoincrement=True),
    Column("id", String(32), nullable=False, unique=True),
    Column("name", String(64), nullable=False, unique=True),
    Column("role", String(16), nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("password", String(256), nullable=False),
    Column("disabled", Boolean, nullable=False),
    Column("identity", String(64)),
    Column("counts_from", BigInteger, nullable=False),
    Index("people_identity", "identity", unique=True),
    info={
        "holds": (
            "role, the argon2id hash of a local account's password, the provider's account, whether "
            "disabled, from when approvals and consents count"
        ),
        "kept": "always",
    },
)
KEYS = Table(
    "api_keys",
    METADATA,
    Column("id", String(32), primary_key=True),
    Column("digest", LargeBinary(32), nullable=False, unique=True),
    Column("person", String(32), nullable=False),
    Column("label", String(64), nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("expires", BigInteger),
    Index("api_keys_person", "person"),
    info={
        "holds": "the SHA-256 digest of a key of 256 random bits, its person, when it expires",
        "kept": "until revoked",
    },
)
SESSIONS = Table(
    "sessions",
    METADATA,
    Column("digest", LargeBinary(32), primary_key=True),
    Column("person", String(32), nullable=False),
    Column("began", BigInteger, nullable=False),
    Column("seen", BigInteger, nullable=False),
    Index("sessions_person", "person"),
    info={
        "holds": "the digest of a cookie, its person, when the session began, when it was last used (to a minute)",
        "kept": "until it ends",
    },
)
INVITATIONS = Table(
    "invitations",
    METADATA,
    Column("digest", LargeBinary(32), primary_key=True),
    Column("person", String(32), nullable=False),
    Column("expires", BigInteger, nullable=False),
    info={
        "holds": "the digest of an invitation, for whom it is, when it expires",
        "kept": "until it is used, revoked or over",
    },
)
PASSKEYS = Table(
    "passkeys",
    METADATA,
    Column("id", LargeBinary(512), primary_key=True),
    Column("person", String(32), nullable=False),
    Column("label", String(64), nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("counter", BigInteger, nullable=False),
    Column("credential", LargeBinary, nullable=False),
    Index("passkeys_person", "person"),
    info={
        "holds": "a passkey's public key and counter, its person",
        "kept": "until removed",
    },
)
CHALLENGES = Table(
    "challenges",
    METADATA,
    Column("challenge", LargeBinary(32), primary_key=True),
    Column("person", String(32), nullable=False),
    Column("expires", BigInteger, nullable=False),
    Column("nonce", LargeBinary(32), nullable=False),
    info={
        "holds": "what a passkey is to sign, for whom, until when",
        "kept": "until it is used or over",
    },
)
FLOWS = Table(
    "used_flows",
    METADATA,
    Column("digest", LargeBinary(32), primary_key=True),
    Column("at", BigInteger, nullable=False),
    info={
        "holds": "the digest of a sign-in at the provider that was completed",
        "kept": "until it would have expired",
    },
)
FAILURES = Table(
    "failures",
    METADATA,
    Column("account", LargeBinary(32), primary_key=True),
    Column("count", BigInteger, nullable=False),
    Column("last", BigInteger, nullable=False),
    Column("until", BigInteger, nullable=False),
    info={
        "holds": "by the digest of an account's name how many sign-ins failed, until when attempts are refused",
        "kept": "a day by default (`sign_in.forget_seconds`)",
    },
)
SECRETS = Table(
    "secrets",
    METADATA,
    Column("name", String(32), primary_key=True),
    Column("value", LargeBinary(32), nullable=False),
    info={
        "holds": "keys that the service made for itself",
        "kept": "always",
    },
)
CHANGES = Table(
    "changes",
    METADATA,
    Column("id", String(32), primary_key=True),
    Column("kind", String(16), nullable=False),
    Column("person", String(32), nullable=False),
    Column("name", String(64), nullable=False),
    Column("role", String(16), nullable=False),
    Column("words", Text, nullable=False),
    Column("asked_by", String(32), nullable=False),
    Column("asked", BigInteger, nullable=False),
    Column("expires", BigInteger, nullable=False),
    Column("payload", Text, nullable=False),
    Column("digest", LargeBinary(32), nullable=False),
    Column("consented_by", String(32), nullable=False),
    Column("counts_from", BigInteger, nullable=False),
    info={
        "holds": (
            "a change of an approver or administrator: what changes, of whom, who asked and consented, when;"
            " SHA-256 over it and over how the person could sign in at that time"
        ),
        "kept": "until it counts, or nobody has consented for a week",
    },
)
CONSENT_RULE = Table(
    "consent_rule",
    METADATA,
    Column("persons", BigInteger, nullable=False),
    Column("delay", BigInteger, nullable=False),
    Column("since", BigInteger, nullable=False),
    Column("before_persons", BigInteger, nullable=False),
    Column("before_delay", BigInteger, nullable=False),
    info={
        "holds": "how many administrators such a change needs and its delay, since when, and the rule before it",
        "kept": "always",
    },
)
ANSWERS = Table(
    "answers",
    METADATA,
    Column("key", LargeBinary(32), primary_key=True),
    Column("request", LargeBinary(32), nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("status", BigInteger, nullable=False),
    Column("headers", Text, nullable=False),
    Column("body", LargeBinary),
    Index("answers_at", "at"),
    info={
        "holds": (
            "by the digest of person and `Idempotency-Key`, the digest of the request and its answer, "
            "without the body if that holds a secret"
        ),
        "kept": "`answer_days`",
    },
)
AUDIT = Table(
    "audit",
    METADATA,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("previous", LargeBinary(32), nullable=False),
    Column("hash", LargeBinary(32), nullable=False),
    Column("who", String(32), nullable=False),
    Column("what", String(64), nullable=False),
    Column("target", String(64), nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("source", String(64), nullable=False),
    Column("outcome", String(64), nullable=False),
    Column("detail", Text, nullable=False),
    Index("audit_target", "target", "number"),
    info={
        "holds": (
            "an act: who, what, target, when, from where, outcome, details; SHA-256 over the row before it and this one"
        ),
        "kept": "always",
    },
)
