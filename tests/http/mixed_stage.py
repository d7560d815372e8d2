"""Leader and helper behind a shuffler, with relay, gateway, log and collector around them, on simulated time."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

from aiohttp import web

from client_agent.oblivious import ObliviousClient
from infra.lab.kit.bundles import ORIGIN
from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.mixed import MixedDevices, MixedKit
from infra.lab.kit.network import FaultyTransport, InProcessTransport
from infra.lab.kit.recipes import NOW, URLS
from infra.lab.kit.shuffled import SHUFFLER_OPERATOR, SHUFFLER_URL
from relay.app import create_app as create_relay
from relay.config import RelayConfig
from services.collector.app import create_app as create_collector
from services.collector.config import CollectorConfig
from services.gateway.app import create_app as create_gateway
from services.gateway.config import GatewayConfig, TargetRule
from services.gateway.handlers import GATEWAY
from services.helper.app import create_app as create_helper
from services.helper.config import HelperConfig
from services.leader.app import create_app as create_leader
from services.leader.config import LeaderConfig
from services.shuffler.app import FORWARDING, YIELD_REPORTER, create_app
from services.shuffler.config import ShufflerConfig
from services.shuffler.forwarding import Forwarding
from services.shuffler.yield_reporter import YieldReporter
from tacit import media_types
from tacit.aggregator.keys import HpkeKey, PeerSecrets, write_hpke_key, write_peer_file
from tacit.aggregator.log_follower import FOLLOWER
from tacit.codec import b64url
from tacit.messages import Role
from tacit.models.devices import device_side
from tacit.models.interfaces.device import Verdict
from tacit.operations.results import CollectorAccess
from tacit.operations.yields import Yield, read_yield
from tacit.ports import HttpResponse
from tacit.recipe.derive import task_id
from tacit.recipe.model import Recipe
from tacit.service.app import DRIVERS, ServiceEnv
from tacit.service.base.keys import write_signing_key
from tacit.service.base.secret_files import write_secret
from tacit.tlog.checkpoint import NoteKey
from tests.http.analyzer_stage import Log
from tests.http.stubs import Remembering

KIT = MixedKit()
B = 50
LOG, GATEWAY_URL, COLLECTOR_URL = "http://127.0.0.1:8090", "http://127.0.0.1:8084", "http://127.0.0.1:8088"
LOG_SETTINGS = {"url": LOG, "key": NoteKey(ORIGIN, KIT.keys["log"].public).encode()}
TOKENS = {
    name: f"{name}-secret" for name in ("bundles", "reports", "collector", "operator", "relay", "messages", "leader")
}
"""``bundles``: the gateway's at the shuffler; ``reports``: the gateway's at the leader; ``messages``: the shuffler's at
the leader; ``leader``: the leader's at the helper."""
PER_REQUEST = 7
"""Reports in one request of the shuffler."""


