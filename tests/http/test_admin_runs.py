"""Training runs of the admin service: a plan is drafted, approved and published, and the service carries its rounds."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.learning import STROKES, training_series
from infra.lab.kit.network import LOSE_REQUEST, LOSE_RESPONSE, Fault, matching
from infra.lab.kit.recipes import RecipeKit
from services.admin.learning.carrying import FIRST_PAUSE, Runs
from services.admin.questions.followed_log import BESIDE_SECONDS
from tacit.client import AsyncOperator, ChangedError
from tacit.errors import FieldError, UsageError
from tacit.learning import model_file
from tacit.learning.plan import Plan
from tacit.operations.learning.plans import forecast
from tacit.operations.learning.rounds import Run, run_of
from tacit.operations.series_rounds import Asked
from tacit.recipe.encoder import labels
from tacit.recipe.model import Recipe
from tacit.recipe.policy import AccountLimit
from tacit.recipe.series import Series
from tacit.recipe.training import read_round_model
from tests.http.admin_collector import COLLECTOR_URL, CollectorStub, beside
from tests.http.admin_stage import ADMIN_URL, KIT, LOG_URL, Stage, key_of, prepared
from tests.http.model_stage import POLICY
from tests.http.test_admin_pages import Html, signed_in
from tests.kit.simulation import HIGH_CAPS

PLAN: dict[str, Any] = {
    **STROKES, "devices": 1000, "min_batch_size": 400, "round_seconds": 3600, "release_seconds": 1800, "rounds": 3,
}  # fmt: skip
RELAXED = POLICY.model_copy(update=HIGH_CAPS)
READ = Plan.model_validate(PLAN)


class Collector(CollectorStub):
    """Releases what ``released`` has, and refuses what ``refused`` has."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: set[str] = set()

    def _document(self, number: int) -> dict[str, Any]:
        found = super()._document(number)
        own = found["recipe_hash"]
        if own in self.refused:
            return {**found, "state": "refused", "rule": "invalidBatchSize", "detail": "there are 7"}
        return {**found, "state": "released"} if any(one["recipe_hash"] == own for one in self.released) else found


@dataclass
class World:
    """A stage with a collector, on which runs are carried."""

    stage: Stage
    collector: Collector

    async def start(self, **changes: Any) -> None:
        access = {"collector": {"url": COLLECTOR_URL, "token": self.stage.folder / "collections.token"}}
        await self.stage.start(**{"policy": RELAXED, **access, **changes})

    @property
    def runs(self) -> Runs:
        (found,) = [one for one in self.stage.drivers() if isinstance(one, Runs)]
        return found

    async def published(self, **changes: Any) -> tuple[str, Series]:
        """The id of the question of a published run, and its series."""
        _, draft = await self.stage.call("POST", "/v1/plans", {**PLAN, **changes}, status=201)
        path = f"/v1/questions/{draft['id']}"
        await self.stage.call("POST", f"{path}/submit", {}, status=200)
        await self.stage.call("POST", f"{path}/approve", {}, role="approver", status=200)
        _, found = await self.stage.call("POST", f"{path}/publish", {}, status=200)
        assert (found["state"], found["plan"]) == ("published", draft["plan"])
        return draft["id"], Series.from_body(found["recipe"])

    async def until(self, when: float) -> None:
        """Move to POSIX second ``when``, and take the runs further."""
        await self.stage.clock.advance(max(0.0, when - self.stage.clock.now()))
        await self.look()

    async def look(self) -> None:
        await self.runs.step()
        await self.stage.clock.advance(BESIDE_SECONDS)

    async def rounds(self, series: Series) -> list[Recipe]:
        """The published rounds of a series in the log."""
        found = [one.recipe for one in (await self.stage.admin.followed_log.live()).recipes]
        return [one for one in found if one.series is not None and one.series.hash == series.hash_text]

    def release(self, recipe: Recipe, seed: int = 0) -> dict[str, Any]:
        """A release of a round, with numbers that depend on ``seed``."""
        told = [
            {"label": label, "count": 1, "estimate": (seed + 3) * (at - 2.5), "stderr": 0.1}
            for at, label in enumerate(labels(recipe))
        ]
        found = {
            "name": recipe.name, "recipe_hash": recipe.hash_text, "batch": 0, "statistic": "vector-sum",
            "report_count": 450 + seed, "released_at": recipe.interval.end + 9,
            "interval": {"start": recipe.interval.start, "duration": recipe.interval.duration}, "buckets": told,
        }  # fmt: skip
        self.collector.released = [*self.collector.released, found]
        return found

    async def has_file(self, recipe: Recipe) -> bool:
        """Whether devices can fetch the model of a round."""
        stated = read_round_model(recipe.question.round_input or "", READ.training)
        return (await self.stage.inner.request("GET", f"{LOG_URL}{stated.path}/0")).status == 200

    async def shown(self, series: Series, role: str = "viewer") -> dict[str, Any]:
        _, found = await self.stage.call("GET", f"/v1/series/{series.hash_text}/run", role=role, status=200)
        return dict(found)

    async def jobs(self) -> list[dict[str, Any]]:
        _, found = await self.stage.call("GET", "/v1/jobs", status=200)
        return [one for one in found["jobs"] if one["kind"] == "training"]

    async def acts(self) -> list[dict[str, Any]]:
        _, found = await self.stage.call("GET", "/v1/audit?limit=200", status=200)
        return list(found["acts"])


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(RecipeKit, "policy", RELAXED)
    async with prepared(tmp_path) as stage:
        collector = Collector()
        await beside(stage, collector)
        found = World(stage, collector)
        await found.start()
        yield found


