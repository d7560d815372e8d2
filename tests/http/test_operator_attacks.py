"""Attacks on the operators' API: names that no database holds, other methods, and much at once, on both databases."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.network import InProcessTransport
from infra.stacks.deployables import deployable
from infra.stacks.new_layout import create_layout
from infra.stacks.options import StackOptions, operator_credential
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.service.app import ServiceEnv
from tacit.service.base.config import Listen
from tacit.service.base.secret_files import read_secret, write_secret
from tacit.service.metrics import GRANULARITY, WINDOW_SECONDS
from tacit.service.metrics_listener import metrics_site
from tacit.service.operator_api import ROUTES

BASE, OTHER = "http://operators.example", "http://service.example"
SERVICES = ("leader", "collector", "issuer")
HOSTILE = (
    "%00", "a%00b", "collection.%00", "aggregation.%00", "%ff", "%ed%a0%80", "collection.%ff", "background.%00", ".",
    "collection.", "aggregation.", "aggregation.AAAA", "collection.%F0%9F%98%80", "x" * 6000, "%0d%0aX-Evil:%201",
    "%1b%5b2J", "collection." + "A" * 22, "%27%20OR%201=1--", "..%2f..%2fkeys",
)  # fmt: skip


class Operators:
    """Services with their operators' listeners, on a clock."""

    def __init__(self, network: InProcessTransport, tokens: dict[str, str], clock: SimClock) -> None:
        self.network, self.tokens, self.clock = network, tokens, clock

    async def ask(self, service: str, method: str, path: str, *, known: bool = True) -> tuple[int, bytes]:
        headers = {"Authorization": f"Bearer {self.tokens[service]}"} if known else {}
        answer = await self.network.request(method, f"http://{service}.example{path}", headers=headers)
        return answer.status, answer.body


@pytest.fixture(params=["sqlite", "postgresql"])
async def operators(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Operators]:
    layout = create_layout(tmp_path / "stack", StackOptions(), OsEntropy(), SystemClock().now())
    clock = SimClock(SystemClock().now())
    async with AsyncExitStack() as stack:
        network = await stack.enter_async_context(InProcessTransport({}))
        for name in SERVICES:
            if request.param == "postgresql":
                body = json.loads(layout.configs[name].read_bytes())
                url = request.getfixturevalue("make_postgres_url")().replace("+asyncpg", "")
                write_secret(tmp_path / f"{name}.url", url.encode())
                body["database_file"] = str(tmp_path / f"{name}.url")
                layout.configs[name].write_text(json.dumps(body))
            service = deployable(name)
            config = service.load(layout.configs[name])
            app = service.create_app(config, ServiceEnv(clock, SeededEntropy(1).child(name), network, background=False))
            await network.mount(f"http://inner-{name}.example", app)
            await network.mount(f"http://{name}.example", _site(app, config))
        tokens = {
            name: read_secret(layout.credentials[operator_credential(name)]).decode().strip() for name in SERVICES
        }
        yield Operators(network, tokens, clock)


def _site(app: web.Application, config: Any) -> web.Application:
    from tacit.service.run import Site

    Site.of(app, config)
    return metrics_site(app, Listen())


@pytest.mark.parametrize("service", SERVICES)
async def test_no_name_of_a_job_breaks_a_service_or_comes_back(operators: Operators, service: str) -> None:
    for name in HOSTILE:
        status, body = await operators.ask(service, "POST", f"/v1/jobs/{name}/retry")
        assert status == 404, (name, body)
        assert b"\x1b" not in body
        assert b"xxxx" not in body
        status, _ = await operators.ask(service, "POST", f"/v1/jobs/{name}/retry", known=False)
        assert status in {401, 404}
    for query in ("cursor=-1", "cursor=x", "limit=0", f"limit={'9' * 400}", "cursor=%00", "cursor=%D9%A1", "limit=1e3"):
        status, body = await operators.ask(service, "GET", f"/v1/jobs?{query}")
        assert status == 400, (query, body)


@pytest.mark.parametrize("service", SERVICES)
async def test_other_methods_tell_nothing_and_need_the_token_where_they_tell(
    operators: Operators, service: str
) -> None:
    for route in ROUTES:
        path = route.path.replace("{id}", "background.none")
        for method in (
            "HEAD",
            "OPTIONS",
            "PUT",
            "DELETE",
            "PATCH",
            "TRACE",
            "GET" if route.method == "POST" else "POST",
        ):
            status, body = await operators.ask(service, method, path, known=False)
            assert status in {401, 404, 405}, (method, path)
            assert not body or "numbers" not in json.loads(body)


@pytest.mark.parametrize("service", SERVICES)
async def test_many_looks_at_once_show_one_thing_and_no_number_finer_than_the_metrics(
    operators: Operators, service: str
) -> None:
    for _ in range(130):
        await operators.network.request("GET", f"http://inner-{service}.example/nothing")
    await operators.clock.advance(WINDOW_SECONDS)
    pages = ("/v1/status", "/v1/rejections", "/v1/jobs")
    for page in pages:
        found = await asyncio.gather(*(operators.ask(service, "GET", page) for _ in range(25)))
        assert {status for status, _ in found} == {200}
        assert len({body for _, body in found}) == 1, page
        told = json.loads(found[0][1])
        coarse = [one for one in told.get("numbers", []) if one["rule"] == "coarse"] + told.get("requests", [])
        assert all(
            one.get("value", one.get("count")) % GRANULARITY == 0
            for one in coarse
            if "seconds" not in one.get("name", "")
        )


async def test_no_name_of_a_collection_breaks_the_collector(operators: Operators) -> None:
    headers = {"Authorization": f"Bearer {operators.tokens['collector']}"}
    for name in HOSTILE:
        for method, path in (("GET", f"/v1/collections/{name}"), ("POST", f"/v1/collections/{name}/retry")):
            answer = await operators.network.request(method, f"http://inner-collector.example{path}", headers=headers)
            assert answer.status == 404, (method, path, answer.body)


async def test_background_work_is_retried_twice_at_once_without_harm(operators: Operators) -> None:
    for service in SERVICES:
        _, body = await operators.ask(service, "GET", "/v1/jobs")
        for job in json.loads(body)["jobs"]:
            answers = await asyncio.gather(
                *(operators.ask(service, "POST", f"/v1/jobs/{job['id']}/retry") for _ in range(8))
            )
            assert {status for status, _ in answers} == {202}
