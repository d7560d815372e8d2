"""The recipe server's store, in terms of the protocol. All access is through a transaction."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import TypeVar

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from recipe_server.models import ModelRows
from recipe_server.page_capacity import PageCapacity
from recipe_server.records import LoggedCensus, LoggedDirectory, LoggedKeySet, LoggedRecipe, PublishedResult
from recipe_server.schema import (
    CENSUS_SHARES,
    CENSUSES,
    CHARGES,
    CHECKPOINT,
    DIRECTORIES,
    ENTRIES,
    KEY_SETS,
    METADATA,
    MIGRATIONS,
    NODES,
    OPT_INS,
    RECIPES,
    RESULTS,
    SHOWN,
    VOIDS,
)
from recipe_server.series import SeriesRows
from tacit.adapters.databases.stored import DatabaseStore
from tacit.adapters.databases.watermark import Watermark
from tacit.codec import unb64url
from tacit.ledger.account import Charge, ChargeState, Cost, charge_state
from tacit.models.forms import form_of
from tacit.recipe.charges import charge_of, is_refundable
from tacit.recipe.model import Recipe
from tacit.tlog.key_sets import OhttpConfig
from tacit.tlog.leaves import SignedLeaf
from tacit.tlog.log import Node, nodes_for_append
from tacit.tlog.merkle import NodeReader, reads_of
from tacit.tlog.statements import OptIn, Void
from tacit.tlog.token_directories import IssuerDirectory

T = TypeVar("T")
_FETCH = 400


class RecipeTx:
    """One transaction: everything that it reads is of one moment, everything that it writes commits together. All times
    are POSIX seconds."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self.spends = False
        """Whether this transaction wrote something that must not be lost: entries under a signed checkpoint, or
        releases."""
        self.series = SeriesRows(connection)
        self.page_capacity = PageCapacity(connection)
        self.models = ModelRows(connection)

    async def checkpoint(self) -> tuple[int, bytes] | None:
        """(size, note) of the newest checkpoint; None before the first."""
        row = (await self._connection.execute(sa.select(CHECKPOINT.c.size, CHECKPOINT.c.note))).first()
        return None if row is None else (row.size, row.note)

    async def put_checkpoint(self, size: int, note: bytes) -> None:
        """Put the signed note of the tree of ``size`` entries in place of the one before; ``size`` is not compared with
        it."""
        await self._connection.execute(sa.delete(CHECKPOINT))
        await self._connection.execute(sa.insert(CHECKPOINT).values(only=1, size=size, note=note))

    async def shown(self) -> tuple[int, bytes] | None:
        """(size, note) of the newest checkpoint that witnesses have cosigned; None before the first."""
        row = (await self._connection.execute(sa.select(SHOWN.c.size, SHOWN.c.note))).first()
        return None if row is None else (row.size, row.note)

    async def put_shown(self, size: int, note: bytes) -> None:
        """Replace the checkpoint that readers see."""
        await self._connection.execute(sa.delete(SHOWN))
        await self._connection.execute(sa.insert(SHOWN).values(only=1, size=size, note=note))

    async def with_nodes(self, compute: Callable[[NodeReader], T]) -> T:
        """The result of ``compute``, which reads the stored hashes; they are fetched in as few statements as needed."""
        nodes: dict[tuple[int, int], bytes] = {}
        wanted = sorted(reads_of(compute))
        for start in range(0, len(wanted), _FETCH):
            keys = wanted[start : start + _FETCH]
            statement = sa.select(NODES).where(sa.tuple_(NODES.c.level, NODES.c.position).in_(keys))
            for row in await self._connection.execute(statement):
                nodes[row.level, row.position] = row.hash
        return compute(lambda level, index: nodes[level, index])

    async def edge(self, size: int) -> dict[tuple[int, int], bytes]:
        """The hashes that an append to a tree of ``size`` entries needs."""
        keys = nodes_for_append(size)
        return await self.with_nodes(lambda read: {key: read(*key) for key in keys})

    async def add_entry(self, index: int, leaf: SignedLeaf, data: bytes, nodes: Iterable[Node]) -> None:
        """Store the entry at ``index`` with its encoding ``data`` and the hashes that it adds to the tree. Raises
        ``IntegrityError`` for an index that is taken, or bytes that the log has. Counts as a write that must not be
        lost."""
        self.spends = True
        digest = hashlib.sha256(data).digest()
        values = {"position": index, "type": leaf.type.value, "leaf": data, "digest": digest}
        await self._connection.execute(sa.insert(ENTRIES).values(**values))
        rows = [{"level": node.level, "position": node.index, "hash": node.hash} for node in nodes]
        await self._connection.execute(sa.insert(NODES), rows)

    async def index_of(self, data: bytes) -> int | None:
        """Index of the entry with exactly these bytes, or None."""
        statement = sa.select(ENTRIES.c.position).where(ENTRIES.c.digest == hashlib.sha256(data).digest())
        return await self._scalar(statement)

    async def leaves(self, indices: Collection[int]) -> dict[int, bytes]:
        """The encoded entries at ``indices``, by index."""
        wanted, leaves = sorted(indices), {}
        for start in range(0, len(wanted), _FETCH):
            inside = ENTRIES.c.position.in_(wanted[start : start + _FETCH])
            statement = sa.select(ENTRIES.c.position, ENTRIES.c.leaf).where(inside)
            leaves.update({row.position: row.leaf for row in await self._connection.execute(statement)})
        return leaves

    async def leaf_range(self, start: int, count: int) -> list[bytes]:
        """The encodings of ``count`` entries from index ``start`` on, in order; fewer where the log ends."""
        inside = sa.and_(ENTRIES.c.position >= start, ENTRIES.c.position < start + count)
        statement = sa.select(ENTRIES.c.leaf).where(inside).order_by(ENTRIES.c.position)
        return list((await self._connection.execute(statement)).scalars())

    async def add_recipe(self, recipe: Recipe, index: int) -> None:
        """Record a recipe that is in the log, with the model that it names; from now on its slot is taken. A round of a
        series is charged nothing in addition."""
        token = recipe.token
        await self._connection.execute(
            sa.insert(RECIPES).values(
                hash=recipe.hash,
                position=index,
                analyst=recipe.parties.analyst.operator,
                issuer=token.issuer,
                epoch=token.epoch,
                slot=token.slot,
                ends_at=recipe.interval.end,
                model=recipe.model,
                refundable=is_refundable(recipe),
            )
        )
        await self.models.add(recipe)
        if recipe.series is not None:
            await self.series.add_round(unb64url(recipe.series.hash), recipe.series.index, recipe)
            return
        charge = charge_of(recipe, ChargeState.PENDING)
        await self._connection.execute(
            sa.insert(CHARGES).values(
                recipe_hash=recipe.hash,
                account=charge.account,
                name=charge.name,
                epsilon=f"{charge.cost.epsilon:f}",
                delta=recipe.privacy.delta,
                starts_at=charge.start,
                ends_at=charge.end,
                epsilon_with_relay=f"{charge.with_relay().cost.epsilon:f}",
            )
        )

    async def add_census(self, recipe: Recipe) -> None:
        """Record that the recipe, which is in the log, is a census; its cells take room in every bundle for as long as
        it counts."""
        cells = recipe.randomizer.categories
        await self._connection.execute(sa.insert(CENSUSES).values(recipe_hash=recipe.hash, cells=cells))

    async def census_cells(self, ending_after: int) -> dict[str, int]:
        """Number of cells of all censuses that end after ``ending_after``, by analyst."""
        joined = sa.select(RECIPES.c.analyst, sa.func.sum(CENSUSES.c.cells))
        joined = joined.join(CENSUSES, RECIPES.c.hash == CENSUSES.c.recipe_hash)
        rows = await self._connection.execute(
            joined.where(RECIPES.c.ends_at > ending_after).group_by(RECIPES.c.analyst)
        )
        return {analyst: int(cells) for analyst, cells in rows}

    async def add_census_share(self, recipe_hash: bytes, role: str, index: int) -> None:
        """Record the aggregator's share of a census, which is in the log."""
        values = {"recipe_hash": recipe_hash, "role": role, "position": index}
        await self._connection.execute(sa.insert(CENSUS_SHARES).values(**values))

    async def census_shares(self, ending_after: int = -1, recipe_hash: bytes | None = None) -> list[LoggedCensus]:
        """The censuses with a published share that end after ``ending_after``, or the one with this hash, in the order
        of the log."""
        columns = (RECIPES.c.hash, RECIPES.c.position, RECIPES.c.ends_at, CENSUS_SHARES.c.role)
        statement = sa.select(*columns, CENSUS_SHARES.c.position.label("share"))
        statement = statement.join(RECIPES, RECIPES.c.hash == CENSUS_SHARES.c.recipe_hash)
        statement = statement.where(RECIPES.c.ends_at > ending_after)
        if recipe_hash is not None:
            statement = statement.where(RECIPES.c.hash == recipe_hash)
        censuses: dict[bytes, LoggedCensus] = {}
        for row in await self._connection.execute(statement.order_by(RECIPES.c.position)):
            census = censuses.setdefault(row.hash, LoggedCensus(row.position, row.ends_at, {}))
            census.shares[row.role] = row.share
        return list(censuses.values())

    async def recipe_index(self, recipe_hash: bytes) -> int | None:
        """Index in the log of the recipe with this hash (32 bytes), or None if the log does not hold it."""
        return await self._scalar(sa.select(RECIPES.c.position).where(RECIPES.c.hash == recipe_hash))

    async def recipes(
        self, *, ending_after: int = -1, recipe_hash: bytes | None = None, after: int = -1, limit: int | None = None
    ) -> list[LoggedRecipe]:
        """Recipes in the order of the log, each with its opt-ins: those that end after ``ending_after`` and have an
        index above ``after``, or the one with this hash; at most ``limit``."""
        statement = sa.select(RECIPES).where(RECIPES.c.ends_at > ending_after, RECIPES.c.position > after)
        if recipe_hash is not None:
            statement = statement.where(RECIPES.c.hash == recipe_hash)
        rows = (await self._connection.execute(statement.order_by(RECIPES.c.position).limit(limit))).all()
        opt_ins: dict[bytes, dict[str, int]] = {row.hash: {} for row in rows}
        for start in range(0, len(rows), _FETCH):
            hashes = [row.hash for row in rows[start : start + _FETCH]]
            found = sa.select(OPT_INS).where(OPT_INS.c.recipe_hash.in_(hashes))
            for row in await self._connection.execute(found):
                opt_ins[row.recipe_hash][row.role] = row.position
        return [LoggedRecipe(row.hash, row.position, row.ends_at, opt_ins[row.hash]) for row in rows]

    async def add_opt_in(self, recipe_hash: bytes, opt_in: OptIn, index: int) -> None:
        """Record the aggregator's opt-in, which is in the log."""
        values = {"recipe_hash": recipe_hash, "role": opt_in.role, "position": index}
        await self._connection.execute(sa.insert(OPT_INS).values(**values))

    async def opt_in_index(self, recipe_hash: bytes, role: str) -> int | None:
        """Index in the log of the opt-in of ``role``, or None while that party has not opted in."""
        at = (OPT_INS.c.recipe_hash == recipe_hash, OPT_INS.c.role == role)
        return await self._scalar(sa.select(OPT_INS.c.position).where(*at))

    async def add_void(self, recipe_hash: bytes, void: Void, index: int, now: int) -> None:
        """Record the aggregator's void leaf, which is in the log."""
        values = {"recipe_hash": recipe_hash, "role": void.role, "position": index, "published_at": now}
        await self._connection.execute(sa.insert(VOIDS).values(**values))

    async def void_roles(self, recipe_hash: bytes) -> frozenset[str]:
        """The roles that have declared that nothing of the recipe will ever be released."""
        statement = sa.select(VOIDS.c.role).where(VOIDS.c.recipe_hash == recipe_hash)
        return frozenset((await self._connection.execute(statement)).scalars())

    async def is_void(self, recipe_hash: bytes) -> bool:
        """Whether every party that the recipe's model asks has declared that nothing of the recipe will ever be
        released."""
        model = await self._scalar(sa.select(RECIPES.c.model).where(RECIPES.c.hash == recipe_hash))
        return model is not None and await self.void_roles(recipe_hash) >= set(form_of(model).opts_in)

    async def voids(self, published_after: int) -> list[tuple[int, int]]:
        """(index, time of publication) of the void leaves that were published after ``published_after`` (both times in
        POSIX seconds), in the order of the log."""
        statement = sa.select(VOIDS.c.position, VOIDS.c.published_at).where(VOIDS.c.published_at > published_after)
        rows = await self._connection.execute(statement.order_by(VOIDS.c.position))
        return [(row.position, row.published_at) for row in rows]

    async def charges(self, account: str, now: float, *, ending_after: int = -1) -> tuple[Charge, ...]:
        """The charges to an account at ``now`` (POSIX seconds), of recipes and series that end after
        ``ending_after``."""
        wanted = (CHARGES.c.account == account, CHARGES.c.ends_at > ending_after)
        charged = sa.select(CHARGES, RECIPES.c.model, RECIPES.c.refundable, RECIPES.c.analyst).join(
            RECIPES, RECIPES.c.hash == CHARGES.c.recipe_hash
        )
        rows = (await self._connection.execute(charged.where(*wanted))).all()
        roles: dict[str, dict[bytes, set[str]]] = {}
        for table in (OPT_INS, VOIDS):
            joined = sa.select(table.c.recipe_hash, table.c.role).join(
                CHARGES, CHARGES.c.recipe_hash == table.c.recipe_hash
            )
            states = roles.setdefault(table.name, {})
            for row in await self._connection.execute(joined.where(*wanted)):
                states.setdefault(row.recipe_hash, set()).add(row.role)

        def charge(row: sa.Row[tuple[object, ...]]) -> Charge:
            opted_in, void = (roles[table.name].get(row.recipe_hash, set()) for table in (OPT_INS, VOIDS))
            roles_of = form_of(row.model).opts_in
            state = charge_state(roles_of, opted_in, void, row.ends_at, now, refundable=row.refundable)
            cost = Cost(Decimal(row.epsilon), Decimal(row.delta))
            beside = Decimal(row.epsilon_with_relay)
            return Charge(
                row.account, row.recipe_hash, row.name, row.starts_at, row.ends_at, cost, state, beside, row.analyst
            )

        return (*map(charge, rows), *await self.series.charges(account, now, ending_after=ending_after))

    async def add_directory(self, directory: IssuerDirectory, index: int) -> None:
        """Record the issuer's directory of an epoch, which is in the log."""
        values = {
            "issuer": directory.issuer,
            "epoch": directory.epoch,
            "epoch_seconds": directory.epoch_seconds,
            "position": index,
        }
        await self._connection.execute(sa.insert(DIRECTORIES).values(**values))

    async def directories(self, issuer: str | None = None) -> list[LoggedDirectory]:
        columns = (DIRECTORIES.c.issuer, DIRECTORIES.c.epoch, DIRECTORIES.c.epoch_seconds, DIRECTORIES.c.position)
        statement = sa.select(*columns).order_by(DIRECTORIES.c.position)
        if issuer is not None:
            statement = statement.where(DIRECTORIES.c.issuer == issuer)
        return [LoggedDirectory(*row) for row in await self._connection.execute(statement)]

    async def add_key_set(self, config: OhttpConfig, index: int) -> None:
        """Record the gateway's key set of a period, which is in the log."""
        values = {
            "gateway": config.gateway,
            "period": config.period,
            "rotation_seconds": config.rotation_seconds,
            "position": index,
        }
        await self._connection.execute(sa.insert(KEY_SETS).values(**values))

    async def key_sets(self, gateway: str | None = None) -> list[LoggedKeySet]:
        """All key sets, or those of one gateway, in the order of their periods."""
        columns = (KEY_SETS.c.gateway, KEY_SETS.c.period, KEY_SETS.c.rotation_seconds, KEY_SETS.c.position)
        statement = sa.select(*columns).order_by(KEY_SETS.c.gateway, KEY_SETS.c.period)
        if gateway is not None:
            statement = statement.where(KEY_SETS.c.gateway == gateway)
        return [LoggedKeySet(*row) for row in await self._connection.execute(statement)]

    async def add_result(self, result: PublishedResult) -> None:
        """Store a result that was released, numbered behind all others."""
        self.spends = True
        newest = await self._scalar(sa.select(sa.func.max(RESULTS.c.number)))
        values = {
            "recipe_hash": result.recipe_hash,
            "batch_id": result.batch_id,
            "body": result.body,
            "published_at": result.published_at,
            "number": 0 if newest is None else newest + 1,
        }
        await self._connection.execute(sa.insert(RESULTS).values(**values))

    async def has_results(self, recipe_hash: bytes) -> bool:
        statement = sa.select(RESULTS.c.number).where(RESULTS.c.recipe_hash == recipe_hash).limit(1)
        return await self._scalar(statement) is not None

    async def result_of(self, recipe_hash: bytes, batch_id: str) -> bytes | None:
        """The published bytes of a batch's result; None while there is none."""
        of = (RESULTS.c.recipe_hash == recipe_hash, RESULTS.c.batch_id == batch_id)
        return await self._scalar(sa.select(RESULTS.c.body).where(*of))

    async def result_sizes(self, recipe_hash: bytes | None, after: int, limit: int) -> list[tuple[int, int]]:
        """(number, bytes of the body) of released results of one recipe or of all, in the order of publication, from
        above number ``after``."""
        statement = sa.select(RESULTS.c.number, sa.func.length(RESULTS.c.body)).where(RESULTS.c.number > after)
        if recipe_hash is not None:
            statement = statement.where(RESULTS.c.recipe_hash == recipe_hash)
        rows = await self._connection.execute(statement.order_by(RESULTS.c.number).limit(limit))
        return [(number, size) for number, size in rows]

    async def numbered_results(self, recipe_hash: bytes | None, numbers: Sequence[int]) -> list[PublishedResult]:
        """The released results of one recipe or of all between the first and the last of ``numbers``, in order."""
        if not numbers:
            return []
        columns = (RESULTS.c.recipe_hash, RESULTS.c.batch_id, RESULTS.c.body, RESULTS.c.published_at)
        statement = sa.select(*columns).where(RESULTS.c.number.between(numbers[0], numbers[-1]))
        if recipe_hash is not None:
            statement = statement.where(RESULTS.c.recipe_hash == recipe_hash)
        rows = await self._connection.execute(statement.order_by(RESULTS.c.number))
        return [PublishedResult(*row) for row in rows]

    async def _scalar(self, statement: sa.Select[T]) -> T | None:
        return (await self._connection.execute(statement)).scalar()


class RecipeStore(DatabaseStore):
    """The recipe server's database. Transactions that may write run one after another."""

    def __init__(self, url: str, mark: Watermark | None = None) -> None:
        super().__init__(url, METADATA, MIGRATIONS, mark)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[RecipeTx]:
        """Commit everything in the block, or nothing; it runs alone."""
        database = self._database
        async with database.transaction() as connection:
            yield (tx := RecipeTx(connection))
            if tx.spends:
                await database.spend(connection)

    @asynccontextmanager
    async def read(self) -> AsyncIterator[RecipeTx]:
        """Read from one consistent view, beside the transaction that writes."""
        async with self._database.read() as connection:
            yield RecipeTx(connection)