def expected(series: Series, asked: Sequence[Asked]) -> Run:
    return run_of(READ, series, asked)


async def test_a_published_plan_is_carried_to_its_last_round_and_shown_with_its_model(world: World) -> None:
    question, series = await world.published()
    asked: list[Asked] = []
    for index in range(PLAN["rounds"]):
        await world.look()
        recipe = (await world.rounds(series))[-1]
        assert (recipe.series is not None and recipe.series.index, len(await world.rounds(series))) == (
            index, index + 1,
        )  # fmt: skip
        assert await world.has_file(recipe)
        await world.until(recipe.interval.end + 5)
        asked.append((recipe, [world.release(recipe, index)]))
    await world.look()
    await world.look()
    run = expected(series, asked)
    found = await world.shown(series)
    assert [one["contributions"] for one in found["rounds"]] == [450, 451, 452]
    assert [one["recipe_hash"] for one in found["rounds"]] == [recipe.hash_text for recipe, _ in asked]
    assert {one["loss"] for one in found["rounds"]} == {None} == {found["accuracy"]}
    assert found["model"] == model_file.name_of(run.model)
    answer, model = await world.stage.call("GET", f"/v1/series/{series.hash_text}/model", role="viewer", status=200)
    assert (answer.headers["content-type"], model) == ("application/octet-stream", run.model)
    assert await world.jobs() == []
    by_itself = [one for one in await world.acts() if one["source"] == "service"]
    assert [one["what"] for one in by_itself] == ["round.publish"] * 3 + ["run.over"]
    assert {one["target"] for one in by_itself} == {question}


async def test_a_run_goes_on_bit_for_bit_after_the_service_was_ended_at_any_step(world: World) -> None:
    _, series = await world.published()
    await world.start()
    await world.look()
    (first,) = await world.rounds(series)
    await world.start()
    await world.until(first.interval.start + 60)
    await world.start()
    released = world.release(first)
    await world.until(first.interval.end + 5)
    await world.look()
    await world.start()
    await world.look()
    await world.look()
    rounds = await world.rounds(series)
    run = expected(series, [(first, [released]), (rounds[1], [])])
    stated = read_round_model(rounds[1].question.round_input or "", READ.training)
    assert (len(rounds), stated.model) == (2, model_file.name_of(run.model))


