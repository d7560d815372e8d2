"""Checks of all leaves of a log, one by one and together: every party could make them, but no party alone makes all.

``Audit`` is fed the entries in order and may be queried at any time. A recipe's claims are recomputed once; the ledger,
lateness and silence are evaluated at each query, since they depend on the time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence

from tacit.errors import DecodeError, Refusal, TacitError
from tacit.logview.live import LiveLog, LiveRecipe, LiveSeries, charges_of
from tacit.logview.signers import LeafSigners
from tacit.logview.view import VerifiedEntry, check_signatures
from tacit.logview.whole import Tick, nothing
from tacit.monitor.findings import Finding
from tacit.recipe.context import Stage
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.recipe.series import Series
from tacit.rules import series_table as series_rules
from tacit.rules import table as rules
from tacit.rules.budget import find_overspent
from tacit.tlog.key_sets import OhttpConfig
from tacit.tlog.leaves import LeafType, SignedLeaf, UnknownLeafError
from tacit.tlog.once import claims_in
from tacit.tlog.statements import OptIn, Void
from tacit.tlog.token_directories import IssuerDirectory

DAY = 86_400
VOID_SECONDS = 31 * DAY
"""Seconds after a recipe's end within which a void leaf is in time: the aggregators' longest retention and a day."""
SILENCE_SECONDS = 31 * DAY
"""Seconds after a recipe's end within which an active recipe must have a result or be void."""
CHUNK = 256
"""Number of entries that are verified together."""
PINNED = frozenset({LeafType.ISSUER_DIRECTORY, LeafType.OHTTP_CONFIG})
"""Leaves of parties whose keys a policy may pin; otherwise the recipes name the keys."""
WAITING_RULES = frozenset({"slot-key-missing", "series-missing"})
"""Rules whose refusal a later leaf may lift, until the recipe begins."""
ELSEWHERE = frozenset({"slot-taken", "series-round"})
"""Rules about a second leaf, which is reported as its own finding."""

ShownAfter = Callable[[int], int | None]
"""For a leaf's index: a time (POSIX seconds) at which the log did not show the leaf yet, or None."""


