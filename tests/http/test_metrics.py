"""``/metrics`` on a listener of its own, readiness while a service stops, and names of requests in the log."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from pathlib import Path

import pytest
from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families
from pydantic import ValidationError

from infra.base.certificate_files import CA_FILE, CERTIFICATE, KEY
from infra.base.certificates import CertificateAuthority, certify
from infra.base.free_ports import free_ports
from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.network import InProcessTransport
from infra.tools.documents.metrics import METRICS
from tacit.adapters.network.http import HttpTransport
from tacit.adapters.network.tls import ClientTls
from tacit.adapters.system import SystemClock
from tacit.errors import Unavailable, UsageError
from tacit.ports import TransportError
from tacit.service.app import METRICS as METRICS_OF
from tacit.service.app import STEPS, STOPPING, ServiceEnv, add_driver, make_app
from tacit.service.base.config import Listen, ServiceConfig
from tacit.service.base.log import get_logger
from tacit.service.metrics import WINDOW_SECONDS, number_of
from tacit.service.metrics_listener import metrics_site
from tacit.service.run import Ready, Site, serve_all, started

METRICS_BASE = "http://metrics.example"
BASE = "http://service.example"


async def _item(request: web.Request) -> web.Response:
    log = get_logger("probe")
    log.info("first", name=request.match_info["name"])
    log.info("second")
    if request.match_info["name"] == "broken":
        raise ValueError("secret internals")
    return web.Response(text="ok")


def _app(deps: ServiceEnv) -> web.Application:
    app = make_app("probe", deps)
    app.router.add_get("/items/{name}", _item)
    return app


def _system() -> ServiceEnv:
    return ServiceEnv(SystemClock(), SeededEntropy(2), InProcessTransport())


class _Work:
    """A driver that fails while it is told to."""

    error: Exception | None = None

    async def step(self) -> int:
        if self.error is not None:
            raise self.error
        return 0


def samples(page: bytes) -> dict[tuple[str, tuple[str, ...]], float]:
    return {
        (sample.name, tuple(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
    }


async def test_a_page_names_routes_and_classes_and_nothing_of_a_request(capsys: pytest.CaptureFixture[str]) -> None:
    clock = SimClock()
    app = _app(ServiceEnv(clock, SeededEntropy(1), InProcessTransport(), background=False))
    site = metrics_site(app, Listen())
    async with InProcessTransport({BASE: app, METRICS_BASE: site}) as network:
        for number in range(305):  # hundreds are shown, and the last request may be counted after its answer
            headers = {"User-Agent": "device-walrus", "Authorization": "Bearer secret", "X-Request-Id": "mine"}
            answer = await network.request("GET", f"{BASE}/items/device{number}", headers=headers)
            assert "x-request-id" not in answer.headers
            await network.request("GET", f"{BASE}/raw/path{number}")
            await network.request("GET", f"{BASE}/healthz")
        await clock.advance(WINDOW_SECONDS)
        page = (await network.request("GET", f"{METRICS_BASE}/metrics")).body
        found = samples(page)
        assert (await network.request("GET", f"{BASE}/metrics")).status == 404
    count = "tacit_http_request_duration_seconds_count"
    assert {labels for name, labels in found if name == count} == {("/items/{name}", "2xx"), ("none", "4xx")}
    assert found[count, ("/items/{name}", "2xx")] == 300
    assert found["tacit_ready", ()] == 1
    assert not re.search(rb"device|secret|mine|path\d|healthz|walrus", page)
    assert {name.removesuffix("_bucket").removesuffix("_count") for name, _ in found} <= METRICS.keys()
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    ids = [line["request_id"] for line in lines if line["event"] in {"first", "second"}]
    assert ids[::2] == ids[1::2]
    assert len(set(ids)) == 305
    assert all(re.fullmatch("[0-9a-f]{16}", one) for one in ids)


async def test_an_error_in_the_log_has_the_name_of_its_request_and_the_answer_has_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with InProcessTransport({BASE: _app(_system())}) as network:
        answer = await network.request("GET", f"{BASE}/items/broken")
    first, _, error = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert error["event"] == "internal_error"
    assert error["request_id"] == first["request_id"]
    assert error["error_id"] == json.loads(answer.body)["error_id"]
    assert first["request_id"] not in answer.body.decode() + str(answer.headers)


async def test_background_work_shows_whole_windows_and_its_failure() -> None:
    clock, work = SimClock(), _Work()
    app = _app(ServiceEnv(clock, SeededEntropy(1), InProcessTransport()))
    wake = add_driver(app, work, 40.0, "working")
    site = metrics_site(app, Listen())
    async with InProcessTransport({BASE: app, METRICS_BASE: site}) as network:

        async def page() -> dict[tuple[str, tuple[str, ...]], float]:
            return samples((await network.request("GET", f"{METRICS_BASE}/metrics")).body)

        await clock.advance(200)
        found = await page()
        window = found["tacit_step_window_seconds", ("working",)]
        success = found["tacit_step_success_timestamp_seconds", ("working",)]
        assert window == 80
        assert success % window == 0
        assert success <= clock.now() < success + window
        wake.set()  # as a device's report would: nobody can see it
        await clock.advance(0)
        assert (await page())["tacit_step_success_timestamp_seconds", ("working",)] == success
        work.error = Unavailable("the store is away")
        await clock.advance(400)
        found = await page()
        assert found["tacit_step_failing", ("working",)] == 1
        assert found["tacit_ready", ()] == 0
        assert clock.now() - found["tacit_step_success_timestamp_seconds", ("working",)] > 3 * window
        assert "working fails" in app[STEPS].trouble()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    now = SystemClock().now()
    authority = CertificateAuthority.create("tests", now, 3600)
    for name in ("prometheus", "stranger", "listener"):
        (folder / name).mkdir()
        certify(folder / name, authority, [name, "localhost"], now)
    return folder


async def test_off_loopback_only_who_shows_the_right_certificate_reads(certificates: Path) -> None:
    own = certificates / "listener"
    guarded = Listen(
        tls_cert=own / CERTIFICATE,
        tls_key=own / KEY,
        client_ca=own / CA_FILE,
        client_names={"metrics": ("prometheus",)},
    )
    with pytest.raises(UsageError, match="client_names for metrics"):
        metrics_site(_app(_system()), Listen(host="192.0.2.1"))
    config = ServiceConfig(
        state_dir=certificates,
        listen=Listen(tls_cert=own / CERTIFICATE, tls_key=own / KEY),
        client_cert=own / CERTIFICATE,
        client_key=own / KEY,
    )
    app = _app(_system())
    Site.of(app, config)
    async with started(app, Listen(), metrics=guarded, grace_seconds=1) as ready:
        url = str(ready.metrics).replace("127.0.0.1", "localhost")
        assert url.startswith("https://")
        statuses = {}
        for name in ("prometheus", "stranger"):
            files = certificates / name
            tls = ClientTls(files / CA_FILE, files / CERTIFICATE, files / KEY)
            async with HttpTransport(tls=tls) as http:
                answer = await http.request("GET", url)
                statuses[name] = answer.status
        assert statuses == {"prometheus": 200, "stranger": 401}
        async with HttpTransport(tls=ClientTls(own / CA_FILE, own / CERTIFICATE, own / KEY)) as http:
            assert (await http.request("GET", url)).status == 401
    with pytest.raises(ValidationError, match="separate port"):
        ServiceConfig(state_dir=certificates, listen=Listen(port=8443), metrics=Listen(port=8443))


async def test_of_processes_with_one_configuration_each_has_metrics_of_its_own() -> None:
    port, metrics = free_ports(2)
    shared, watched = Listen(port=port, reuse_port=True), Listen(port=metrics)
    apps = [_app(_system()), _app(_system())]
    for app in apps:
        app[METRICS_OF].declare(METRICS["tacit_batches_released"])
        app[METRICS_OF].add("tacit_batches_released", number_of(lambda: 5.0), shared=True)
    async with started(apps[0], shared, metrics=watched) as one, HttpTransport() as http:
        async with started(apps[1], shared, metrics=watched) as other:
            assert one.url == other.url
            assert one.metrics == f"http://127.0.0.1:{metrics}/metrics" != other.metrics
            for ready in (one, other):
                found = samples((await http.request("GET", str(ready.metrics))).body)
                assert found["tacit_ready", ()] == 1
                assert (("tacit_batches_released", ()) in found) is (ready is one), (
                    "the first alone shows the database's"
                )
        with pytest.raises(UsageError, match="cannot bind"):
            await started(_app(_system()), Listen(), metrics=watched).__aenter__()


async def test_a_service_that_is_told_to_stop_is_unready_first_and_ends_what_is_in_flight() -> None:
    answering, finish = asyncio.Event(), asyncio.Event()

    async def slow(_request: web.Request) -> web.Response:
        answering.set()
        await finish.wait()
        return web.Response(text="whole")

    app = _app(_system())
    app.router.add_get("/slow", slow)
    ready: asyncio.Future[Ready] = asyncio.get_running_loop().create_future()
    sites = [Site(app, Listen(), Listen(), drain_seconds=600)]
    serving = asyncio.create_task(serve_all(sites, ready=ready.set_result, grace_seconds=30))
    told = await ready
    assert json.loads(told.line())["metrics"] == told.metrics
    async with HttpTransport() as http:
        assert (await http.request("GET", f"{told.url}/readyz")).status == 200
        in_flight = asyncio.create_task(http.request("GET", f"{told.url}/slow"))
        await answering.wait()
        os.kill(os.getpid(), signal.SIGTERM)
        await app[STOPPING].wait()
        answer = await http.request("GET", f"{told.url}/readyz")
        assert json.loads(answer.body)["trouble"] == "the service is stopping"
        assert (await http.request("GET", f"{told.url}/items/late")).status == 200, "it still takes requests"
        assert samples((await http.request("GET", str(told.metrics))).body)["tacit_ready", ()] == 0
        os.kill(os.getpid(), signal.SIGTERM)  # told again: it waits no longer
        await _refused(http, told.url)
        finish.set()
        assert (await in_flight).body == b"whole"
    await serving


async def _refused(http: HttpTransport, url: str) -> None:
    """Wait until nobody listens at ``url``."""
    while True:
        try:
            async with HttpTransport() as fresh:
                await fresh.request("GET", f"{url}/healthz")
        except TransportError:
            return
        await asyncio.sleep(0.01)