async def test_two_services_on_one_store_publish_every_round_once(world: World) -> None:
    _, series = await world.published()
    first = world.runs
    await world.start()
    second = world.runs
    assert first is not second
    await asyncio.gather(second.step(), second.step())
    await world.look()
    (recipe,) = await world.rounds(series)
    assert [one["stuck"] for one in await world.jobs()] == [False]
    assert recipe.series is not None


async def test_rounds_without_a_release_are_passed_over_and_train_the_same_model(world: World) -> None:
    _, series = await world.published()
    await world.look()
    (first,) = await world.rounds(series)
    world.collector.refused.add(first.hash_text)
    await world.until(first.interval.end + 5)
    await world.look()
    rounds = await world.rounds(series)
    models = {read_round_model(one.question.round_input or "", READ.training).model for one in rounds}
    assert (len(rounds), len(models)) == (2, 1)
    await world.until(rounds[1].interval.end + 1)
    (job,) = await world.jobs()
    assert job["detail"].startswith("strokes-1: reports come until")
    await world.until(rounds[1].interval.end + PLAN["release_seconds"] + 1)
    assert len(await world.rounds(series)) == 3
    assert [one["contributions"] for one in (await world.shown(series))["rounds"]] == [None] * 3
    await world.until(series.interval.end + 2 * PLAN["release_seconds"])
    await world.until(series.interval.end + 3 * PLAN["release_seconds"])
    assert await world.jobs() == []


async def test_a_run_that_fails_is_told_and_keeps_no_other_from_going_on(world: World) -> None:
    _, broken = await world.published(name="broken")
    await world.look()
    (first,) = await world.rounds(broken)
    _, whole = await world.published(name="whole")
    world.release(first)["buckets"].pop()
    await world.until(first.interval.end + 5)
    await world.look()
    jobs = {one["about"]: one for one in await world.jobs()}
    assert (jobs[broken.hash_text]["stuck"], jobs[whole.hash_text]["stuck"]) == (True, False)
    assert "does not have the 6 numbers" in jobs[broken.hash_text]["detail"]
    assert len(await world.rounds(whole)) == 1
    assert (await world.shown(broken))["model"] is None
    world.collector.released = []
    await world.stage.call("POST", f"/v1/jobs/{jobs[broken.hash_text]['id']}/retry", {}, status=202)
    await world.look()
    assert {one["stuck"] for one in await world.jobs()} == {False}


async def test_a_run_that_somebody_ends_publishes_no_further_round(world: World) -> None:
    question, series = await world.published()
    await world.look()
    (first,) = await world.rounds(series)
    await world.stage.call("POST", f"/v1/questions/{question}/end", {}, status=200)
    world.release(first)
    await world.until(first.interval.end + 5)
    await world.look()
    assert (len(await world.rounds(series)), await world.jobs()) == (1, [])
    assert (await world.shown(series))["rounds"][0]["contributions"] == 450


async def test_a_run_whose_series_is_ended_in_the_log_is_over_once_its_round_is_released(world: World) -> None:
    _, series = await world.published()
    await world.until(series.window(0).start)
    assert len(await world.rounds(series)) == 1
    _, ended = await world.stage.call("POST", f"/v1/series/{series.hash_text}/end", {}, status=200)
    (waiting,) = await world.jobs()
    assert ended["ended"] is not None
    assert not waiting["stuck"]
    world.release((await world.rounds(series))[0])
    for index in (1, 2):
        await world.until(series.window(index).start)
    assert len(await world.rounds(series)) == 1
    assert await world.jobs() == []
    assert [one["detail"] for one in await world.acts() if one["what"] == "run.over"] == [
        "every round is released or passed over, or its series was ended"
    ]


