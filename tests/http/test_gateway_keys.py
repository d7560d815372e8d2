"""The gateway's keys, period by period, its configuration, and what it keeps and writes."""

from __future__ import annotations

import json
import stat
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from infra.backing.redis import RedisServer
from services.gateway.drivers import PAUSES, Publishing
from services.gateway.handlers import GATEWAY
from services.gateway.service import WINDOW_AWAY
from tacit import bhttp, ohttp
from tacit.codec import b64url, unb64url
from tacit.errors import UsageError
from tacit.media_types import OHTTP_KEYS
from tacit.ports import HttpResponse, TransportError
from tacit.service.base.secret_files import write_secret
from tacit.signing import signing_key_from_private
from tacit.tlog.key_sets import OhttpConfig
from tacit.tlog.leaves import SignedLeaf
from tests.conftest import REDIS_USER
from tests.http.gateway_stage import (
    CLIENT,
    GATEWAY_URL,
    LOG,
    TARGET,
    Start,
    entropy,
    opened,
    problem,
    starting,
)
from tests.kit.foreign import decode_key_configs


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    async with starting(tmp_path) as run:
        yield run


async def test_keys_are_served_private_and_survive_a_restart(start: Start, tmp_path: Path) -> None:
    gateway = await start()
    answer = await gateway.network.request("GET", GATEWAY_URL + "/ohttp-keys")
    assert answer.headers["content-type"] == OHTTP_KEYS
    assert decode_key_configs(answer.body) == [gateway.config]
    await gateway.restart()
    again = await gateway.network.request("GET", GATEWAY_URL + "/ohttp-keys")
    assert again.body == answer.body
    for path in (tmp_path / "state").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path.name


async def test_a_key_is_active_for_a_period_opens_for_another_and_is_then_gone(start: Start) -> None:
    gateway = await start(rotation_seconds=3600)
    first, service = gateway.config, gateway.app[GATEWAY]
    assert not service.rotate_if_due()
    gateway.clock.jump(3600)
    assert service.rotate_if_due()
    message, context = ohttp.padded_request(first, gateway.request(), entropy)
    second = gateway.config
    assert second.key_id == (first.key_id + 1) % 256
    answer = await gateway.network.request("GET", GATEWAY_URL + "/ohttp-keys")
    assert decode_key_configs(answer.body) == [second, first]
    assert opened(context, await gateway.post(message)).status == 201
    assert opened(context, await gateway.post(message)).status == 409
    gateway.clock.jump(3600)
    assert service.rotate_if_due()
    assert (await gateway.post(message)).status == 422, "two periods later the key is gone"


async def test_the_next_periods_key_is_held_across_restarts_before_anybody_uses_it(start: Start) -> None:
    gateway = await start(rotation_seconds=3600)
    following = gateway.app[GATEWAY].ring.keys[-1]
    assert following.period == gateway.app[GATEWAY].ring.period + 1
    await gateway.restart()
    message, context = ohttp.padded_request(following.config, gateway.request(), entropy)
    assert opened(context, await gateway.post(message)).status == 201
    gateway.clock.jump(3600)
    await gateway.restart()
    assert gateway.app[GATEWAY].ring.active == following
    gateway.clock.jump(100_000)
    await gateway.restart()
    assert len(gateway.app[GATEWAY].ring.keys) == 2, "a gateway that slept long starts afresh"
    with pytest.raises(UsageError, match="keeps its rotation"):
        await gateway.restart(rotation_seconds=7200)


