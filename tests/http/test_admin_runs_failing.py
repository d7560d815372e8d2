"""Training runs of the admin service where peers, clocks and configurations are not as they should be."""

from __future__ import annotations

from typing import Any

import pytest

from services.admin.learning.carrying import FIRST_PAUSE, GIVE_UP_FAILURES, LONGEST_PAUSE, Carried
from services.admin.questions import learning
from services.admin.questions.followed_log import BESIDE_SECONDS
from tacit.logview.live import LiveLog
from tacit.ports import HttpResponse
from tacit.recipe.series import Series
from tests.http import test_admin_runs
from tests.http.admin_collector import COLLECTOR_URL
from tests.http.test_admin_runs import PLAN, World

world = test_admin_runs.world


async def by_itself(world: World) -> list[str]:
    return [one["what"] for one in await world.acts() if one["source"] == "service"]


async def trained(world: World, rounds: int) -> Series:
    """A run of which so many rounds are published and over, all but the newest released."""
    _, series = await world.published()
    for index in range(rounds):
        await world.look()
        recipe = (await world.rounds(series))[-1]
        await world.until(recipe.interval.end + 5)
        if index < rounds - 1:
            world.release(recipe, index)
    return series


async def test_a_round_is_written_to_the_audit_log_once_however_late_the_log_shows_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, series = await world.published()
    followed = world.stage.admin.followed_log
    before = await followed.fresh()

    async def late() -> LiveLog:
        return before

    with monkeypatch.context() as lagging:
        lagging.setattr(followed, "fresh", late)
        for _ in range(3):
            await world.look()
    await world.look()
    assert (len(await world.rounds(series)), await by_itself(world)) == (1, ["round.publish"])


async def test_a_run_whose_series_the_log_does_not_show_yet_is_asked_for_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed = world.stage.admin.followed_log
    before = await followed.fresh()
    _, series = await world.published()
    path = f"/v1/series/{series.hash_text}/run"

    async def late() -> LiveLog:
        return before

    with monkeypatch.context() as lagging:
        lagging.setattr(followed, "live", late)
        _, problem = await world.stage.call("GET", path, status=503)
    assert "not show this series yet" in problem["detail"]
    await world.look()
    _, run = await world.stage.call("GET", path, status=200)
    assert run["series"]["hash"] == series.hash_text


async def test_a_service_that_cannot_carry_runs_does_not_end_those_that_another_one_carries(world: World) -> None:
    series = await trained(world, 1)
    await world.start(collector=None)
    for _ in range(GIVE_UP_FAILURES + 1):
        await world.until(max(series.interval.end, world.stage.clock.now()) + LONGEST_PAUSE)
    (job,) = await world.jobs()
    assert (job["stuck"], "collector" in job["detail"]) == (True, True)
    assert "run.over" not in await by_itself(world)


async def test_a_collector_that_misses_its_releases_for_a_moment_after_the_last_round_ends_no_run(world: World) -> None:
    series = await trained(world, PLAN["rounds"])
    released, world.collector.released = world.collector.released, []
    await world.start()
    await world.until(series.interval.end + 1)
    assert "trains another model" in (await world.jobs())[0]["detail"]
    assert "run.over" not in await by_itself(world)
    world.collector.released = released
    world.release((await world.rounds(series))[-1], 2)
    await world.until(world.stage.clock.now() + FIRST_PAUSE)
    await world.look()
    assert (await by_itself(world))[-1] == "run.over"
    assert (await world.shown(series))["model"] is not None


async def test_a_run_for_which_it_is_too_late_is_given_up(world: World) -> None:
    _, series = await world.published()
    await world.stage.clock.advance(series.interval.end - world.stage.clock.now())
    for _ in range(GIVE_UP_FAILURES):
        assert "run.over" not in await by_itself(world)
        await world.until(world.stage.clock.now() + LONGEST_PAUSE)
    await world.look()
    assert (await by_itself(world), await world.jobs()) == (["run.over"], [])


async def test_a_run_goes_on_after_a_clock_that_was_a_year_ahead_is_set_right(world: World) -> None:
    _, series = await world.published()
    clock = world.stage.clock
    right = clock.now()
    clock.jump(366 * 86400)
    await world.runs.step()
    assert [one["stuck"] for one in await world.jobs()] == [True]
    clock.set_back(clock.now() - right)
    await world.look()
    assert len(await world.rounds(series)) == 1
    assert [one["stuck"] for one in await world.jobs()] == [False]


