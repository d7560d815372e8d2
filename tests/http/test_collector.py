"""The collector: one release per batch, the same bytes after a crash, refusals with their reasons."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from services.collector.app import create_app, make_transport
from services.collector.config import CollectorConfig
from services.collector.schema import METADATA, MIGRATIONS
from tacit import media_types
from tacit.adapters.migrate import assert_migrations_match
from tacit.aggregator.keys import HpkeKey, write_hpke_key
from tacit.codec import b64url
from tacit.errors import DAP_ERROR_PREFIX, DapAbort, DapProblem, Refusal, UsageError
from tacit.messages import CollectionJobResp, Interval, Role
from tacit.ports import HttpResponse, TransportError
from tacit.recipe.derive import task_of
from tacit.recipe.model import Boolean, Question, Recipe
from tacit.service.app import DRIVERS, Deps, make_app
from tacit.service.config import write_secret
from tacit.service.driver import Driver
from tacit.task import Task, seal_aggregate_share
from tacit.testing.bundles import ORIGIN, signed_bundle
from tacit.testing.clock import SimClock
from tacit.testing.entropy import SeededEntropy
from tacit.testing.network import (
    LOSE_RESPONSE,
    FaultyTransport,
    InProcessTransport,
    matching,
)
from tacit.testing.recipes import NOW, RecipeKit, changed
from tacit.testing.reports import issuer_key
from tacit.tlog.checkpoint import NoteKey
from tacit.tlog.leaves import SignedLeaf
from tacit.tlog.log import MemoryTree

COLLECTOR = "http://127.0.0.1:8010"
LOG = "http://127.0.0.1:8011"
OPERATOR = {"Authorization": "Bearer operator-secret"}
JSON = {"Content-Type": media_types.JSON}
KIT = RecipeKit()
COUNTS = [14, 13, 12, 15, 14, 12, 13, 13, 14, 13, 12, 13, 14, 13, 12, 13]


@dataclass
class LogStub:
    """The recipe server's public side: a log that may grow, and a place for results."""

    tree: MemoryTree = field(default_factory=MemoryTree)
    results: list[dict[str, Any]] = field(default_factory=list)
    result_status: int = 201

    def add(self, *leaves: SignedLeaf) -> None:
        for leaf in leaves:
            self.tree.append(leaf.encode())

    async def bundle(self, request: web.Request) -> web.Response:
        return web.Response(body=signed_bundle(self.tree, int(request.query["since"]), KIT.keys["log"]))

    async def result(self, request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == "Bearer publish-secret"
        if self.result_status == 201:
            self.results.append(await request.json())
        return web.Response(status=self.result_status)

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/v1/bundle", self.bundle)
        app.router.add_post("/v1/results", self.result)
        return app


@dataclass
class LeaderStub:
    """The Leader's collection resources, with both shares sealed as an honest pair would."""

    task: Task
    values: list[int] = field(default_factory=lambda: list(COUNTS))
    count: int = sum(COUNTS)
    ready: bool = False
    refuse: DapAbort | Refusal | None = None
    retry_after: str | None = "7"
    answer: bytes | None = None
    requests: list[bytes] = field(default_factory=list)
    polls: int = 0
    live: dict[bytes, str] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)

    def response(self, request: bytes) -> bytes:
        if self.answer is not None:
            return self.answer
        entropy, vdaf = SeededEntropy(b"shares"), self.task.vdaf
        blind = [int.from_bytes(entropy(7), "big") for _ in self.values]
        leader = vdaf.encode_agg_share(vdaf.field.sub_vec(self.values, blind))
        shares = {Role.LEADER: leader, Role.HELPER: vdaf.encode_agg_share(blind)}
        sealed = [seal_aggregate_share(self.task, role, request, share, entropy) for role, share in shares.items()]
        interval = Interval(self.task.interval.start + 2, 3)
        return CollectionJobResp(self.count, interval, *sealed).encode()

    async def create(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.requests.append(body)
        assert request.headers["Authorization"] == "Bearer leader-secret"
        assert request.headers["Content-Type"] == media_types.dap("collection-job-req")
        if self.refuse is not None:
            raise self.refuse
        job = self.live.setdefault(body, f"job-{len(self.deleted)}")
        headers = {"Location": f"{request.path}/{job}"}
        if self.retry_after is not None:
            headers["Retry-After"] = self.retry_after
        return web.Response(status=201, headers=headers)

    async def show(self, request: web.Request) -> web.Response:
        self.polls += 1
        assert request.headers["Authorization"] == "Bearer leader-secret"
        body = next((body for body, job in self.live.items() if job == request.match_info["job"]), None)
        if body is None:
            raise web.HTTPNotFound
        if self.refuse is not None:
            raise self.refuse
        if not self.ready:
            headers = {} if self.retry_after is None else {"Retry-After": self.retry_after}
            return web.Response(headers=headers)
        return web.Response(body=self.response(body), content_type="application/ppm-dap")

    async def delete(self, request: web.Request) -> web.Response:
        self.deleted.append(request.match_info["job"])
        self.live = {body: job for body, job in self.live.items() if job not in self.deleted}
        return web.Response()

    def app(self, deps: Deps) -> web.Application:
        app = make_app("leader", deps)
        jobs = f"/tasks/{self.task.task_id_text}/collection_jobs"
        app.router.add_post(jobs, self.create)
        app.router.add_get(jobs + "/{job}", self.show)
        app.router.add_delete(jobs + "/{job}", self.delete)
        return app


class Observer:
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, object]] = []

    def saw(self, party: str, what: object) -> None:
        self.notes.append((party, what))


