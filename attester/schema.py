"""The attester's tables: challenges that were used, which device has had its token of which slot, and counts by slot.

A device appears only as an HMAC under a secret that is not in this database; a token request only as a hash.
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
)
CHALLENGE_FLOOR = Table(
    "challenge_floor",
    METADATA,
    Column("only", Integer, primary_key=True, autoincrement=False),
    Column("expires", BigInteger, nullable=False),
)
"""One row: no challenge that ends by then is taken any more, whatever the clock says. It only grows."""
ISSUANCE = Table(
    "issuance",
    METADATA,
    Column("epoch", BigInteger, primary_key=True, autoincrement=False),
    Column("slot", Integer, primary_key=True, autoincrement=False),
    Column("devices", BigInteger, nullable=False),
    Column("requested", BigInteger, nullable=False),
    Column("answered", BigInteger, nullable=False),
)
QUOTAS = Table(
    "quotas",
    METADATA,
    Column("stable_id", LargeBinary, primary_key=True),
    Column("epoch", BigInteger, primary_key=True, autoincrement=False),
    Column("slot", Integer, primary_key=True, autoincrement=False),
    Column("request_hash", LargeBinary, nullable=False),
    Column("expires", BigInteger, nullable=False, index=True),
)
