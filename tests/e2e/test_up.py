"""``tacit up``: nine services, two witnesses, every credential demanded, and a run that outlives killed aggregators.

The tests share one stack and run in the order of this file; the last ones stop it.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from client_agent.agent import Agent
from client_agent.config import AgentConfig, Timing
from client_agent.data.sources import open_source
from client_agent.deciding import AgentEnv
from client_agent.journal import MemoryAgentStore, State
from infra.lab.kit.recipes import survey_from
from infra.stacks.agents import provision_agents
from infra.stacks.layout import Layout, signing_key_of
from infra.stacks.processes import PIDS, read_pids
from infra.tools.documents.metrics import METRICS
from infra.tools.documents.schemas import SCHEMAS, schema_of
from infra.views.stack_view import SERVICE_NAMES
from tacit import __version__, media_types
from tacit.adapters.network.http import HttpTransport
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.codec import b64url, unb64url
from tacit.multibuffer.library import level as batch_level
from tacit.ports import HttpResponse, TransportError
from tacit.recipe.derive import task_id
from tacit.recipe.encoder_specs import Buckets
from tacit.recipe.model import Question, Recipe, TokenSlot
from tacit.recipe.policy import Policy, parse_policy
from tacit.recipe.writing.builder import propose
from tacit.service.base.config_files import load_config
from tacit.service.base.secret_files import read_secret
from tacit.service.metric_names import Rule
from tacit.tlog.leaves import LeafType, sign_leaf
from tacit.tokens.attestation import SoftwareDevice
from tacit.vdaf.native import level as prio3_level
from tests.kit.processes import ReadyProcess

DEVICES = 60
DURATION = 16
WITNESSES = ("witness_1", "witness_2")
NO_TASK = b64url(bytes(32))
GUARDED = [
    ("issuer", "POST", "/token-request", media_types.PRIVATE_TOKEN_REQUEST, "issuer_client"),
    ("gateway", "POST", "/gateway", media_types.OHTTP_REQ, "gateway_client"),
    ("leader", "POST", f"/tasks/{NO_TASK}/reports", media_types.dap("upload-req"), "gateway_uploads"),
    ("leader", "POST", f"/tasks/{NO_TASK}/collection_jobs", media_types.dap("collection-job-req"), "collector"),
    ("issuer", "GET", "/v1/issuance", "", "operator_issuer"),
    ("attester", "GET", "/v1/issuance", "", "operator_attester"),
    ("leader", "GET", "/v1/recipes", "", "operator_leader"),
    ("helper", "POST", f"/tasks/{NO_TASK}/aggregation_jobs", media_types.dap("aggregation-job-init-req"), "peer"),
    ("helper", "POST", f"/tasks/{NO_TASK}/aggregate_shares", media_types.dap("aggregate-share-req"), "peer"),
    ("helper", "GET", "/v1/recipes", "", "operator_helper"),
    ("analyzer", "POST", f"/recipes/{NO_TASK}/reports", media_types.ONE_SERVER_REPORT, "gateway_reports"),
    ("shuffler", "POST", f"/recipes/{NO_TASK}/reports", media_types.ONE_SERVER_REPORT, "gateway_bundles"),
    ("analyzer", "POST", f"/recipes/{NO_TASK}/chunks", media_types.MESSAGE_CHUNK, "messages"),
    ("analyzer", "GET", f"/recipes/{NO_TASK}/aggregate", "", "aggregates"),
    ("analyzer", "GET", "/v1/recipes", "", "operator_analyzer"),
    ("collector", "POST", "/v1/collections", media_types.JSON, "operator_collector"),
    ("collector", "GET", "/v1/collections", "", "collections"),
    ("admin", "GET", "/v1/people", "", "admin"),
    ("admin", "GET", "/v1/audit", "", "analyst"),
    ("admin", "GET", "/v1/questions", "", "approver"),
    ("collector", "GET", "/v1/results", "", "operator_collector"),
    ("recipe_server", "POST", "/v1/results", media_types.JSON, "results"),
]


@dataclass(frozen=True)
class Stack:
    """A running ``tacit up`` and the document it printed."""

    layout: Layout
    process: ReadyProcess
    document: dict[str, Any]

    def url(self, name: str) -> str:
        return str(self.document[name]["url"])

    def token(self, name: str) -> str:
        """A loopback credential, from the path that the document names; "peer" is in the peer file (P4)."""
        if name == "peer":
            return str(json.loads(read_secret(self.layout.configs["leader"].parent / "peer.json"))["credentials"])
        return read_secret(Path(self.document["credentials"][name])).decode().strip()


@pytest.fixture(scope="module")
def stack(layout: Layout, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    command = [sys.executable, "-P", "-m", "infra.cli", "up", "--json", "--agents", "2"]
    log, temporary = tmp_path_factory.mktemp("up") / "stderr", temporary_of(layout)
    temporary.mkdir()
    examples = log.with_name("strokes.csv")
    examples.write_text("1,0,0\n0,1,1\n0.5,0,0\n")
    command += ["--examples", str(examples)]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with ReadyProcess([*command, "--state-dir", str(layout.state_dir)], log, environment=environment) as process:
        yield Stack(layout, process, process.ready())


def temporary_of(layout: Layout) -> Path:
    """The temporary folder of every process of the stack."""
    return layout.state_dir.parent / "temporary"


@pytest.fixture
async def http() -> AsyncIterator[HttpTransport]:
    async with HttpTransport() as transport:
        yield transport


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_the_lines_of_a_file_are_examples_of_the_devices_in_turn(stack: Stack) -> None:
    cells = []
    for number in range(2):
        config = load_config(stack.layout.state_dir / "agents" / str(number) / "agent.json", AgentConfig)
        source = open_source(config.source)
        assert source.value("mdvis") is not None
        cells.append(source.value("strokes"))
    assert cells == ["1,0,0,0.5,0,0", "0,1,1"]


async def test_every_service_is_healthy_and_named_in_the_document(stack: Stack, http: HttpTransport) -> None:
    assert set(stack.document) == {"state_dir", "credentials", "operators", *SERVICE_NAMES, *WITNESSES}
    assert stack.document["state_dir"] == str(stack.layout.state_dir)
    for name in (*SERVICE_NAMES, *WITNESSES):
        kind = name.partition("_")[0] if name in WITNESSES else name
        await well(http, stack.url(name), kind)
        assert runs(stack.document[name]["pid"], ["infra.cli", "serve", kind, stack.document[name]["config"]])
    assert len({stack.document[name]["pid"] for name in SERVICE_NAMES}) == len(SERVICE_NAMES)


async def test_every_service_shows_its_own_metrics_on_a_listener_of_its_own(stack: Stack, http: HttpTransport) -> None:
    seen: set[str] = set()
    for name in (*SERVICE_NAMES, *WITNESSES):
        url, kind = stack.document[name]["metrics"], name.partition("_")[0] if name in WITNESSES else name
        assert not url.startswith(f"{stack.url(name)}/")
        assert (await http.request("GET", f"{stack.url(name)}/metrics")).status == 404
        page = (await http.request("GET", url)).body.decode()
        found = {line.split("{")[0].split(" ")[0] for line in page.splitlines() if line and line[0] != "#"}
        assert {"tacit_ready", "process_start_time_seconds"} <= found
        assert f'tacit_build_info{{service="{kind}",version="{__version__}"}} 1.0' in page
        own = {re.sub("_(bucket|count)$", "", one) for one in found}
        assert all(not METRICS[one].by or kind in METRICS[one].by for one in own)
        exact = {one.name for one in METRICS.values() if kind in one.by and one.rule is Rule.EXACT}
        assert exact <= own | {"tacit_tasks", "tacit_collections"}  # those by state: while there is nothing, no state
        seen |= own
        assert "127.0.0.1" not in page
    watched = json.loads((stack.layout.state_dir / "prometheus.yml").read_text())["scrape_configs"][0]
    assert {one["labels"]["party"] for one in watched["static_configs"]} == {*SERVICE_NAMES, *WITNESSES}
    assert {"tacit_store_well", "tacit_step_failing", "tacit_step_window_seconds"} <= seen


async def test_every_service_that_has_kernels_says_on_which_it_works(stack: Stack, http: HttpTransport) -> None:
    deadline = time.monotonic() + 120
    both = {"prio3": prio3_level(), "batches": batch_level()}
    expected = {"leader": both, "helper": both, "analyzer": {"batches": both["batches"]}, "relay": None}
    for name, kernels in expected.items():
        while (
            found := json.loads((await http.request("GET", f"{stack.url(name)}/readyz")).body).get("kernels")
        ) != kernels:
            assert time.monotonic() < deadline, (name, found)
            await asyncio.sleep(0.2)


async def test_a_second_stack_in_the_same_folder_is_refused_and_the_first_goes_on(
    stack: Stack, http: HttpTransport
) -> None:
    folder = stack.layout.state_dir
    before = (folder / PIDS).read_bytes()
    command = [sys.executable, "-P", "-m", "infra.cli", "up", "--agents", "0", "--state-dir", str(folder)]
    second = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    _, words = await second.communicate()
    holder = (folder / "up.lock").read_text()
    assert second.returncode == 1
    assert f"a stack runs here; choose another --state-dir, or stop that one (pid {holder})" in words.decode()
    assert runs(int(holder), ["infra.cli", "up", str(folder)])
    assert (folder / PIDS).read_bytes() == before
    assert (await http.request("GET", f"{stack.url('leader')}/healthz")).status == 200


async def well(http: HttpTransport, url: str, kind: str) -> None:
    """Its health page says so, at the latest when it has asked a service that started after it once more."""
    deadline = time.monotonic() + 120
    while True:
        answer = await http.request("GET", f"{url}/healthz")
        page = json.loads(answer.body)
        if page == {"status": "ok", "service": kind, "version": __version__}:
            assert answer.status == 200
            return
        assert time.monotonic() < deadline, page
        await asyncio.sleep(0.2)


async def test_agents_are_provisioned_with_identity_and_datum(stack: Stack) -> None:
    for number in range(2):
        folder = stack.layout.state_dir / "agents" / str(number)
        config = load_config(folder / "agent.json", AgentConfig)
        source = open_source(config.source)
        assert 0 <= int(str(source.value("mdvis"))) <= 20
        assert source.value("crashed") in {"0", "1"}
        assert config.policy.resolve() == stack.layout.policy_path
        assert config.state_dir.resolve() == folder
        SoftwareDevice.from_pem(read_secret(config.attestation.identity))


@pytest.mark.parametrize(("service", "method", "path", "media_type", "credential"), GUARDED)
async def test_a_missing_or_wrong_credential_is_refused(
    stack: Stack, http: HttpTransport, service: str, method: str, path: str, media_type: str, credential: str
) -> None:
    url = stack.url(service) + path
    content = {"Content-Type": media_type} if media_type else {}
    good = stack.token(credential)
    other = stack.token("results" if credential != "results" else "collector")
    for wrong in ({}, bearer(""), bearer("x"), bearer(good[:-1]), bearer(other), {"Authorization": f"Basic {good}"}):
        answer = await http.request(method, url, headers={**content, **wrong})
        assert answer.status == 401
        assert answer.headers["content-type"] == media_types.PROBLEM_JSON
    accepted = await http.request(method, url, headers={**content, **bearer(good)})
    assert accepted.status not in {401, 403}


async def test_no_credential_opens_two_services(stack: Stack, http: HttpTransport) -> None:
    tokens = {name: stack.token(name) for name in (*stack.document["credentials"], "peer")}
    opened: dict[str, set[str]] = {name: set() for name in tokens}
    for service, method, path, media_type, _ in GUARDED:
        content = {"Content-Type": media_type} if media_type else {}
        for name, token in tokens.items():
            answer = await http.request(method, stack.url(service) + path, headers={**content, **bearer(token)})
            if answer.status != 401:
                opened[name].add(service)
    for service, place in stack.document["operators"].items():
        for name, token in tokens.items():
            answer = await http.request("GET", f"{place['url']}/v1/keys", headers=bearer(token))
            if answer.status != 401:
                opened[name].add(service)
    assert {name: len(services) for name, services in opened.items()} == dict.fromkeys(tokens, 1)


def fresh_recipe(layout: Layout, now: float) -> Recipe:
    epoch = int(now // layout.options.epoch_seconds)
    visits = Buckets(kind="buckets", edges=tuple(range(16)))
    return propose(
        survey_from(
            name="doctor-visits",
            question=Question(text="How many doctor visits?", metric="mdvis", encoder=visits, statistic="histogram"),
            population=DEVICES,
            token=TokenSlot(issuer=layout.parties.issuer.name, epoch=epoch, slot=0),
            start=int(now) + 2,
            duration=DURATION,
            rate=Decimal(1),
            min_batch_size=DEVICES // 2,
            time_precision=1,
        ),
        layout.parties,
    )


def ready_agents(layout: Layout, http: HttpTransport) -> list[tuple[Agent, MemoryAgentStore]]:
    """In-process devices with the identities and the data of provisioned ones."""
    policy: Policy = parse_policy(layout.policy_path.read_bytes(), "policy.json")
    made = []
    for path in provision_agents(layout, DEVICES, OsEntropy(), time.time()):
        timing = Timing(retry_seconds=0.5, retry_limit_seconds=2)
        config = load_config(path, AgentConfig).model_copy(update={"timing": timing})
        device = SoftwareDevice.from_pem(read_secret(config.attestation.identity))
        store = MemoryAgentStore()
        deps = AgentEnv(SystemClock(), OsEntropy(), http)
        made.append((Agent(config, policy, deps, store, open_source(config.source), device), store))
    return made


async def fetch_tokens(agent: Agent, store: MemoryAgentStore) -> None:
    """Follow the log and fetch the tokens of its slots now, not at their random times."""
    await agent.sync()
    for prefetch in await store.prefetches():
        await store.put_prefetch(replace(prefetch, due_at=0.0))
    await agent.prefetch()
    assert all(prefetch.usable for prefetch in await store.prefetches())


async def take_part(agent: Agent, store: MemoryAgentStore, until: float) -> None:
    """Run one device until its report is stored."""
    await agent.sync()
    while time.time() < until and not any(entry.state is State.SENT for entry in await store.entries()):
        await agent.work()
        await asyncio.sleep(0.2)


class Operator:
    """Asks the services of a stack what an operator may know."""

    def __init__(self, stack: Stack, http: HttpTransport) -> None:
        self._stack = stack
        self._http = http

    async def ask(self, method: str, service: str, path: str, body: Any = None) -> HttpResponse:
        headers = {**bearer(self._stack.token(f"operator_{service}")), "Content-Type": media_types.JSON}
        sent = b"" if body is None else json.dumps(body).encode()
        return await self._http.request(method, self._stack.url(service) + path, headers=headers, body=sent)

    async def document(self, service: str, path: str) -> dict[str, Any]:
        """A JSON answer, or an empty mapping while the service is away or does not know."""
        try:
            answer = await self.ask("GET", service, path)
        except TransportError:
            return {}
        found: Any = json.loads(answer.body) if answer.status == 200 else {}
        return found if isinstance(found, dict) else {"items": found}

    async def until(self, what: str, condition: Callable[[], Awaitable[bool]], seconds: float = 180.0) -> None:
        """Return once the coroutine function ``condition`` gives something true."""
        deadline = time.monotonic() + seconds
        while not await condition():
            assert time.monotonic() < deadline, f"waited in vain for: {what}"
            await asyncio.sleep(0.2)


async def kill_and_return(stack: Stack, http: HttpTransport, name: str) -> int:
    """SIGKILL a service of the stack; its new process id once ``tacit up`` has started it again on the same address."""
    pid = read_pids(stack.layout.state_dir)[name]
    os.kill(pid, signal.SIGKILL)

    async def again() -> bool:
        return read_pids(stack.layout.state_dir)[name] != pid

    await Operator(stack, http).until(f"the {name} to be started again", again)
    assert f"{name} (pid {pid}) was killed by signal 9; starting it again in" in stack.process.stderr
    assert (await http.request("GET", f"{stack.url(name)}/healthz")).status in {200, 503}
    return read_pids(stack.layout.state_dir)[name]


async def publish(stack: Stack, http: HttpTransport) -> Recipe:
    """A recipe that starts in two seconds, in the log."""
    layout = stack.layout
    recipe = await asyncio.to_thread(fresh_recipe, layout, time.time() + 3)
    leaf = sign_leaf(LeafType.RECIPE, recipe.body(), layout.parties.analyst.operator, signing_key_of(layout))
    headers = {"Content-Type": media_types.JSON}
    answer = await http.request("POST", f"{stack.url('recipe_server')}/v1/leaves", headers=headers, body=leaf.encode())
    assert answer.status == 201, answer.body
    return recipe


@pytest.mark.slow
async def test_leader_and_helper_are_killed_and_every_report_is_counted_once(stack: Stack, http: HttpTransport) -> None:
    agents = await asyncio.to_thread(ready_agents, stack.layout, http)
    operator = Operator(stack, http)
    first, _ = agents[0]

    async def directories() -> bool:
        await first.sync()
        return len(first.live.directories) >= 2

    await operator.until("the directories of this epoch and the next", directories)
    await asyncio.gather(*(fetch_tokens(*agent) for agent in agents))
    recipe = await publish(stack, http)
    status = f"/v1/tasks/{b64url(task_id(recipe))}/status"

    async def uploaded() -> int:
        return int((await operator.document("leader", status)).get("uploaded", 0))

    async def active() -> bool:
        found = [await operator.document(name, "/v1/recipes") for name in ("leader", "helper")]
        return json.dumps(found).count('"active"') == len(found)

    async def at_least_a_quarter() -> bool:
        return await uploaded() >= DEVICES // 4

    async def at_least_half() -> bool:
        return await uploaded() >= DEVICES // 2

    await operator.until("the opt-ins", active)
    devices = asyncio.gather(*(take_part(*agent, recipe.interval.end + 30) for agent in agents))
    await operator.until("a quarter of the reports", at_least_a_quarter)
    await kill_and_return(stack, http, "leader")
    await operator.until("half of the reports", at_least_half)
    await kill_and_return(stack, http, "helper")
    await devices
    states = [entry.state for _, store in agents for entry in await store.entries()]
    assert states == [State.SENT] * DEVICES
    await what_is_served_fits_the_schemas(stack, http)

    await asyncio.sleep(max(0.0, recipe.interval.end - time.time()))
    result = await collected(operator, recipe)
    assert result["report_count"] == DEVICES
    assert sum(bucket["count"] for bucket in result["buckets"]) == DEVICES
    for service in ("leader", "helper"):
        assert (await operator.document(service, status))["distinct_nullifiers"] == DEVICES
    Draft202012Validator(schema_of("result")).validate(result)


async def what_is_served_fits_the_schemas(stack: Stack, http: HttpTransport) -> None:
    """Every document that a foreign device or analyst reads of this stack."""

    async def served(name: str, service: str, path: str) -> Any:
        answer = await http.request("GET", stack.url(service) + path)
        found = json.loads(answer.body)
        Draft202012Validator(schema_of(name)).validate(found)
        return found

    head = await served("bundle-head", "recipe_server", "/v1/bundle")
    size = int(head["checkpoint"].splitlines()[1])
    await served("hashes", "recipe_server", f"/v1/hashes/{size}/0")
    await served("key-sets", "recipe_server", "/v1/key-sets")
    await served("key-sets", "relay", "/key-sets")
    await served("problem", "recipe_server", "/v1/nothing")
    kinds = set()
    for digest in head["pages"]:
        for entry in (await served("bundle-page", "recipe_server", f"/v1/bundle/{digest}"))["entries"]:
            leaf = json.loads(unb64url(entry["leaf"]))
            Draft202012Validator(schema_of("leaf")).validate(leaf)
            name = leaf["type"] if leaf["type"] in SCHEMAS else f"leaf-{leaf['type']}"
            Draft202012Validator(schema_of(name)).validate(leaf["body"])
            kinds.add(leaf["type"])
    assert kinds == {"recipe", "opt-in", "issuer-directory", "ohttp-config"}


async def collected(operator: Operator, recipe: Recipe) -> dict[str, Any]:
    """The recipe's one release, through the collector."""
    answer = await operator.ask("POST", "collector", "/v1/collections", {"recipe_hash": recipe.hash_text})
    assert answer.status == 201, answer.body
    results: list[dict[str, Any]] = []

    async def released() -> bool:
        found = await operator.document("collector", f"/v1/results/{recipe.hash_text}")
        results.extend(found.get("results", []))
        return bool(results)

    await operator.until("the release", released)
    assert len(results) == 1
    return results[0]


