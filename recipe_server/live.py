"""Which entries are live: what a device or an aggregator needs of the log now, and until when that answer is valid.

The live entries are: recipes that have not ended, or ended less than a grace ago, with their opt-ins; series, for as
long as a round may be live (of an analyst that the policy no longer names no further ones come); the directories of the
current and the next epoch, and of the live recipes' epochs; void leaves, for the same grace after their publication;
gateways' key sets that may be used now or later; and censuses with their published shares, for as long as they count.
"""

from __future__ import annotations

from dataclasses import dataclass

from recipe_server.admission import stored_recipe
from recipe_server.store import RecipeTx
from tacit.recipe.policy import Policy
from tacit.tlog.entries import BundleEntry
from tacit.tlog.merkle import NodeReader, prove_inclusion

NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class LiveEntries:
    """The live entries of the tree of ``size`` with their proofs, valid from ``since`` until ``until`` (POSIX
    seconds)."""

    size: int
    since: float
    until: float
    entries: tuple[BundleEntry, ...]


async def live_key_sets(tx: RecipeTx, size: int, now: float) -> tuple[BundleEntry, ...]:
    """The key sets that may be used at ``now`` or later, with proofs in the tree of ``size`` entries."""
    indices = sorted(one.index for one in await tx.key_sets() if now < one.end and one.index < size)
    leaves = await tx.leaves(indices)
    proofs = await tx.with_nodes(lambda read: [tuple(prove_inclusion(read, index, size)) for index in indices])
    return tuple(BundleEntry(index, leaves[index], proof) for index, proof in zip(indices, proofs, strict=True))


async def live_entries(tx: RecipeTx, size: int, now: float, ended_seconds: int, policy: Policy) -> LiveEntries:
    """Find the live entries at ``now`` (POSIX seconds) and prove each in the tree of ``size`` entries. ``policy`` says
    for how long a census counts after its end, and whose series go on. Entries of the log beyond ``size`` are left
    out."""
    moment, census_seconds = int(now), policy.census_max_age_seconds
    indices: set[int] = set()
    changes: set[float] = set()
    wanted: set[tuple[str, int]] = set()
    recipes = await tx.recipes(ending_after=moment - ended_seconds)
    recipe_leaves = await tx.leaves([recipe.index for recipe in recipes])
    for recipe in recipes:
        indices.update((recipe.index, *recipe.opt_ins.values()))
        changes.add(recipe.ends_at + ended_seconds)
        token = stored_recipe(recipe_leaves[recipe.index]).token
        wanted.add((token.issuer, token.epoch))
    for series in await tx.series.live(moment - ended_seconds, policy):
        indices.update((series.index, *([] if series.end_index is None else [series.end_index])))
        changes.add(series.ends_at + ended_seconds)
    for directory in await tx.directories():
        current = moment // directory.epoch_seconds
        changes.add((current + 1) * directory.epoch_seconds)
        if directory.epoch in {current, current + 1} or (directory.issuer, directory.epoch) in wanted:
            indices.add(directory.index)
    for index, published_at in await tx.voids(published_after=moment - ended_seconds):
        indices.add(index)
        changes.add(published_at + ended_seconds)
    for census in await tx.census_shares(ending_after=moment - census_seconds):
        indices.update((census.index, *census.shares.values()))
        changes.add(census.ends_at + census_seconds)
    for key_set in await tx.key_sets():
        if moment < key_set.end:
            indices.add(key_set.index)
            changes.add(key_set.end)
    indices = {index for index in indices if index < size}
    leaves = {**recipe_leaves, **await tx.leaves(indices - recipe_leaves.keys())}

    def prove(read: NodeReader) -> dict[int, tuple[bytes, ...]]:
        return {index: tuple(prove_inclusion(read, index, size)) for index in indices}

    proofs = await tx.with_nodes(prove)
    entries = tuple(BundleEntry(index, leaves[index], proofs[index]) for index in sorted(indices))
    return LiveEntries(size, now, min(changes, default=NEVER), entries)
