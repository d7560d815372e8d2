"""The recipes in the log as a reader sees them, joined from verified entries.

``LiveLog`` joins recipes with their opt-ins, their slot's directory and the gateways' key configurations, says which
are void and what they charge, and makes the ``Context`` in which the rules are checked.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from tacit.codec import b64url
from tacit.errors import DecodeError, Refusal
from tacit.ledger.account import Charge, ChargeState, charge_state
from tacit.logview.signers import recipe_in, series_in
from tacit.logview.view import VerifiedEntry
from tacit.models.forms import find_form
from tacit.recipe.census import Census
from tacit.recipe.charges import charge_of, is_refundable, series_charges
from tacit.recipe.context import Context, Stage
from tacit.recipe.derive import task_id
from tacit.recipe.model import Recipe
from tacit.recipe.series import Ended, Series
from tacit.time_format import format_time
from tacit.tlog.fields import Body
from tacit.tlog.key_sets import OhttpConfig
from tacit.tlog.leaves import LeafType, SignedLeaf
from tacit.tlog.statements import CensusShare, OptIn, SeriesEnd, Void
from tacit.tlog.token_directories import IssuerDirectory


@dataclass(frozen=True, slots=True)
class LiveRecipe:
    """A recipe in the log with what the log says about it."""

    index: int
    leaf: SignedLeaf
    recipe: Recipe
    opt_ins: Mapping[str, OptIn] = field(default_factory=dict)
    """The opt-ins to the recipe, by role."""
    opt_in_entries: Mapping[str, VerifiedEntry] = field(default_factory=dict)
    """The log entries that hold the opt-ins, by role."""
    voids: Mapping[str, Void] = field(default_factory=dict)
    """By role: who has closed the recipe's task for good without a release."""
    shares: Mapping[str, CensusShare] = field(default_factory=dict)
    """By role: who has published its aggregate share (of a census)."""

    @property
    def roles(self) -> frozenset[str]:
        """The roles whose void leaves, or census shares, are all required; empty for an unknown model."""
        form = find_form(self.recipe.model)
        return frozenset() if form is None else frozenset(form.opts_in)

    @property
    def opted_in(self) -> bool:
        """Whether all roles that must have opted in; whether their opt-ins agree is the rule ``opt-in-mismatch``."""
        form = find_form(self.recipe.model)
        return form is not None and self.opt_ins.keys() >= set(form.opting_in(self.recipe.parties))

    @property
    def is_void(self) -> bool:
        """Whether all required roles have closed it."""
        return self._all(self.voids)

    @property
    def is_shared(self) -> bool:
        """Whether all required roles have published their shares."""
        return self._all(self.shares)

    def _all(self, leaves: Mapping[str, Body]) -> bool:
        return bool(self.roles) and self.roles <= leaves.keys()


@dataclass(frozen=True, slots=True)
class LiveSeries:
    """A series in the log, its leaf, and that leaf's ``index``."""

    index: int
    leaf: SignedLeaf
    series: Series
    ended: Ended | None = None
    """How it was ended, if it was."""