class Stage:
    """A collector with its log, its Leader, simulated time and a network that can be broken."""

    def __init__(self, folder: Path, recipe: Recipe, **changes: object) -> None:
        self.folder = folder
        self.recipe = recipe
        self.changes = changes
        self.clock = SimClock(float(NOW))
        self.inner = InProcessTransport()
        self.network = FaultyTransport(self.inner, clock=self.clock)
        self.observer = Observer()
        self.log = LogStub()
        self.leader = LeaderStub(task_of(recipe, issuer_key().token_key.spki))
        self.app: web.Application | None = None

    def config(self, **changes: object) -> CollectorConfig:
        values: dict[str, object] = {
            "state_dir": self.folder,
            "hpke_keys": [self.folder / "hpke.json"],
            "leader_token": self.folder / "leader.token",
            "operator_token": self.folder / "operator.token",
            "log": {"url": LOG, "key": NoteKey(ORIGIN, KIT.keys["log"].public).encode()},
            "policy": {**KIT.policy.model_dump(), "max_epsilon_aggregator": "4"},
            "publish": {"url": LOG, "token": self.folder / "publish.token"},
        }
        return CollectorConfig.model_validate(values | self.changes | changes)

    async def start(self) -> None:
        """Start the collector, or end it and start it again on what it stored."""
        deps = Deps(self.clock, SeededEntropy(1), self.network, self.observer, background=False)
        await self.inner.mount("http://127.0.0.1:8081", self.leader.app(deps))
        await self.inner.mount(LOG, self.log.app())
        self.app = create_app(self.config(), deps)
        await self.inner.mount(COLLECTOR, self.app)

    def driver(self, name: str) -> Driver:
        assert self.app is not None
        return next(one for one in self.app[DRIVERS] if type(one).__name__ == name)

    async def step(self) -> int:
        return await self.driver("Collector").step()

    async def call(
        self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
    ) -> tuple[HttpResponse, Any]:
        sent = {**JSON, **OPERATOR} if headers is None else headers
        raw = b"" if body is None else json.dumps(body).encode()
        answer = await self.inner.request(method, COLLECTOR + path, headers=sent, body=raw)
        return answer, json.loads(answer.body)

    async def ask(self, recipe: Recipe | None = None) -> dict[str, Any]:
        chosen = recipe or self.recipe
        answer, document = await self.call("POST", "/v1/collections", {"recipe_hash": chosen.hash_text})
        assert answer.status in (200, 201), document
        assert answer.headers["location"] == f"/v1/collections/{document['id']}"
        return {**document, "status": answer.status}

    async def show(self, collection_id: str) -> dict[str, Any]:
        answer, document = await self.call("GET", f"/v1/collections/{collection_id}")
        assert answer.status == 200
        return dict(document)


