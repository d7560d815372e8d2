"""A gateway whose clock is wrong for a moment, at its start or while it runs: it keeps its keys and what it remembers,
lets nothing pass, and says why (P37)."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from infra.backing.redis import RedisServer
from infra.lab.kit.entropy import SeededEntropy
from services.gateway.drivers import KeyRotation, ReplayCleanup
from services.gateway.handlers import GATEWAY
from services.gateway.keys import MOST_KEYS, KeyRing
from services.gateway.service import WINDOW_AWAY, WINDOW_RESTORED
from tacit import ohttp
from tacit.codec import unb64url
from tacit.errors import UsageError
from tacit.ports import HttpResponse, TransportError
from tacit.service.base.secret_files import write_secret
from tacit.signing import signing_key_from_private
from tacit.time_format import date_field
from tacit.tlog.entries import BundleEntry
from tacit.tlog.key_sets import KeySets
from tacit.tlog.leaves import LeafType, sign_leaf
from tests.conftest import REDIS_USER
from tests.http.gateway_stage import GATEWAY_URL, Running, Start, entropy, opened, problem, starting

DAY = 86_400.0
ROTATION = 30 * 86_400
PERIOD = 692
NOW = PERIOD * ROTATION + 1_000_000.0
JUMPS = {"-30 years": -30 * 365 * DAY, "-31 days": -31 * DAY, "+70 days": 70 * DAY, "+30 years": 30 * 365 * DAY}


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    async with starting(tmp_path) as run:
        yield run


class Log:
    """A log with its own clock, which is right, and the key sets that it holds of one gateway."""

    def __init__(self, gateway: Running) -> None:
        self._gateway = gateway
        self.clock = gateway.clock.steady
        self.leaves: list[bytes] = []
        self.is_away = False
        gateway.targets.answer = HttpResponse(201, {}, b"")
        gateway.targets.request = self.request  # type: ignore[method-assign]

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> HttpResponse:
        if self.is_away:
            raise TransportError("down")
        date = {"date": date_field(int(self.clock()))}
        if url.endswith("/v1/key-sets"):
            entries = tuple(BundleEntry(index, leaf, ()) for index, leaf in enumerate(self.leaves))
            return HttpResponse(200, date, KeySets(b"checkpoint", entries).encode())
        return HttpResponse(201, date, b"")

    def takes(self) -> None:
        """The log has the key sets of the gateway's present keys, and shows them."""
        ring, operator = self._gateway.app[GATEWAY].ring, self._gateway.settings.operator
        seed = unb64url(self._gateway.settings.signing_key_path.read_text(), length=32)
        for period in ring.by_period():
            body = ring.key_set(operator, period)
            leaf = sign_leaf(LeafType.OHTTP_CONFIG, body, operator, signing_key_from_private(seed))
            self.leaves.append(leaf.encode())


def keys_of(gateway: Running) -> dict[int, ohttp.KeyConfig]:
    return gateway.app[GATEWAY].ring.by_period()


async def ready(gateway: Running) -> HttpResponse:
    return await gateway.network.request("GET", GATEWAY_URL + "/readyz")


@pytest.mark.parametrize("jump", JUMPS.values(), ids=JUMPS)
async def test_a_clock_that_jumps_while_the_gateway_runs_costs_no_key_and_nothing_remembered(
    start: Start, jump: float
) -> None:
    gateway = await start(now=NOW)
    log = Log(gateway)
    log.takes()
    await gateway.step(KeyRotation)
    before = keys_of(gateway)
    message, context = ohttp.padded_request(gateway.config, gateway.request(), entropy)
    assert opened(context, await gateway.post(message)).status == 201
    gateway.clock.set_back(-jump)
    answer = await ready(gateway)
    assert answer.status == 503
    assert b"this machine's clock says" in answer.body
    for _ in range(2):
        await gateway.step(KeyRotation)
        await gateway.step(ReplayCleanup)
        assert keys_of(gateway) == before
    assert (await gateway.post(message)).status == 503, "nothing passes while the clock is in doubt"
    gateway.clock.set_back(jump)
    await gateway.step(KeyRotation)
    assert (await ready(gateway)).status == 200
    assert keys_of(gateway) == before
    assert opened(context, await gateway.post(message)).status == 409, "the request is remembered"


@pytest.mark.parametrize("jump", JUMPS.values(), ids=JUMPS)
@pytest.mark.parametrize("away", [False, True], ids=["the log answers", "the log is away"])
async def test_a_start_with_a_wrong_clock_costs_no_key(start: Start, jump: float, away: bool) -> None:
    gateway = await start(now=NOW)
    log = Log(gateway)
    log.takes()
    await gateway.step(KeyRotation)
    before = keys_of(gateway)
    gateway.clock.set_back(-jump)
    log.is_away = away
    await gateway.restart()
    for _ in range(2):
        await gateway.step(KeyRotation)
        await gateway.step(ReplayCleanup)
    if not away:
        assert b"this machine's clock says" in (await ready(gateway)).body
    assert keys_of(gateway).items() >= before.items()
    gateway.clock.set_back(jump)
    log.is_away = False
    await gateway.step(KeyRotation)
    assert (await ready(gateway)).status == 200
    assert keys_of(gateway).items() >= before.items()
    assert gateway.app[GATEWAY].ring.active.config == before[PERIOD]