@dataclass(frozen=True, slots=True)
class LiveLog:
    """The content of a bundle's verified entries. Where two leaves claim the same thing, the first in the log holds
    it."""

    recipes: tuple[LiveRecipe, ...] = ()
    directories: tuple[IssuerDirectory, ...] = ()
    ohttp_configs: tuple[OhttpConfig, ...] = ()
    censuses: tuple[Census, ...] = ()
    """The censuses whose shares from both aggregators are here."""
    unreadable: tuple[tuple[int, str], ...] = ()
    """(index, reason) of leaves that this version cannot read."""
    series: tuple[LiveSeries, ...] = ()
    _slots: dict[tuple[str, int, int], bytes] = field(default_factory=dict, repr=False)
    _rounds: dict[tuple[bytes, int], bytes] = field(default_factory=dict, repr=False)

    @classmethod
    def from_entries(cls, entries: Iterable[VerifiedEntry]) -> LiveLog:
        """Build the live view from verified entries, in the order of their indices."""
        joined = LiveJoin()
        for entry in sorted(entries, key=lambda item: item.index):
            joined.add(entry)
        return joined.live()

    @classmethod
    def from_leaves(cls, leaves: Iterable[tuple[int, SignedLeaf]]) -> LiveLog:
        """Build the live view from leaves that were verified before, each with its index."""
        return cls.from_entries(VerifiedEntry(index, leaf) for index, leaf in leaves)

    def recipe(self, recipe_hash: bytes) -> LiveRecipe | None:
        return next((item for item in self.recipes if item.recipe.hash == recipe_hash), None)

    def series_of(self, recipe: Recipe) -> Series | None:
        """The series that ``recipe`` names; None if it names none, or one that is not in the log."""
        if recipe.series is None:
            return None
        wanted = recipe.series.hash
        return next((item.series for item in self.series if item.series.hash_text == wanted), None)

    @property
    def open_series(self) -> tuple[Series, ...]:
        """The series that no leaf has ended, in the order of the log."""
        return tuple(item.series for item in self.series if item.ended is None)

    def ended(self, series_hash: bytes) -> Ended | None:
        """How the series was ended; None if it goes on or is not in the log."""
        return next((item.ended for item in self.series if item.series.hash == series_hash), None)

    def round_of(self, recipe: Recipe) -> Series | None:
        """The series of which ``recipe`` is a round: it fits, no other recipe has its index, and no leaf before it has
        ended the series."""
        series = self.series_of(recipe)
        if series is None or recipe.series is None:
            return None
        return series if self._rounds.get((series.hash, recipe.series.index)) == recipe.hash else None

    def directory(self, issuer: str, epoch: int) -> IssuerDirectory | None:
        wanted = (issuer, epoch)
        return next((item for item in self.directories if (item.issuer, item.epoch) == wanted), None)

    def clock_trouble(self, issuer: str, epoch_seconds: int, now: float) -> str:
        """How a clock that says ``now`` (POSIX seconds) contradicts the issuer's newest directory, in words for a
        person; the empty string where it does not.

        A directory is of the next epoch, or of the one after it, while it is the newest; it is older only where the
        issuer is silent.
        """
        epochs = [one.epoch for one in self.directories if (one.issuer, one.epoch_seconds) == (issuer, epoch_seconds)]
        newest = max(epochs, default=-1)
        if newest < 0 or (newest - 2) * epoch_seconds <= now < (newest + 1) * epoch_seconds:
            return ""
        begins = format_time(newest * epoch_seconds)
        says = f"the log's newest token keys are of {begins}, this machine's clock says {format_time(now)}"
        return f"{says}; set the clock, or wait a moment if it is right"

    def slot_key(self, recipe: Recipe) -> bytes:
        """The issuer's public key (SPKI) of the recipe's slot. Raises a ``Refusal`` where the log has none."""
        token = recipe.token
        directory = self.directory(token.issuer, token.epoch)
        spki = None if directory is None else directory.spki(token.slot)
        if spki is None:
            raise Refusal("slot-key-missing", "the log has no key for the recipe's slot")
        return spki

    def context(self, live: LiveRecipe, now: float, stage: Stage = Stage.ACTIVE) -> Context:
        """The context for checking ``live`` at ``now`` (POSIX seconds)."""
        token, series = live.recipe.token, self.series_of(live.recipe)
        return Context(
            stage=stage,
            now=now,
            leaf=live.leaf,
            index=live.index,
            slot_owner=self._slots.get((token.issuer, token.epoch, token.slot)),
            directory=self.directory(token.issuer, token.epoch),
            opt_ins=live.opt_ins,
            censuses=self.censuses,
            series=series,
            ended=None if series is None else self.ended(series.hash),
            round_owner=self.round_owner(live.recipe),
            round_before=self.round_before(live.recipe),
        )

    def round_owner(self, recipe: Recipe, before: int = 0) -> bytes | None:
        """The hash of the recipe that holds the round of a series that ``recipe`` names, or so many ``before`` it."""
        series, place = self.series_of(recipe), recipe.series
        return None if series is None or place is None else self._rounds.get((series.hash, place.index - before))

    def round_before(self, recipe: Recipe) -> Recipe | None:
        """The recipe that holds the round before the one that ``recipe`` names; None where the log has none."""
        owner = self.round_owner(recipe, before=1)
        found = None if owner is None else self.recipe(owner)
        return None if found is None else found.recipe


