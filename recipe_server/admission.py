"""Decides what may enter the log: one admission per type of leaf; each refusal names its rule.

Recipes go through the same rule table as everywhere (``tacit.rules.table``) under the operator's policy, series
through ``tacit.rules.series_table``; a series comes before its rounds. The rules of the other leaves are here:
``issuer-unknown``, ``directory-key-invalid``, ``directory-exists``, ``directory-epoch-seconds``, ``directory-over``,
``directory-late``, ``directory-early``; ``opt-in-recipe``, ``opt-in-signer``, ``opt-in-exists``, ``opt-in-mismatch``,
``opt-in-late``;
``void-recipe``, ``void-signer``, ``void-mismatch``, ``void-opt-in``, ``void-early``, ``void-released``,
``void-exists``; ``recipe-exists``, ``series-exists``, ``series-name``, ``slot-share``; ``series-end-series``,
``series-end-signer``, ``series-end-exists``, ``series-end-late``; ``census-room``; ``census-share-recipe``,
``census-share-signer``, ``census-share-mismatch``, ``census-share-opt-in``, ``census-share-early``,
``census-share-void``, ``census-share-exists``; ``gateway-unknown``, ``ohttp-key-invalid``,
``ohttp-config-rotation``, ``ohttp-config-exists``, ``ohttp-config-order``, ``ohttp-config-over``,
``ohttp-config-early``, ``ohttp-config-late``, ``ohttp-config-previous``; for all of them ``log-room``,
``leaf-malformed`` and ``leaf-signature``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from recipe_server.page_capacity import census_bytes, recipe_bytes, series_bytes
from recipe_server.rounds import ended_of, round_before, series_of, stored_series
from recipe_server.slots import SlotTable, directory_of
from recipe_server.store import RecipeTx
from tacit.codec import b64url, unb64url
from tacit.errors import CryptoError, DecodeError, Fatal, Refusal
from tacit.ledger.account import Charge
from tacit.logview.live import LiveLog
from tacit.logview.signers import LeafSigners
from tacit.ohttp import KeyConfig
from tacit.recipe.census import Census
from tacit.recipe.charges import rightful
from tacit.recipe.context import Context, Stage
from tacit.recipe.derive import confirms, task_id_at, vdaf_of
from tacit.recipe.encoder_specs import Update
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.recipe.series import Series
from tacit.rules import series_table as series_rules
from tacit.rules import table as rules
from tacit.time_format import format_second
from tacit.tlog.cosignature import MAX_SKEW_SECONDS
from tacit.tlog.fields import Body
from tacit.tlog.key_sets import OhttpConfig
from tacit.tlog.leaves import LeafType, SignedLeaf
from tacit.tlog.pages import entry_bytes
from tacit.tlog.statements import CensusShare, OptIn, SeriesEnd, Void
from tacit.tlog.token_directories import MAX_LOOKAHEAD, IssuerDirectory
from tacit.tokens.blind_rsa import TokenKey

B = TypeVar("B", bound=Body)

Register = Callable[[RecipeTx, int], Awaitable[None]]
"""Records what an admitted leaf says, once its index is known, in the transaction that stores the leaf."""

MAX_CENSUS_CELLS = 2048  # of all censuses that count, together: every device fetches their shares
KEY_SET_MARGIN = 8
"""A key set must be in the log at least ``1 / KEY_SET_MARGIN`` of a period before its own period begins: devices that
look at the log at least that often all change keys at one moment."""
_RESERVED = frozenset({LeafType.OPT_IN, LeafType.CENSUS_SHARE, LeafType.SERIES_END})
"""The leaf types whose room is already taken by their recipe or series."""
_OF_ANALYSTS = frozenset({LeafType.RECIPE, LeafType.SERIES})
_CHEAP_FIRST = ("analyst-unknown", "recipe-signature")


@dataclass(frozen=True, slots=True)
class Admission:
    """The operator's admission. ``policy`` names every analyst, issuer and gateway whose leaves are admitted."""

    policy: Policy
    accept_late_directories: bool
    ended_seconds: int
    log_key: bytes
    """The public key of the log's checkpoints, under which its operator may end a series."""

    async def admit(self, leaf: SignedLeaf, tx: RecipeTx, now: float) -> Register:
        """How to register ``leaf``, if it may enter the log at ``now`` (POSIX seconds). Raises ``Refusal``."""
        register = await self._admit(leaf, tx, now)
        if leaf.type not in _RESERVED:
            taken, wanted = await tx.page_capacity.taken(now, self.ended_seconds, self.policy), _leaf_bytes(leaf)
            if leaf.type in _OF_ANALYSTS:
                taken.require_share(wanted, leaf.signer, self.policy)
            elif leaf.type is LeafType.VOID:
                taken.require_voids(wanted)
            else:
                taken.require_keys(wanted)
        return register

    async def _admit(self, leaf: SignedLeaf, tx: RecipeTx, now: float) -> Register:
        if leaf.type is LeafType.RECIPE:
            return await self._recipe(leaf, tx, now)
        if leaf.type is LeafType.SERIES:
            return await self._series(leaf, tx, now)
        if leaf.type is LeafType.SERIES_END:
            return await self._series_end(leaf, tx, now)
        if leaf.type is LeafType.OPT_IN:
            return await self._opt_in(leaf, tx, now)
        if leaf.type is LeafType.VOID:
            return await self._void(leaf, tx, now)
        if leaf.type is LeafType.CENSUS_SHARE:
            return await self._census_share(leaf, tx, now)
        if leaf.type is LeafType.ISSUER_DIRECTORY:
            return await self._directory(leaf, tx, now)
        return await self._ohttp_config(leaf, tx, now)

    async def _recipe(self, leaf: SignedLeaf, tx: RecipeTx, now: float) -> Register:
        recipe = _decode(lambda: Recipe.from_body(leaf.body))
        rules.require(recipe, self.policy, Context(Stage.PUBLISH, now, leaf=leaf), only=_CHEAP_FIRST)
        token, series = recipe.token, await series_of(tx, recipe)
        place, slots = recipe.series, SlotTable(tx, self.policy, token.issuer, now)
        context = Context(
            stage=Stage.PUBLISH,
            now=now,
            leaf=leaf,
            series=series,
            ended=await ended_of(tx, series),
            round_owner=None
            if series is None or place is None
            else await tx.series.round_owner(series.hash, place.index),
            round_before=await round_before(tx, recipe, series),
            slot_owner=(await slots.of(token.epoch)).owner(recipe),
            directory=await directory_of(tx, token.issuer, token.epoch),
            charges=None if place else await self._charges(recipe.privacy.account, recipe.interval.start, tx, now),
            censuses=await self._censuses(tx, now) if recipe.criteria else (),
        )
        await asyncio.to_thread(rules.require, recipe, self.policy, context)
        if await tx.recipe_index(recipe.hash) is not None:
            raise Refusal("recipe-exists", "the log holds this recipe already, in another leaf")
        await slots.require_share(recipe, recipe.parties.analyst.operator)
        if recipe.is_census:
            await self._check_census_capacity(recipe, tx, now)

        async def register(tx: RecipeTx, index: int) -> None:
            await tx.add_recipe(recipe, index)
            if recipe.is_census:
                await tx.add_census(recipe)

        return register

    async def _censuses(self, tx: RecipeTx, now: float) -> tuple[Census, ...]:
        """The censuses that still count and have both shares in the log, assembled as a reader assembles them."""
        logged = await tx.census_shares(ending_after=int(now) - self.policy.census_max_age_seconds)
        indices = {index for census in logged for index in (census.index, *census.shares.values())}
        leaves = await tx.leaves(indices)
        return LiveLog.from_leaves((index, SignedLeaf.decode(leaf)) for index, leaf in leaves.items()).censuses

    async def _check_census_capacity(self, recipe: Recipe, tx: RecipeTx, now: float) -> None:
        """Check that all censuses that count stay small together: every device fetches them. Raises ``Refusal``."""
        cells = await tx.census_cells(ending_after=int(now) - self.policy.census_max_age_seconds)
        analyst = recipe.parties.analyst.operator
        share, own = self.policy.share(analyst, MAX_CENSUS_CELLS), cells.get(analyst, 0)
        left = min(share - own, MAX_CENSUS_CELLS - sum(cells.values()))
        if recipe.randomizer.categories > left:
            raise Refusal(
                "census-room",
                f"the censuses of {analyst} that count have {own} of the {share} conjunctions that they may have, all "
                f"censuses {sum(cells.values())} of {MAX_CENSUS_CELLS}; "
                f"one of at most {max(0, left)} still fits, this one has {recipe.randomizer.categories}",
            )

    async def _series(self, leaf: SignedLeaf, tx: RecipeTx, now: float) -> Register:
        series = _decode(lambda: Series.from_body(leaf.body))
        probe = series.probe
        rules.require(probe, self.policy, Context(Stage.DRAFT, now), only=("analyst-unknown",))
        analyst = probe.parties.analyst
        if leaf.signer != analyst.operator:
            raise Refusal("leaf-signature", f"signed by {leaf.signer}, the analyst is {analyst.operator}")
        _check_signature(leaf, unb64url(analyst.signing_key))
        charges = await self._charges(probe.privacy.account, series.interval.start, tx, now)
        await asyncio.to_thread(series_rules.require, series, self.policy, now, charges)
        if await tx.series.find(series.hash) is not None:
            raise Refusal("series-exists", "the log holds this series already, in another leaf")
        if isinstance(probe.question.encoder, Update) and await tx.series.is_open(analyst.operator, series.name, now):
            raise Refusal(
                "series-name",
                f"{analyst.operator} has a series called {series.name} that goes on: a training run has a name of its "
                "own, by which its rounds are found",
            )
        await SlotTable(tx, self.policy, series.slots.issuer, now).require_free(series)

        async def register(tx: RecipeTx, index: int) -> None:
            await tx.series.add(series, index)

        return register

    async def _series_end(self, leaf: SignedLeaf, tx: RecipeTx, now: float) -> Register:
        end = _body(leaf, SeriesEnd)
        logged = await tx.series.find(unb64url(end.series_hash))
        if logged is None:
            raise Refusal("series-end-series", "the log does not hold the series")
        data = (await tx.leaves([logged.index]))[logged.index]
        series = stored_series(data)
        known = {series.hash_text: series}
        key = LeafSigners(self.policy, (), self.log_key).key_of(leaf, {}, known)
        if key is None:
            may = "the log itself" if end.role == "log" else series.probe.parties.analyst.operator
            raise Refusal("series-end-signer", f"signed by {leaf.signer}; {may} must sign it")
        _check_signature(leaf, key)
        if logged.end_index is not None:
            raise Refusal("series-end-exists", f"leaf {logged.end_index} has ended the series already")
        if now >= logged.ends_at:
            raise Refusal("series-end-late", f"the series was over at {format_second(logged.ends_at)}")

        async def register(tx: RecipeTx, index: int) -> None:
            await tx.series.end(series, index, int(now))

        return register

    async def _charges(self, name: str, start: int, tx: RecipeTx, now: float) -> tuple[Charge, ...] | None:
        """The charges to an account that an interval from ``start`` on can meet, as this transaction sees the log."""
        account = self.policy.account(name)
        if account is None:
            return None
        charges = await tx.charges(account.name, now, ending_after=start - account.window_seconds)
        return rightful(charges, self.policy)

    async def _opt_in(self, leaf: SignedLeaf, tx: RecipeTx, now: float) -> Register:
        opt_in = _body(leaf, OptIn)
        recipe = await _aggregators_recipe("opt-in", leaf, opt_in, tx)
        recipe_hash, proves = recipe.hash, confirms(recipe, opt_in.role)
        if proves != (opt_in.verify_key_confirmation is not None):
            raise Refusal("leaf-malformed", f"an opt-in to it {'confirms a' if proves else 'names no'} verify key")
        if now >= recipe.interval.end:
            raise Refusal("opt-in-late", f"the recipe's interval ended at {format_second(recipe.interval.end)}")
        if await tx.opt_in_index(recipe_hash, opt_in.role) is not None:
            raise Refusal("opt-in-exists", f"the log holds another opt-in of the {opt_in.role}")

        async def register(tx: RecipeTx, index: int) -> None:
            await tx.add_opt_in(recipe_hash, opt_in, index)

        return register

    async def _void(self, leaf: SignedLeaf, tx: RecipeTx, now: float) -> Register:
        void = _body(leaf, Void)
        recipe = await _aggregators_recipe("void", leaf, void, tx)
        if await tx.opt_in_index(recipe.hash, void.role) is None:
            raise Refusal("void-opt-in", f"the log holds no opt-in of the {void.role}")
        if now < recipe.interval.end:
            raise Refusal("void-early", f"the recipe's interval ends at {format_second(recipe.interval.end)}")
        if await tx.has_results(recipe.hash) or await tx.census_shares(recipe_hash=recipe.hash):
            raise Refusal("void-released", "a result of the recipe is published")
        if void.role in await tx.void_roles(recipe.hash):
            raise Refusal("void-exists", f"the log holds another void leaf of the {void.role}")

        async def register(tx: RecipeTx, index: int) -> None:
            await tx.add_void(recipe.hash, void, index, int(now))

        return register

    async def _census_share(self, leaf: SignedLeaf, tx: RecipeTx, now: float) -> Register:
        share = _body(leaf, CensusShare)
        recipe = await _aggregators_recipe("census-share", leaf, share, tx)
        if not recipe.is_census or not confirms(recipe, share.role):
            raise Refusal("census-share-recipe", "the recipe is no census")
        if await tx.opt_in_index(recipe.hash, share.role) is None:
            raise Refusal("census-share-opt-in", f"the log holds no opt-in of the {share.role}")
        if now < recipe.interval.end:
            raise Refusal("census-share-early", f"the census ends at {format_second(recipe.interval.end)}")
        if share.role in await tx.void_roles(recipe.hash):
            raise Refusal("census-share-void", f"the {share.role} has said that nothing was released")
        if any(share.role in census.shares for census in await tx.census_shares(recipe_hash=recipe.hash)):
            raise Refusal("census-share-exists", f"the log holds another share of the {share.role}")
        _decode(lambda: vdaf_of(recipe).decode_agg_share(unb64url(share.aggregate_share)))

        async def register(tx: RecipeTx, index: int) -> None:
            await tx.add_census_share(recipe.hash, share.role, index)

        return register

    async def _directory(self, leaf: SignedLeaf, tx: RecipeTx, now: float) -> Register:
        directory = _body(leaf, IssuerDirectory)
        key = self.policy.issuer_key(directory.issuer)
        if key is None or leaf.signer != directory.issuer:
            raise Refusal("issuer-unknown", f"{leaf.signer} may not publish a directory of {directory.issuer}")
        _check_signature(leaf, key)
        for slot_key in directory.keys:
            try:
                TokenKey.from_spki(unb64url(slot_key.token_key))
            except DecodeError as error:
                raise Refusal("directory-key-invalid", f"slot {slot_key.slot}: {error}") from error
        for other in await tx.directories(directory.issuer):
            if other.epoch == directory.epoch:
                raise Refusal("directory-exists", f"the log holds another directory of epoch {directory.epoch}")
            if other.epoch_seconds != directory.epoch_seconds:
                raise Refusal("directory-epoch-seconds", f"epochs of this issuer have {other.epoch_seconds} seconds")
        self._check_time(directory, now)

        async def register(tx: RecipeTx, index: int) -> None:
            await tx.add_directory(directory, index)

        return register

    def _check_time(self, directory: IssuerDirectory, now: float) -> None:
        if now >= directory.end:
            raise Refusal("directory-over", f"epoch {directory.epoch} ended at {format_second(directory.end)}")
        opens = directory.start - MAX_LOOKAHEAD * directory.epoch_seconds
        if now < opens - MAX_SKEW_SECONDS:
            raise Refusal(
                "directory-early", f"the directory of epoch {directory.epoch} may come from {format_second(opens)} on"
            )
        deadline = directory.start - directory.epoch_seconds
        if now >= deadline and not self.accept_late_directories:
            raise Refusal(
                "directory-late", f"the directory of epoch {directory.epoch} was due before {format_second(deadline)}"
            )

    async def _ohttp_config(self, leaf: SignedLeaf, tx: RecipeTx, now: float) -> Register:
        config = _body(leaf, OhttpConfig)
        key = self.policy.gateway_key(config.gateway)
        if key is None or leaf.signer != config.gateway:
            raise Refusal("gateway-unknown", f"{leaf.signer} may not publish a key set of {config.gateway}")
        _check_signature(leaf, key)
        for encoded in filter(None, (config.active, config.previous)):
            try:
                KeyConfig.decode(unb64url(encoded))
            except DecodeError as error:
                raise Refusal("ohttp-key-invalid", str(error)) from error
        await _check_period(config, tx, now)

        async def register(tx: RecipeTx, index: int) -> None:
            await tx.add_key_set(config, index)

        return register