async def test_a_service_that_dies_is_started_again_on_the_same_address_and_the_others_go_on(
    stack: Stack, http: HttpTransport
) -> None:
    pid = await kill_and_return(stack, http, "attester")
    assert runs(pid, ["infra.cli", "serve", "attester", stack.document["attester"]["config"]])
    assert f"attester is running again (pid {pid})" in stack.process.stderr
    assert "tacit serve" not in stack.process.stderr, "nobody is told to start what would outlive the stack"
    assert (await http.request("GET", f"{stack.url('relay')}/healthz")).status == 200, "the others go on"


def test_a_service_is_started_again_by_its_name_through_the_stack_that_runs(stack: Stack) -> None:
    folder = stack.layout.state_dir
    pids = read_pids(folder)
    given = [sys.executable, "-P", "-m", "infra.cli", "up", "restart", "relay", "--state-dir", str(folder)]
    done = subprocess.run(given, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "restart: relay"), done.stderr
    after = read_pids(folder)
    assert {name for name in pids if after[name] != pids[name]} == {"relay"}
    assert not runs(pids["relay"], ["serve"])
    wrong = subprocess.run([*given[:6], "shredder", *given[7:]], capture_output=True, text=True, check=False)
    assert wrong.returncode == 1
    assert "no service or organisation is called shredder" in wrong.stderr
    assert stat.S_IMODE((folder / "orders").stat().st_mode) == 0o700