def publish_recipe(stage: Stage, recipe: Recipe) -> None:
    stage.log.add(
        KIT.recipe_leaf(recipe),
        KIT.directory_leaf(),
        KIT.opt_in_leaf(recipe, "leader"),
        KIT.opt_in_leaf(recipe, "helper"),
    )


def write_secrets(folder: Path) -> None:
    key = HpkeKey(KIT.hpke_config(Role.COLLECTOR), KIT.key_pairs[Role.COLLECTOR])
    write_hpke_key(folder / "hpke.json", key)
    for name in ("leader", "operator", "publish"):
        write_secret(folder / f"{name}.token", f"{name}-secret\n".encode())


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    write_secrets(tmp_path)
    stage = Stage(tmp_path, KIT.recipe())
    publish_recipe(stage, stage.recipe)
    await stage.start()
    yield stage
    await stage.inner.close()


@pytest.fixture
async def selected(tmp_path: Path) -> AsyncIterator[Stage]:
    """A stage whose recipe releases a batch whenever B reports are there."""
    write_secrets(tmp_path)
    body = changed(KIT.recipe(), "batch.mode", "leader_selected")
    stage = Stage(tmp_path, changed(body, "batch.close", "at_B"))
    publish_recipe(stage, stage.recipe)
    await stage.start()
    yield stage
    await stage.inner.close()


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
    start = (stage.leader.task.interval.start + 2) * 60
    assert result["interval"] == {"start": start, "duration": 180}
    assert [bucket["label"] for bucket in result["buckets"]] == [*map(str, range(15)), "15+"]
    assert [bucket["count"] for bucket in result["buckets"]] == COUNTS
    assert sum(bucket["estimate"] for bucket in result["buckets"]) == pytest.approx(2 * sum(COUNTS))
    assert all(bucket["stderr"] > 0 for bucket in result["buckets"])
    privacy = result["privacy"]
    assert privacy["n"] == stage.recipe.batch.min_batch_size
    assert privacy["epsilon"] == privacy["by_adversary"]["aggregator"]
    assert privacy["relation"] == "replacement"
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


@pytest.mark.parametrize(("text", "seconds"), [("soon", 5), (None, 5), ("99999999", 600), ("0", 0)])
async def test_an_odd_retry_after_is_kept_within_reason(stage: Stage, text: str | None, seconds: int) -> None:
    stage.leader.retry_after = text
    await stage.ask()
    await stage.step()
    if seconds:
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
    assert await stage.step() == 1
    assert (await stage.show(asked["id"]))["state"] == "requested"
    stage.leader.ready = True
    assert await stage.step() == 1
    stage.clock.jump(7)
    assert await stage.step() == 1
    assert (await stage.show(asked["id"]))["state"] == "released"
    assert len(set(stage.leader.requests)) == 1