async def _check_period(config: OhttpConfig, tx: RecipeTx, now: float) -> None:
    """Check that there is one key set per period, known well before it is used, so that all devices change keys at one
    moment. A gateway without a key set of the previous period may publish one for a period that has begun, because no
    device has to change keys. Raises ``Refusal``."""
    known = {one.period: one for one in await tx.key_sets(config.gateway)}
    if any(one.rotation_seconds != config.rotation_seconds for one in known.values()):
        rotation = next(iter(known.values())).rotation_seconds
        raise Refusal("ohttp-config-rotation", f"periods of this gateway have {rotation} seconds")
    if config.period in known:
        raise Refusal("ohttp-config-exists", f"the log holds another key set of period {config.period}")
    newest = max(known, default=-1)
    if config.period < newest:
        raise Refusal("ohttp-config-order", f"the log holds the key set of the later period {newest}")
    current = int(now) // config.rotation_seconds
    if config.period < current:
        end = config.start + config.rotation_seconds
        raise Refusal("ohttp-config-over", f"period {config.period} ended at {format_second(end)}")
    if config.period > current + 1:
        raise Refusal("ohttp-config-early", f"it is period {current}; the key set of the next one may be published")
    before = known.get(config.period - 1)
    if before is None:
        return
    deadline = config.start - config.rotation_seconds // KEY_SET_MARGIN
    if now >= deadline:
        raise Refusal(
            "ohttp-config-late", f"the key set of period {config.period} was due before {format_second(deadline)}"
        )
    logged = SignedLeaf.decode((await tx.leaves([before.index]))[before.index]).body_as(OhttpConfig)
    if config.previous not in {None, logged.active}:
        raise Refusal("ohttp-config-previous", f"the previous key is not the active one of period {before.period}")