async def test_what_a_plan_costs_is_told_as_by_command_and_what_does_not_fit_is_refused(world: World) -> None:
    stage = world.stage
    _, found = await stage.call("POST", "/v1/forecast", PLAN, role="viewer", status=200)
    assert found["forecast"] == json.loads(json.dumps(forecast(READ, RELAXED).document()))
    _, draft = await stage.call("POST", "/v1/plans", PLAN, status=201)
    _, check = await stage.call("POST", f"/v1/questions/{draft['id']}/check", {}, status=200)
    assert (check["accepted"], check["forecast"]) == (True, found["forecast"])
    _, problem = await stage.call("POST", "/v1/forecast", {**PLAN, "epsilon": "0.01"}, status=422)
    assert problem["field"] == "epsilon"
    assert "would do" in problem["detail"]
    _, problem = await stage.call("POST", "/v1/plans", {**PLAN, "clip": -1, "other": 1}, status=422)
    assert [one["field"] for one in problem["fields"]] == ["clip", "other"]
    own = {"kind": "external", "entries": 6, "initial": "A" * 43}
    external = {**PLAN, "training": {**PLAN["training"], "architecture": own}}
    _, problem = await stage.call("POST", "/v1/plans", external, status=422)
    assert "--initial" in problem["detail"]
    long = {**PLAN, "text": "x" * world.stage.admin.config.max_body}
    assert (await stage.call("POST", "/v1/plans", long))[0].status == 413


async def test_a_plan_passes_the_same_rules_as_every_draft(world: World) -> None:
    stage = world.stage
    assert await stage.refused("POST", "/v1/plans", PLAN, role="viewer") == (403, "problem:forbidden")
    answer, draft = await stage.call("POST", "/v1/plans", PLAN, status=201)
    path, tag = f"/v1/questions/{draft['id']}", {"If-Match": answer.headers["etag"]}
    assert await stage.refused("PUT", path, {"name": "x"}, headers=tag) == (409, "problem:other-text")
    survey = await stage.draft()
    assert await stage.refused("PUT", f"/v1/plans/{survey}", PLAN, headers={"If-Match": "*"}) == (
        409, "problem:other-text",
    )  # fmt: skip
    await stage.call("POST", f"{path}/submit", {}, status=200)
    assert await stage.refused("POST", f"{path}/approve", {}) == (403, "problem:own-draft")
    await stage.call("POST", f"{path}/approve", {}, role="approver", status=200)
    _, changed = await stage.call("GET", path, status=200)
    tag = {"If-Match": f'"{changed["revision"]}"'}
    more = {**PLAN, "rounds": 2}
    _, edited = await stage.call("PUT", f"/v1/plans/{draft['id']}", more, headers=tag, status=200)
    assert (edited["state"], edited["approver"], edited["plan"]["rounds"]) == ("draft", None, 2)
    assert await stage.refused("POST", f"{path}/publish", {}) == (409, "problem:question-state")


async def test_a_name_that_a_series_of_the_log_has_is_refused(world: World) -> None:
    stage = world.stage
    await world.published()
    _, draft = await stage.call("POST", "/v1/plans", {**PLAN, "epsilon": 7}, status=201)
    path = f"/v1/questions/{draft['id']}"
    _, problem = await stage.call("POST", f"{path}/check", {}, status=422)
    assert problem["field"] == "name"
    await stage.call("POST", f"{path}/submit", {}, status=200)
    await stage.call("POST", f"{path}/approve", {}, role="approver", status=200)
    assert await stage.refused("POST", f"{path}/publish", {}) == (422, "problem:field")


async def test_of_two_plans_of_one_name_that_two_services_publish_at_once_one_is_charged(world: World) -> None:
    stage = world.stage
    _, draft = await stage.call("POST", "/v1/plans", PLAN, status=201)
    path = f"/v1/questions/{draft['id']}"
    await stage.call("POST", f"{path}/submit", {}, status=200)
    await stage.call("POST", f"{path}/approve", {}, role="approver", status=200)
    stage.network.plan = matching("/v1/leaves", LOSE_REQUEST, times=1)
    assert await stage.refused("POST", f"{path}/publish", {}) == (503, "problem:peer-away")
    other = training_series(KIT, 2, name=str(PLAN["name"]), slot=5)
    assert (await stage.post_leaf(KIT.series_leaf(other))).status == 201

    _, problem = await stage.call("POST", f"{path}/publish", {}, status=422)
    assert problem["type"] == "urn:tacit:refusal:series-name"
    assert "a training run has a name of its own" in problem["detail"]
    await stage.clock.advance(BESIDE_SECONDS)
    assert [one.series for one in (await stage.admin.followed_log.live()).series] == [other]
    shown = await stage.shown(draft["id"])
    assert (shown["state"], shown["recipe"]) == ("approved", None)


