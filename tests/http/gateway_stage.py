"""A gateway on simulated time, with targets and a log that the test controls."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.network import InProcessTransport
from services.gateway.app import create_app
from services.gateway.config import GatewayConfig
from services.gateway.handlers import GATEWAY
from services.gateway.targets import http_date
from tacit import bhttp, ohttp
from tacit.media_types import OHTTP_REQ, OHTTP_RES, PROBLEM_JSON
from tacit.ports import HttpResponse
from tacit.service.app import DRIVERS, ServiceEnv
from tacit.service.base.config_files import parse_config
from tacit.service.base.secret_files import write_secret

GATEWAY_URL = "http://127.0.0.1:8001"
RELAY_URL = "http://127.0.0.1:8002"
TARGET = "http://127.0.0.1:9001"
LOG = "http://127.0.0.1:9002"
CLIENT = "203.0.113.7"
HEADERS = {"Content-Type": OHTTP_REQ, "Authorization": "Bearer relay-credential"}
entropy = SeededEntropy(b"client")


@dataclass
class Targets:
    """The network behind the gateway: keeps what arrives, answers what the test wants."""

    answer: HttpResponse | Exception = field(
        default_factory=lambda: HttpResponse(201, {"content-type": "text/plain", "set-cookie": "a"}, b"ok")
    )
    sent: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> HttpResponse:
        self.sent.append((method, url, dict(headers or {}), body))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@dataclass
class Observed:
    """Keeps what parties say that they saw."""

    seen: list[tuple[str, dict[str, str | int]]] = field(default_factory=list)

    def saw(self, party: str, what: Mapping[str, str | int]) -> None:
        self.seen.append((party, dict(what)))


@dataclass
class Running:
    """A gateway and its surroundings."""

    network: InProcessTransport
    targets: Targets
    observed: Observed
    clock: SimClock
    settings: GatewayConfig
    deps: ServiceEnv

    async def restart(self, **changes: Any) -> None:
        """Stop the running application, if any, and start a new one on the same state."""
        self.settings = self.settings.model_copy(update=changes)
        self.deps = replace(self.deps)
        await self.network.unmount(GATEWAY_URL)
        self.app = create_app(self.settings, self.deps)
        await self.network.mount(GATEWAY_URL, self.app)

    @property
    def config(self) -> ohttp.KeyConfig:
        return self.app[GATEWAY].ring.active.config

    def request(self, **changed: Any) -> bhttp.Request:
        parts: dict[str, Any] = {
            "method": "POST",
            "scheme": "http",
            "authority": "127.0.0.1:9001",
            "path": "/tasks/t/reports",
            "fields": (("date", http_date(self.clock.now())), ("content-type", "application/x")),
            "content": b"report",
        }
        return bhttp.Request(**(parts | changed))

    async def post(self, message: bytes, **headers: str) -> HttpResponse:
        return await self.network.request(
            "POST", GATEWAY_URL + "/gateway", headers={**HEADERS, **headers}, body=message
        )

    async def ask(self, **changed: Any) -> bhttp.Response:
        """One well-encapsulated request; the inner response of an outer 200 of a size class."""
        message, context = ohttp.padded_request(self.config, self.request(**changed), entropy)
        return opened(context, await self.post(message))

    async def step(self, kind: type[Any]) -> int:
        drivers: list[Any] = [driver for driver in self.app[DRIVERS] if isinstance(driver, kind)]
        return int(await drivers[0].step())


def opened(context: ohttp.ClientContext, answer: HttpResponse) -> bhttp.Response:
    assert answer.status == 200
    assert answer.headers["content-type"] == OHTTP_RES
    assert len(answer.body) in ohttp.SIZE_CLASSES
    return ohttp.open_response(context, answer.body)


def problem(response: bhttp.Response) -> tuple[int, str]:
    assert bhttp.field_value(response.fields, "content-type") == PROBLEM_JSON
    return response.status, json.loads(response.content)["type"]


Start = Callable[..., Awaitable[Running]]


@asynccontextmanager
async def starting(tmp_path: Path) -> AsyncIterator[Start]:
    """A function that starts a gateway, configured as its caller says, with everything around it."""
    write_secret(tmp_path / "bearer", b"relay-credential\n")
    async with AsyncExitStack() as stack:

        async def run(now: float = 1_800_000_007, **changed: Any) -> Running:
            data = {
                "state_dir": str(tmp_path / "state"),
                "relay_bearer": str(tmp_path / "bearer"),
                "targets": [{"origin": TARGET, "path_prefix": "/tasks", "methods": ["POST", "GET"]}],
                "recipe_server_url": LOG,
                "group_delay": 0.0,
                **changed,
            }
            config = parse_config(data, GatewayConfig)
            clock, targets, observed = SimClock(now), Targets(), Observed()
            deps = ServiceEnv(clock, SeededEntropy(1), targets, observed, background=False)
            network = await stack.enter_async_context(InProcessTransport(client_address=CLIENT))
            running = Running(network, targets, observed, clock, config, deps)
            await running.restart()
            return running

        yield run
