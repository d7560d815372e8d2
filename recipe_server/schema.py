"""The recipe server's tables: the log (entries, hashes, checkpoint), the contents of its leaves, and results."""

from __future__ import annotations

import sqlalchemy as sa

from tacit.adapters.databases.upsert import keep_out_of_line

MIGRATIONS = "recipe_server.migrations"

METADATA = sa.MetaData()


def _number(name: str, *, key: bool = False, unique: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, primary_key=key, autoincrement=False, nullable=False, unique=unique)


ENTRIES = sa.Table(
    "entries",
    METADATA,
    _number("position", key=True),
    sa.Column("type", sa.String(32), nullable=False),
    sa.Column("leaf", sa.LargeBinary, nullable=False),
    sa.Column("digest", sa.LargeBinary(32), nullable=False, unique=True),
    info={
        "holds": "type and bytes of each leaf",
        "kept": "always",
    },
)
NODES = sa.Table(
    "nodes",
    METADATA,
    sa.Column("level", sa.Integer, primary_key=True, autoincrement=False),
    _number("position", key=True),
    sa.Column("hash", sa.LargeBinary(32), nullable=False),
    info={
        "holds": "hashes of complete subtrees",
        "kept": "always",
    },
)
CHECKPOINT = sa.Table(
    "checkpoint",
    METADATA,
    sa.Column("only", sa.Integer, primary_key=True, autoincrement=False),
    _number("size"),
    sa.Column("note", sa.LargeBinary, nullable=False),
    info={
        "holds": "size and signed note, written with the entries that it covers",
        "kept": "replaced",
    },
)
SHOWN = sa.Table(
    "shown",
    METADATA,
    sa.Column("only", sa.Integer, primary_key=True, autoincrement=False),
    _number("size"),
    sa.Column("note", sa.LargeBinary, nullable=False),
    info={
        "holds": "size and note of the newest checkpoint that the witnesses have cosigned, with their lines",
        "kept": "replaced",
    },
)
"""The checkpoint that readers see, once witnesses have cosigned one."""
RECIPES = sa.Table(
    "recipes",
    METADATA,
    sa.Column("hash", sa.LargeBinary(32), primary_key=True),
    _number("position", unique=True),
    sa.Column("issuer", sa.String(253), nullable=False),
    _number("epoch"),
    _number("slot"),
    _number("ends_at"),
    sa.Column("model", sa.String(32), nullable=False, server_default="secure-aggregation"),
    sa.Column("refundable", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("analyst", sa.String(253), nullable=False, server_default=""),
    sa.UniqueConstraint("issuer", "epoch", "slot"),
    info={
        "holds": (
            "index, slot (P8), end, analyst, model (whose opt-ins and void leaves count), whether void leaves give its "
            "cost back"
        ),
        "kept": "always",
    },
)
OPT_INS = sa.Table(
    "opt_ins",
    METADATA,
    sa.Column("recipe_hash", sa.LargeBinary(32), sa.ForeignKey("recipes.hash"), primary_key=True),
    sa.Column("role", sa.String(16), primary_key=True),
    _number("position", unique=True),
    info={
        "holds": "the index of an opt-in",
        "kept": "always",
    },
)
CHARGES = sa.Table(
    "charges",
    METADATA,
    sa.Column("recipe_hash", sa.LargeBinary(32), sa.ForeignKey("recipes.hash"), primary_key=True),
    sa.Column("account", sa.String(253), nullable=False),
    sa.Column("name", sa.String(63), nullable=False),
    sa.Column("epsilon", sa.String(32), nullable=False),
    sa.Column("delta", sa.String(32), nullable=False),
    _number("starts_at"),
    _number("ends_at"),
    sa.Column("epsilon_with_relay", sa.String(32), nullable=False, server_default=sa.text("'0'")),
    sa.Index("charges_by_account", "account", "ends_at"),
    info={
        "holds": "what a recipe costs its account, and from when to when",
        "kept": "always",
    },
)
SERIES = sa.Table(
    "series",
    METADATA,
    sa.Column("hash", sa.LargeBinary(32), primary_key=True),
    _number("position", unique=True),
    sa.Column("account", sa.String(253), nullable=False),
    sa.Column("name", sa.String(63), nullable=False),
    sa.Column("epsilon", sa.String(32), nullable=False),
    sa.Column("delta", sa.String(32), nullable=False),
    _number("starts_at"),
    _number("ends_at"),
    sa.Column("epsilon_with_relay", sa.String(32), nullable=False, server_default=sa.text("'0'")),
    sa.Column("signing_key", sa.String(43), nullable=False, server_default=""),
    sa.Column("analyst", sa.String(253), nullable=False, server_default=""),
    sa.Column("end_position", sa.BigInteger, nullable=True),
    sa.Column("shown_until", sa.BigInteger, nullable=True),
    sa.Index("series_by_account", "account", "ends_at"),
    info={
        "holds": (
            "index, account, analyst with its key, total claim, start, end; index of the leaf that ended it, and until "
            "when that is shown"
        ),
        "kept": "always",
    },
)
SERIES_ROUNDS = sa.Table(
    "series_rounds",
    METADATA,
    sa.Column("series_hash", sa.LargeBinary(32), sa.ForeignKey("series.hash"), primary_key=True),
    _number("number", key=True),
    sa.Column("recipe_hash", sa.LargeBinary(32), sa.ForeignKey("recipes.hash"), nullable=False, unique=True),
    info={
        "holds": "which recipe is the round of a series",
        "kept": "always",
    },
)
VOIDS = sa.Table(
    "voids",
    METADATA,
    sa.Column("recipe_hash", sa.LargeBinary(32), sa.ForeignKey("recipes.hash"), primary_key=True),
    sa.Column("role", sa.String(16), primary_key=True),
    _number("position", unique=True),
    _number("published_at"),
    info={
        "holds": "index and time of a void leaf",
        "kept": "always",
    },
)
CENSUSES = sa.Table(
    "censuses",
    METADATA,
    sa.Column("recipe_hash", sa.LargeBinary(32), sa.ForeignKey("recipes.hash"), primary_key=True),
    _number("cells"),
    info={
        "holds": "how many conjunctions a census has",
        "kept": "always",
    },
)
CENSUS_SHARES = sa.Table(
    "census_shares",
    METADATA,
    sa.Column("recipe_hash", sa.LargeBinary(32), sa.ForeignKey("censuses.recipe_hash"), primary_key=True),
    sa.Column("role", sa.String(16), primary_key=True),
    _number("position", unique=True),
    info={
        "holds": "the index of a share of a census",
        "kept": "always",
    },
)
DIRECTORIES = sa.Table(
    "directories",
    METADATA,
    sa.Column("issuer", sa.String(253), primary_key=True),
    _number("epoch", key=True),
    _number("epoch_seconds"),
    _number("position", unique=True),
    info={
        "holds": "the index of a directory (P8), the epoch's length",
        "kept": "always",
    },
)
KEY_SETS = sa.Table(
    "key_sets",
    METADATA,
    sa.Column("gateway", sa.String(253), primary_key=True),
    _number("period", key=True),
    _number("rotation_seconds"),
    _number("position", unique=True),
    info={
        "holds": "the index of a key set (P3), the period's length",
        "kept": "always",
    },
)
ROUND_MODELS = sa.Table(
    "round_models",
    METADATA,
    sa.Column("recipe_hash", sa.LargeBinary(32), sa.ForeignKey("recipes.hash"), primary_key=True),
    sa.Column("model", sa.LargeBinary(32), nullable=False),
    _number("bytes"),
    sa.Column("analyst", sa.String(253), nullable=False, server_default=""),
    sa.Index("round_models_by_model", "model"),
    info={
        "holds": "SHA-256 and length of the model file that a round names, and the round's analyst",
        "kept": "always",
    },
)
MODEL_PIECES = sa.Table(
    "model_pieces",
    METADATA,
    sa.Column("model", sa.LargeBinary(32), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
    info={
        "holds": "the pieces of an uploaded model file, by its SHA-256",
        "kept": "until every round that names it has been over for `ended_seconds`, or is over and there is no room",
    },
)
keep_out_of_line(MODEL_PIECES, "body")
RESULTS = sa.Table(
    "results",
    METADATA,
    sa.Column("recipe_hash", sa.LargeBinary(32), sa.ForeignKey("recipes.hash"), primary_key=True),
    sa.Column("batch_id", sa.String(100), primary_key=True),
    sa.Column("body", sa.LargeBinary, nullable=False),
    _number("published_at"),
    sa.Column("number", sa.BigInteger, nullable=False, server_default=sa.text("0")),
    sa.Index("results_by_number", "number", unique=True),
    info={
        "holds": "the published document, and its number in the order of publication",
        "kept": "always",
    },
)
