"""``tacit up --tls`` with PostgreSQL, Redis and Mosquitto: a contribution is released over TLS alone, and nothing
of the stack answers in plain text.

The tests share one stack and run in the order of this file.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import socket
import ssl
import sys
import tempfile
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.engine import make_url

from client_agent.agent import Agent
from client_agent.config import AgentConfig, Timing
from client_agent.journal import State
from client_agent.runner import open_agent
from infra.cli import run
from infra.lab.kit.recipes import survey_from
from infra.stacks.agents import provision_agents
from infra.stacks.layout import Layout
from infra.stacks.new_layout import create_layout, renew_certificates
from infra.stacks.options import StackOptions
from infra.stacks.tls import OPERATOR
from tacit.adapters.databases.postgres import administer
from tacit.adapters.network.http import HttpTransport
from tacit.adapters.network.tls import ClientTls
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.client import Operator as AdminClient
from tacit.errors import UsageError
from tacit.ports import TransportError
from tacit.recipe.encoder_specs import Buckets
from tacit.recipe.model import Question, Recipe, TokenSlot
from tacit.recipe.writing.builder import propose
from tacit.service.base.config_files import load_config
from tacit.service.base.secret_files import read_database_url
from tests.e2e.test_up import Operator, Stack, collected, fetch_tokens, take_part
from tests.kit.processes import ReadyProcess

pytestmark = pytest.mark.slow

DEVICES = 24
SERVERS = ("postgres", "redis", "mosquitto")
PLAIN = (b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", b"PING\r\n", bytes.fromhex("100e00044d515454050200050000017a"))


@pytest.fixture(scope="module")
def stack(postgres: object, make_redis: object, make_mosquitto: object) -> Iterator[Stack]:
    """Real servers are there, or this is skipped as the fixtures say."""
    folder = Path(tempfile.mkdtemp(prefix="tacit-tls-"))
    folder.chmod(0o711)
    now = time.time()
    epoch = next(length for length in range(3600, 7200, 60) if length - now % length > 900)
    options = StackOptions(
        epoch_seconds=epoch,
        batch_floor=12,
        poll_seconds=0.5,
        idle_seconds=0.2,
        slots_per_epoch=1,
        witnesses=2,
        tls=True,
    )
    layout = create_layout(folder / "stack", options, OsEntropy(), now)
    command = [sys.executable, "-P", "-m", "infra.cli", "up", "--json", "--tls", "--agents", "1"]
    command += ["--with", ",".join(SERVERS), "--state-dir", str(layout.state_dir)]
    try:
        with ReadyProcess(command, folder / "stderr") as process:
            yield Stack(layout, process, process.ready())
            process.signal(15)
            assert process.wait() == 0
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def command(
    stack: Stack, capsys: pytest.CaptureFixture[str], *words: str, until: list[str] | None = None
) -> dict[str, Any]:
    """What a ``tacit`` command answers with --json; it must succeed, or soon tell of the problems ``until``."""
    deadline = time.monotonic() + 120
    while True:
        code = run([*words, "--json", "--state-dir", str(stack.layout.state_dir)])
        told = capsys.readouterr()
        found: dict[str, Any] = json.loads(told.out)
        if until is None:
            assert code == 0, told.out + told.err
        if until is None or found["problems"] == until:
            return found
        assert time.monotonic() < deadline, found["problems"]
        time.sleep(0.5)


def shown(layout: Layout, folder: str) -> ClientTls:
    """A party that trusts the stack's authority and shows the certificate in ``folder``."""
    place = layout.state_dir / folder
    return ClientTls(place / "ca.pem", place / "tls.pem", place / "tls.key")


