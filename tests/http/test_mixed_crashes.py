"""The shuffler before the leader dies wherever it stores something, loses answers and meets a leader that is down: each
report is counted exactly once, and a request is only ever repeated with the same bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from infra.lab.kit.network import LOSE_RESPONSE, matching
from infra.lab.kit.recipes import URLS
from services.shuffler.app import STORE
from tacit.ports import HttpResponse
from tests.http.mixed_stage import PER_REQUEST, B, MixedStage, mixed_stage
from tests.http.power_cut import PowerCutError
from tests.http.test_mixed import watched
from tests.http.test_shuffler_crashes import PAUSE, cut

REQUESTS = -(-B // PER_REQUEST) + 1


@asynccontextmanager
async def due(folder: Path) -> AsyncIterator[tuple[MixedStage, list[bytes]]]:
    """A stage whose shuffler was ended between the last arrival and the flush, and whatever it sends to the leader."""
    async with mixed_stage(folder, "file") as stage:
        await stage.fill(B)
        await stage.start("shuffler")
        stage.end_interval()
        yield stage, watched(stage)


async def check(stage: MixedStage, sent: list[bytes]) -> None:
    """All reports were counted, once each, in one order: what was sent again had the same bytes."""
    assert (await stage.collect())["state"] == "released"
    (result,) = await stage.results()
    assert result["report_count"] == B
    distinct = list(dict.fromkeys(sent))
    assert (len(distinct), distinct[-1]) == (REQUESTS, b"")
    assert len(b"".join(distinct)) == B * stage.devices.channel.task.payload_size


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("number", [0, 1, REQUESTS // 2, REQUESTS])
async def test_a_power_cut_neither_loses_nor_doubles_a_report(tmp_path: Path, number: int, committed: bool) -> None:
    async with due(tmp_path) as (stage, sent):
        cut(stage.apps["shuffler"][STORE], number, committed=committed)
        with pytest.raises(PowerCutError):
            await stage.forwarding.step()
        await stage.start("shuffler")
        while await stage.forwarding.step():
            pass
        await check(stage, sent)


async def test_lost_answers_and_a_leader_that_is_down_delay_and_change_nothing(tmp_path: Path) -> None:
    async with due(tmp_path) as (stage, sent):
        stage.network.plan = matching("/reports", LOSE_RESPONSE, times=1)
        assert await stage.forwarding.step() == 0
        await stage.inner.unmount(URLS["leader"])
        stage.clock.jump(PAUSE)
        assert await stage.forwarding.step() == 0
        assert (await stage.status("shuffler"))["released"] == 1
        await stage.start("leader")
        stage.network.plan = matching("/reports", LOSE_RESPONSE, times=2)
        for _ in range(3):
            stage.clock.jump(PAUSE)
            await stage.forwarding.step()
        await check(stage, sent)
        assert len(sent) == REQUESTS + 4


async def test_a_collection_waits_for_reports_that_come_days_late(tmp_path: Path) -> None:
    async with due(tmp_path) as (stage, sent):
        assert (await stage.collect())["state"] == "collecting"
        stage.network.plan = matching("/reports", LOSE_RESPONSE, times=1)
        await stage.forwarding.step()
        stage.clock.jump(3 * 86400)
        assert (await stage.collect())["state"] == "collecting", "one request is there, and more may come"
        await stage.forwarding.step()
        await check(stage, sent)


async def test_once_everything_is_forwarded_the_leader_takes_no_more(tmp_path: Path) -> None:
    async with due(tmp_path) as (stage, sent):
        await stage.forwarding.step()
        await stage.start("shuffler")
        assert await stage.forwarding.step() == 0
        for body in sent[:2]:
            assert (await stage.upload(body, "messages-secret")).body == b"", "the same again is a success"
        other = stage.devices
        bound = other.token()
        late = other.channel.inner.submission(other.measurement(1), bound.token, bound.preimages, other.entropy)
        assert (await stage.upload(late.body, "messages-secret")).body[-1:] == b"\1", "batch_collected"
        await check(stage, sent[:REQUESTS])


async def test_what_the_leader_refuses_is_counted_and_not_offered_again(tmp_path: Path) -> None:
    async with due(tmp_path) as (stage, sent):
        assert (await stage.upload(b"", "messages-secret")).status == 200, "as if this shuffler's database were older"
        sent.clear()
        assert await stage.forwarding.step() == REQUESTS
        assert (await stage.status("shuffler"))["rejected_by_cause"] == {"refused-by-receiver": B}
        assert await stage.forwarding.step() == 0
        assert (await stage.collect())["state"] == "refused"


def answering(stage: MixedStage, number: int, answer: HttpResponse) -> None:
    """The ``number``-th upload to the leader from now on, and every later one of the same bytes, is answered with
    ``answer`` and does not arrive."""
    real, seen = stage.network.request, list[bytes]()

    async def request(method: str, url: str, **rest: Any) -> Any:
        if url.endswith(f"/tasks/{stage.task}/reports"):
            if rest["body"] not in seen:
                seen.append(rest["body"])
            if seen.index(rest["body"]) == number:
                return answer
        return await real(method, url, **rest)

    stage.network.request = request  # type: ignore[method-assign]


async def test_a_request_that_the_leader_cannot_read_is_counted_and_holds_up_nothing(tmp_path: Path) -> None:
    """The leader gets the other requests, with the bytes that they had before; none is put together anew."""
    async with due(tmp_path) as (stage, sent):
        async with stage.apps["shuffler"][STORE].read() as tx:
            assert await tx.left(stage.devices.channel.task.task_id) == 0
        problem = b'{"type": "urn:ietf:params:ppm:dap:error:invalidMessage"}'
        answering(stage, 1, HttpResponse(400, {}, problem))
        assert await stage.forwarding.step() == REQUESTS
        page = await stage.status("shuffler")
        assert page["rejected_by_cause"] == {"refused-by-receiver": PER_REQUEST}
        assert (page["requests_left"], await stage.forwarding.step()) == (0, 0)
        assert (len(sent), sent[-1]) == (REQUESTS - 1, b"")
        await stage.work()
        assert (await stage.status("leader"))["uploaded"] == B - PER_REQUEST


@pytest.mark.parametrize("status", [200, 400, 503, *(pytest.param(s, marks=pytest.mark.slow) for s in (401, 404, 413))])
async def test_an_answer_that_need_not_be_the_leaders_loses_nothing_and_is_shown_to_the_operator(
    tmp_path: Path, status: int
) -> None:
    async with due(tmp_path) as (stage, sent):
        real = stage.network.request
        answering(stage, 1, HttpResponse(status, {}, b"<p>Come back later."))
        assert [await stage.forwarding.step() for _ in range(3)] == [1, 0, 0]
        page = await stage.status("shuffler")
        assert page["requests_left"] == REQUESTS - 1
        assert page["not_forwarded"] == f"the leader answered {status}"
        stage.network.request = real  # type: ignore[method-assign]
        assert await stage.forwarding.step() == 0, "the pause is not over"
        stage.clock.jump(PAUSE)
        assert await stage.forwarding.step() == REQUESTS - 1
        page = await stage.status("shuffler")
        assert (page["requests_left"], page["not_forwarded"], page["rejected"]) == (0, None, 0)
        await check(stage, sent)


@pytest.mark.parametrize("status", [200, 503])
async def test_what_is_not_taken_is_sent_again_after_pauses_that_grow_until_something_is_taken(
    tmp_path: Path, status: int
) -> None:
    """Pauses are around 2, 4, 8, 16, 32 and then 60 s, each by half at most less or more: 8 to 14 requests in 300 s,
    while the service looks every second."""
    async with due(tmp_path) as (stage, sent):
        real = stage.network.request
        answering(stage, 1, HttpResponse(status, {}, b"<p>Come back later."))
        answered, asked = stage.network.request, list[float]()

        async def request(method: str, url: str, **rest: Any) -> Any:
            if url.endswith("/reports"):
                asked.append(stage.clock.now())
            return await answered(method, url, **rest)

        stage.network.request = request  # type: ignore[method-assign]
        for _ in range(300):
            await stage.forwarding.step()
            stage.clock.jump(1)
        asked = asked[1:]
        assert 8 <= len(asked) <= 14
        assert asked[1] - asked[0] <= 4
        assert asked[-1] - asked[-2] >= 30
        stage.network.request = real  # type: ignore[method-assign]
        stage.clock.jump(PAUSE)
        assert await stage.forwarding.step() == REQUESTS - 1
        await check(stage, sent)


async def test_what_two_processes_send_at_once_and_the_leader_refuses_is_counted_once(tmp_path: Path) -> None:
    """Both read the same request before either has deleted it, as two processes on one database do."""
    async with due(tmp_path) as (stage, sent):
        assert (await stage.upload(b"", "messages-secret")).status == 200, "the leader takes nothing more"
        stage.network.partition(URLS["leader"])
        assert await stage.forwarding.step() == 0, "the order is fixed, and nothing has arrived"
        stage.network.heal()
        sent.clear()
        stage.clock.jump(PAUSE)
        await asyncio.gather(stage.forwarding.step(), stage.forwarding.step())
        while await stage.forwarding.step():
            pass
        assert len(sent) > len(set(sent)) == REQUESTS
        assert (await stage.status("shuffler"))["rejected_by_cause"] == {"refused-by-receiver": B}
