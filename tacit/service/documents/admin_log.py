"""Answers of the admin API about the log, the ledger of accounts, and the organisation's keys."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from tacit.service.documents.admin import Document, OpenDocument, PosixSeconds


class LedgerDocument(OpenDocument):
    """Every account of the policy: what is spent and left, and which recipes spent it. ``burn_down``: the same day by
    day, with a forecast (and its bounds) of when the account is used up at the recent pace. At most a few minutes
    old."""

    at: PosixSeconds
    accounts: tuple[dict[str, Any], ...]
    burn_down: tuple[dict[str, Any], ...]


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
    analyst: tuple[AnalystKeyDocument, ...]
    gateway: tuple[KeySetDocument, ...]
    issuer: tuple[KeySetDocument, ...]
    certificates: tuple[CertificateDocument, ...]


class LogDocument(Document):
    """The log's newest checkpoint (a signed note), verified together with every entry that it covers."""

    origin: str
    size: int
    root: str
    checkpoint: str


class EntryDocument(Document):
    """The summary of one entry of the log, without its body."""

    index: int
    type: str
    signer: str
    name: str | None
    size: Annotated[int, Field(description="Bytes.")]


class ProofDocument(Document):
    """A proof that an entry is in the tree of ``size`` entries. ``path``: the hashes from its leaf up, in base64url."""

    index: int
    size: int
    root: str
    leaf_hash: str
    path: tuple[str, ...]
    checkpoint: str