def _leaf_bytes(leaf: SignedLeaf) -> int:
    """Bytes that a leaf takes of the room of all live entries."""
    size = len(leaf.encode())
    if leaf.type is LeafType.SERIES:
        return series_bytes(size)
    if leaf.type is not LeafType.RECIPE:
        return entry_bytes(size)
    recipe = Recipe.from_body(leaf.body)
    return recipe_bytes(size) + (census_bytes(recipe.randomizer.categories) if recipe.is_census else 0)


async def _aggregators_recipe(kind: str, leaf: SignedLeaf, body: OptIn | Void | CensusShare, tx: RecipeTx) -> Recipe:
    """The recipe that an aggregator's leaf is about. Raises ``Refusal`` unless the leaf is signed by that aggregator's
    key in the recipe and names the recipe's task."""
    index = await tx.recipe_index(unb64url(body.recipe_hash))
    if index is None:
        raise Refusal(f"{kind}-recipe", "the log does not hold the recipe")
    recipe = Recipe.from_body(SignedLeaf.decode((await tx.leaves([index]))[index]).body)
    party = recipe.parties.server(body.role)
    if party is None:
        raise Refusal(f"{kind}-signer", f"a recipe of model {recipe.model} has no {body.role}")
    if leaf.signer != party.operator:
        raise Refusal(f"{kind}-signer", f"signed by {leaf.signer}, the {body.role} is {party.operator}")
    _check_signature(leaf, unb64url(party.signing_key))
    if body.task_id != b64url(task_id_at(recipe, body.role)):
        raise Refusal(f"{kind}-mismatch", "the leaf names another task than the recipe gives")
    return recipe


