"""The collector: one release per batch, the same bytes after a crash."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from infra.lab.kit.network import (
    LOSE_RESPONSE,
    matching,
)
from tacit.aggregator.batch_yield import BatchYield, Look
from tacit.dap_errors import DapAbort, DapProblem
from tacit.errors import Refusal
from tacit.operations.results import CollectorAccess
from tacit.operations.yields import read_yield
from tacit.ports import TransportError
from tacit.recipe.encoder_specs import Boolean
from tacit.recipe.model import Question
from tests.http.collector_stage import COLLECTOR, COUNTS, KIT, Stage, publish_recipe, write_secrets


async def test_a_collection_is_asked_for_polled_released_and_published(stage: Stage) -> None:
    asked = await stage.ask()
    assert (asked["state"], asked["status"], asked["batch"]) == ("requested", 201, 0)
    assert stage.leader.requests == []
    assert await stage.step() == 1
    assert (await stage.show(asked["id"]))["state"] == "collecting"
    stage.leader.ready = True
    stage.clock.jump(7)
    assert await stage.step() == 1
    assert (await stage.show(asked["id"]))["state"] == "released"
    answer, document = await stage.call("GET", f"/v1/results/{stage.recipe.hash_text}")
    assert answer.status == 200
    (result,) = document["results"]
    assert result["recipe_hash"] == stage.recipe.hash_text
    assert (result["name"], result["report_count"]) == ("doctor-visits", sum(COUNTS))
    interval = stage.leader.task.interval
    assert result["interval"] == {"start": interval.start * 60, "duration": interval.duration * 60}
    assert [bucket["label"] for bucket in result["buckets"]] == [*map(str, range(15)), "15+"]
    assert [bucket["count"] for bucket in result["buckets"]] == COUNTS
    assert sum(bucket["estimate"] for bucket in result["buckets"]) == pytest.approx(2 * sum(COUNTS))
    assert all(bucket["stderr"] > 0 for bucket in result["buckets"])
    privacy = result["privacy"]
    assert privacy["n"] == stage.recipe.batch.min_batch_size
    assert privacy["epsilon"] == privacy["by_adversary"]["aggregator"]
    assert privacy["relation"] == "replacement"
    assert privacy["conditions"]["both_aggregators"]["otherwise"] == "both_aggregators_with_relay"
    ran = result["privacy_of_batch"]
    assert ran["n"] == sum(COUNTS)
    assert all(ran["by_adversary"][name] <= value for name, value in privacy["by_adversary"].items())
    assert await stage.driver("PublishDriver").step() == 1
    assert stage.log.results == [result]
    assert await stage.driver("PublishDriver").step() == 0
    assert stage.observer.notes == [("collector", {"recipe": stage.recipe.hash_text, "report_count": sum(COUNTS)})]


async def test_polling_keeps_to_what_the_leader_asks_for(stage: Stage) -> None:
    await stage.ask()
    await stage.step()
    assert stage.leader.polls == 0
    stage.clock.jump(6)
    await stage.step()
    assert stage.leader.polls == 0
    stage.clock.jump(1)
    await stage.step()
    await stage.step()
    assert stage.leader.polls == 1


@pytest.mark.parametrize(("text", "seconds"), [("soon", 5), ("-7", 5), (None, 5), ("99999999", 600), ("0", 1)])
async def test_an_odd_retry_after_is_kept_within_reason(stage: Stage, text: str | None, seconds: int) -> None:
    stage.leader.retry_after = text
    await stage.ask()
    await stage.step()
    stage.clock.jump(seconds - 1)
    await stage.step()
    assert stage.leader.polls == 0
    stage.clock.jump(1)
    await stage.step()
    assert stage.leader.polls == 1


async def test_asking_again_gives_the_collection_that_there_is(stage: Stage) -> None:
    first = await stage.ask()
    again = await stage.ask()
    assert (again["id"], again["status"]) == (first["id"], 200)
    await stage.step()
    stage.leader.ready = True
    stage.clock.jump(7)
    await stage.step()
    final = await stage.ask()
    assert (final["id"], final["state"]) == (first["id"], "released")
    assert len(stage.leader.requests) == 1
    _, document = await stage.call("GET", "/v1/collections")
    assert [row["id"] for row in document["collections"]] == [first["id"]]


async def test_a_restart_at_any_point_goes_on_with_the_same_bytes_and_job(stage: Stage) -> None:
    asked = await stage.ask()
    await stage.start()
    stage.network.plan = matching("collection_jobs", LOSE_RESPONSE, times=1)
    assert await stage.step() == 0
    assert (await stage.show(asked["id"]))["rule"] == "leader-unreachable"
    await stage.start()
    stage.clock.jump(2)
    assert await stage.step() == 1
    assert len(stage.leader.requests) == 2
    assert len(set(stage.leader.requests)) == 1
    await stage.start()
    stage.leader.ready = True
    stage.clock.jump(7)
    assert await stage.step() == 1
    await stage.start()
    assert await stage.step() == 0
    _, document = await stage.call("GET", "/v1/results")
    assert len(document["results"]) == 1
    assert await stage.driver("PublishDriver").step() == 1


async def test_a_job_that_the_leader_forgot_is_asked_for_again(stage: Stage) -> None:
    asked = await stage.ask()
    await stage.step()
    stage.leader.live.clear()
    stage.clock.jump(7)
    assert await stage.step() == 0
    shown = await stage.show(asked["id"])
    assert (shown["state"], shown["detail"]) == ("requested", "the Leader does not know the job that it took")
    stage.leader.ready = True
    stage.clock.jump(7)
    assert await stage.step() == 1
    stage.clock.jump(7)
    assert await stage.step() == 1
    assert (await stage.show(asked["id"]))["state"] == "released"
    assert len(set(stage.leader.requests)) == 1


async def test_a_leader_that_loses_every_job_is_asked_less_and_less(selected: Stage) -> None:
    await selected.ask()
    for _ in range(3600):
        await selected.step()
        selected.leader.live.clear()
        selected.clock.jump(1)
    assert len(selected.leader.requests) < 90, "not much more than once in the longest pause, a minute"


async def test_leader_selected_batches_follow_each_other(selected: Stage) -> None:
    selected.leader.ready = True
    for number in range(2):
        asked = await selected.ask()
        assert (asked["batch"], asked["status"]) == (number, 201)
        await selected.step()
        selected.clock.jump(7)
        await selected.step()
        assert (await selected.show(asked["id"]))["state"] == "finishing"
        assert (await selected.ask())["status"] == 200
        await selected.step()
        assert (await selected.show(asked["id"]))["state"] == "released"
    assert selected.leader.deleted == ["job-0", "job-1"]
    _, document = await selected.call("GET", f"/v1/results/{selected.recipe.hash_text}")
    assert [result["batch"] for result in document["results"]] == [0, 1]
    assert len({result["batch_id"] for result in document["results"]}) == 2


async def test_a_boolean_question_releases_one_count(tmp_path: Path) -> None:
    write_secrets(tmp_path)
    question = Question(text="Any?", metric="any", encoder=Boolean(kind="boolean"), statistic="count")
    stage = Stage(tmp_path, KIT.recipe(question=question))
    stage.leader.values, stage.leader.count, stage.leader.ready = [90], 210, True
    publish_recipe(stage, stage.recipe)
    await stage.start()
    await stage.ask()
    await stage.step()
    stage.clock.jump(7)
    await stage.step()
    _, document = await stage.call("GET", "/v1/results")
    (bucket,) = document["results"][0]["buckets"]
    assert bucket["count"] == 90
    await stage.inner.close()


async def test_results_that_the_recipe_server_does_not_take_are_sent_again(stage: Stage) -> None:
    await stage.ask()
    await stage.step()
    stage.leader.ready = True
    stage.clock.jump(7)
    await stage.step()
    stage.log.result_status = 503
    with pytest.raises(TransportError, match="503"):
        await stage.driver("PublishDriver").step()
    stage.log.result_status = 201
    assert await stage.driver("PublishDriver").step() == 1
    assert len(stage.log.results) == 1


async def test_a_yield_is_passed_on_as_the_leader_tells_it_and_to_the_operator_alone(stage: Stage) -> None:
    path = f"/v1/recipes/{stage.recipe.hash_text}/yield"
    assert (await stage.call("GET", path, headers={}))[0].status == 401
    assert (await stage.call("GET", f"/v1/recipes/{'A' * 43}/yield"))[0].status == 404
    assert (await stage.call("GET", "/v1/recipes/short/yield"))[0].status == 400
    answer, document = await stage.call("GET", path)
    assert (answer.status, document["detail"]) == (
        404,
        "the leader does not serve this recipe: not yet, or no longer",
    )
    size = stage.recipe.batch.min_batch_size
    told = BatchYield(stage.leader.task.task_id_text, size, (Look(1, 1_700_000_000, 3),), 1_700_000_600)
    stage.leader.batch_yield = json.dumps(told.document()).encode()
    answer, document = await stage.call("GET", path)
    assert (answer.status, document) == (200, told.document())

    access = CollectorAccess(COLLECTOR, "http://127.0.0.1:1", lambda: "operator-secret")
    found = await read_yield(stage.inner, access, stage.recipe, 1_700_000_000.0)
    assert (found.contributions, found.exact, found.next_at) == (3 * size // 10, False, 1_700_000_600)
    exact = await read_yield(stage.inner, access, stage.recipe, 1_700_000_000.0, released=size + 3)
    assert (exact.contributions, exact.exact) == (size + 3, True)

    stage.leader.batch_yield = b'{"looks": []}'
    assert (await stage.call("GET", path))[0].status == 502
    stage.leader.refuse = DapAbort(DapProblem.UNRECOGNIZED_TASK)
    assert (await stage.call("GET", path))[0].status == 404
    none = await read_yield(stage.inner, access, stage.recipe, float(stage.recipe.interval.start))
    assert (none.contributions, none.looks) == (0, ())
    stage.leader.refuse = Refusal("broken", "it is")
    assert (await stage.call("GET", path))[0].status == 502


async def test_a_collection_that_is_stuck_is_tried_again_when_its_operator_says_so(stage: Stage) -> None:
    asked = await stage.ask()
    stage.network.plan = matching("collection_jobs", LOSE_RESPONSE, times=1)
    await stage.step()
    (listed,) = (await stage.call("GET", "/v1/collections"))[1]["collections"]
    assert listed["stuck"]
    assert listed["rule"] == "leader-unreachable"
    assert listed["next_attempt"] > stage.clock.now()
    assert await stage.step() == 0
    answer, shown = await stage.call("POST", f"/v1/collections/{asked['id']}/retry")
    assert (answer.status, shown["stuck"], shown["next_attempt"]) == (202, False, None)
    assert await stage.step() == 1
    stage.leader.refuse = Refusal("budget", "no")
    stage.clock.jump(7)
    await stage.step()
    refused = await stage.show(asked["id"])
    assert (refused["state"], refused["stuck"]) == ("refused", True)
    stage.leader.refuse, stage.leader.ready = None, True
    assert (await stage.call("POST", f"/v1/collections/{asked['id']}/retry"))[0].status == 202
    for _ in range(3):
        await stage.step()
        stage.clock.jump(7)
    assert (await stage.show(asked["id"]))["state"] == "released"
    assert (await stage.call("POST", f"/v1/collections/{asked['id']}/retry"))[0].status == 409
    assert (await stage.call("POST", "/v1/collections/none/retry"))[0].status == 404
    assert (await stage.call("POST", f"/v1/collections/{asked['id']}/retry", headers={}))[0].status == 401