@pytest.mark.parametrize(
    ("refusal", "rule"),
    [
        (
            DapAbort(DapProblem.INVALID_BATCH_SIZE, "199 reports are fewer than 200"),
            DAP_ERROR_PREFIX + "invalidBatchSize",
        ),
        (DapAbort(DapProblem.BATCH_OVERLAP, "collected before"), DAP_ERROR_PREFIX + "batchOverlap"),
        (Refusal("rate", "more reports than the recipe expects"), "urn:tacit:refusal:rate"),
    ],
)
@pytest.mark.parametrize("when", ["create", "poll"])
async def test_what_the_leader_refuses_is_kept_with_its_reason(
    stage: Stage, refusal: DapAbort | Refusal, rule: str, when: str
) -> None:
    asked = await stage.ask()
    if when == "poll":
        await stage.step()
        stage.clock.jump(7)
    stage.leader.refuse = refusal
    assert await stage.step() == 1
    row = await stage.show(asked["id"])
    assert (row["state"], row["rule"]) == ("refused", rule)
    assert row["detail"] == refusal.detail
    answer, document = await stage.call("GET", f"/v1/results/{stage.recipe.hash_text}")
    assert answer.status == 404
    assert "no batch" in document["detail"]
    assert await stage.step() == 0


async def test_a_refused_collection_can_be_asked_for_again(stage: Stage) -> None:
    asked = await stage.ask()
    stage.leader.refuse = DapAbort(DapProblem.INVALID_BATCH_SIZE, "too few")
    await stage.step()
    stage.leader.refuse, stage.leader.ready = None, True
    again = await stage.ask()
    assert (again["id"], again["state"], again["status"]) == (asked["id"], "requested", 200)
    assert "rule" not in again
    await stage.step()
    stage.clock.jump(7)
    await stage.step()
    assert (await stage.show(asked["id"]))["state"] == "released"
    assert len(set(stage.leader.requests)) == 1


async def test_a_task_that_the_leader_does_not_serve_yet_is_tried_again(stage: Stage) -> None:
    asked = await stage.ask()
    stage.leader.refuse = DapAbort(DapProblem.UNRECOGNIZED_TASK)
    for delay in (1, 2, 4):
        assert await stage.step() == 0
        assert await stage.step() == 0
        stage.clock.jump(delay)
    assert len(stage.leader.requests) == 3
    assert (await stage.show(asked["id"]))["rule"].endswith("unrecognizedTask")
    stage.leader.refuse = None
    assert await stage.step() == 1
    assert "rule" not in await stage.show(asked["id"])


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"count": 199}, "collection-size"),
        ({"values": [*COUNTS[:-1], COUNTS[-1] + 1]}, "collection-values"),
        ({"answer": b"\x00" * 40}, "collection-malformed"),
    ],
)
async def test_an_answer_that_does_not_add_up_is_refused(stage: Stage, change: dict[str, Any], rule: str) -> None:
    for name, value in change.items():
        setattr(stage.leader, name, value)
    asked = await stage.ask()
    await stage.step()
    stage.leader.ready = True
    stage.clock.jump(7)
    await stage.step()
    assert (await stage.show(asked["id"]))["rule"] == rule


async def test_shares_sealed_for_another_request_are_refused(stage: Stage) -> None:
    asked = await stage.ask()
    await stage.step()
    stage.leader.answer = stage.leader.response(b"another request")
    stage.leader.ready = True
    stage.clock.jump(7)
    await stage.step()
    row = await stage.show(asked["id"])
    assert row["rule"] == "collection-sealed"
    assert "leader" in row["detail"]


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


async def test_recipes_are_listed_with_what_keeps_them_from_being_collected(stage: Stage) -> None:
    other = KIT.recipe(name="not-opted-in", slot=1)
    stage.log.add(KIT.recipe_leaf(other))
    assert await stage.driver("Recipes").step() == 5
    assert await stage.driver("Recipes").step() == 0
    _, document = await stage.call("GET", "/v1/recipes")
    assert document["recipes"] == [
        {"recipe_hash": stage.recipe.hash_text, "name": "doctor-visits", "state": "active"},
        {
            "recipe_hash": other.hash_text,
            "name": "not-opted-in",
            "state": "refused",
            "rule": "opt-in-missing",
            "detail": document["recipes"][1]["detail"],
        },
    ]
    answer, problem = await stage.call("POST", "/v1/collections", {"recipe_hash": other.hash_text})
    assert (answer.status, problem["type"]) == (422, "urn:tacit:refusal:opt-in-missing")
    stage.log.add(KIT.opt_in_leaf(other, "leader"), KIT.opt_in_leaf(other, "helper"))
    assert await stage.driver("Recipes").step() == 2
    assert (await stage.ask(other))["status"] == 201


