"""The log as this organisation has verified it, and the accounts that its recipes charge."""

from __future__ import annotations

import asyncio
import contextlib

from services.admin.api.calls import Admin, Call, Reply
from services.admin.api.documents import EntryPage
from services.admin.base.problems import away, not_found
from services.admin.questions.followed_log import Seen
from services.admin.questions.keys import keys_of
from tacit import media_types
from tacit.codec import b64url
from tacit.errors import CryptoError, DecodeError, Fatal
from tacit.logview.live import LiveLog
from tacit.service.documents.admin_log import EntryDocument, KeysDocument, LogDocument, ProofDocument
from tacit.tlog.leaves import SignedLeaf
from tacit.tlog.merkle import leaf_hash, prove_inclusion, verify_inclusion


async def ledger(call: Call) -> Reply:
    """Every account: what is spent and left, by which recipes, day by day, and when it is expected to be used up."""
    accounts = await call.admin.followed_log.accounts()
    return Reply(None, headers={"Content-Type": media_types.JSON}, content=accounts.content)


async def keys(call: Call) -> Reply:
    """The keys that the organisation's questions depend on, and when they end."""
    return Reply(keys_in(await call.admin.followed_log.live(), call.admin))


async def show_log(call: Call) -> Reply:
    """The newest checkpoint that this service has verified."""
    return Reply(checkpoint_of(await call.admin.followed_log.read()))


async def entries(call: Call) -> Reply:
    """A page of the log's entries. They are decoded in a thread, so that other requests do not wait."""
    first, limit = call.page()
    log = await call.admin.followed_log.read()
    try:
        return Reply(await asyncio.to_thread(entries_of, log, first, limit))
    except (LookupError, Fatal):
        if log.tree.size >= log.size:
            raise
        raise away("log", "its entries are being read again") from None


async def proof(call: Call) -> Reply:
    """The proof that an entry is in the tree of the newest checkpoint."""
    log = await call.admin.followed_log.read()
    return Reply(proof_of(log, index_of(log, call.part("index"))))


def keys_in(live: LiveLog, admin: Admin) -> KeysDocument:
    """The document of the organisation's own keys, and of those of others in ``live`` on which its questions depend."""
    return keys_of(live, admin.config, admin.questions.parties, admin.publishing.signs_with, admin.now)


def index_of(log: Seen, text: str) -> int:
    """The index in the text of a URL. Raises ``Abort`` (404) if the log has no entry there."""
    index = int(text) if text.isascii() and text.isdigit() and len(text) < 16 else log.size
    if index >= log.size:
        raise not_found("entry")
    return index


def checkpoint_of(log: Seen) -> LogDocument:
    """The checkpoint of ``log`` as a document, with the signed note as it came."""
    note = log.note.decode("utf-8", "replace")
    return LogDocument(origin=log.origin, size=log.size, root=b64url(log.root), checkpoint=note)


def entries_of(log: Seen, first: int, limit: int) -> EntryPage:
    """At most ``limit`` entries from index ``first`` on. Raises ``LookupError`` or ``Fatal`` while the tree is being
    read again and is smaller than the checkpoint."""
    end = min(first + limit, log.size)
    found = [_entry(index, log.tree.entries[index]) for index in range(first, end)]
    return EntryPage(entries=found, next=str(end) if end < log.size else None)


def proof_of(log: Seen, index: int) -> ProofDocument:
    """The proof that the entry at ``index`` is in the tree of the newest checkpoint that was read."""
    leaf, path = leaf_hash(log.tree.entries[index]), prove_inclusion(log.tree.read, index, log.size)
    try:
        verify_inclusion(leaf, index, log.size, path, log.root)
    except CryptoError as error:
        raise Fatal(
            "the log's hashes on the disk have changed; remove the folder and start the service again"
        ) from error
    return ProofDocument(
        index=index,
        size=log.size,
        root=b64url(log.root),
        leaf_hash=b64url(leaf),
        path=[b64url(one) for one in path],
        checkpoint=log.note.decode("utf-8", "replace"),
    )


def _entry(index: int, data: bytes) -> EntryDocument:
    """The summary of an entry. An entry of an unknown type has no name and no signer."""
    kind, signer, name = "unknown", "", None
    with contextlib.suppress(DecodeError):
        leaf = SignedLeaf.decode(data)
        stated = leaf.body.get("name")
        kind, signer, name = leaf.type.value, leaf.signer, stated if isinstance(stated, str) else None
    return EntryDocument(index=index, type=kind, signer=signer, name=name, size=len(data))
