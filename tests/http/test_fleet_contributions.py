"""Contributions that a fleet makes in batches, honest and faulty, before a real leader and a real helper."""

from __future__ import annotations

from array import array
from collections import Counter
from pathlib import Path

import pytest

from client_agent.wallet import HeldToken
from infra.lab.devices.additions import add
from infra.lab.devices.contributions import Builder, Contribution, Draft
from infra.lab.devices.decisions import Randomised
from infra.lab.devices.faults import FATE, Fault
from infra.lab.devices.tokens import DirectTokens, SlotKey
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.reports import TaskKit, issuer_key, make_task_kit
from tacit.dap_errors import ReportError
from tacit.errors import DecodeError, UsageError
from tacit.messages import Role, UploadRequest
from tacit.methods.base.method import Measurement
from tacit.vdaf.prio3 import Prio3Count, Prio3Histogram, Prio3MultihotCountVec, Prio3Sum, Prio3SumVec
from tests.http.aggregator_pair import both_aggregators

KIT = make_task_kit(min_batch_size=5)
SLOT_KEY = SlotKey(KIT.task.slot, issuer_key().token_key)
STORED = [fault for fault in Fault if FATE[fault].stored]
TIME = KIT.task.interval.start


async def tokens(count: int) -> list[HeldToken]:
    found = await DirectTokens(SLOT_KEY, issuer_key().to_der(), SeededEntropy(9)).fetch(range(count))
    return [token for token in found if token is not None]


async def made(kit: TaskKit, drafts: list[tuple[Measurement, Fault]]) -> list[Contribution]:
    """One contribution per (measurement, fault)."""
    held = await tokens(len(drafts))
    return Builder(kit.task, SeededEntropy(4)).build(
        [
            Draft(Randomised(number, measurement), held[number], fault)
            for number, (measurement, fault) in enumerate(drafts)
        ]
    )


async def test_every_fault_is_refused_for_its_cause_and_the_others_are_counted(tmp_path: Path) -> None:
    drafts: list[tuple[Measurement, Fault]] = [(number % 4, Fault.NONE) for number in range(9)]
    drafts += [(0, fault) for fault in STORED if fault is not Fault.NONE]
    contributions = await made(KIT, drafts)
    async with both_aggregators(KIT, tmp_path) as pair:
        for contribution in contributions:
            assert await pair.upload(UploadRequest.decode(contribution.body).reports) is None
        await pair.work()
        leader, helper = [await pair.status(role) for role in (Role.LEADER, Role.HELPER)]
        expected = [0, 0, 0, 0]
        for contribution in contributions:
            if FATE[contribution.fault].counts:
                assert isinstance(contribution.adds, tuple)
                for cell in contribution.adds:
                    expected[cell] += 1
        await pair.end_interval()
        assert list(pair.opened(await pair.collect()).values) == expected
    for fault in STORED:
        for status, causes in ((leader, FATE[fault].leader), (helper, FATE[fault].helper)):
            assert not causes or sum(status["rejected_by_cause"].get(cause, 0) for cause in causes) == 1, fault
    refused = [fault for fault in STORED if not FATE[fault].counts]
    assert leader["rejected"] == len(refused)
    assert leader["aggregated"] == helper["aggregated"] == len(drafts) - len(refused)


async def test_a_late_report_is_dropped_and_a_truncated_one_cannot_be_read(tmp_path: Path) -> None:
    late, truncated = await made(KIT, [(1, Fault.LATE), (1, Fault.TRUNCATED)])
    async with both_aggregators(KIT, tmp_path) as pair:
        errors = await pair.upload(UploadRequest.decode(late.body).reports)
        assert errors is not None
        assert [status.error for status in errors.status] == [ReportError.REPORT_DROPPED]
    with pytest.raises(DecodeError):
        UploadRequest.decode(truncated.body)


async def test_a_spent_token_repeats_another_contribution_or_is_no_fault() -> None:
    honest, spent, alone = await made(KIT, [(3, Fault.NONE), (1, Fault.SPENT_TOKEN), (2, Fault.SPENT_TOKEN)])
    assert (spent.fault, spent.adds) == (Fault.SPENT_TOKEN, honest.adds)
    assert (alone.fault, alone.adds) == (Fault.NONE, (2,))


@pytest.mark.parametrize(
    ("kit", "measurements", "expected"),
    [
        (make_task_kit(Prio3Count(2), min_batch_size=2), [1, 0, 1], [2]),
        (make_task_kit(Prio3Histogram(2, 4, 2), min_batch_size=2), [3, 3, 0], [1, 0, 0, 2]),
        (
            make_task_kit(Prio3MultihotCountVec(2, 3, 2, 2), min_batch_size=2),
            [[1, 0, 1], [0, 0, 0], [0, 0, 1]],
            [1, 0, 2],
        ),
        (make_task_kit(Prio3Sum(2, 70), min_batch_size=2), [70, 0, 1], [71]),
        (
            make_task_kit(Prio3SumVec(2, 3, 300, 6), min_batch_size=2),
            [[300, 0, 1], [0, 0, 0], [1, 1, 0], array("Q", [5, 6, 7])],
            [306, 7, 8],
        ),
    ],
)
async def test_every_kind_of_measurement_adds_to_the_cells_that_it_names(
    tmp_path: Path, kit: TaskKit, measurements: list[Measurement], expected: list[int]
) -> None:
    contributions = await made(kit, [(measurement, Fault.NONE) for measurement in measurements])
    sums: Counter[int] = Counter()
    for contribution in contributions:
        add(sums, contribution.adds)
    async with both_aggregators(kit, tmp_path) as pair:
        reports = [report for one in contributions for report in UploadRequest.decode(one.body).reports]
        assert await pair.upload(reports) is None
        await pair.end_interval()
        values = pair.opened(await pair.collect()).values
    assert [sums[cell] for cell in range(len(expected))] == expected
    assert [values] == expected if isinstance(values, int) else list(values) == expected


def test_another_key_than_the_logs_signs_no_tokens() -> None:
    with pytest.raises(UsageError, match="another key"):
        DirectTokens(SLOT_KEY, issuer_key(1).to_der(), SeededEntropy(1))
    with pytest.raises(UsageError, match="does not load"):
        DirectTokens(SLOT_KEY, b"no key", SeededEntropy(1))
