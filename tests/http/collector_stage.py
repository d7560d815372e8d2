"""A collector with a log and a Leader that the test controls, on simulated time."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from infra.lab.kit.bundles import ORIGIN
from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.network import (
    FaultyTransport,
    InProcessTransport,
)
from infra.lab.kit.recipes import NOW, RecipeKit
from infra.lab.kit.reports import issuer_key
from services.collector.app import create_app
from services.collector.config import CollectorConfig
from tacit import media_types
from tacit.aggregator.keys import HpkeKey, write_hpke_key
from tacit.dap_errors import DapAbort
from tacit.errors import Refusal
from tacit.messages import CollectionJobResp, Interval, Role
from tacit.ports import HttpResponse
from tacit.recipe.derive import task_of
from tacit.recipe.model import Recipe
from tacit.service.app import DRIVERS, ServiceEnv, make_app
from tacit.service.base.driver import Driver
from tacit.service.base.secret_files import write_secret
from tacit.task import Task, seal_aggregate_share
from tacit.tlog.checkpoint import NoteKey
from tests.http.stubs import Remembering, ShownLog

COLLECTOR = "http://127.0.0.1:8010"
LOG = "http://127.0.0.1:8011"
OPERATOR = {"Authorization": "Bearer operator-secret"}
JSON = {"Content-Type": media_types.JSON}
KIT = RecipeKit()
COUNTS = [14, 13, 12, 15, 14, 12, 13, 13, 14, 13, 12, 13, 14, 13, 12, 13]


@dataclass
class LogStub(ShownLog):
    """The recipe server's public side: a log, and a place for results."""

    results: list[dict[str, Any]] = field(default_factory=list)
    result_status: int = 201
    token: str = "publish-secret"

    async def result(self, request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == f"Bearer {self.token}"
        if self.result_status == 201:
            self.results.append(await request.json())
        return web.Response(status=self.result_status)

    def app(self) -> web.Application:
        app = super().app()
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
    batch_yield: bytes | None = None
    live: dict[bytes, str] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)
    token: str = "leader-secret"

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
        assert request.headers["Authorization"] == f"Bearer {self.token}"
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
        assert request.headers["Authorization"] == f"Bearer {self.token}"
        body = next((body for body, job in self.live.items() if job == request.match_info["job"]), None)
        if body is None:
            raise web.HTTPNotFound
        if self.refuse is not None:
            raise self.refuse
        if not self.ready:
            headers = {} if self.retry_after is None else {"Retry-After": self.retry_after}
            return web.Response(headers=headers)
        return web.Response(body=self.response(body), content_type="application/ppm-dap")

    async def tell(self, request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == f"Bearer {self.token}"
        if self.refuse is not None:
            raise self.refuse
        return web.Response(body=self.batch_yield) if self.batch_yield is not None else web.Response(status=404)

    async def delete(self, request: web.Request) -> web.Response:
        self.deleted.append(request.match_info["job"])
        self.live = {body: job for body, job in self.live.items() if job not in self.deleted}
        return web.Response()

    def app(self, deps: ServiceEnv) -> web.Application:
        app = make_app("leader", deps)
        jobs = f"/tasks/{self.task.task_id_text}/collection_jobs"
        app.router.add_post(jobs, self.create)
        app.router.add_get(f"/tasks/{self.task.task_id_text}/yield", self.tell)
        app.router.add_get(jobs + "/{job}", self.show)
        app.router.add_delete(jobs + "/{job}", self.delete)
        return app


class Stage:
    """A collector with its log, its Leader, simulated time and a network that can be broken."""

    def __init__(self, folder: Path, recipe: Recipe, **changes: object) -> None:
        self.folder = folder
        self.recipe = recipe
        self.changes = changes
        self.clock = SimClock(float(NOW))
        self.inner = InProcessTransport()
        self.network = FaultyTransport(self.inner, clock=self.clock)
        self.observer = Remembering()
        self.log = LogStub(KIT.keys["log"])
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
        deps = ServiceEnv(self.clock, SeededEntropy(1), self.network, self.observer, background=False)
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
