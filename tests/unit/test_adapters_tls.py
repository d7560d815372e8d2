"""TLS files are followed: new ones take effect as a whole, bad ones never, connections that exist go on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import uvloop
from aiohttp import web

from tacit.adapters.network.http import HttpTransport
from tacit.adapters.network.tls import ClientTls, listener_context, troubles
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.errors import UsageError
from tacit.ports import OwnedTransport, TransportError
from tacit.service.app import ServiceEnv, make_app
from tacit.service.base.config import Listen
from tacit.service.http.callers import CALLERS, Callers
from tacit.service.run import started
from tests.certificates import Authority


class Place:
    """Certificate, key and authority of a party where its configuration says that they lie."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.certificate, self.key, self.ca = folder / "tls.pem", folder / "tls.key", folder / "ca.pem"

    def hold(self, authority: Authority, name: str, trusted: Authority | None = None) -> None:
        """Put new files there, as an operator would: one after another, each in the place of the old one."""
        for source, target in zip(authority.issue(name), (self.certificate, self.key), strict=True):
            self.put(source, target)
        self.put((trusted or authority).certificate, self.ca)

    @staticmethod
    def put(source: Path, target: Path) -> None:
        draft = target.with_suffix(".new")
        shutil.copy(source, draft)
        draft.replace(target)

    @property
    def client(self) -> ClientTls:
        return ClientTls(self.ca, self.certificate, self.key)

    @property
    def listen(self) -> Listen:
        return Listen(
            tls_cert=self.certificate, tls_key=self.key, client_ca=self.ca, client_names={"caller": ("caller",)}
        )


@pytest.fixture
def old(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "old")


@pytest.fixture
def new(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "new")


@pytest.fixture
def server(tmp_path: Path, old: Authority) -> Place:
    place = Place(tmp_path / "server")
    place.hold(old, "server")
    return place


@pytest.fixture
def client(tmp_path: Path, old: Authority) -> Place:
    place = Place(tmp_path / "client")
    place.hold(old, "caller")
    return place


async def _private(request: web.Request) -> web.Response:
    request.app[CALLERS].require(request, "caller")
    return web.Response(text="welcome")


@contextlib.asynccontextmanager
async def serving(place: Place) -> AsyncIterator[str]:
    listen = place.listen
    callers = Callers("probe", listen, {"caller": None})
    app = make_app("probe", ServiceEnv(SystemClock(), OsEntropy(), HttpTransport()), callers=callers)
    app.router.add_get("/private", _private)
    async with started(app, listen, grace_seconds=2) as ready:
        yield ready.url


async def status(transport: OwnedTransport, url: str) -> int:
    return (await transport.request("GET", f"{url}/private")).status


async def fresh(tls: ClientTls, url: str) -> int:
    """What a caller hears who connects only now; 0 where the handshake fails."""
    async with HttpTransport(tls=tls) as transport:
        with contextlib.suppress(TransportError):
            return await status(transport, url)
    return 0


async def test_both_sides_move_to_a_new_authority_without_a_restart(
    server: Place, client: Place, old: Authority, new: Authority
) -> None:
    async with (
        serving(server) as url,
        HttpTransport(tls=client.client) as kept,
        HttpTransport(tls=client.client) as idle,
    ):
        assert await status(kept, url) == 200
        server.hold(new, "server")
        assert await status(kept, url) == 200, "a connection that exists goes on"
        assert await fresh(client.client, url) == 0, "who connects now meets the new certificate"
        client.hold(new, "caller")
        assert await status(idle, url) == 200, "a transport made before connects with the new files"
        assert await fresh(ClientTls(new.certificate, *old.issue("caller")), url) == 0, "the old authority is gone"


def test_new_files_are_used_on_the_event_loop_of_the_services_too(server: Place, client: Place, new: Authority) -> None:
    async def run() -> list[int]:
        async with serving(server) as url:
            before = await fresh(client.client, url)
            server.hold(new, "server")
            client.hold(new, "caller")
            return [before, await fresh(client.client, url)]

    assert uvloop.run(run()) == [200, 200]


