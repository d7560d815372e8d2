"""Who has the token slots of an epoch: recipes hold them for ever (P8), series reserve those of their rounds to come.

Slots are divided among the analysts that the policy names (P38): of an epoch each may have its share, held and reserved
together. A series reserves the slots of its rounds up to ``reserved_epochs`` of the policy ahead, while its analyst is
one that the policy names, in the order of the log, and never more than its analyst's share. So a series that asks for
more than it may have keeps no slot of anybody else, and one of an analyst whose key was removed keeps none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from recipe_server.rounds import going_on
from recipe_server.store import RecipeTx
from tacit.errors import Refusal
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.recipe.series import Series
from tacit.tlog.leaves import SignedLeaf
from tacit.tlog.token_directories import IssuerDirectory


@dataclass(frozen=True, slots=True)
class EpochSlots:
    """One epoch of an issuer. ``slots``: those that it has, or will have; ``held``: slot -> hash and analyst of the
    recipe that has it; ``reserved``: slot -> the series one of whose rounds will have it."""

    epoch: int
    slots: frozenset[int]
    held: Mapping[int, tuple[bytes, str]]
    reserved: Mapping[int, Series] = field(default_factory=dict)

    def taken_by(self, analyst: str) -> int:
        """Number of this epoch's slots that the analyst's recipes hold or its series reserve."""
        holders = [name for _, name in self.held.values()]
        return [*holders, *(analyst_of(one) for one in self.reserved.values())].count(analyst)

    def owner(self, recipe: Recipe) -> bytes | None:
        """Hash of the recipe that has the recipe's slot; without one, that of the series which reserves it for a
        round, unless the recipe is that round."""
        slot = recipe.token.slot
        if slot in self.held:
            return self.held[slot][0]
        series = self.reserved.get(slot)
        return None if series is None or series.mismatch(recipe) is None else series.hash


def analyst_of(series: Series) -> str:
    """The operator that signs the series and its rounds."""
    return series.probe.parties.analyst.operator


async def directory_of(tx: RecipeTx, issuer: str, epoch: int) -> IssuerDirectory | None:
    indices = [one.index for one in await tx.directories(issuer) if one.epoch == epoch]
    return await _directory_at(tx, indices[0]) if indices else None


async def _directory_at(tx: RecipeTx, index: int) -> IssuerDirectory:
    return SignedLeaf.decode((await tx.leaves([index]))[index]).body_as(IssuerDirectory)


class SlotTable:
    """The slots of one issuer at a moment, as one transaction sees the log."""

    def __init__(self, tx: RecipeTx, policy: Policy, issuer: str, now: float) -> None:
        """``policy`` names the analysts and divides the slots; ``now`` is in POSIX seconds."""
        self._tx, self._policy, self._issuer, self._now = tx, policy, issuer, now

    async def of(self, epoch: int) -> EpochSlots:
        return (await self._epochs([epoch]))[epoch]

    async def require_share(self, recipe: Recipe, analyst: str) -> None:
        """Raise ``Refusal`` ``slot-share`` if the analyst has all its slots of the recipe's epoch already, and the
        recipe is not a round for which one of them is reserved."""
        slots = await self.of(recipe.token.epoch)
        if recipe.token.slot not in slots.reserved:
            self._require_share(slots, analyst, 1)

    async def require_free(self, series: Series) -> None:
        """Check that ``series`` has only slots that the issuer has, that it leaves the other analysts their shares, and
        that no recipe, no series within the epochs ahead, and no series of the same analyst has one of them. Raises
        ``Refusal`` ``slot-key-missing``, ``slot-share`` or ``slot-taken``."""
        first, analyst = series.slots, analyst_of(series)
        last = series.token(series.rounds - 1).epoch
        newest = await self._newest()
        if newest is None:
            raise Refusal("slot-key-missing", f"the log has no directory of {self._issuer} yet; publish it again then")
        near = max(first.epoch, min(last, self._ahead(newest)))
        epochs = await self._epochs(range(first.epoch, near + 1))
        for epoch in epochs.values():
            wanted = set(slots_in(series, epoch.epoch))
            if not wanted <= epoch.slots:
                raise Refusal(
                    "slot-key-missing",
                    f"the issuer has no slot {min(wanted - epoch.slots)} in epoch {epoch.epoch}; it has "
                    f"{', '.join(map(str, sorted(epoch.slots)))}",
                )
            taken = wanted & {*epoch.held, *epoch.reserved}
            if taken:
                raise _taken(min(taken), epoch.epoch)
            self._require_share(epoch, analyst, len(wanted))
        for other in await going_on(self._tx, self._policy, self._now):
            if analyst_of(other) == analyst and (place := _meeting(series, other)) is not None:
                raise _taken(*place)

    def _require_share(self, epoch: EpochSlots, analyst: str, wanted: int) -> None:
        share, taken = self._policy.share(analyst, len(epoch.slots)), epoch.taken_by(analyst)
        if taken + wanted > share:
            raise Refusal(
                "slot-share",
                f"{analyst} may have {share} of the {len(epoch.slots)} slots of epoch {epoch.epoch} and has {taken}; "
                f"{wanted} more would leave others less than their share; take another epoch, or end a series",
            )

    def _ahead(self, newest: IssuerDirectory) -> int:
        """The last epoch for which series reserve slots."""
        return int(self._now) // newest.epoch_seconds + self._policy.reserved_epochs

    async def _newest(self) -> IssuerDirectory | None:
        logged = await self._tx.directories(self._issuer)
        return await _directory_at(self._tx, max(logged, key=lambda one: one.epoch).index) if logged else None

    async def _epochs(self, epochs: Iterable[int]) -> dict[int, EpochSlots]:
        wanted, newest = sorted(epochs), await self._newest()
        known = {one.epoch: one.index for one in await self._tx.directories(self._issuer) if one.epoch in wanted}
        held = await self._tx.series.held_slots(self._issuer, wanted[0], wanted[-1])
        series = await going_on(self._tx, self._policy, self._now)
        found = {}
        for epoch in wanted:
            directory = await _directory_at(self._tx, known[epoch]) if epoch in known else newest
            slots = frozenset() if directory is None else frozenset(key.slot for key in directory.keys)
            found[epoch] = EpochSlots(epoch, slots, held.get(epoch, {}))
            if newest is not None and epoch <= self._ahead(newest):
                found[epoch] = self._add_reserved(found[epoch], series)
        return found

    def _add_reserved(self, epoch: EpochSlots, series: Iterable[Series]) -> EpochSlots:
        reserved: dict[int, Series] = {}
        for one in series:
            if one.slots.issuer != self._issuer:
                continue
            left = self._policy.share(analyst_of(one), len(epoch.slots))
            left -= EpochSlots(epoch.epoch, epoch.slots, epoch.held, reserved).taken_by(analyst_of(one))
            free = [slot for slot in slots_in(one, epoch.epoch) if slot not in epoch.held and slot not in reserved]
            reserved |= dict.fromkeys(free[: max(0, left)], one)
        return EpochSlots(epoch.epoch, epoch.slots, epoch.held, reserved)


def slots_in(series: Series, epoch: int) -> range:
    first = series.slots
    left = series.rounds - (epoch - first.epoch) * first.per_epoch
    return range(first.slot, first.slot + (max(0, min(left, first.per_epoch)) if epoch >= first.epoch else 0))


def _meeting(one: Series, other: Series) -> tuple[int, int] | None:
    """Slot and epoch that both assign, or None. If there is one, there is one in the first epoch of both, where each
    has the most."""
    epoch = max(one.slots.epoch, other.slots.epoch)
    common = {*slots_in(one, epoch)} & {*slots_in(other, epoch)} if one.slots.issuer == other.slots.issuer else ()
    return (min(common), epoch) if common else None


def _taken(slot: int, epoch: int) -> Refusal:
    words = f"slot {slot} of epoch {epoch}, that of one of the rounds, belongs to another recipe or series"
    return Refusal("slot-taken", f"{words}; take free ones")