T = TypeVar("T")


def _decode(read: Callable[[], T]) -> T:
    try:
        return read()
    except DecodeError as error:
        raise Refusal("leaf-malformed", str(error)) from error


def _body(leaf: SignedLeaf, model: type[B]) -> B:
    return _decode(lambda: leaf.body_as(model))


def _check_signature(leaf: SignedLeaf, public: bytes) -> None:
    try:
        leaf.verify(public)
    except CryptoError as error:
        raise Refusal("leaf-signature", str(error)) from error


def decode_leaf(data: bytes) -> SignedLeaf:
    """The leaf in ``data``. Raises Refusal ``leaf-malformed``."""
    return _decode(lambda: SignedLeaf.decode(data))


def operator_policy(policy: Policy) -> Policy:
    """``policy``, except that every analyst, issuer and gateway that it does not name is refused where it would leave
    the choice to the recipe."""
    closed = {
        "analysts": policy.analysts or {},
        "issuers": policy.issuers or {},
        "gateways": policy.gateways or {},
    }
    return policy.model_copy(update=closed)


@lru_cache(maxsize=256)
def stored_recipe(data: bytes) -> Recipe:
    """The recipe of a stored leaf. Raises ``Fatal`` if the store holds something else."""
    try:
        return Recipe.from_body(SignedLeaf.decode(data).body)
    except DecodeError as error:
        raise Fatal("the store holds an unreadable recipe") from error
