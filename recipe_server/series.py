"""The recipe server's records of series: the index of each, which recipe is which round, and what it charges (P26)."""

from __future__ import annotations

from decimal import Decimal

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from recipe_server.records import LoggedSeries
from recipe_server.schema import OPT_INS, RECIPES, SERIES, SERIES_ROUNDS, VOIDS
from tacit.ledger.account import Charge, ChargeState, Cost, charge_state, series_state
from tacit.models.forms import form_of
from tacit.recipe.charges import series_charge, series_cost, with_relay_of
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.recipe.series import Ended, Series

END_SHOWN = 2 * 86_400
"""Seconds for which readers of bundles are shown at least that a series was ended, even where it has no live round: so
that whoever reads now and then still learns of it."""


class SeriesRows:
    """The series as one transaction sees them; ``number`` counts a series' rounds from 0."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def add(self, series: Series, index: int) -> None:
        """Record a series that is in the log; it is charged from now on."""
        charge = series_charge(series, ChargeState.PENDING)
        await self._connection.execute(
            sa.insert(SERIES).values(
                hash=series.hash,
                position=index,
                analyst=series.probe.parties.analyst.operator,
                signing_key=series.probe.parties.analyst.signing_key,
                account=charge.account,
                name=charge.name,
                epsilon=f"{series_cost(series).epsilon:f}",
                delta=series.claim.delta,
                starts_at=charge.start,
                ends_at=charge.end,
                epsilon_with_relay=f"{with_relay_of(series):f}",
            )
        )

    async def add_round(self, series_hash: bytes, number: int, recipe: Recipe) -> None:
        """Record that ``recipe``, which is in the log, is round ``number``. Raises ``IntegrityError`` if the round or
        the recipe is recorded already."""
        values = {"series_hash": series_hash, "number": number, "recipe_hash": recipe.hash}
        await self._connection.execute(sa.insert(SERIES_ROUNDS).values(**values))

    async def find(self, series_hash: bytes) -> LoggedSeries | None:
        """The series with this hash (32 bytes), open, over or ended; None if the log does not hold it."""
        row = (await self._connection.execute(sa.select(SERIES).where(SERIES.c.hash == series_hash))).first()
        if row is None:
            return None
        is_open = row.end_position is None
        return LoggedSeries(row.hash, row.position, row.ends_at, row.analyst, is_open, row.end_position)

    async def is_open(self, analyst: str, name: str, now: float) -> bool:
        """Whether the analyst has a series of this name that is neither over at ``now`` nor ended."""
        own = (SERIES.c.analyst == analyst, SERIES.c.name == name)
        goes_on = (SERIES.c.ends_at > now, SERIES.c.end_position.is_(None))
        statement = sa.select(SERIES.c.position).where(*own, *goes_on).limit(1)
        return (await self._connection.execute(statement)).first() is not None

    async def end(self, series: Series, index: int, now: int) -> None:
        """Record that the leaf at ``index`` has ended a series at ``now``: from then on it is charged until its last
        published round is over."""
        charge = series_charge(series, ChargeState.PENDING, await self.ended_at(series.hash, index))
        values = {
            "ends_at": charge.end,
            "end_position": index,
            "shown_until": now + END_SHOWN,
        }
        await self._connection.execute(sa.update(SERIES).where(SERIES.c.hash == series.hash).values(**values))

    async def ended_at(self, series_hash: bytes, index: int) -> Ended:
        """What a series is that the leaf at ``index`` ends: its rounds in the log, all of which come before."""
        last = sa.func.max(RECIPES.c.ends_at)
        joined = sa.join(SERIES_ROUNDS, RECIPES, RECIPES.c.hash == SERIES_ROUNDS.c.recipe_hash)
        statement = sa.select(last).select_from(joined).where(SERIES_ROUNDS.c.series_hash == series_hash)
        return Ended(index, (await self._connection.execute(statement)).scalar() or 0)

    async def live(self, gone: int, policy: Policy) -> list[LoggedSeries]:
        """The series that readers still need, in the order of the log: rounds may come, as long as ``policy`` names
        the analyst with its key and no leaf has ended the series, until its time is over; and each is live until it
        has ended before ``gone`` (POSIX seconds). ``ends_at`` is when the last of them does."""
        last = sa.func.max(RECIPES.c.ends_at)
        rounds = sa.join(SERIES_ROUNDS, RECIPES, RECIPES.c.hash == SERIES_ROUNDS.c.recipe_hash)
        ends = sa.select(SERIES_ROUNDS.c.series_hash, last.label("last")).select_from(rounds)
        published = ends.group_by(SERIES_ROUNDS.c.series_hash).subquery()
        joined = sa.outerjoin(SERIES, published, published.c.series_hash == SERIES.c.hash)
        statement = (
            sa.select(SERIES, published.c.last)
            .select_from(joined)
            .where(sa.or_(SERIES.c.ends_at > gone, SERIES.c.shown_until > gone))
        )
        series = []
        for row in await self._connection.execute(statement.order_by(SERIES.c.position)):
            is_open = row.end_position is None and policy.trusts(row.analyst, row.signing_key)
            ends_at = row.ends_at if is_open else max(row.last or 0, row.shown_until or 0)
            if ends_at > gone:
                one = LoggedSeries(row.hash, row.position, ends_at, row.analyst, is_open, row.end_position)
                series.append(one)
        return series

    async def held_slots(self, issuer: str, first: int, last: int) -> dict[int, dict[int, tuple[bytes, str]]]:
        """For epochs ``first`` to ``last``, by slot, hash and analyst of the recipe that has it."""
        at = (RECIPES.c.issuer == issuer, RECIPES.c.epoch.between(first, last))
        columns = (RECIPES.c.epoch, RECIPES.c.slot, RECIPES.c.hash, RECIPES.c.analyst)
        held: dict[int, dict[int, tuple[bytes, str]]] = {}
        for row in await self._connection.execute(sa.select(*columns).where(*at)):
            held.setdefault(row.epoch, {})[row.slot] = (row.hash, row.analyst)
        return held

    async def round_owner(self, series_hash: bytes, number: int) -> bytes | None:
        """Hash (32 bytes) of the recipe that is round ``number``; None while no recipe in the log is."""
        at = (SERIES_ROUNDS.c.series_hash == series_hash, SERIES_ROUNDS.c.number == number)
        owner: bytes | None = await self._connection.scalar(sa.select(SERIES_ROUNDS.c.recipe_hash).where(*at))
        return owner

    async def charges(self, account: str, now: float, *, ending_after: int = -1) -> tuple[Charge, ...]:
        """The charges of an account's series at ``now``, in no order; only of series that end after ``ending_after``
        (both in POSIX seconds). One that was ended before any round was published is over at once."""
        wanted = (SERIES.c.account == account, SERIES.c.ends_at > ending_after)
        rows = (await self._connection.execute(sa.select(SERIES).where(*wanted))).all()
        states = await self._round_states(wanted, now) if rows else {}

        def charge(row: sa.Row[tuple[object, ...]]) -> Charge:
            until = row.ends_at if row.end_position is None or row.hash in states else 0
            state = series_state(states.get(row.hash, ()), until, now)
            cost = Cost(Decimal(row.epsilon), Decimal(row.delta))
            beside = Decimal(row.epsilon_with_relay)
            return Charge(row.account, row.hash, row.name, row.starts_at, row.ends_at, cost, state, beside, row.analyst)

        return tuple(map(charge, rows))

    async def _round_states(
        self, wanted: tuple[sa.ColumnElement[bool], ...], now: float
    ) -> dict[bytes, list[ChargeState]]:
        """For each series with rounds in the log, the state that each round would have if it were charged by itself.
        ``wanted``: conditions on ``SERIES``."""
        rounds = sa.join(SERIES_ROUNDS, SERIES, SERIES.c.hash == SERIES_ROUNDS.c.series_hash)
        roles: dict[str, dict[bytes, set[str]]] = {}
        for table in (OPT_INS, VOIDS):
            found = roles.setdefault(table.name, {})
            joined = rounds.join(table, table.c.recipe_hash == SERIES_ROUNDS.c.recipe_hash)
            named = sa.select(table.c.recipe_hash, table.c.role).select_from(joined).where(*wanted)
            for recipe_hash, role in await self._connection.execute(named):
                found.setdefault(recipe_hash, set()).add(role)
        joined = rounds.join(RECIPES, RECIPES.c.hash == SERIES_ROUNDS.c.recipe_hash)
        columns = (RECIPES.c.hash, RECIPES.c.ends_at, RECIPES.c.model, RECIPES.c.refundable)
        listed = sa.select(SERIES_ROUNDS.c.series_hash, *columns).select_from(joined)
        states: dict[bytes, list[ChargeState]] = {}
        for series_hash, recipe_hash, ends_at, model, refundable in await self._connection.execute(
            listed.where(*wanted)
        ):
            opted_in, void = (roles[table.name].get(recipe_hash, set()) for table in (OPT_INS, VOIDS))
            state = charge_state(form_of(model).opts_in, opted_in, void, ends_at, now, refundable=refundable)
            states.setdefault(series_hash, []).append(state)
        return states
