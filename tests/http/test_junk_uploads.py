"""Reports that nobody was given a token for: they are counted, leave no row, and do not crowd out what waits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sqlalchemy as sa
from aiohttp import web

from services.helper.app import STORE as HELPER_STORE
from services.helper.app import create_app as create_helper
from services.helper.config import HelperConfig
from services.helper.schema import COMMON as HELPER_TABLES
from services.leader.app import STORE as LEADER_STORE
from services.leader.app import create_app as create_leader
from services.leader.config import LeaderConfig
from services.leader.schema import COMMON as LEADER_TABLES
from services.leader.schema import PENDING, REPORTS
from tacit.messages import Role
from tacit.testing.aggregators import AggregatorPair
from tacit.testing.reports import make_task_kit

KIT = make_task_kit()


def pair_of(tmp_path: Path, **limits: Any) -> AggregatorPair:
    return AggregatorPair(
        KIT,
        tmp_path,
        lambda settings, deps: create_leader(LeaderConfig.model_validate(settings), deps),
        lambda settings, deps: create_helper(HelperConfig.model_validate(settings), deps),
        limits=limits,
    )


async def rows(app: web.Application, role: Role, *tables: sa.Table) -> list[int]:
    """How many rows each table of an aggregator has."""
    store: Any = app[LEADER_STORE if role is Role.LEADER else HELPER_STORE]
    async with store.read() as tx:
        return [
            (await tx.connection.execute(sa.select(sa.func.count()).select_from(one))).scalar_one() for one in tables
        ]


async def test_reports_without_a_token_leave_a_count_and_no_row(tmp_path: Path) -> None:
    forged = KIT.reports(1)
    async with pair_of(tmp_path) as pair:
        await pair.upload([forged.without_token(1) for _ in range(30)] + [forged.wrong_slot(1) for _ in range(10)])
        await pair.work()
        assert await rows(pair.apps[Role.LEADER], Role.LEADER, LEADER_TABLES.outcomes, REPORTS, PENDING) == [0, 0, 0]
        found = await pair.status(Role.LEADER)
        assert found["rejected_by_cause"] == {"token-challenge": 10, "token-missing": 30}
        assert (await pair.status(Role.HELPER))["rejected"] == 0, "the helper is not asked about them"


async def test_a_report_whose_token_only_the_helper_misses_leaves_no_row_at_the_helper(tmp_path: Path) -> None:
    half = KIT.reports(2)
    async with pair_of(tmp_path) as pair:
        await pair.upload([half.without_token(1, roles={Role.HELPER}) for _ in range(5)])
        await pair.work()
        assert await rows(pair.apps[Role.HELPER], Role.HELPER, HELPER_TABLES.outcomes) == [0]
        assert (await pair.status(Role.HELPER))["rejected_by_cause"] == {"token-missing": 5}
        assert await rows(pair.apps[Role.LEADER], Role.LEADER, LEADER_TABLES.outcomes) == [5], "five tokens are spent"


async def test_one_token_in_a_hundred_reports_leaves_one_row_at_either_aggregator(tmp_path: Path) -> None:
    reports = KIT.reports(3)
    token = reports.token()
    async with pair_of(tmp_path) as pair:
        await pair.upload([reports.valid(1, token=token) for _ in range(40)])
        await pair.work()
        await pair.upload([reports.valid(1, token=token) for _ in range(20)])
        await pair.work()
        for role, tables in ((Role.LEADER, LEADER_TABLES), (Role.HELPER, HELPER_TABLES)):
            assert await rows(pair.apps[role], role, tables.outcomes) == [1]
        found = await pair.status(Role.LEADER)
        assert (found["aggregated"], found["rejected_by_cause"]) == (1, {"token-spent": 59})


async def test_an_honest_report_with_the_id_of_a_rejected_forgery_still_counts(tmp_path: Path) -> None:
    forged = KIT.reports(4).without_token(1)
    honest = KIT.reports(5).valid(1, report_id=forged.report_metadata.report_id)
    async with pair_of(tmp_path) as pair:
        await pair.upload([forged])
        await pair.work()
        assert await pair.upload([honest]) is None
        await pair.work()
        assert (await pair.status(Role.LEADER))["aggregated"] == 1
