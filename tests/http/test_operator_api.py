"""Each service tells its own operator how it is, beside its metrics, and nobody else anything."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st
from openapi_spec_validator import validate
from prometheus_client.parser import text_string_to_metric_families

from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.network import InProcessTransport
from infra.stacks.deployables import deployable
from infra.stacks.layout import Layout
from infra.stacks.new_layout import create_layout
from infra.stacks.options import StackOptions, operator_credential
from infra.tools.documents.metrics import METRICS as NAMES
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.service.app import METRICS, STEPS, ServiceEnv, add_driver, make_app
from tacit.service.base.config import Listen
from tacit.service.base.secret_files import read_secret
from tacit.service.documents.operator import JobPage, NumberDocument
from tacit.service.metric_names import Rule
from tacit.service.metrics import GRANULARITY, WINDOW_SECONDS
from tacit.service.metrics_listener import metrics_site
from tacit.service.operated import OPERATED, HeldKey, Job
from tacit.service.operator_api import ROUTES
from tacit.service.run import Site
from tests.kit.tokens import GivenTokens

BASE, OTHER = "http://operators.example", "http://service.example"
TOKEN = "tacit-of-this-operator"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
PATHS = [(one.method, one.path.replace("{id}", "background.working")) for one in ROUTES]


class _Work:
    """A driver that fails while it is told to."""

    error: Exception | None = None
    steps = 0

    async def step(self) -> int:
        self.steps += 1
        if self.error is not None:
            raise self.error
        return 0


class _Kind:
    """Jobs that remember who was tried again."""

    def __init__(self, count: int) -> None:
        self.again: list[str] = []
        self.found = [Job(f"one.{number}", "probe", "a recipe", "waiting", stuck=False) for number in range(count)]

    async def jobs(self) -> list[Job]:
        return self.found

    async def retry(self, job_id: str) -> bool:
        if job_id not in {one.id for one in self.found}:
            return False
        self.again.append(job_id)
        return True


def _app(deps: ServiceEnv) -> web.Application:
    async def item(_request: web.Request) -> web.Response:
        raise web.HTTPForbidden

    app = make_app("probe", deps)
    app.router.add_get("/items/{name}", item)
    app[OPERATED].tokens = GivenTokens(TOKEN)
    app[OPERATED].held = lambda: [HeldKey("probing", "its name", 17)]
    return app


@asynccontextmanager
async def operated(app: web.Application) -> AsyncIterator[InProcessTransport]:
    async with InProcessTransport({OTHER: app, BASE: metrics_site(app, Listen())}) as network:
        yield network


async def asked(network: InProcessTransport, path: str, method: str = "GET", status: int = 200) -> Any:
    answer = await network.request(method, f"{BASE}{path}", headers=BEARER)
    assert answer.status == status, answer.body
    return json.loads(answer.body)


async def test_numbers_are_those_of_the_metrics_page_and_no_finer() -> None:
    clock = SimClock()
    app = _app(ServiceEnv(clock, SeededEntropy(4), InProcessTransport(), background=False))
    async with operated(app) as network:
        for _ in range(250):
            await network.request("GET", f"{OTHER}/items/one")
        assert (await asked(network, "/v1/rejections"))["requests"] == []
        await clock.advance(WINDOW_SECONDS)
        first = await asked(network, "/v1/rejections")
        page = (await network.request("GET", f"{BASE}/metrics")).body.decode()
        shown = {
            tuple(sample.labels.values()): sample.value
            for family in text_string_to_metric_families(page)
            for sample in family.samples
            if sample.name == "tacit_http_request_duration_seconds_count"
        }
        assert first["requests"] == [
            {"route": "/items/{name}", "status": "4xx", "count": shown["/items/{name}", "4xx"]}
        ]
        assert shown["/items/{name}", "4xx"] in {200, 300}
        for _ in range(20):  # looking often draws nothing anew
            assert await asked(network, "/v1/rejections") == first
        numbers = (await asked(network, "/v1/status"))["numbers"]
        assert all(one["rule"] == NAMES[one["name"]].rule for one in numbers)
        inexact = [one for one in numbers if one["rule"] != Rule.EXACT]
        assert inexact
        assert all(round(one["value"] / NAMES[one["name"]].scale) % GRANULARITY == 0 for one in inexact)


async def test_work_that_fails_is_a_stuck_job_and_is_tried_again_at_once() -> None:
    clock, work = SimClock(), _Work()
    app = _app(ServiceEnv(clock, SeededEntropy(1), InProcessTransport()))
    add_driver(app, work, 40.0, "working")
    async with operated(app) as network:
        work.error = ValueError("secret internals")
        await clock.advance(2000)
        (job,) = (await asked(network, "/v1/jobs"))["jobs"]
        assert (job["id"], job["state"], job["stuck"], job["detail"]) == (
            "background.working", "failing", True, "ValueError",
        )  # fmt: skip
        status = await asked(network, "/v1/status")
        assert not status["ready"]
        assert status["trouble"] == ["working fails: ValueError"]
        before, work.error = work.steps, None
        assert await asked(network, "/v1/jobs/background.working/retry", "POST", 202) == {"id": "background.working"}
        await clock.advance(0)
        assert work.steps == before + 1
        assert (await asked(network, "/v1/jobs"))["jobs"][0]["state"] == "working"
        problem = await asked(network, "/v1/jobs/background.none/retry", "POST", 404)
        assert problem["type"] == "urn:tacit:problem:not-found"
        assert app[STEPS].trouble() == ""


async def test_jobs_of_a_service_come_in_pages_and_the_one_that_is_named_is_tried_again() -> None:
    app, kind = _app(ServiceEnv(SimClock(), SeededEntropy(1), InProcessTransport(), background=False)), _Kind(120)
    app[OPERATED].jobs.append(kind)
    async with operated(app) as network:
        found: list[str] = []
        cursor: str | None = "0"
        while cursor is not None:
            page = await asked(network, f"/v1/jobs?limit=50&cursor={cursor}")
            found += [one["id"] for one in page["jobs"]]
            cursor = page["next"]
        assert found == [one.id for one in kind.found]
        await asked(network, "/v1/jobs/one.77/retry", "POST", 202)
        assert kind.again == ["one.77"]
        await asked(network, "/v1/jobs?limit=0", status=400)
        assert (await asked(network, "/v1/keys"))["keys"] == [{"use": "probing", "name": "its name", "ends": 17}]
        await asked(network, "/v1/issuance", status=404)


async def test_without_a_token_there_is_no_operators_api_and_with_another_nothing_opens() -> None:
    deps = ServiceEnv(SimClock(), SeededEntropy(1), InProcessTransport(), background=False)
    closed = make_app("probe", deps)
    async with operated(closed) as network:
        for method, path in PATHS:
            assert (await network.request(method, f"{BASE}{path}", headers=BEARER)).status == 404
    async with operated(_app(deps)) as network:
        for headers in ({}, {"Authorization": "Bearer tacit-of-another"}, {"Authorization": TOKEN}):
            for method, path in PATHS:
                if path != "/v1/issuance":
                    assert (await network.request(method, f"{BASE}{path}", headers=headers)).status == 401
        for method, path in PATHS:  # never where devices and peers are
            assert (await network.request(method, f"{OTHER}{path}", headers=BEARER)).status == 404


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    folder = tmp_path_factory.mktemp("stack")
    return create_layout(folder, StackOptions(witnesses=1), OsEntropy(), SystemClock().now())


@pytest.fixture(scope="module")
def apps(layout: Layout) -> dict[str, web.Application]:
    found = {}
    for name in layout.services:
        service = deployable(name)
        config = service.load(layout.configs[name])
        deps = ServiceEnv(SystemClock(), OsEntropy(), InProcessTransport(), background=False)
        found[name] = service.create_app(config, deps)
        Site.of(found[name], config)
    return found


async def test_no_token_opens_two_services(layout: Layout, apps: dict[str, web.Application]) -> None:
    """Every credential of a stack, at every service: of all of them its own operator's alone opens anything."""
    tokens = {name: read_secret(path).decode().strip() for name, path in layout.credentials.items()}
    assert {operator_credential(name) for name in layout.services} <= tokens.keys()
    assert len(set(tokens.values())) == len(tokens)
    opened = set()
    for service, app in apps.items():
        site = metrics_site(app, Listen())
        async with InProcessTransport({BASE: site}) as network:
            for name, token in tokens.items():
                headers = {"Authorization": f"Bearer {token}"}
                statuses = {
                    (await network.request("GET", f"{BASE}{path}", headers=headers)).status
                    for path in ("/v1/keys", "/v1/status")
                }
                assert len(statuses) == 1
                if statuses == {200}:
                    opened.add((service, name))
                else:
                    assert statuses == {401}
    assert opened == {(service, operator_credential(service)) for service in layout.services}


