"""The rate rule (P15): leader and helper each refuse, on their own counts, whatever the other would let pass."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from infra.lab.kit.aggregators import AggregatorPair
from infra.lab.kit.reports import TaskKit, make_task_kit
from tacit.messages import Role
from tacit.roles import batches
from tacit.task import BatchClose
from tests.http.aggregator_pair import both_aggregators

MODULES = {Role.LEADER: "services.leader.collection.batches", Role.HELPER: "services.helper.service.batches"}
EXPECTED = 3
INTERVAL_END = make_task_kit(min_batch_size=2, expected_contributions=EXPECTED)
AT_B = make_task_kit(min_batch_size=2, expected_contributions=EXPECTED, batch_close=BatchClose.AT_B)


@contextmanager
def lenient(*roles: Role) -> Iterator[None]:
    """Aggregators of these roles let any number of contributions pass."""
    with pytest.MonkeyPatch.context() as patch:
        for role in roles:
            rules = {**vars(batches), "check_rate": lambda _task, _count: None}
            patch.setattr(MODULES[role], SimpleNamespace(**rules))
        yield


async def collected(pair: AggregatorPair, contributions: int) -> tuple[int, str, int]:
    """Status and detail of the collection's answer, and how often the helper was asked for its share."""
    reports = pair.kit.reports(15)
    await pair.upload(reports.valid(1) for _ in range(contributions))
    await pair.work()
    await pair.end_interval()
    answer = await pair.collect()
    asked = sum(one.url.endswith("/aggregate_shares") for one in pair.network.exchanges)
    return answer.status, "" if answer.status == 200 else str(json.loads(answer.body)["detail"]), asked


@pytest.mark.parametrize("kit", [INTERVAL_END, AT_B], ids=["interval-end", "at-b"])
async def test_twice_the_expected_contributions_pass(tmp_path: Path, kit: TaskKit) -> None:
    async with both_aggregators(kit, tmp_path) as pair:
        assert (await collected(pair, 2 * EXPECTED))[0] == 200


@pytest.mark.parametrize("kit", [INTERVAL_END, AT_B], ids=["interval-end", "at-b"])
async def test_a_leader_refuses_one_more_although_its_helper_would_not(tmp_path: Path, kit: TaskKit) -> None:
    with lenient(Role.HELPER):
        async with both_aggregators(kit, tmp_path) as pair:
            status, detail, asked = await collected(pair, 2 * EXPECTED + 2)
            assert (status, asked) == (403, 0)
            assert "8 contributions" in detail
            assert "at most 6" in detail


@pytest.mark.parametrize("kit", [INTERVAL_END, AT_B], ids=["interval-end", "at-b"])
async def test_a_helper_refuses_one_more_although_its_leader_would_not(tmp_path: Path, kit: TaskKit) -> None:
    with lenient(Role.LEADER):
        async with both_aggregators(kit, tmp_path) as pair:
            status, detail, asked = await collected(pair, 2 * EXPECTED + 2)
            assert (status, asked) == (400, 1)
            assert detail.startswith("helper: ")
            assert "at most 6" in detail


async def test_only_with_both_lenient_would_the_flood_be_released(tmp_path: Path) -> None:
    with lenient(Role.LEADER, Role.HELPER):
        async with both_aggregators(INTERVAL_END, tmp_path) as pair:
            assert (await collected(pair, 2 * EXPECTED + 2))[0] == 200