async def test_a_recipe_for_another_collector_is_refused(stage: Stage) -> None:
    foreign = RecipeKit(7).parties().collector.hpke_config
    recipe = changed(KIT.recipe(slot=2), "parties.collector.hpke_config", foreign)
    publish_recipe(stage, recipe)
    answer, problem = await stage.call("POST", "/v1/collections", {"recipe_hash": recipe.hash_text})
    assert (answer.status, problem["type"]) == (422, "urn:tacit:refusal:own-hpke-key")


async def test_a_recipe_that_the_log_does_not_show_is_not_found(stage: Stage) -> None:
    answer, problem = await stage.call("POST", "/v1/collections", {"recipe_hash": b64url(bytes(32))})
    assert (answer.status, problem["status"]) == (404, 404)


async def test_a_log_that_rewrites_its_history_is_never_believed_again(stage: Stage) -> None:
    await stage.driver("Recipes").step()
    stage.log.tree = MemoryTree([leaf + b" " for leaf in stage.log.tree.entries])
    for _ in range(2):
        with pytest.raises(Refusal) as refused:
            await stage.driver("Recipes").step()
        assert refused.value.rule == "log-split-view"
        await stage.start()
    assert (await stage.ask())["status"] == 201


@pytest.mark.parametrize(
    "headers",
    [JSON, {**JSON, "Authorization": "Bearer wrong"}, {**JSON, "Authorization": "Basic operator-secret"}],
)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/collections"),
        ("GET", "/v1/collections"),
        ("GET", "/v1/collections/x"),
        ("GET", "/v1/results"),
        ("GET", "/v1/results/x"),
        ("GET", "/v1/recipes"),
    ],
)
async def test_every_resource_wants_the_operators_token(
    stage: Stage, method: str, path: str, headers: dict[str, str]
) -> None:
    answer, _ = await stage.call(method, path, headers=headers)
    assert answer.status == 401


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"recipe_hash": 1}',
        b'{"recipe_hash": "AA"}',
        b'{"recipe_hash": "!"}',
        b'{"recipe_hash": "AA", "x": 1}',
        b"\xff",
        b"[" * 20_000,
    ],
)
async def test_a_malformed_request_is_a_problem_document(stage: Stage, body: bytes) -> None:
    headers = {**JSON, **OPERATOR}
    answer = await stage.inner.request("POST", COLLECTOR + "/v1/collections", headers=headers, body=body)
    assert answer.status == 400
    assert answer.headers["content-type"] == media_types.PROBLEM_JSON


async def test_unknown_collections_and_large_bodies_are_refused(stage: Stage) -> None:
    answer, _ = await stage.call("GET", "/v1/collections/nothing")
    assert answer.status == 404
    answer, _ = await stage.call("POST", "/v1/collections", {"recipe_hash": "A" * 70_000})
    assert answer.status == 413


async def test_configuration_errors_are_found_at_start(stage: Stage) -> None:
    deps = Deps(stage.clock, SeededEntropy(3), stage.network, background=False)
    log = stage.config().log.model_dump()
    with pytest.raises(UsageError, match="https"):
        create_app(stage.config(log={**log, "url": "http://log.example"}), deps)
    with pytest.raises(UsageError, match="token"):
        create_app(stage.config(leader_token=stage.folder / "no.token"), deps)
    write_secret(stage.folder / "bad.token", b"\xff\xfe")
    with pytest.raises(UsageError, match="ASCII"):
        create_app(stage.config(leader_token=stage.folder / "bad.token"), deps)
    await make_transport(stage.config()).close()


def test_migrations_make_the_tables_of_the_metadata() -> None:
    assert_migrations_match(METADATA, MIGRATIONS)