async def test_a_service_without_key_or_collector_takes_no_plan(world: World) -> None:
    await world.start(analyst_key=None)
    _, problem = await world.stage.call("POST", "/v1/plans", PLAN, status=422)
    assert "key" in problem["detail"]
    await world.start(collector=None)
    _, problem = await world.stage.call("POST", "/v1/plans", PLAN, status=422)
    assert "collector" in problem["detail"]


async def test_a_run_of_the_command_is_shown_without_its_model(world: World) -> None:
    series = KIT.series(2, 2, name="other", slot=2)
    assert (await world.stage.post_leaf(KIT.series_leaf(series))).status == 201
    await world.stage.clock.advance(BESIDE_SECONDS)
    path = f"/v1/series/{series.hash_text}"
    assert await world.stage.refused("GET", f"{path}/run") == (404, "problem:not-found")
    assert await world.stage.refused("GET", f"{path}/model") == (404, "problem:not-found")


async def test_a_plan_is_handed_in_by_the_form_and_its_page_shows_plan_progress_and_what_rounds_cost(
    world: World,
) -> None:
    author, approver = await signed_in(world.stage, "analyst"), await signed_in(world.stage, "approver")
    await author.get("/series")
    assert "/plans/new" in author.page
    await author.get("/plans/new")
    assert not Html(author.page).wrong
    answer = await author.post("/plans/new", plan=json.dumps({**PLAN, "clip": -1}), do="look")
    assert (answer.status, "One member is wrong" in author.page) == (422, True)
    answer = await author.post("/plans/new", plan="{", do="save")
    assert answer.status == 400
    answer = await author.post("/plans/new", plan=json.dumps(PLAN), do="look")
    assert (answer.status, "Noise of a round" in author.page) == (200, True)
    assert not Html(author.page).wrong
    answer = await author.post("/plans/new", plan=json.dumps(PLAN), do="save")
    question = answer.headers["location"]
    await author.get(question)
    assert not Html(author.page).wrong
    assert "the approval covers all of them" in author.page
    await author.get(f"{question}/edit")
    assert "&#34;rounds&#34;: 3" in author.page
    changed = json.dumps({**PLAN, "text": "What else?"})
    assert (await author.post(f"{question}/edit", plan=changed, do="save", revision="1")).status == 303
    await author.get(question)
    assert (await author.post(f"{question}/submit", revision="2")).status == 303
    await approver.get(question)
    assert (await approver.post(f"{question}/approve")).status == 303
    await approver.get(question)
    assert (await approver.post(f"{question}/publish")).status == 303
    _, shown = await world.stage.call("GET", f"/v1{question}", status=200)
    series = Series.from_body(shown["recipe"])
    await world.look()
    (first,) = await world.rounds(series)
    world.release(first)
    await world.until(first.interval.end + 5)
    await world.look()
    author = await signed_in(world.stage, "analyst")
    await author.get(question)
    assert f"/series/{series.hash_text}" in author.page
    await author.get(f"/series/{series.hash_text}")
    assert not Html(author.page).wrong
    for words in ("ε so far", "strokes-1: reports come until", f"/v1/series/{series.hash_text}/model", ">450<"):
        assert words in author.page, words
    await author.get("/jobs")
    assert not Html(author.page).wrong
    assert "Training of" in author.page


async def test_the_preview_of_a_plan_takes_what_saving_takes(world: World) -> None:
    await world.start(max_body=1 << 18)
    author = await signed_in(world.stage, "analyst")
    spread_out = json.dumps(PLAN, indent=1).replace("\n", "\n" + 4000 * " ")
    assert len(spread_out) > 1 << 16
    await author.get("/plans/new")
    assert f'data-most="{1 << 18}"' in author.page
    answer = await author.post("/plans/new", plan=spread_out, do="look")
    assert (answer.status, "Noise of a round" in author.page) == (200, True)
    assert (await author.post("/plans/new", plan=spread_out, do="save")).status == 303