class MixedStage:
    """All of it. Each of shuffler, leader and helper may be ended and started again on what it stored."""

    policy: ClassVar[dict[str, Any]] = {**KIT.policy.model_dump(), "min_batch_size": B}

    def __init__(self, folder: Path, recipe: Recipe, storage: str, changes: Mapping[str, Any]) -> None:
        self.folder = folder
        self.recipe = recipe
        self.devices = MixedDevices(recipe)
        self.storage = storage
        self.changes = changes
        self.clock = SimClock(float(NOW))
        self.inner = InProcessTransport()
        self.network = FaultyTransport(self.inner, clock=self.clock)
        self.observer = Remembering()
        self.log = Log(KIT.keys["log"], clock=self.clock)
        self.apps: dict[str, web.Application] = {}
        self._starts = 0

    def write_secrets(self) -> None:
        for name in ("shuffler", "leader", "helper"):
            write_signing_key(self.folder / f"{name}.key", KIT.keys[name])
        write_hpke_key(self.folder / "shuffler-hpke.key", KIT.shuffler_key)
        for role in (Role.LEADER, Role.HELPER, Role.COLLECTOR):
            key = HpkeKey(KIT.hpke_config(role), KIT.key_pairs[role])
            write_hpke_key(self.folder / f"{role.name.lower()}-hpke.key", key)
        write_peer_file(self.folder / "peer.json", PeerSecrets("seed-1", KIT.verify_key_seed, TOKENS["leader"]))
        for name, token in TOKENS.items():
            write_secret(self.folder / f"{name}.token", token.encode())

    def deps(self, name: str) -> ServiceEnv:
        self._starts += 1
        entropy = SeededEntropy(f"{name} {self._starts}".encode())
        return ServiceEnv(self.clock, entropy, self.network, self.observer, background=False)

    def _settings(self, name: str, **own: Any) -> dict[str, Any]:
        common = {
            "state_dir": self.folder / name,
            "storage": self.storage,
            "operator": f"{name}.example",
            "signing_key": self.folder / f"{name}.key",
            "hpke_keys": [self.folder / f"{name}-hpke.key"],
            "operator_token": self.folder / "operator.token",
            "log": LOG_SETTINGS,
            "policy": self.policy,
        }
        return {**common, **own, **self.changes.get(name, {})}

    async def start(self, name: str) -> None:
        """Start shuffler, leader or helper, or end it and start it again."""
        app: web.Application
        if name == "shuffler":
            url = SHUFFLER_URL
            settings = self._settings(
                name,
                operator=SHUFFLER_OPERATOR,
                gateway_tokens=[self.folder / "bundles.token"],
                leader_token=self.folder / "messages.token",
                group_delay=0.0,
                chunk_messages=PER_REQUEST * -(-self.devices.channel.task.payload_size // 50),
            )
            await self.inner.unmount(url)
            app = create_app(ShufflerConfig.model_validate(settings), self.deps(name))
        else:
            url = URLS[name]
            settings = self._settings(name, peer_file=self.folder / "peer.json")
            await self.inner.unmount(url)
            if name == "leader":
                settings = {
                    "gateway_tokens": [self.folder / "reports.token"],
                    "collector_token": self.folder / "collector.token",
                    "shuffler_token": self.folder / "messages.token",
                    "limits": {"group_delay": 0.0, "min_job_size": 1},
                    **settings,
                }
                app = create_leader(LeaderConfig.model_validate(settings), self.deps(name))
            else:
                app = create_helper(HelperConfig.model_validate(settings), self.deps(name))
        self.apps[name] = app
        await self.inner.mount(url, app)
        await app[FOLLOWER].step()

    async def start_all(self) -> None:
        """The log with the recipe, and everybody around it, who read the log until all have opted in."""
        await self.inner.mount(LOG, self.log.app())
        self.log.add(KIT.directory_leaf(), KIT.recipe_leaf(self.recipe))
        targets = (
            TargetRule(origin=URLS["leader"], path_prefix="/tasks/", bearer=self.folder / "reports.token"),
            TargetRule(origin=SHUFFLER_URL, path_prefix="/recipes/", bearer=self.folder / "bundles.token"),
        )
        gateway = GatewayConfig(
            state_dir=self.folder / "gateway",
            storage="memory",
            group_delay=0.0,
            relay_bearer=self.folder / "relay.token",
            targets=targets,
        )
        served = create_gateway(gateway, self.deps("gateway"))
        await self.inner.mount(GATEWAY_URL, served)
        relay = RelayConfig(
            state_dir=self.folder / "relay", gateway_url=GATEWAY_URL, gateway_bearer=self.folder / "relay.token"
        )
        await self.inner.mount(URLS["relay"], create_relay(relay, self.deps("relay")))
        collector = {
            "state_dir": self.folder / "collecting",
            "storage": "memory",
            "hpke_keys": [self.folder / "collector-hpke.key"],
            "leader_token": self.folder / "collector.token",
            "operator_token": self.folder / "operator.token",
            "log": LOG_SETTINGS,
            "policy": self.policy,
        }
        self.collector = create_collector(CollectorConfig.model_validate(collector), self.deps("collector"))
        await self.inner.mount(COLLECTOR_URL, self.collector)
        configs = (served[GATEWAY].ring.active.config,)
        self.device = ObliviousClient(self.network, URLS["relay"], configs, self.clock, SeededEntropy(b"devices"))
        for name in ("shuffler", "leader", "helper"):
            await self.start(name)
        for _ in range(2):
            await self.follow()

    async def follow(self) -> None:
        for app in self.apps.values():
            await app[FOLLOWER].step()

    @property
    def forwarding(self) -> Forwarding:
        return self.apps["shuffler"][FORWARDING]

    @property
    def yield_reporter(self) -> YieldReporter:
        return self.apps["shuffler"][YIELD_REPORTER]

    @property
    def task(self) -> str:
        """The DAP task's id as in URLs."""
        return b64url(task_id(self.recipe))

    async def send(self, report: bytes, url: str | None = None) -> Verdict:
        """What a device learns that sends a report through relay and gateway."""
        side = device_side(self.recipe.model).sends_as(self.recipe)
        url = url or self.devices.channel.url
        return side.verdict(await self.device.request("POST", url, media_type=side.media_type, content=report))

    async def bring(self, report: bytes, token: str = TOKENS["bundles"]) -> HttpResponse:
        """One report as a gateway brings it to the shuffler."""
        headers = {"Content-Type": media_types.ONE_SERVER_REPORT, "Authorization": f"Bearer {token}"}
        return await self.network.request("POST", self.devices.channel.url, headers=headers, body=report)

    async def fill(self, count: int) -> None:
        """So many devices' reports are stored at the shuffler."""
        for number in range(count):
            assert (await self.bring(self.devices.report(number % 16))).status == 201

    async def upload(self, body: bytes, token: str) -> HttpResponse:
        """An upload to the leader."""
        headers = {"Content-Type": media_types.dap("upload-req"), "Authorization": f"Bearer {token}"}
        url = f"{URLS['leader']}/tasks/{self.task}/reports"
        return await self.network.request("POST", url, headers=headers, body=body)

    async def tell(self, look: Any, token: str = TOKENS["messages"]) -> HttpResponse:
        """A look at its count as a shuffler tells it."""
        headers = {"Content-Type": media_types.JSON, "Authorization": f"Bearer {token}"}
        url = f"{URLS['leader']}/tasks/{self.task}/looks"
        return await self.network.request("POST", url, headers=headers, body=json.dumps(look).encode())

    async def batch_yield(self) -> Yield:
        """The recipe's yield, as commands and dashboard read it from the collector."""
        await {type(one).__name__: one for one in self.collector[DRIVERS]}["Recipes"].step()
        access = CollectorAccess(COLLECTOR_URL, LOG, lambda: TOKENS["operator"])
        return await read_yield(self.inner, access, self.recipe, self.clock.now())

    async def status(self, name: str) -> dict[str, Any]:
        """The recipe's counts as the operator of this server sees them."""
        url, known_as = (SHUFFLER_URL, self.recipe.hash_text) if name == "shuffler" else (URLS[name], self.task)
        headers = {"Authorization": f"Bearer {TOKENS['operator']}"}
        return dict(
            json.loads((await self.inner.request("GET", f"{url}/v1/tasks/{known_as}/status", headers=headers)).body)
        )

    async def states(self, name: str) -> dict[str, str]:
        """State, or the rule of a refusal, of every recipe that names this server."""
        headers = {"Authorization": f"Bearer {TOKENS['operator']}"}
        url = SHUFFLER_URL if name == "shuffler" else URLS[name]
        page = json.loads((await self.inner.request("GET", f"{url}/v1/recipes", headers=headers)).body)
        return {row["recipe_hash"]: row["rule"] or row["state"] for row in page["recipes"]}

    def end_interval(self, more: float = 60.0) -> None:
        self.clock.jump(self.recipe.interval.end + more - self.clock.now())

    async def work(self, name: str = "leader", steps: int = 50) -> None:
        """Run the leader's aggregation and collection until nothing moves."""
        for _ in range(steps):
            if not sum([await driver.step() for driver in self.apps[name][DRIVERS][1:]]):
                return

    async def collect(self) -> dict[str, Any]:
        """Ask the collector for the recipe, and let it and the leader work; the collection."""
        by_name = {type(one).__name__: one for one in self.collector[DRIVERS]}
        await by_name["Recipes"].step()
        headers = {"Content-Type": media_types.JSON, "Authorization": f"Bearer {TOKENS['operator']}"}
        body = json.dumps({"recipe_hash": self.recipe.hash_text}).encode()
        answer = await self.inner.request("POST", f"{COLLECTOR_URL}/v1/collections", headers=headers, body=body)
        assert answer.status in (200, 201), answer.body
        for _ in range(3):
            await by_name["Collector"].step()
            await self.work()
            self.clock.jump(60)
        url = f"{COLLECTOR_URL}{answer.headers['location']}"
        return dict(json.loads((await self.inner.request("GET", url, headers=headers)).body))

    async def results(self) -> list[dict[str, Any]]:
        headers = {"Authorization": f"Bearer {TOKENS['operator']}"}
        url = f"{COLLECTOR_URL}/v1/results/{self.recipe.hash_text}"
        return list(json.loads((await self.inner.request("GET", url, headers=headers)).body).get("results", []))


def small_recipe(**options: Any) -> Recipe:
    """A histogram of 16 buckets with B = 50, of which 100 contributions are expected."""
    return KIT.recipe(**{"min_batch_size": B, "population": 200, **options})


@asynccontextmanager
async def mixed_stage(
    folder: Path, storage: str = "memory", recipe: Recipe | None = None, **changes: Any
) -> AsyncIterator[MixedStage]:
    """A stage on which everything runs and everybody has opted in. ``changes``: further members of a service's
    configuration, by its name."""
    stage = MixedStage(folder, recipe or small_recipe(), storage, changes)
    stage.write_secrets()
    await stage.start_all()
    try:
        yield stage
    finally:
        await stage.inner.close()
