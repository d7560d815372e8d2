"""An aggregator whose database was restored from the past: evidence beside the mark, and which tasks are closed (P32).

The mark beside the database (``tacit.adapters.databases.watermark``) is restored with it where a whole folder is
restored. The
log is not: every opt-in, void leaf and census share is stored here before it is sent, so one in the log that the
database does not know was sent by a later state of it. Whatever else that state spent and released is lost too. So
nothing continues until an operator decides, and after that no task whose window had begun.
"""

from __future__ import annotations

import contextlib
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace

from tacit.aggregator.participant import Signatory
from tacit.aggregator.records import OPEN_STATES, TaskRow, TaskState
from tacit.aggregator.store import CommonTx, had_begun
from tacit.codec import unb64url
from tacit.errors import CryptoError, DecodeError
from tacit.logview.signers import AGGREGATORS_LEAVES
from tacit.logview.view import VerifiedEntry
from tacit.recipe.model import Recipe
from tacit.tlog.leaves import LeafType, SignedLeaf

LOST = "own-records-rolled-back"
LOST_DETAIL = "our database was restored from the past: what was spent and released for the task is not known"


def is_lost(row: TaskRow, closed: int) -> bool:
    """Whether something may have been spent, before the POSIX second ``closed``, for a task that is not over."""
    if not closed or row.state not in OPEN_STATES:
        return False
    try:
        return had_begun(Recipe.decode(row.recipe).interval.start, closed)
    except DecodeError:  # an older version could read it, and what it did is unknown
        return True


async def end_lost(tx: CommonTx, closed: int) -> list[TaskRow]:
    """End every lost task, in a transaction that runs alone; return the rows after the change."""
    for row in await tx.tasks():
        if is_lost(row, closed):
            await tx.put_task(replace(row, state=TaskState.ENDED, rule=LOST, detail=LOST_DETAIL))
            await tx.forget(row.task_id or b"")
    return await tx.tasks()


async def shows_rollback(
    tx: CommonTx, identity: Signatory, entries: Sequence[VerifiedEntry], stored: Container[int], now: float
) -> bool:
    """Whether ``entries``, the log's live ones, show that the database is from the past while tasks are served for
    which that matters: tasks whose windows have begun and for which no operator has accepted it. Leaves in ``stored``
    (by index) were checked when they came. An operator's acceptance explains the leaves of recipes whose windows had
    begun by then."""
    new = [one.leaf for one in entries if one.index not in stored]
    own = [leaf for leaf in new if leaf.type in AGGREGATORS_LEAVES and _is_ours(leaf, identity)]
    if not own:
        return False
    rows, closed = await tx.tasks(), await tx.closed_until()
    if not any(is_lost(row, int(now) + 1) and not is_lost(row, closed) for row in rows):
        return False
    known = {row.recipe_hash: row for row in rows}
    shares = {task_id for task_id, _, _ in await tx.census_shares()}
    accepted = _begun_by(entries, closed)
    return not all(_is_known(leaf, identity, known, shares) or _about(leaf) in accepted for leaf in own)


def _begun_by(entries: Sequence[VerifiedEntry], closed: int) -> set[bytes]:
    """The recipes among the log's entries whose windows had begun when an operator accepted the database."""
    begun = set[bytes]()
    for leaf in (one.leaf for one in entries if closed and one.leaf.type is LeafType.RECIPE):
        with contextlib.suppress(DecodeError):  # a recipe of a future version: no leaf of ours refers to it
            recipe = Recipe.from_body(leaf.body)
            if had_begun(recipe.interval.start, closed):
                begun.add(recipe.hash)
    return begun


def _about(leaf: SignedLeaf) -> bytes:
    """The hash of the recipe that one of our leaves refers to."""
    return unb64url(leaf.body_as(AGGREGATORS_LEAVES[leaf.type]).recipe_hash)


def _is_ours(leaf: SignedLeaf, identity: Signatory) -> bool:
    """Whether we signed the leaf. Checking the name is not enough: a recipe may give our name to anybody's key, and
    such leaves say nothing about our database."""
    if leaf.signer != identity.operator:
        return False
    try:
        leaf.verify(identity.signing_key.public)
    except CryptoError:
        return False
    return True


def _is_known(leaf: SignedLeaf, identity: Signatory, rows: Mapping[bytes, TaskRow], shares: Container[bytes]) -> bool:
    body = leaf.body_as(AGGREGATORS_LEAVES[leaf.type])
    if body.role != identity.role_name:
        return True
    row = rows.get(unb64url(body.recipe_hash))
    if row is None or row.state not in {*OPEN_STATES, TaskState.ENDED}:
        return False
    if row.state is TaskState.ENDED or leaf.type is LeafType.OPT_IN:
        return True
    return bool(row.void) if leaf.type is LeafType.VOID else row.task_id in shares