async def test_key_sets_are_published_until_the_log_takes_them(
    start: Start, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    gateway = await start(operator="gateway.example")
    for refusal in (TransportError("down"), HttpResponse(422, {}, b""), HttpResponse(422, {}, b"")):
        gateway.targets.answer = refusal
        assert await gateway.step(Publishing) == 0
        sent = len(gateway.targets.sent)
        assert await gateway.step(Publishing) == 0
        assert len(gateway.targets.sent) == sent, "not at once"
        gateway.clock.jump(PAUSES.most)
    assert capfd.readouterr().err.count("key_set_not_published") == 4, "each cause is logged once for each period"
    gateway.targets.answer = HttpResponse(201, {}, b'{"index":0}')
    assert await gateway.step(Publishing) == 2
    assert await gateway.step(Publishing) == 0
    bodies = sorted({body for _, _, _, body in gateway.targets.sent})
    assert len(bodies) == 2, "every attempt sends the same bytes"
    assert {url for _, url, _, _ in gateway.targets.sent} == {LOG + "/v1/leaves"}
    ring = gateway.app[GATEWAY].ring
    sets = {leaf.body["period"]: leaf for leaf in map(SignedLeaf.decode, bodies)}
    assert set(sets) == {ring.period, ring.period + 1}
    leaf = sets[ring.period]
    seed = (tmp_path / "state" / "signing.key").read_text()
    key = signing_key_from_private(unb64url(seed, length=32))
    leaf.verify(key.public)
    body = leaf.body_as(OhttpConfig)
    assert (leaf.signer, body.gateway) == ("gateway.example", "gateway.example")
    assert (body.active, body.previous) == (b64url(gateway.config.encode()), None)
    assert sets[ring.period + 1].body["previous"] == body.active
    assert body.usable(gateway.clock.now())
    gateway.clock.jump(ring.rotation)
    assert gateway.app[GATEWAY].rotate_if_due()
    assert await gateway.step(Publishing) == 1


async def test_above_the_byte_budget_relays_get_503(start: Start) -> None:
    gateway = await start(max_in_flight=1000)
    answer = await gateway.post(bytes(100))
    assert answer.status == 503
    assert 1 <= int(answer.headers["retry-after"]) <= 10


@pytest.mark.parametrize(
    "changed",
    [
        {"relay_bearer": None},
        {"targets": [{"origin": "http://leader.example"}]},
        {"targets": [{"origin": TARGET + "/tasks"}]},
        {"targets": [{"origin": "leader.example"}]},
        {"recipe_server_url": "http://log.example"},
        {"targets": [{"origin": TARGET, "path_prefix": "tasks"}]},
        {"surprise": 1},
    ],
    ids=str,
)
async def test_a_configuration_that_cannot_be_safe_is_refused(start: Start, changed: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        await start(**changed)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("ohttp-keys.json", "{}"),
        ("ohttp-keys.json", '{"keys":[{"key_id":1,"private":"AA","not_before":0,"not_after":1}]}'),
        ("ohttp-keys.json", '{"version":2,"rotation_seconds":2592000,"keys":[{"period":1,"private":"AA"}]}'),
        (
            "ohttp-keys.json",
            json.dumps({"version": 2, "rotation_seconds": 2592000, "keys": [{"period": 1, "private": "A" * 43}] * 2}),
        ),
        ("signing.key", "A" * 42),
        ("signing.key", "é"),
    ],
    ids=["no keys", "earlier form", "short key", "same period twice", "short seed", "not text"],
)
async def test_damaged_key_files_stop_the_start(start: Start, tmp_path: Path, name: str, content: str) -> None:
    write_secret(tmp_path / "state" / name, content.encode())
    with pytest.raises(UsageError, match=name):
        await start()


async def test_key_files_open_to_others_stop_the_start(start: Start, tmp_path: Path) -> None:
    await start()
    (tmp_path / "state" / "ohttp-keys.json").chmod(0o644)
    with pytest.raises(UsageError, match="chmod 600"):
        await start()


async def test_a_client_certificate_takes_the_place_of_the_bearer(start: Start, tmp_path: Path) -> None:
    listen = {name: str(tmp_path / name) for name in ("tls_cert", "tls_key", "client_ca")}
    with pytest.raises(UsageError, match=r"relay_bearer or listen\.client_ca is needed"):
        await start(relay_bearer=None, listen={**listen, "client_names": {"relay": []}})
    gateway = await start(relay_bearer=None, listen={**listen, "client_names": {"relay": ["relay.example"]}})
    message, _ = ohttp.padded_request(gateway.config, gateway.request(), entropy)
    assert (await gateway.post(message)).status == 401, "this connection carries no certificate"


async def test_logs_hold_counters_and_no_target_or_address(start: Start, capfd: pytest.CaptureFixture[str]) -> None:
    gateway = await start()
    await gateway.ask()
    await gateway.ask(method="DELETE")
    await gateway.network.unmount(GATEWAY_URL)
    logged = capfd.readouterr().err
    assert '"inner_2xx": 1' in logged
    assert '"inner_4xx": 1' in logged
    assert "/tasks" not in logged
    assert CLIENT not in logged


async def test_gateway_on_redis_lets_nothing_pass_while_redis_is_away(
    start: Start, make_redis: Callable[[], RedisServer], tmp_path: Path
) -> None:
    server = make_redis()
    write_secret(tmp_path / "redis.url", server.url_of(REDIS_USER).encode())
    gateway = await start(now=time.time(), replay_window={"redis": str(tmp_path / "redis.url")})
    message, context = ohttp.padded_request(gateway.config, gateway.request(), entropy)
    assert opened(context, await gateway.post(message)).status == 201
    assert opened(context, await gateway.post(message)).status == 409
    server.stop()
    away = await gateway.ask()
    assert problem(away) == (503, WINDOW_AWAY)
    assert bhttp.field_value(away.fields, "retry-after") is not None
    assert len(gateway.targets.sent) == 1
    server.start()
    assert opened(context, await gateway.post(message)).status == 409
    assert (await gateway.ask()).status == 201