def test_a_service_that_finds_its_port_taken_names_who_has_it(stack: Stack, serve: Callable[..., ReadyProcess]) -> None:
    again = serve("relay", Path(stack.document["relay"]["config"]))
    with pytest.raises(RuntimeError, match="no ready line"):
        again.ready()
    assert f"in use by pid {read_pids(stack.layout.state_dir)['relay']} (" in again.stderr


def test_interrupting_stops_every_service_and_succeeds(stack: Stack) -> None:
    pids = read_pids(stack.layout.state_dir)
    stack.process.signal(signal.SIGINT)
    assert stack.process.wait() == 0
    assert [name for name, pid in pids.items() if runs(pid, ["infra.cli", "serve"])] == []
    assert list(temporary_of(stack.layout).iterdir()) == [], (
        "services, killed ones among them, leave nothing in the temporary folder"
    )


def test_where_the_stack_itself_is_killed_its_services_end_too(stack: Stack, tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-m", "infra.cli", "up", "--json", "--agents", "0"]
    with ReadyProcess([*command, "--state-dir", str(stack.layout.state_dir)], tmp_path / "stderr") as again:
        again.ready()
        pids = read_pids(stack.layout.state_dir)
        again.signal(signal.SIGKILL)
        again.wait()
        deadline = time.monotonic() + 60
        while left := [name for name, pid in pids.items() if runs(pid, ["infra.cli", "serve"])]:
            assert time.monotonic() < deadline, left
            time.sleep(0.1)


def test_without_a_stack_a_restart_says_how_to_start_one(stack: Stack) -> None:
    given = [sys.executable, "-P", "-m", "infra.cli", "up", "restart", "relay"]
    done = subprocess.run(
        [*given, "--state-dir", str(stack.layout.state_dir)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "no stack runs here; start one with: tacit up --state-dir" in done.stderr


def runs(pid: int, words: Sequence[str]) -> bool:
    """Process ``pid`` exists and its command line holds ``words``."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except OSError:
        return False
    return all(word in command for word in words)
