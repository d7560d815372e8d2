"""``tacit serve``: one service as a process, its ready line, its stop, and TLS."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infra.base.free_ports import free_ports
from infra.stacks.layout import Layout
from infra.stacks.options import KEY_ROTATION
from services.gateway.keys import KeyRing
from services.gateway.targets import http_date
from tacit import bhttp, ohttp
from tacit.adapters.network.http import HttpTransport
from tacit.adapters.network.tls import ClientTls
from tacit.adapters.system import OsEntropy
from tacit.codec import b64url
from tacit.media_types import OHTTP_REQ, dap
from tacit.ports import HttpResponse, TransportError
from tests.certificates import Authority
from tests.kit.processes import ReadyProcess

Serve = Callable[..., ReadyProcess]


def relay_config(layout: Layout, folder: Path, **listen: Any) -> Path:
    """A relay's configuration in ``folder``, on a port of its own."""
    document = json.loads(layout.configs["relay"].read_text())
    secrets = {
        name: str(layout.configs["relay"].parent / document[name]) for name in ("gateway_bearer", "operator_token")
    }
    document |= {**secrets, "listen": {"host": "127.0.0.1", "port": 0, **listen}}
    path = folder / "relay.json"
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_service_says_where_it_listens_and_stops_when_told(
    layout: Layout, serve: Serve, tmp_path: Path, number: int
) -> None:
    (port,) = free_ports(1)
    process = serve("relay", relay_config(layout, tmp_path, port=port))
    ready = process.ready()
    assert {"service": "relay", "url": f"http://127.0.0.1:{port}"} == {key: ready[key] for key in ("service", "url")}
    async with HttpTransport() as http:
        assert (await http.request("GET", f"{ready['url']}/healthz")).status == 200
    os.kill(ready["pid"], number)
    assert process.wait() == 0
    assert "Traceback" not in process.stderr


def test_a_service_stops_with_the_process_that_holds_its_standard_input(
    layout: Layout, serve: Serve, tmp_path: Path
) -> None:
    process = serve("relay", relay_config(layout, tmp_path), "--stop-with-stdin", piped_stdin=True)
    process.ready()
    process.close_stdin()
    assert process.wait() == 0


async def test_a_service_with_a_certificate_is_reached_by_those_who_trust_it(
    layout: Layout, serve: Serve, tmp_path: Path
) -> None:
    authority = Authority(tmp_path, "ca")
    certificate, key = authority.issue("relay")
    config = relay_config(layout, tmp_path, tls_cert=str(certificate), tls_key=str(key))
    url = serve("relay", config).ready()["url"]
    assert url.startswith("https://127.0.0.1:")
    async with HttpTransport(tls=ClientTls(ca=authority.certificate)) as trusting:
        assert (await trusting.request("GET", f"{url}/healthz")).status == 200
    async with HttpTransport() as others:
        with pytest.raises(TransportError):
            await others.request("GET", f"{url}/healthz")
        with pytest.raises(TransportError):
            await others.request("GET", f"{url.replace('https', 'http')}/healthz")


async def test_a_gateway_and_a_leader_share_a_process_and_uploads_are_calls(
    layout: Layout, tmp_path: Path, serve: Serve
) -> None:
    documents = {name: json.loads(layout.configs[name].read_text()) for name in ("gateway", "leader")}
    ports = dict(zip(documents, free_ports(2), strict=True))
    for name, document in documents.items():
        document["listen"] = {"host": "127.0.0.1", "port": ports[name]}
    origin = f"http://127.0.0.1:{ports['leader']}"
    documents["gateway"]["targets"] = [{"origin": origin, "path_prefix": "/tasks/"}]
    files = {}
    for name, document in documents.items():
        files[name] = layout.configs[name].with_name("ingest.json")
        files[name].write_text(json.dumps(document))
    process = serve("ingest", files["gateway"], "--leader-config", str(files["leader"]))
    assert process.ready()["service"] == "leader"
    ring = KeyRing.open(layout.configs["gateway"].parent / "ohttp-keys.json", KEY_ROTATION, OsEntropy(), time.time())
    bearer = (layout.configs["gateway"].parent / documents["gateway"]["relay_bearer"]).read_text().strip()
    fields = (("date", http_date(time.time())), ("content-type", dap("upload-req")))
    path = f"/tasks/{b64url(bytes(32))}/reports"
    request = bhttp.Request("POST", "http", origin.removeprefix("http://"), path, fields, b"no report")
    message, context = ohttp.padded_request(ring.active.config, request, OsEntropy())
    async with HttpTransport() as http:
        answer = await _once_it_listens(
            http,
            f"http://127.0.0.1:{ports['gateway']}/gateway",
            {"Content-Type": OHTTP_REQ, "Authorization": f"Bearer {bearer}"},
            message,
        )
        assert (await http.request("GET", f"{origin}/healthz")).status == 200
    response = ohttp.open_response(context, answer.body)
    assert (response.status, json.loads(response.content)["taskid"]) == (400, b64url(bytes(32)))
    process.signal(signal.SIGTERM)
    assert process.wait() == 0
    counts = [json.loads(line) for line in process.stderr.splitlines() if '"traffic"' in line]
    assert [line["counts"]["inner_4xx"] for line in counts if line["service"] == "gateway"] == [1]


async def _once_it_listens(http: HttpTransport, url: str, headers: dict[str, str], body: bytes) -> HttpResponse:
    """One answer of the second service of a process whose first is ready."""
    for _ in range(100):
        with contextlib.suppress(TransportError):
            return await http.request("POST", url, headers=headers, body=body)
        await asyncio.sleep(0.05)
    raise AssertionError("the second service does not listen")


def test_a_leader_configuration_goes_with_ingest_only(layout: Layout, serve: Serve) -> None:
    leader = str(layout.configs["leader"])
    for process in (
        serve("ingest", layout.configs["gateway"]),
        serve("relay", layout.configs["relay"], "--leader-config", leader),
    ):
        assert process.wait() == 2
        assert "--leader-config" in process.stderr


def test_plain_http_on_another_address_than_loopback_is_refused(layout: Layout, serve: Serve, tmp_path: Path) -> None:
    process = serve("relay", relay_config(layout, tmp_path, host="192.0.2.1"))
    assert process.wait() == 1
    refusal = "listen: plain HTTP on 192.0.2.1 refused; set tls_cert and tls_key or insecure_http = true"
    assert process.stderr == f"tacit: {refusal}\n"
