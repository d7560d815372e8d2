"""The attester's tables: used challenges, which device has had its token of which slot, and counts by slot.

A device appears only as an HMAC under a secret that is not in this database; a token request appears only as a hash.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Integer, LargeBinary, MetaData, Table

MIGRATIONS = "attester.migrations"

METADATA = MetaData()

USED_CHALLENGES = Table(
    "used_challenges",
    METADATA,
    Column("challenge", LargeBinary, primary_key=True),
    Column("expires", BigInteger, nullable=False, index=True),
    info={
        "holds": "when a used challenge expires",
        "kept": "until it has expired",
    },
)
CHALLENGE_FLOOR = Table(
    "challenge_floor",
    METADATA,
    Column("only", Integer, primary_key=True, autoincrement=False),
    Column("expires", BigInteger, nullable=False),
    info={
        "holds": "the latest expiry of a forgotten challenge, and of a forgotten quota; they only grow",
        "kept": "always",
    },
)
"""The floors: what was deleted for good, whatever the clock says. Row ``only`` = 0 (``OF_CHALLENGES``): no challenge
that expires at or before the floor is accepted any more. Row 1 (``OF_QUOTAS``): nobody gets a token of a slot whose
quotas end at or before it. A floor only increases."""
OF_CHALLENGES, OF_QUOTAS = 0, 1
ISSUANCE = Table(
    "issuance",
    METADATA,
    Column("epoch", BigInteger, primary_key=True, autoincrement=False),
    Column("slot", Integer, primary_key=True, autoincrement=False),
    Column("devices", BigInteger, nullable=False),
    Column("requested", BigInteger, nullable=False),
    Column("answered", BigInteger, nullable=False),
    info={
        "holds": "three counts (P15): devices debited, requests released to the issuer, answers passed on",
        "kept": "always",
    },
)
QUOTAS = Table(
    "quotas",
    METADATA,
    Column("stable_id", LargeBinary, primary_key=True),
    Column("epoch", BigInteger, primary_key=True, autoincrement=False),
    Column("slot", Integer, primary_key=True, autoincrement=False),
    Column("request_hash", LargeBinary, nullable=False),
    Column("expires", BigInteger, nullable=False, index=True),
    info={
        "holds": "by the device's tag (an HMAC) the hash of the one request that was forwarded",
        "kept": "`quota_grace_seconds` past the slot",
    },
)