async def test_a_clock_that_goes_back_over_the_beginning_of_a_period_keeps_the_key_of_the_next(start: Start) -> None:
    begin = PERIOD * ROTATION
    gateway = await start(now=begin + 1.0)
    log = Log(gateway)
    log.takes()
    await gateway.step(KeyRotation)
    before = keys_of(gateway)
    for seconds in (2.0, -2.0, 2.0, -2.0):
        gateway.clock.set_back(seconds)
        await gateway.step(KeyRotation)
        assert keys_of(gateway) == before
        assert (await ready(gateway)).status == 200
    assert gateway.app[GATEWAY].ring.active.period == PERIOD


async def test_a_key_is_deleted_when_its_time_is_over_by_the_logs_clock_too(start: Start) -> None:
    gateway = await start(now=NOW)
    log = Log(gateway)
    gateway.clock.jump(2 * ROTATION)
    log.clock = lambda: NOW
    assert await gateway.step(KeyRotation) == 0
    assert PERIOD in keys_of(gateway)
    log.clock = gateway.clock.now
    assert await gateway.step(KeyRotation) == 1
    assert sorted(keys_of(gateway)) == [PERIOD + 1, PERIOD + 2, PERIOD + 3]


async def test_a_key_that_the_log_shows_is_kept_whatever_the_clocks_say(start: Start) -> None:
    gateway = await start(now=NOW)
    log = Log(gateway)
    log.takes()
    gateway.clock.jump(5 * ROTATION)
    await gateway.step(KeyRotation)
    assert keys_of(gateway).keys() >= {PERIOD, PERIOD + 1}
    log.leaves.clear()
    await gateway.step(KeyRotation)
    assert keys_of(gateway).keys().isdisjoint({PERIOD, PERIOD + 1})


async def test_a_gateway_without_the_key_that_the_log_shows_is_not_ready(start: Start, tmp_path: Path) -> None:
    gateway = await start(now=NOW)
    log = Log(gateway)
    log.takes()
    await gateway.step(KeyRotation)
    assert (await ready(gateway)).status == 200
    kept = (tmp_path / "state" / "ohttp-keys.json").read_bytes()
    (tmp_path / "state" / "ohttp-keys.json").unlink()
    await gateway.restart()
    await gateway.step(KeyRotation)
    answer = await ready(gateway)
    assert answer.status == 503
    assert b"the log shows another key for period 692" in answer.body
    write_secret(tmp_path / "state" / "ohttp-keys.json", kept)
    await gateway.restart()
    await gateway.step(KeyRotation)
    assert (await ready(gateway)).status == 200


async def test_what_others_sign_in_our_name_keeps_nothing(start: Start) -> None:
    gateway = await start(now=NOW)
    log = Log(gateway)
    log.takes()
    forged = log.leaves[0].replace(b'"period":692', b'"period":693')
    log.leaves = [b"no leaf", forged]
    await gateway.step(KeyRotation)
    assert gateway.app[GATEWAY].shown == {}


def test_a_ring_with_keys_of_very_many_periods_asks_whether_the_clock_is_right(tmp_path: Path) -> None:
    draw, path = SeededEntropy(3), tmp_path / "keys"
    ring = KeyRing.open(path, ROTATION, draw, NOW)
    for jump in range(1, MOST_KEYS // 2):
        ring.rotate_if_due(draw, NOW + 2 * jump * ROTATION)
    with pytest.raises(UsageError, match="is this machine's clock right"):
        ring.rotate_if_due(draw, NOW + MOST_KEYS * ROTATION)
    assert PERIOD in KeyRing.open(path, ROTATION, draw, NOW).by_period()


async def test_nothing_passes_while_redis_has_another_time_nor_later_what_may_have_passed_before(
    start: Start, make_redis: Callable[[], RedisServer], tmp_path: Path
) -> None:
    server = make_redis()
    write_secret(tmp_path / "redis.url", server.url_of(REDIS_USER).encode())
    settings: dict[str, Any] = {"replay_window": {"redis": str(tmp_path / "redis.url")}}
    gateway = await start(now=time.time() + 3600, **settings)
    assert problem(await gateway.ask()) == (503, WINDOW_AWAY)
    gateway.clock.set_back(3600)
    assert problem(await gateway.ask()) == (503, WINDOW_RESTORED), "it may have passed while Redis forgot"