async def test_runs_beyond_those_that_are_carried_are_refused_before_devices_are_charged(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learning, "MOST_RUNS", 1)
    stage = world.stage
    first, _ = await world.published()
    _, draft = await stage.call("POST", "/v1/plans", {**PLAN, "name": "again"}, status=201)
    path = f"/v1/questions/{draft['id']}"
    await stage.call("POST", f"{path}/submit", {}, status=200)
    await stage.call("POST", f"{path}/approve", {}, role="approver", status=200)
    _, problem = await stage.call("POST", f"{path}/publish", {}, status=422)
    assert "end one" in problem["detail"]
    await stage.call("POST", f"/v1/questions/{first}/end", {}, status=200)
    await stage.call("POST", f"{path}/publish", {}, status=200)


async def test_a_step_that_fails_for_one_run_ends_after_the_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, first = await world.published()
    _, second = await world.published(name="other")
    further = world.runs._further

    async def failing(one: Carried) -> bool:
        if one.question.recipe_hash == first.hash_text:
            raise OSError("the store does not answer")
        return await further(one)

    monkeypatch.setattr(world.runs, "_further", failing)
    with pytest.raises(OSError, match="store"):
        await world.runs.step()
    await world.stage.clock.advance(BESIDE_SECONDS)
    assert [len(await world.rounds(one)) for one in (first, second)] == [0, 1]


async def test_where_a_run_is_costs_the_collector_one_exchange_however_many_rounds_it_has(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    series = await trained(world, PLAN["rounds"])
    releases, pages = world.stage.admin.own_releases, list[int]()
    page = releases._page

    async def counted(cursor: int, limit: int) -> tuple[list[Any], bool]:
        pages.append(cursor)
        return await page(cursor, limit)

    monkeypatch.setattr(releases, "_page", counted)
    assert len((await world.shown(series))["rounds"]) == PLAN["rounds"]
    assert pages == [0]


async def test_a_run_that_ends_while_somebody_tries_it_again_is_no_job_any_more(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world.runs, "retry", lambda _job: True)
    assert await world.stage.refused("POST", "/v1/jobs/training.gone/retry", {}) == (404, "problem:not-found")


async def test_a_run_that_is_carried_reads_and_keeps_no_release_of_rounds_that_are_over(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, request = list[str](), world.stage.network.request

    async def noted(method: str, url: str, **rest: Any) -> Any:
        asked.append(url)
        return await request(method, url, **rest)

    series = await trained(world, PLAN["rounds"])
    rounds = await world.rounds(series)
    monkeypatch.setattr(world.stage.network, "request", noted)
    await world.look()
    read = [url for url in asked if "/v1/results/" in url]
    assert read
    assert not any(one.hash_text in url for url in read for one in rounds[:-2])
    carried = world.runs.of(series.hash_text)
    assert carried is not None
    assert carried.run is not None
    standing = await carried.run.standing()
    assert [bool(one.model) for one in standing.run.rounds] == [False, False, True]


@pytest.mark.parametrize("place", ["/v1/results/", "/v1/collections"])
@pytest.mark.parametrize("body", [b"{}", b"7", b'{"results": [7]}', b'{"results": [{}]}', b'{"state": 1, "id": "c"}'])
async def test_a_collector_whose_answers_are_none_is_named_and_the_run_goes_on_after_it(
    world: World, monkeypatch: pytest.MonkeyPatch, place: str, body: bytes
) -> None:
    series = await trained(world, 1)
    request = world.stage.network.request

    async def broken(method: str, url: str, **rest: Any) -> Any:
        return (
            HttpResponse(200, {}, body)
            if url.startswith(f"{COLLECTOR_URL}{place}")
            else await request(method, url, **rest)
        )

    with monkeypatch.context() as breaking:
        breaking.setattr(world.stage.network, "request", broken)
        await world.look()
        carried = world.runs.of(series.hash_text)
        assert carried is not None
        assert carried.trouble == f"{COLLECTOR_URL}: not the answer of a collector"
    world.release((await world.rounds(series))[0])
    await world.until(world.stage.clock.now() + FIRST_PAUSE)
    assert len(await world.rounds(series)) == 2