async def test_each_service_names_its_keys_and_never_a_secret(layout: Layout, apps: dict[str, web.Application]) -> None:
    seeds = {read_secret(path).decode().strip() for path in layout.state_dir.glob("*/signing.key")}
    files = [*layout.state_dir.glob("*/hpke.key"), *layout.state_dir.glob("*/state.key")]
    private = {json.loads(read_secret(path))["private_key"] for path in files}
    assert seeds
    assert private
    uses = {}
    for service, app in apps.items():
        found = list(app[OPERATED].held())
        uses[service] = {one.use for one in found}
        assert not any(secret in one.name for one in found for secret in seeds | private)
    assert uses["gateway"] == {"leaves", "ohttp"}
    assert uses["helper"] == uses["leader"] == {"opt-ins", "hpke", "state"}
    assert uses["recipe_server"] == {"log"}
    assert uses["witness_1"] == {"cosignatures"}
    assert uses["attester"] == {"device root"}
    assert uses["collector"] == {"hpke"}
    ends = [one.ends for one in apps["gateway"][OPERATED].held() if one.use == "ohttp"]
    assert all(end is not None and end > SystemClock().now() for end in ends)


def test_each_document_is_openapi_and_names_what_its_service_has(apps: dict[str, web.Application]) -> None:
    async def described(app: web.Application) -> Any:
        async with InProcessTransport({BASE: metrics_site(app, Listen())}) as network:
            return json.loads((await network.request("GET", f"{BASE}/openapi.json")).body)

    for service, app in apps.items():
        document = asyncio.run(described(app))
        validate(document)
        there = {"/v1/status", "/v1/jobs", "/v1/jobs/{id}/retry", "/v1/rejections", "/v1/keys"}
        issuing = app[METRICS].has("tacit_tokens_total")
        assert issuing == (service in {"issuer", "attester"})
        assert set(document["paths"]) == there | ({"/v1/issuance"} if issuing else set())


NUMBERS = st.builds(
    NumberDocument,
    name=st.text(),
    labels=st.dictionaries(st.text(), st.text()),
    value=st.floats(allow_nan=False, allow_infinity=False),
    rule=st.sampled_from(list(Rule)).map(str),
)
JOBS = st.builds(
    Job, st.text(), st.text(), st.text(), st.text(), st.none() | st.booleans(), st.text(), st.none() | st.integers()
)


@settings(max_examples=30, deadline=None)
@given(st.lists(JOBS, max_size=4), st.lists(NUMBERS, max_size=4))
def test_a_page_of_jobs_comes_back_as_it_went(jobs: list[Job], numbers: list[NumberDocument]) -> None:
    rows: Any = [{name: getattr(one, name) for name in Job.__slots__} for one in jobs]
    page = JobPage(jobs=rows, numbers=numbers, next=None)
    assert JobPage.model_validate_json(page.model_dump_json()) == page