class Audit:
    """Checks every leaf of one log under one policy."""

    def __init__(self, policy: Policy, log_key: bytes | None = None) -> None:
        self._policy = policy
        self._log_key = log_key
        self._size = 0
        self._entries: list[VerifiedEntry] = []
        self._recipes: dict[str, SignedLeaf] = {}
        self._series_leaves: dict[str, SignedLeaf] = {}
        self._namers: dict[tuple[str, str], SignedLeaf] = {}
        self._holders: dict[str, int] = {}
        self._unkeyed: dict[int, SignedLeaf] = {}
        """Leaves of issuers and gateways whose keys have not been named by the policy or by a recipe yet."""
        self._found: list[Finding] = []
        self._live: tuple[int, LiveLog] | None = None
        self._judged: dict[tuple[bytes, Stage], tuple[Finding, ...]] = {}

    @property
    def size(self) -> int:
        """Number of log entries processed so far."""
        return self._size

    def add(self, data: Sequence[bytes], tick: Tick = nothing) -> None:
        """Process the next entries of the log."""
        for start in range(0, len(data), CHUNK):
            chunk = data[start : start + CHUNK]
            self._add(chunk)
            tick(len(chunk))

    def _add(self, data: Sequence[bytes]) -> None:
        indices, leaves = [], []
        for entry in data:
            index, self._size = self._size, self._size + 1
            try:
                leaf = SignedLeaf.decode(entry)
            except UnknownLeafError as error:
                self._found.append(Finding("leaf-unknown", str(error), index))
            except DecodeError as error:
                self._found.append(Finding("leaf-malformed", str(error), index))
            else:
                indices.append(index)
                leaves.append(leaf)
            self._hold(index, entry)
        namers = len(self._namers)
        self._verify(indices, leaves)
        if len(self._namers) > namers and self._unkeyed:
            waiting, self._unkeyed = self._unkeyed, {}
            self._verify(list(waiting), list(waiting.values()))

    def _hold(self, index: int, entry: bytes) -> None:
        for claim in claims_in(entry):
            holder = self._holders.setdefault(claim, index)
            if holder != index:
                self._found.append(Finding("second-leaf", f"takes what leaf {holder} holds: {claim}", index))

    def _verify(self, indices: Sequence[int], leaves: Sequence[SignedLeaf]) -> None:
        """Keep the leaves that are signed by a party that may sign them."""
        named = (leaf.body.get("recipe_hash") for leaf in leaves)
        texts = {text: None for text in named if isinstance(text, str) and text in self._recipes}
        ended = (self._series_leaves.get(str(leaf.body.get("series_hash"))) for leaf in leaves)
        known = [*self._namers.values(), *(self._recipes[text] for text in texts), *filter(None, ended)]
        signed = check_signatures(indices, leaves, LeafSigners(self._policy, known, self._log_key))
        for index, leaf in signed.unknown.items():
            if leaf.type in PINNED:
                self._unkeyed[index] = leaf
                continue
            what = f"{leaf.type} of {leaf.signer}, which does not have that role, or the leaf's body cannot be read"
            self._found.append(Finding("leaf-signer", what, index))
        given = dict(zip(indices, leaves, strict=True))
        for fault in signed.forged:
            leaf = given[fault.index]
            what = f"{leaf.type} claims to be signed by {leaf.signer}, but the signature does not verify"
            self._found.append(Finding(fault.rule, what, fault.index))
        self._entries += signed.entries
        for entry in signed.entries:
            if entry.leaf.type is LeafType.RECIPE:
                self._know(Recipe.from_body(entry.leaf.body), entry.leaf)
            elif entry.leaf.type is LeafType.SERIES:
                self._series_leaves.setdefault(Series.from_body(entry.leaf.body).hash_text, entry.leaf)

    def _know(self, recipe: Recipe, leaf: SignedLeaf) -> None:
        """Process a signed recipe: it names the keys of other parties; for issuers and gateways without a pinned key,
        the first recipe that names them counts."""
        self._recipes.setdefault(recipe.hash_text, leaf)
        self._namers.setdefault((recipe.parties.issuer.name, recipe.parties.gateway.operator), leaf)

    def findings(
        self, now: float, shown_after: ShownAfter, released: Collection[str] | None = None, tick: Tick = nothing
    ) -> list[Finding]:
        """Return all findings as of ``now`` (POSIX seconds), in the order of the log. ``released``: hashes of recipes
        that have a published result; None: unknown."""
        log = self._join_leaves()
        found = self.leaves
        for item in log.series:
            found += self._series(item)
        for live in log.recipes:
            found += self._recipe(log, live, now)
            found += self._ends(live, now, released)
            tick(1)
        found += self._late(log, shown_after)
        found += self._ledger(log, now)
        found += self._silent_keys(log, now)
        return _in_order(found)

    def _join_leaves(self) -> LiveLog:
        """All leaves as one log, rebuilt only where there are more than last time."""
        if self._live is None or self._live[0] != self._size:
            self._live = self._size, LiveLog.from_entries(self._entries)
        return self._live[1]

    @property
    def leaves(self) -> list[Finding]:
        """Findings about single leaves, and leaves that claim something a second time, in the order of the log."""
        unkeyed = (
            Finding("leaf-signer", f"{leaf.type} of {leaf.signer}, whose key is named by no recipe or policy", index)
            for index, leaf in self._unkeyed.items()
        )
        return _in_order([*self._found, *unkeyed])

    @property
    def recipes(self) -> int:
        """Number of recipes in the log so far."""
        return len(self._recipes)

    def _series(self, item: LiveSeries) -> Sequence[Finding]:
        place = (item.series.hash, Stage.LOGGED)
        judged = self._judged.get(place)
        if judged is None:
            start = item.series.interval.start
            refusals = _refusals(lambda: series_rules.check(item.series, self._policy, start))
            judged = tuple(
                Finding("series", f"{item.series.name}: {one.rule}: {one.detail}", item.index) for one in refusals
            )
            self._judged[place] = judged
        return judged

    def _recipe(self, log: LiveLog, live: LiveRecipe, now: float) -> Sequence[Finding]:
        """The rules that refuse a recipe by itself, at its beginning; its claims are recomputed here."""
        recipe = live.recipe
        stage = Stage.ACTIVE if live.opted_in else Stage.LOGGED
        judged = self._judged.get((recipe.hash, stage))
        if judged is not None:
            return judged
        context = log.context(live, recipe.interval.start, stage)
        refusals = _refusals(lambda: rules.check(recipe, self._policy, context))
        begun = now >= recipe.interval.start
        found = tuple(
            Finding("recipe", f"{recipe.name}: {one.rule}: {one.detail}", live.index)
            for one in refusals
            if one.rule not in ELSEWHERE and (begun or one.rule not in WAITING_RULES)
        )
        if begun:  # before that, keys and series may still come
            self._judged[recipe.hash, stage] = found
        return found

    def _ends(self, live: LiveRecipe, now: float, released: Collection[str] | None) -> list[Finding]:
        """Findings about how recipes end: one that both aggregators joined must end with a result, a census's shares,
        or two void leaves."""
        recipe = live.recipe
        has_result = recipe.hash_text in (released or ()) or live.is_shared
        if live.is_void:
            what = f"{recipe.name}: both aggregators stated that nothing was released, but a result is published"
            return [Finding("void-released", what, live.index)] if has_result else []
        silent = live.opted_in and not has_result and released is not None
        if not silent or now < recipe.interval.end + SILENCE_SECONDS:
            return []
        days = int(now - recipe.interval.end) // DAY
        missing = ", ".join(sorted(live.roles - live.voids.keys()))
        what = f"{recipe.name}: ended {days} days ago, without a result and without a void leaf of {missing}"
        return [Finding("silent", what, live.index)]

    def _late(self, log: LiveLog, shown_after: ShownAfter) -> list[Finding]:
        """Leaves that were not in the log when they were due."""
        by_hash = {live.recipe.hash_text: live.recipe for live in log.recipes}
        rotations = {(config.gateway, config.period) for config in log.ohttp_configs}
        firsts = self._first_directories()
        found = []
        for entry in self._entries:
            moment = shown_after(entry.index)
            if moment is None or moment == shown_after(firsts.get(str(entry.leaf.body.get("issuer")), -1)):
                continue  # the log was not read in time, or the issuer did not exist yet
            due = self._due(entry.leaf, by_hash, rotations)
            if due is not None and moment >= due[0]:
                what = f"{due[1]} was due before {due[0]}, but was not in the log at {moment}"
                found.append(Finding("late", what, entry.index))
        return found

    def _first_directories(self) -> dict[str, int]:
        """The index in the log of each issuer's first directory."""
        found: dict[str, int] = {}
        for entry in self._entries:
            if entry.leaf.type is LeafType.ISSUER_DIRECTORY:
                found.setdefault(str(entry.leaf.body["issuer"]), entry.index)
        return found

    def _due(
        self, leaf: SignedLeaf, recipes: dict[str, Recipe], rotations: Collection[tuple[str, int]]
    ) -> tuple[int, str] | None:
        """The time (POSIX seconds) by which a leaf had to be in the log, and a description of the leaf; None: no
        deadline."""
        if leaf.type is LeafType.ISSUER_DIRECTORY:
            directory = leaf.body_as(IssuerDirectory)
            return directory.start - directory.epoch_seconds, f"{directory.issuer}'s directory of {directory.epoch}"
        if leaf.type is LeafType.OHTTP_CONFIG:
            config = leaf.body_as(OhttpConfig)
            if (config.gateway, config.period - 1) not in rotations:
                return None
            return config.start, f"{config.gateway}'s key set of period {config.period}"
        if leaf.type is LeafType.OPT_IN:
            opt_in = leaf.body_as(OptIn)
            recipe = recipes.get(opt_in.recipe_hash)
            return None if recipe is None else (recipe.interval.start, f"the {opt_in.role}'s opt-in to {recipe.name}")
        if leaf.type is LeafType.VOID:
            void = leaf.body_as(Void)
            recipe = recipes.get(void.recipe_hash)
            if recipe is not None:
                end = recipe.interval.end + VOID_SECONDS
                return end, f"the {void.role}'s void leaf of {recipe.name}"
        return None

    def _ledger(self, log: LiveLog, now: float) -> list[Finding]:
        """Accounts in which some period costs more than the policy allows."""
        over = find_overspent(self._policy, charges_of(log, now), now)
        return [Finding("ledger", what) for words in over.values() for what in words]

    def _silent_keys(self, log: LiveLog, now: float) -> list[Finding]:
        """Issuers and gateways that have stopped publishing keys."""
        found = []
        directories: dict[str, list[IssuerDirectory]] = defaultdict(list)
        for directory in log.directories:
            directories[directory.issuer].append(directory)
        for issuer, own in sorted(directories.items()):
            begun = [one for one in own if one.start <= now]  # directories of later epochs do not make up for it
            if begun and all(one.end <= now for one in begun):
                newest = max(begun, key=lambda one: one.end)
                found.append(Finding("silent", f"{issuer}: no directory since that of epoch {newest.epoch}"))
        sets: dict[str, list[OhttpConfig]] = defaultdict(list)
        for config in log.ohttp_configs:
            sets[config.gateway].append(config)
        for gateway, configs in sorted(sets.items()):
            started = [one for one in configs if one.start <= now]
            if started and all(one.start + one.rotation_seconds <= now for one in started):
                last = max(started, key=lambda one: one.start)
                found.append(Finding("silent", f"{gateway}: no key set since that of period {last.period}"))
        return found


def _in_order(findings: Sequence[Finding]) -> list[Finding]:
    """Findings about the whole log first, then those about leaves in order."""
    return sorted(findings, key=lambda one: -1 if one.index is None else one.index)


def _refusals(check: Callable[[], list[Refusal]]) -> list[Refusal]:
    """The refusals of the rules; an error in their computation counts as a refusal."""
    try:
        return check()
    except (TacitError, ArithmeticError, ValueError) as error:
        return [Refusal("not-checkable", str(error) or type(error).__name__)]