def test_every_address_is_https_and_the_stack_is_well(stack: Stack, capsys: pytest.CaptureFixture[str]) -> None:
    assert {url.split(":")[0] for url in stack.layout.urls.values()} == {"https"}
    found = command(stack, capsys, "status", until=[])
    assert found["ok"]
    assert {one["name"] for one in found["servers"]} == set(SERVERS)
    keys = [path for path in stack.layout.state_dir.rglob("*.key") if b"PRIVATE KEY" in path.read_bytes()]
    assert len(keys) == len(stack.layout.services) + len(SERVERS) + len(("authority", OPERATOR))
    assert {path.stat().st_mode & 0o777 for path in keys} == {0o600}
    assert len({path.read_bytes() for path in keys}) == len(keys), "each has a key of its own"


def test_the_admin_api_is_spoken_to_and_listened_to_over_tls(stack: Stack, capsys: pytest.CaptureFixture[str]) -> None:
    layout = stack.layout
    options: dict[str, Any] = {"key_file": layout.credentials["analyst"]}
    with AdminClient(layout.urls["admin"], tls=layout.client_tls, **options) as operator:
        events = operator.events()
        assert next(events).kind == "listening"
        draft = command(stack, capsys, "admin", "question", "new", "--name", "secret")
        assert next(events).document == {"id": draft["id"], "state": "draft", "revision": 1}
        events.close()
    assert command(stack, capsys, "admin", "audit", "verify")["rows"] >= 1
    with AdminClient(layout.urls["admin"], **options) as stranger:
        with pytest.raises(TransportError, match="certificate is not trusted"):
            stranger.session()
        with pytest.raises(TransportError, match="certificate is not trusted"):
            next(stranger.events())


def listening(stack: Stack) -> set[int]:
    """The TCP ports on which any process of the stack listens."""
    pids = {int(stack.document[name]["pid"]) for name in stack.layout.services}
    (parent,) = {_parent(pid) for pid in pids}
    everybody = {int(path.name): _parent(int(path.name)) for path in Path("/proc").glob("[0-9]*")}
    family = {parent}
    for _ in range(5):
        family |= {pid for pid, above in everybody.items() if above in family}
    sockets = set()
    for pid in family:
        for link in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                sockets.add(str(link.readlink()))
            except OSError:
                continue
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    return {int(row[1].rsplit(":", 1)[1], 16) for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets}


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def test_nothing_of_the_stack_answers_in_plain_text(stack: Stack) -> None:
    ports = listening(stack)
    own = {int(url.rsplit(":", 1)[1]) for url in stack.layout.urls.values()}
    metrics = {json.loads(path.read_text())["metrics"]["port"] for path in stack.layout.configs.values()}
    assert own | metrics < ports
    assert len(ports) == len(own) + len(metrics) + len(SERVERS)
    for port in ports - metrics:  # numbers for whoever is on this machine, with a token each
        for words in PLAIN:
            with socket.create_connection(("127.0.0.1", port), 5) as link:
                link.settimeout(0.3)
                link.sendall(words)
                try:
                    answer = link.recv(64)
                except OSError:
                    answer = b""
            assert not answer or answer[0] in {0x15, ord("E")}, "an alert of TLS, or PostgreSQL's refusal"
            assert b"HTTP" not in answer


async def test_no_database_is_opened_in_plain_text(stack: Stack) -> None:
    url = make_url(read_database_url(stack.layout.configs["issuer"].parent / "database.url"))
    await administer(url, ["SELECT 1"])
    with pytest.raises(UsageError, match="refuses"):
        await administer(url.set(query={"sslmode": "disable"}), ["SELECT 1"])


async def test_a_party_of_the_stack_cannot_call_as_another_even_with_its_token(stack: Stack) -> None:
    layout = stack.layout
    bearer = {"Authorization": f"Bearer {stack.token('issuer_client')}", "Content-Type": "x/y"}
    for folder, status in (("attester", 415), ("relay", 401), ("collector", 401), (OPERATOR, 401)):
        async with HttpTransport(tls=shown(layout, folder)) as http:
            assert (
                await http.request("POST", f"{layout.urls['issuer']}/token-request", headers=bearer)
            ).status == status
    async with HttpTransport(tls=ClientTls(layout.state_dir / "authority" / "ca.pem")) as device:
        for name, path in (("issuer", "/.well-known/private-token-issuer-directory"), ("gateway", "/ohttp-keys")):
            assert (await device.request("GET", layout.urls[name] + path)).status == 200
        page = json.loads((await device.request("GET", f"{layout.urls['issuer']}/healthz")).body)
        assert page["refused_certificates"] == {"attester": 3}
    async with HttpTransport() as stranger:
        with pytest.raises(TransportError):
            await stranger.request("GET", f"{layout.urls['relay']}/healthz")