@pytest.mark.parametrize("spoil", ["garbage", "other key", "missing", "half", "readable", "bad authority"])
async def test_bad_new_files_change_nothing_and_are_told(
    server: Place,
    client: Place,
    new: Authority,
    capsys: pytest.CaptureFixture[str],
    spoil: str,
) -> None:
    async with serving(server) as url, HttpTransport(tls=client.client) as kept:
        assert await status(kept, url) == 200
        whole = server.key.read_bytes()
        if spoil == "garbage":
            server.certificate.write_text("not a certificate")
        elif spoil == "other key":
            server.put(new.issue("server")[1], server.key)
        elif spoil == "missing":
            server.certificate.unlink()
        elif spoil == "half":
            server.key.write_bytes(whole[: len(whole) // 2])
        elif spoil == "readable":
            server.key.chmod(0o644)
        else:
            server.ca.write_text("")
        for _ in range(3):
            assert await fresh(client.client, url) == 200
        page = json.loads((await kept.request("GET", f"{url}/healthz")).body)
        assert page["status"] == "trouble"
        assert "TLS of the listener: the new files cannot be used, the old ones stay in use" in page["trouble"]
        lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
        (line,) = [
            line for line in lines if "TLS of the listener: the new files cannot be used" in line.get("what", "")
        ]
        assert (line["level"], line["service"]) == ("warning", "tls")
        assert "PRIVATE" not in json.dumps(lines)
        server.hold(new, "server")
        client.hold(new, "caller")
        assert await fresh(client.client, url) == 200
        page = json.loads((await kept.request("GET", f"{url}/healthz")).body)
        assert page["status"] == "ok"


async def test_a_client_keeps_its_old_files_too_and_its_service_tells(server: Place, client: Place) -> None:
    async with serving(server) as url, HttpTransport(tls=client.client) as first:
        assert await status(first, url) == 200
        client.ca.write_text("nothing")
        await first.close()
        assert await status(first, url) == 200
        page = json.loads((await first.request("GET", f"{url}/healthz")).body)
        assert "TLS of outgoing connections: the new files cannot be used" in page["trouble"]


def test_files_that_are_bad_from_the_beginning_are_found_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        HttpTransport(tls=ClientTls(ca=tmp_path / "none"))


def test_files_that_never_were_in_use_are_no_trouble_of_the_process_later(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    for make in (ClientTls(ca=missing).live, lambda: listener_context(missing, missing, None)):
        with pytest.raises(UsageError) as refused:
            make()
        assert not [one for one in troubles() if str(missing) in one], "while the error is still at hand"
        assert str(missing) in str(refused.value)


def test_a_key_that_others_may_read_is_not_used(old: Authority) -> None:
    certificate, key = old.issue("server")
    key.chmod(0o640)
    with pytest.raises(UsageError, match="chmod 600"):
        ClientTls(old.certificate, certificate, key).context()


async def test_no_session_outlives_the_authority_under_which_it_was_begun(
    server: Place, client: Place, new: Authority
) -> None:
    """A resumed session would bring along a certificate that nobody checks again."""
    async with serving(server) as url:
        port = int(url.rsplit(":", 1)[1])
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = client.client.context()
            context.maximum_version = version
            if version == ssl.TLSVersion.TLSv1_2:
                with pytest.raises(OSError):
                    await asyncio.open_connection("127.0.0.1", port, ssl=context)
                continue
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            await reader.read()
            session = writer.get_extra_info("ssl_object").session
            assert session is None or not session.has_ticket
            writer.close()


async def test_a_certificate_counts_only_for_the_host_or_address_that_it_names(tmp_path: Path, old: Authority) -> None:
    """An address is looked for among the addresses: neither a DNS name written like one nor a common name will do."""
    for number, (addresses, names, good) in enumerate(
        [
            (["127.0.0.1"], ["elsewhere.example"], ["127.0.0.1"]),
            ([], ["localhost"], ["localhost"]),
            (["192.0.2.1"], ["127.0.0.1", "elsewhere.example"], []),
        ]
    ):
        certificate, key = old.issue(f"127.0.0.{number}", addresses, names)
        app = make_app("probe", ServiceEnv(SystemClock(), OsEntropy(), HttpTransport()))
        async with started(app, Listen(tls_cert=certificate, tls_key=key), grace_seconds=2) as ready:
            for host in ("127.0.0.1", "localhost"):
                url = ready.url.replace("127.0.0.1", host) + "/healthz"
                async with HttpTransport(tls=ClientTls(old.certificate)) as http:
                    try:
                        found = str((await http.request("GET", url)).status)
                    except TransportError as error:
                        found = str(error)
                assert found == ("200" if host in good else "GET failed: its certificate is for another host")


async def test_what_is_wrong_with_a_server_is_said_in_words(
    server: Place, client: Place, old: Authority, new: Authority
) -> None:
    """Each of these is what somebody meets who has forgotten a setting."""
    certificate, key = old.issue("expired", lifetime=-60)
    app = make_app("probe", ServiceEnv(SystemClock(), OsEntropy(), HttpTransport()))
    async with (
        serving(server) as url,
        started(app, Listen(tls_cert=certificate, tls_key=key), grace_seconds=2) as expired,
        started(make_app("probe", ServiceEnv(SystemClock(), OsEntropy(), HttpTransport())), Listen()) as plain,
    ):
        for where, ca, why in (
            (url, new.certificate, "its certificate is not trusted"),
            (expired.url, old.certificate, "its certificate is not trusted .certificate has expired"),
            (plain.url.replace("http:", "https:"), old.certificate, "it does not speak TLS"),
        ):
            async with HttpTransport(tls=ClientTls(ca)) as http:
                with pytest.raises(TransportError, match=f"GET failed: {why}"):
                    await http.request("GET", f"{where}/healthz")


async def test_a_redirect_is_never_followed_with_what_the_request_carried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither is a proxy that the environment names."""
    heard: list[str] = []

    async def listen(request: web.Request) -> web.Response:
        heard.append(request.headers.get("Authorization", ""))
        return web.Response()

    async def redirect(_request: web.Request) -> web.Response:
        return web.Response(status=307, headers={"Location": elsewhere.url + "/"})

    listener, redirector = (
        make_app("probe", ServiceEnv(SystemClock(), OsEntropy(), HttpTransport())) for _ in range(2)
    )
    listener.router.add_route("*", "/{rest:.*}", listen)
    redirector.router.add_route("*", "/{rest:.*}", redirect)
    async with started(listener, Listen()) as elsewhere, started(redirector, Listen()) as ready:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, elsewhere.url)
        async with HttpTransport() as http:
            for method in ("GET", "POST"):
                headers = {"Authorization": "Bearer secret"}
                assert (await http.request(method, ready.url + "/x", headers=headers)).status == 307
    assert heard == []