class LiveJoin:
    """Joins verified entries one by one, in the order of the log."""

    def __init__(self) -> None:
        self.recipes: dict[str, LiveRecipe] = {}
        self.series: dict[str, LiveSeries] = {}
        self.ends: dict[str, int] = {}
        self.opt_ins: dict[str, dict[str, tuple[VerifiedEntry, OptIn]]] = {}
        self.voids: dict[str, dict[str, Void]] = {}
        self.shares: dict[str, dict[str, tuple[int, CensusShare]]] = {}
        self.directories: dict[tuple[str, int], IssuerDirectory] = {}
        self.configs: dict[tuple[str, int], OhttpConfig] = {}
        self.unreadable: list[tuple[int, str]] = []
        self.slots: dict[tuple[str, int, int], bytes] = {}

    def live(self) -> LiveLog:
        """The log joined from all entries so far; entries that are added later do not change it."""
        rounds = self.rounds()
        return LiveLog(
            recipes=tuple(self.live_recipes()),
            directories=tuple(self.directories.values()),
            ohttp_configs=tuple(self.configs.values()),
            censuses=tuple(self.censuses()),
            unreadable=tuple(self.unreadable),
            series=tuple(self.live_series(rounds)),
            _slots=dict(self.slots),
            _rounds=rounds,
        )

    def add(self, entry: VerifiedEntry) -> None:
        """Add an entry. One that cannot be read is recorded, and does not affect the others."""
        leaf = entry.leaf
        try:
            if leaf.type is LeafType.RECIPE:
                self._add_recipe(entry.index, leaf)
            elif leaf.type is LeafType.SERIES:
                series = series_in(leaf.body_bytes())
                self.series.setdefault(series.hash_text, LiveSeries(entry.index, leaf, series))
            elif leaf.type is LeafType.SERIES_END:
                self.ends.setdefault(leaf.body_as(SeriesEnd).series_hash, entry.index)
            elif leaf.type is LeafType.OPT_IN:
                opt_in = leaf.body_as(OptIn)
                self.opt_ins.setdefault(opt_in.recipe_hash, {}).setdefault(opt_in.role, (entry, opt_in))
            elif leaf.type is LeafType.VOID:
                void = leaf.body_as(Void)
                self.voids.setdefault(void.recipe_hash, {}).setdefault(void.role, void)
            elif leaf.type is LeafType.CENSUS_SHARE:
                share = leaf.body_as(CensusShare)
                self.shares.setdefault(share.recipe_hash, {}).setdefault(share.role, (entry.index, share))
            elif leaf.type is LeafType.ISSUER_DIRECTORY:
                directory = leaf.body_as(IssuerDirectory)
                self.directories.setdefault((directory.issuer, directory.epoch), directory)
            else:
                config = leaf.body_as(OhttpConfig)
                self.configs.setdefault((config.gateway, config.period), config)
        except DecodeError as error:
            self.unreadable.append((entry.index, str(error)))
        except Exception as error:  # no content of one leaf may keep the others from being read
            self.unreadable.append((entry.index, f"{leaf.type}: unexpected {type(error).__name__}"))

    def _add_recipe(self, index: int, leaf: SignedLeaf) -> None:
        recipe = recipe_in(leaf.body_bytes())
        token = recipe.token
        self.slots.setdefault((token.issuer, token.epoch, token.slot), recipe.hash)
        self.recipes.setdefault(recipe.hash_text, LiveRecipe(index, leaf, recipe))

    def recipe(self, recipe_hash: str) -> Recipe | None:
        found = self.recipes.get(recipe_hash)
        return None if found is None else found.recipe

    def rounds(self) -> dict[tuple[bytes, int], bytes]:
        """For each (series, index) the recipe that holds that round: the first one in the log that fits, before the
        series was ended."""
        found: dict[tuple[bytes, int], bytes] = {}
        for live in self.recipes.values():
            place = live.recipe.series
            item = None if place is None else self.series.get(place.hash)
            if place is None or item is None or live.index > self.ends.get(place.hash, live.index):
                continue
            if _fits(item.series, live.recipe):
                found.setdefault((item.series.hash, place.index), live.recipe.hash)
        return found

    def live_series(self, rounds: Mapping[tuple[bytes, int], bytes]) -> Iterable[LiveSeries]:
        """All series in the order of the log, each with its end if it was ended. ``rounds``: as from ``rounds``."""
        asked: dict[bytes, list[Recipe]] = {}
        by_hash = {live.recipe.hash: live.recipe for live in self.recipes.values()}
        for (series_hash, _), owner in rounds.items():
            asked.setdefault(series_hash, []).append(by_hash[owner])
        for text, item in self.series.items():
            own = asked.get(item.series.hash, [])
            until = max((recipe.interval.end for recipe in own), default=0)
            yield item if text not in self.ends else replace(item, ended=Ended(self.ends[text], until))

    def live_recipes(self) -> Iterable[LiveRecipe]:
        """All recipes with what the log says about them."""
        for text, live in self.recipes.items():
            opt_ins = self.opt_ins.get(text, {})
            yield replace(
                live,
                opt_ins={role: opt_in for role, (_, opt_in) in opt_ins.items()},
                opt_in_entries={role: entry for role, (entry, _) in opt_ins.items()},
                voids=self._voids(live.recipe),
                shares={role: share for role, (_, share) in self.shares.get(text, {}).items()},
            )

    def censuses(self) -> Iterable[Census]:
        """The censuses of which every required role has published a share for the recipe's own task."""
        for text, live in self.recipes.items():
            found = {role: self.shares.get(text, {}).get(role) for role in live.roles}
            shares = {role: one for role, one in found.items() if one is not None}
            if not live.recipe.is_census or not live.roles or len(shares) < len(live.roles):
                continue
            if all(_is_of(live.recipe, share.task_id) for _, share in shares.values()):
                counted = {role: share for role, (_, share) in shares.items()}
                yield Census(live.recipe, counted, max(index for index, _ in shares.values()))

    def _voids(self, recipe: Recipe) -> dict[str, Void]:
        """The void leaves for the recipe's own task, by role."""
        found = self.voids.get(recipe.hash_text, {})
        return {role: void for role, void in found.items() if _is_of(recipe, void.task_id)}