def recipe_now(layout: Layout, now: float) -> Recipe:
    question = Question(
        text="How many doctor visits?",
        metric="mdvis",
        encoder=Buckets(kind="buckets", edges=(0, 1, 2, 4, 8)),
        statistic="histogram",
    )
    return propose(
        survey_from(
            name="visits",
            question=question,
            population=DEVICES,
            token=TokenSlot(issuer=layout.parties.issuer.name, epoch=int(now // layout.options.epoch_seconds), slot=0),
            start=int(now) + 8,
            duration=20,
            rate=Decimal(1),
            min_batch_size=DEVICES // 2,
            time_precision=1,
        ),
        layout.parties,
    )


def serial(url: str) -> str:
    host, port = url.removeprefix("https://").split(":")
    return ssl.get_server_certificate((host, int(port)))


def test_a_contribution_is_released_over_tls_while_every_certificate_is_renewed(
    stack: Stack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layout = stack.layout
    configs = provision_agents(layout, DEVICES, OsEntropy(), time.time())
    drafted = tmp_path / "visits.json"

    def publish() -> Recipe:
        recipe = recipe_now(layout, time.time() + 2)
        drafted.write_bytes(recipe.encode())
        assert command(stack, capsys, "recipe", "publish", "--now", str(drafted))["hash"] == recipe.hash_text
        return recipe

    before = {name: serial(url) for name, url in layout.urls.items()}
    renew_certificates(layout, SystemClock().now())
    after = {name: serial(url) for name, url in layout.urls.items()}
    assert all(before[name] != after[name] for name in layout.services)
    result = asyncio.run(released(stack, configs, publish))
    assert result["report_count"] == DEVICES
    (found,) = command(stack, capsys, "results", "visits")["results"]
    assert found["report_count"] == DEVICES
    assert [one["name"] for one in command(stack, capsys, "recipe", "list")["recipes"]] == ["visits"]
    refused = "issuer: 3 calls as attester refused because the certificate has another name"
    command(stack, capsys, "status", until=[refused])
    assert command(stack, capsys, "log", "verify")["findings"] == []


async def released(stack: Stack, configs: list[Path], publish: Any) -> dict[str, Any]:
    """The release of a recipe that every device answers, each with a connection of its own."""
    timing = Timing(retry_seconds=0.5, retry_limit_seconds=2)
    async with stack.layout.transport() as http, contextlib.AsyncExitStack() as devices:
        operator = Operator(stack, http)
        agents: list[tuple[Agent, Any]] = []
        for path in configs:
            config = load_config(path, AgentConfig).model_copy(update={"timing": timing})
            assert config.tls_ca is not None
            agents.append(await devices.enter_async_context(open_agent(config)))
        first, _ = agents[0]

        async def directories() -> bool:
            await first.sync()
            return len(first.live.directories) >= 2

        await operator.until("the directories", directories)
        await asyncio.gather(*(fetch_tokens(agent, store) for agent, store in agents))
        recipe = await asyncio.to_thread(publish)

        async def active() -> bool:
            found = [await operator.document(name, "/v1/recipes") for name in ("leader", "helper")]
            return json.dumps(found).count('"active"') == len(found)

        await operator.until("the opt-ins", active)
        await asyncio.gather(*(take_part(agent, store, recipe.interval.end + 30) for agent, store in agents))
        states = [(entry.state, entry.detail) for _, store in agents for entry in await store.entries()]
        assert [state for state, _ in states] == [State.SENT] * DEVICES, states
        await asyncio.sleep(max(0.0, recipe.interval.end - time.time()))
        return await collected(operator, recipe)
