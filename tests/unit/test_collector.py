"""The Collector: what it asks for, what it accepts as an answer, what it refuses and why."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.reports import TaskKit, make_task_kit
from tacit.errors import CryptoError, Refusal
from tacit.messages import CollectionJobReq, CollectionJobResp, Interval, Query, Role
from tacit.roles.collector import AggregateResult, collection_request, open_collection
from tacit.task import BatchClose, seal_aggregate_share
from tacit.vdaf.prio3 import Prio3, Prio3Count, Prio3MultihotCountVec, Prio3Sum, Prio3SumVec

KIT = make_task_kit(min_batch_size=3)
TIMES = Interval(1002, 5)


def answer(
    kit: TaskKit,
    request: CollectionJobReq,
    values: list[int],
    *,
    count: int = 5,
    interval: Interval = TIMES,
    helper_share: bytes | None = None,
) -> CollectionJobResp:
    """What an honest pair of aggregators would answer for a batch with these sums."""
    entropy = SeededEntropy(b"aggregators")
    vdaf = kit.task.vdaf
    blind = [int.from_bytes(entropy(7), "big") for _ in values]
    shares = {
        Role.LEADER: vdaf.encode_agg_share(vdaf.field.sub_vec(values, blind)),
        Role.HELPER: vdaf.encode_agg_share(blind) if helper_share is None else helper_share,
    }
    sealed = {
        role: seal_aggregate_share(kit.task, role, request.encode(), share, entropy) for role, share in shares.items()
    }
    return CollectionJobResp(count, interval, sealed[Role.LEADER], sealed[Role.HELPER])


def collect(kit: TaskKit, request: CollectionJobReq, response: CollectionJobResp) -> AggregateResult:
    return open_collection(kit.task, kit.key_pairs[Role.COLLECTOR], request, response)


def test_default_request_is_the_whole_task_interval() -> None:
    assert collection_request(KIT.task) == CollectionJobReq(Query.time_interval(KIT.task.interval))
    assert collection_request(KIT.task, TIMES) == CollectionJobReq(Query.time_interval(TIMES))


@pytest.mark.parametrize("interval", [Interval(999, 5), Interval(1098, 3), Interval(1000, 0)])
def test_request_outside_the_task_interval_is_our_mistake(interval: Interval) -> None:
    with pytest.raises(ValueError, match="task interval"):
        collection_request(KIT.task, interval)


def test_leader_selected_request_names_no_interval() -> None:
    kit = make_task_kit(min_batch_size=3, batch_close=BatchClose.AT_B)
    request = collection_request(kit.task)
    assert request == CollectionJobReq(Query.leader_selected())
    with pytest.raises(ValueError, match="interval"):
        collection_request(kit.task, TIMES)
    assert collect(kit, request, answer(kit, request, [1, 2, 0, 2])).values == (1, 2, 0, 2)
    with pytest.raises(Refusal):
        collect(kit, request, answer(kit, request, [1, 2, 0, 2], interval=Interval(1098, 3)))


@pytest.mark.parametrize(
    ("vdaf", "sums", "expected"),
    [
        (None, [1, 2, 0, 2], (1, 2, 0, 2)),
        (Prio3Count(2), [4], (4,)),
        (Prio3Sum(2, 100), [321], (321,)),
        (Prio3SumVec(2, 3, 7, 2), [1, 30, 0], (1, 30, 0)),
        (Prio3MultihotCountVec(2, 4, 2, 2), [1, 0, 5, 2], (1, 0, 5, 2)),
    ],
    ids=["Histogram", "Count", "Sum", "SumVec", "MultihotCountVec"],
)
def test_answer_unshards_to_the_sums(vdaf: Prio3[Any] | None, sums: list[int], expected: tuple[int, ...]) -> None:
    kit = make_task_kit(vdaf, min_batch_size=3)
    request = collection_request(kit.task)
    if isinstance(vdaf, Prio3MultihotCountVec):
        sums = [*sums, *([0] * (vdaf.flp.OUTPUT_LEN - len(sums)))]
    assert collect(kit, request, answer(kit, request, sums)) == AggregateResult(5, TIMES, expected)


def test_answer_over_fewer_than_b_reports_is_refused() -> None:
    request = collection_request(KIT.task)
    with pytest.raises(Refusal) as refused:
        collect(KIT, request, answer(KIT, request, [1, 1, 0, 0], count=2))
    assert refused.value.rule == "collection-size"


@pytest.mark.parametrize("interval", [Interval(999, 5), Interval(1099, 2), Interval(1000, 0)])
def test_answer_outside_the_query_is_refused(interval: Interval) -> None:
    request = collection_request(KIT.task)
    with pytest.raises(Refusal) as refused:
        collect(KIT, request, answer(KIT, request, [1, 2, 0, 2], interval=interval))
    assert refused.value.rule == "collection-interval"


@pytest.mark.parametrize("sums", [[1, 2, 0, 3], [6, 0, 0, 0], [1, 2, 3, -1], [1 << 60, 0, 0, 5]])
def test_histogram_that_no_such_number_of_reports_gives_is_refused(sums: list[int]) -> None:
    request = collection_request(KIT.task)
    modulus = KIT.task.vdaf.field.MODULUS
    with pytest.raises(Refusal) as refused:
        collect(KIT, request, answer(KIT, request, [value % modulus for value in sums]))
    assert refused.value.rule == "collection-values"


def test_share_of_another_length_is_refused() -> None:
    request = collection_request(KIT.task)
    with pytest.raises(Refusal) as refused:
        collect(KIT, request, answer(KIT, request, [1, 2, 0, 2], helper_share=b"short"))
    assert refused.value.rule == "collection-share"
    assert "helper" in refused.value.detail


def test_answer_to_another_request_does_not_open() -> None:
    request = collection_request(KIT.task)
    other = collection_request(KIT.task, Interval(1000, 99))
    with pytest.raises(CryptoError, match="leader"):
        collect(KIT, request, answer(KIT, other, [1, 2, 0, 2]))


def test_exchanged_shares_do_not_open() -> None:
    request = collection_request(KIT.task)
    response = answer(KIT, request, [1, 2, 0, 2])
    exchanged = dataclasses.replace(
        response,
        leader_encrypted_agg_share=response.helper_encrypted_agg_share,
        helper_encrypted_agg_share=response.leader_encrypted_agg_share,
    )
    with pytest.raises(CryptoError):
        collect(KIT, request, exchanged)