def charges_of(log: LiveLog, now: float, before: float = math.inf) -> tuple[Charge, ...]:
    """The entries of logged recipes and series at ``now`` (POSIX seconds), each kind in the order of the log; only of
    leaves whose index is below ``before``."""
    rounds: dict[bytes, list[ChargeState]] = {item.series.hash: [] for item in log.series}
    found = []
    for live in log.recipes:
        state = state_of(live, now)
        series = log.round_of(live.recipe)
        if series is not None:
            rounds[series.hash].append(state)
        if live.index < before:
            found.append(charge_of(live.recipe, state if series is None else ChargeState.COVERED))
    charged = ((item.series, item.ended) for item in log.series if item.index < before)
    return (*found, *series_charges(charged, rounds, now))


def state_of(live: LiveRecipe, now: float) -> ChargeState:
    """The state of a recipe according to the log; a recipe of an unknown model counts in full."""
    recipe = live.recipe
    if not live.roles:
        return ChargeState.ACTIVE
    return charge_state(
        live.roles, live.opt_ins, live.voids, recipe.interval.end, now, refundable=is_refundable(recipe)
    )


def _fits(series: Series, recipe: Recipe) -> bool:
    """Whether the recipe is one of the series' rounds; False for a series from which no round can be derived."""
    try:
        return series.mismatch(recipe) is None
    except ValueError:
        return False


def _is_of(recipe: Recipe, task: str) -> bool:
    """Whether a leaf that names this task refers to the recipe's own task."""
    try:
        return task == b64url(task_id(recipe))
    except (Refusal, ValueError):
        return False