async def test_the_client_hands_in_a_plan_and_reads_the_run(world: World) -> None:
    def operator(role: str) -> AsyncOperator:
        return AsyncOperator(
            ADMIN_URL, key=key_of(role), transport=world.stage.inner, clock=SimClock(autojump=0.001),
            entropy=SeededEntropy(7), patience=0.0,
        )  # fmt: skip

    analyst, approver = operator("analyst"), operator("approver")
    with pytest.raises(FieldError, match="clip"):
        await analyst.runs.create({**PLAN, "clip": 0})
    assert (await analyst.runs.forecast(PLAN)).forecast["rounds"] == PLAN["rounds"]
    draft = await analyst.runs.create(PLAN)
    edited = await analyst.runs.edit(draft, {**PLAN, "rounds": 2})
    assert (edited.plan or {})["rounds"] == 2
    assert await analyst.runs.edit(draft, {**PLAN, "rounds": 2}) == edited
    with pytest.raises(ChangedError):
        await analyst.runs.edit(draft, PLAN)
    with pytest.raises(UsageError, match="publish it"):
        await analyst.runs.get(edited)
    await analyst.questions.submit(edited)
    await approver.questions.approve(edited.id)
    published = await analyst.questions.publish(edited.id)
    await world.look()
    run = await analyst.runs.get(published)
    assert [(one.round, one.contributions) for one in run.rounds] == [(0, None)]
    assert model_file.name_of(await analyst.runs.model(published)) == run.model


async def test_a_second_plan_is_charged_beside_the_first_and_refused_beyond_the_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = AccountLimit(epsilon="12", delta="0.001", window_seconds=30 * 86_400)
    policy = RELAXED.model_copy(update={"accounts": {"default": limit}})
    monkeypatch.setattr(RecipeKit, "policy", policy)
    async with prepared(tmp_path) as stage:
        collector = Collector()
        await beside(stage, collector)
        world = World(stage, collector)
        await world.start(policy=policy)
        await world.published()
        await stage.clock.advance(BESIDE_SECONDS)
        _, ledger = await stage.call("GET", "/v1/ledger", status=200)
        spent = next(one["spent"] for one in ledger["accounts"] if one["account"] == "default")
        assert 7 < float(spent) <= PLAN["epsilon"]
        _, draft = await stage.call("POST", "/v1/plans", {**PLAN, "name": "again"}, status=201)
        path = f"/v1/questions/{draft['id']}"
        await stage.call("POST", f"{path}/submit", {}, status=200)
        await stage.call("POST", f"{path}/approve", {}, role="approver", status=200)
        status, kind = await stage.refused("POST", f"{path}/publish", {})
        assert (status, kind) == (422, "refusal:budget-spent")
        assert (await stage.shown(draft["id"]))["state"] == "approved"


@pytest.mark.parametrize("fault", [LOSE_REQUEST, LOSE_RESPONSE], ids=["request", "response"])
@pytest.mark.parametrize("lost", ["/v1/leaves", "/v1/models/"])
@pytest.mark.parametrize("ended", [True, False], ids=["ended", "goes on"])
async def test_a_round_is_sent_again_after_its_sending_was_lost(
    world: World, lost: str, fault: Fault, *, ended: bool
) -> None:
    _, series = await world.published()
    world.stage.network.plan = matching(lost, fault, times=1)
    await world.look()
    assert [(one["stuck"], "does not answer" in one["detail"]) for one in await world.jobs()] == [(True, True)]
    if ended:
        await world.start()
    await world.until(world.stage.clock.now() + FIRST_PAUSE)
    (recipe,) = await world.rounds(series)
    assert await world.has_file(recipe)
    assert [one["stuck"] for one in await world.jobs()] == [False]
