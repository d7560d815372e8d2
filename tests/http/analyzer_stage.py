"""An analyzer with a log, a relay, a gateway and a collector around it, on simulated time."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from aiohttp import web

from client_agent.oblivious import ObliviousClient
from infra.lab.kit.bundles import ORIGIN
from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.network import FaultyTransport, InProcessTransport
from infra.lab.kit.one_server import ANALYZER_URL, OPERATOR, AnalyzerKit, Reporter
from infra.lab.kit.recipes import NOW, URLS
from relay.app import create_app as create_relay
from relay.config import RelayConfig
from services.analyzer.app import RELEASES, STORE, create_app
from services.analyzer.config import AnalyzerConfig
from services.analyzer.releases import Releases
from services.collector.app import create_app as create_collector
from services.collector.config import CollectorConfig
from services.gateway.app import create_app as create_gateway
from services.gateway.config import GatewayConfig, TargetRule
from services.gateway.handlers import GATEWAY
from tacit import media_types
from tacit.aggregator.keys import generate_hpke_key, write_hpke_key
from tacit.aggregator.log_follower import FOLLOWER
from tacit.aggregator.state_keys import write_state_key
from tacit.models.devices import device_side
from tacit.models.interfaces.device import Verdict
from tacit.ports import HttpResponse
from tacit.recipe.model import Recipe
from tacit.service.app import DRIVERS, ServiceEnv
from tacit.service.base.keys import write_signing_key
from tacit.service.base.secret_files import write_secret
from tacit.tlog.checkpoint import NoteKey
from tacit.tlog.leaves import SignedLeaf
from tests.http.stubs import Remembering, ShownLog

KIT = AnalyzerKit()
LOG, GATEWAY_URL, COLLECTOR_URL = "http://127.0.0.1:8090", "http://127.0.0.1:8084", "http://127.0.0.1:8088"
GATEWAY_TOKEN, COLLECTOR_TOKEN, OPERATOR_TOKEN = "gateway-secret", "collector-secret", "operator-secret"
B = 6
POLICY = {**KIT.policy.model_dump(), "min_batch_size": B}
LOG_SETTINGS = {"url": LOG, "key": NoteKey(ORIGIN, KIT.keys["log"].public).encode()}


@dataclass
class Log(ShownLog):
    """A log that takes every leaf."""

    status: int = 201
    posted: list[SignedLeaf] = field(default_factory=list)

    async def take(self, request: web.Request) -> web.Response:
        leaf = SignedLeaf.decode(await request.read())
        if self.status == 201:
            self.posted.append(leaf)
            self.add(leaf)
        return web.Response(status=self.status)

    def app(self) -> web.Application:
        app = super().app()
        app.router.add_post("/v1/leaves", self.take)
        return app


class Stage:
    """All of it. The analyzer may be ended and started again on what it stored. ``servers``: where the gateway forwards
    reports to; ``policy``: what analyzer and collector require."""

    servers: tuple[str, ...] = (ANALYZER_URL,)
    policy: ClassVar[dict[str, Any]] = POLICY

    def __init__(self, folder: Path, storage: str = "memory", database: str = "") -> None:
        self.folder = folder
        self.storage = storage
        self.database = database
        self.clock = SimClock(float(NOW))
        self.inner = InProcessTransport()
        self.network = FaultyTransport(self.inner, clock=self.clock)
        self.observer = Remembering()
        self.log = Log(KIT.keys["log"], clock=self.clock)
        self.changes: dict[str, Any] = {}
        self.app: web.Application | None = None
        self.collector: web.Application | None = None
        self._starts = 0

    def settings(self) -> AnalyzerConfig:
        own: dict[str, Any] = {
            "state_dir": self.folder / "analyzer",
            "storage": self.storage,
            "operator": OPERATOR,
            "signing_key": self.folder / "signing.key",
            "hpke_keys": [self.folder / "hpke.key"],
            "state_keys": [self.folder / "state.key"],
            "collector_token": self.folder / "collector.token",
            "operator_token": self.folder / "operator.token",
            "gateway_tokens": [self.folder / "gateway.token"],
            "log": LOG_SETTINGS,
            "policy": self.policy,
            "group_delay": 0.0,
        }
        if self.database:
            own |= {"storage": "file", "database_file": self.folder / "database"}
        return AnalyzerConfig.model_validate({**own, **self.changes})

    def write_secrets(self) -> None:
        write_signing_key(self.folder / "signing.key", KIT.keys["analyzer"])
        write_hpke_key(self.folder / "hpke.key", KIT.hpke_key)
        write_state_key(self.folder / "state.key", KIT.state_key)
        write_hpke_key(self.folder / "collector.key", generate_hpke_key(3, SeededEntropy(b"collector")))
        tokens = {"gateway": GATEWAY_TOKEN, "collector": COLLECTOR_TOKEN, "operator": OPERATOR_TOKEN}
        for name, token in {**tokens, "leader": "leader-secret", "relay": "relay-secret"}.items():
            write_secret(self.folder / f"{name}.token", token.encode())
        if self.database:
            write_secret(self.folder / "database", self.database.encode())

    def deps(self, name: str) -> ServiceEnv:
        self._starts += 1
        entropy = SeededEntropy(f"{name} {self._starts}".encode())
        return ServiceEnv(self.clock, entropy, self.network, self.observer, background=False)

    async def start(self) -> None:
        """Start the analyzer, or end it and start it again; then it reads the log, which also tells it the time."""
        is_first = self.app is None
        await self.inner.unmount(ANALYZER_URL)
        self.app = create_app(self.settings(), self.deps("analyzer"))
        await self.inner.mount(ANALYZER_URL, self.app)
        if not is_first:
            await self.follow()

    async def start_others(self) -> None:
        """Log, relay, gateway and collector."""
        await self.inner.mount(LOG, self.log.app())
        bearer = self.folder / "gateway.token"
        rules = (TargetRule(origin=one, path_prefix="/recipes/", bearer=bearer) for one in self.servers)
        gateway = GatewayConfig(
            state_dir=self.folder / "gateway",
            storage="memory",
            group_delay=0.0,
            relay_bearer=self.folder / "relay.token",
            targets=tuple(rules),
        )
        served = create_gateway(gateway, self.deps("gateway"))
        await self.inner.mount(GATEWAY_URL, served)
        relay = RelayConfig(
            state_dir=self.folder / "relay", gateway_url=GATEWAY_URL, gateway_bearer=self.folder / "relay.token"
        )
        await self.inner.mount(URLS["relay"], create_relay(relay, self.deps("relay")))
        collector = CollectorConfig.model_validate(
            {
                "state_dir": self.folder / "collecting",
                "storage": "memory",
                "hpke_keys": [self.folder / "collector.key"],
                "leader_token": self.folder / "leader.token",
                "analyzer_token": self.folder / "collector.token",
                "operator_token": self.folder / "operator.token",
                "log": LOG_SETTINGS,
                "policy": self.policy,
            }
        )
        self.collector = create_collector(collector, self.deps("collector"))
        await self.inner.mount(COLLECTOR_URL, self.collector)
        configs = (served[GATEWAY].ring.active.config,)
        self.device = ObliviousClient(self.network, URLS["relay"], configs, self.clock, SeededEntropy(b"devices"))

    async def publish(self, *recipes: Recipe) -> None:
        """The log has the recipes; the analyzer reads it, opts in, and reads its opt-ins there."""
        self.log.add(KIT.directory_leaf(), *(KIT.recipe_leaf(recipe) for recipe in recipes))
        await self.follow()
        await self.follow()

    async def follow(self) -> None:
        assert self.app is not None
        await self.app[FOLLOWER].step()

    @property
    def store(self) -> Any:
        assert self.app is not None
        return self.app[STORE]

    @property
    def releases(self) -> Releases:
        assert self.app is not None
        return self.app[RELEASES]

    async def send(self, url: str, report: bytes) -> Verdict:
        """What a device learns that sends a report through relay and gateway."""
        model = device_side("pan-private-single")
        answer = await self.device.request("POST", url, media_type=model.media_type, content=report)
        return model.verdict(answer)

    async def upload(self, reporter: Reporter, report: bytes, token: str = GATEWAY_TOKEN) -> HttpResponse:
        """One report as a gateway brings it."""
        headers = {"Content-Type": media_types.ONE_SERVER_REPORT, "Authorization": f"Bearer {token}"}
        return await self.network.request("POST", reporter.channel.url, headers=headers, body=report)

    async def get(self, path: str, token: str | None = COLLECTOR_TOKEN) -> tuple[int, Any]:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        answer = await self.network.request("GET", ANALYZER_URL + path, headers=headers)
        return answer.status, json.loads(answer.body)

    async def aggregate(self, recipe: Recipe, token: str | None = COLLECTOR_TOKEN) -> tuple[int, Any]:
        return await self.get(f"/recipes/{recipe.hash_text}/aggregate", token)

    async def status(self, recipe: Recipe) -> dict[str, Any]:
        answered, page = await self.get(f"/v1/tasks/{recipe.hash_text}/status", OPERATOR_TOKEN)
        assert answered == 200, page
        return dict(page)

    async def recipes(self) -> dict[str, str]:
        """State, or the rule of a refusal, of every recipe that names the analyzer."""
        _, page = await self.get("/v1/recipes", OPERATOR_TOKEN)
        return {row["recipe_hash"]: row["rule"] or row["state"] for row in page["recipes"]}

    def end_interval(self, recipe: Recipe, more: float = 60.0) -> None:
        self.clock.jump(recipe.interval.end + more - self.clock.now())

    async def collect(self, recipe: Recipe, steps: int = 4) -> dict[str, Any]:
        """Ask the collector for the recipe, and let it work; the collection."""
        assert self.collector is not None
        by_name = {type(one).__name__: one for one in self.collector[DRIVERS]}
        await by_name["Recipes"].step()
        headers = {"Content-Type": media_types.JSON, "Authorization": f"Bearer {OPERATOR_TOKEN}"}
        body = json.dumps({"recipe_hash": recipe.hash_text}).encode()
        answer = await self.inner.request("POST", f"{COLLECTOR_URL}/v1/collections", headers=headers, body=body)
        assert answer.status in (200, 201), answer.body
        for _ in range(steps):
            await by_name["Collector"].step()
        url = f"{COLLECTOR_URL}{answer.headers['location']}"
        return dict(json.loads((await self.inner.request("GET", url, headers=headers)).body))

    async def yield_at_the_collector(self, recipe: Recipe) -> dict[str, Any]:
        """What the collector tells its operator of a recipe that fills."""
        assert self.collector is not None
        await next(one for one in self.collector[DRIVERS] if type(one).__name__ == "Recipes").step()
        headers = {"Authorization": f"Bearer {OPERATOR_TOKEN}"}
        url = f"{COLLECTOR_URL}/v1/recipes/{recipe.hash_text}/yield"
        return dict(json.loads((await self.inner.request("GET", url, headers=headers)).body))

    async def results(self, recipe: Recipe) -> list[dict[str, Any]]:
        headers = {"Authorization": f"Bearer {OPERATOR_TOKEN}"}
        url = f"{COLLECTOR_URL}/v1/results/{recipe.hash_text}"
        return list(json.loads((await self.inner.request("GET", url, headers=headers)).body).get("results", []))


@asynccontextmanager
async def analyzer_stage(folder: Path, storage: str = "memory", database: str = "") -> AsyncIterator[Stage]:
    """A stage on which everything runs, and the log is empty."""
    stage = Stage(folder, storage, database)
    stage.write_secrets()
    await stage.start_others()
    await stage.start()
    try:
        yield stage
    finally:
        await stage.inner.close()
