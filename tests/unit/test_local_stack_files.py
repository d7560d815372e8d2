"""What ``tacit up`` writes and prints, without starting anything."""

from __future__ import annotations

import asyncio
import errno
import io
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from cryptography import x509
from rich.console import Console

from client_agent.config import AgentConfig, Budget
from infra.base.remembered_servers import amend_config
from infra.base.service_names import SERVICES
from infra.cli import run
from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from infra.stacks.agent_configs import agent_config
from infra.stacks.agents import MEAN_VISITS, SHARES, provision_agents
from infra.stacks.api import verified_log
from infra.stacks.deployables import deployable
from infra.stacks.deployment import HOSTED, Deployment, deploy
from infra.stacks.layout import INDEX, Layout, load_layout
from infra.stacks.local import LocalStack
from infra.stacks.new_layout import create_layout
from infra.stacks.opening import open_stack
from infra.stacks.options import (
    ATTRIBUTES,
    CREDENTIALS,
    OPERATORS,
    PEOPLE,
    StackOptions,
    credentials_of,
    operator_credential,
)
from infra.stacks.processes import ServiceProcess
from infra.stacks.tls import party_name
from infra.stacks.upgrades import with_operators
from infra.stacks.workers import service_part
from infra.views.stack_view import show
from services.admin.app import read_parties
from services.admin.base.config import AdminConfig
from tacit.adapters.network.http import HttpTransport
from tacit.adapters.network.tls import ClientTls
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.errors import Abort, UsageError
from tacit.ledger.account import Cost
from tacit.ledger.budget import fits
from tacit.models.forms import FORMS
from tacit.operations.calls import call
from tacit.operations.issuance import read_counts
from tacit.recipe.policy import parse_policy
from tacit.recipe.writing.sampling_plan import FILL
from tacit.service.base.config_files import load_config
from tacit.service.base.secret_files import read_secret
from tests.conftest import ROOT

NOW = 1_800_000_000.0


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    folder = tmp_path_factory.mktemp("files") / "my stack"
    return create_layout(folder, StackOptions(), SeededEntropy(1), NOW)


def test_provisioned_devices_stay_when_more_are_made(layout: Layout) -> None:
    first = provision_agents(layout, 2, SeededEntropy(2), NOW)
    before = [(path.parent / "identity.pem").read_bytes() for path in first]
    more = provision_agents(layout, 4, SeededEntropy(3), NOW)
    assert more[:2] == first
    assert [(path.parent / "identity.pem").read_bytes() for path in first] == before
    assert len({(path.parent / "identity.pem").read_bytes() for path in more}) == 4


def test_devices_get_their_own_data_as_the_page_on_asking_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs" / "ways-to-ask.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    made = create_layout(tmp_path / ".tacit", StackOptions(), SeededEntropy(8), NOW)
    provision_agents(made, 2, SeededEntropy(9), NOW)
    monkeypatch.chdir(tmp_path)
    Path("starts.csv").write_text("start,crashed\n3.25,0\n7,1\n")
    exec(compile(program, "ways-to-ask.md", "exec"), {})  # noqa: S102 - the page's own program
    (command,) = re.findall(r"`tacit (agent check [^`]+)`", page)
    assert run([*command.split(), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"start": {"value": "3.25", "trouble": ""}}
    assert run([*command.replace("/0/", "/1/").replace("check start", "check start crashed").split(), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["crashed"]["value"] == "1"


def test_keys_that_documents_and_examples_name_are_where_a_stack_puts_them(layout: Layout) -> None:
    places = [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*/*")]
    texts = [path.read_text(encoding="utf-8") for path in places if path.suffix in {".md", ".py", ".mjs"}]
    named = {name for text in texts for name in re.findall(r"\.tacit/([a-z_0-9/]+\.(?:key|token))\b", text)}
    assert "analyst/analyst.key" in named
    assert [name for name in sorted(named) if not (layout.state_dir / name).is_file()] == []


def test_no_two_services_of_a_stack_share_a_credential(layout: Layout) -> None:
    """A token lies in the folders of the two that use it; the analyst, who operates, serves nobody."""
    holders: dict[bytes, set[str]] = {}
    for path in layout.state_dir.glob("*/*.token"):
        holders.setdefault(read_secret(path), set()).add(path.parent.name)
    credentials = credentials_of(layout.services)
    assert len(holders) == len(credentials)
    assert set(layout.credentials) == {*credentials, *PEOPLE}
    assert sorted(map(sorted, holders.values())) == sorted(map(sorted, credentials.values()))
    served = [tuple(sorted(pair & set(layout.services))) for pair in map(set, credentials.values())]
    assert len(set(served)) == len(served), "nobody holds two credentials for one leg"


def test_a_stack_of_before_its_operators_had_credentials_gets_them_once(tmp_path: Path) -> None:
    made = create_layout(tmp_path / "stack", StackOptions(witnesses=1), SeededEntropy(5), NOW)
    lost = {operator_credential(name) for name in ("relay", "witness_1")}
    for name in ("relay", "witness_1"):
        body = json.loads(made.configs[name].read_text())
        del body["operator_token"]
        made.configs[name].write_text(json.dumps(body))
    old = replace(made, credentials={name: at for name, at in made.credentials.items() if name not in lost})
    grown = with_operators(old, SeededEntropy(6))
    assert set(grown.credentials) == set(made.credentials)
    assert load_layout(made.state_dir).credentials == grown.credentials
    for name in ("relay", "witness_1"):
        config = deployable(name).load(made.configs[name])
        assert config.operator_token is not None
        assert read_secret(config.operator_token) == read_secret(grown.credentials[operator_credential(name)])
    assert with_operators(grown, SeededEntropy(7)) is grown


def test_a_stack_of_before_there_was_an_admin_service_gets_one_and_else_stays_as_it_is(tmp_path: Path) -> None:
    made = create_layout(tmp_path / "stack", StackOptions(tls=True, witnesses=1), SeededEntropy(5), NOW)
    before, collector = json.loads((made.state_dir / INDEX).read_text()), made.configs["collector"]
    old = {**json.loads(collector.read_text())}
    del old["admin_token"]
    del old["listen"]["client_names"]["admin"]
    collector.write_text(json.dumps(old))
    shutil.rmtree(made.state_dir / "admin")
    gone = {*PEOPLE, "collections"}
    index = {**before, "credentials": {name: at for name, at in before["credentials"].items() if name not in gone}}
    for members in ("urls", "configs"):
        index[members] = {name: at for name, at in before[members].items() if name != "admin"}
    (made.state_dir / INDEX).write_text(json.dumps(index))
    layout = open_stack(made.state_dir, None)
    assert (layout.services, set(layout.credentials)) == (made.services, set(made.credentials))
    assert json.loads(collector.read_text())["listen"]["client_names"]["admin"] == ["admin.analyst.example"]
    config = load_config(layout.configs["admin"], AdminConfig)
    parties = read_parties(config.parties)
    assert set(parties) == set(FORMS)
    config.parties.write_text(json.dumps(json.loads(config.parties.read_text())["secure-aggregation"]))
    assert read_parties(config.parties) == {"secure-aggregation": parties["secure-aggregation"]}
    keys = [read_secret(layout.credentials[name]).decode() for name in PEOPLE]
    assert len({*keys}) == len(PEOPLE) == 4
    assert open_stack(made.state_dir, None).urls == layout.urls == load_layout(made.state_dir).urls
    (made.state_dir / INDEX).write_text(json.dumps({**index, "configs": {"relay": "relay/config.json"}}))
    with pytest.raises(UsageError, match="has no recipe_server"):
        open_stack(made.state_dir, None)


def test_a_staging_account_and_its_devices_have_room_for_ninety_recipes_and_real_devices_for_nine(
    tmp_path: Path,
) -> None:
    layout = open_stack(tmp_path / "staging", None)
    account = parse_policy(layout.policy_path.read_bytes(), layout.policy_path.name).account("default")
    (config,) = (load_config(path, AgentConfig) for path in provision_agents(layout, 1, SeededEntropy(2), NOW))
    cost = Cost(Decimal(1), Decimal("0.000001"))
    assert account is not None
    for one in (account, config.budget.account):
        assert fits([cost] * 90, one)
        assert not fits([cost] * 91, one)
    real = Budget()
    assert (real.epsilon, real.delta, real.days) == ("10", "0.00001", 365)
    assert fits([cost] * 9, real.account)
    assert not fits([cost] * 10, real.account)


def test_an_account_is_chosen_when_a_stack_is_made_and_kept(tmp_path: Path) -> None:
    made = open_stack(tmp_path / "chosen", None, account=("3", "0.00002"))
    assert (made.options.account_epsilon, made.options.account_delta) == ("3", "0.00002")
    assert open_stack(tmp_path / "chosen", None).options == made.options
    with pytest.raises(UsageError, match=r"epsilon 3 at delta 0\.00002"):
        open_stack(tmp_path / "chosen", None, account=("4", None))
    for account in (("0", None), ("x", None), (None, "1"), (None, "1e-5")):
        with pytest.raises(UsageError, match="account"):
            open_stack(tmp_path / "refused", None, account=account)
    assert not (tmp_path / "refused").exists()


def test_a_stack_lets_a_batch_tell_as_much_as_it_was_made_with(tmp_path: Path) -> None:
    made = open_stack(tmp_path / "wide", None, release_cap="5")
    policy = json.loads(made.policy_path.read_text())
    assert {policy[f"max_epsilon_{one}"] for one in ("aggregator", "half_batch")} == {"5"}
    assert open_stack(tmp_path / "wide", None).options == made.options
    with pytest.raises(UsageError, match="lets a batch tell epsilon 5; choose another --state-dir"):
        open_stack(tmp_path / "wide", None, release_cap="6")
    with pytest.raises(UsageError, match="--release-cap"):
        open_stack(tmp_path / "refused", None, release_cap="much")
    assert not (tmp_path / "refused").exists()


def test_a_stack_for_long_vectors_takes_large_requests_everywhere_and_keeps_to_it(tmp_path: Path) -> None:
    most = 4 << 20
    made = open_stack(tmp_path / "large", None, max_upload=most)
    assert json.loads(made.policy_path.read_text())["max_upload"] == most
    found = {name: json.loads(made.configs[name].read_text()) for name in ("relay", "gateway", "leader", "shuffler")}
    assert found["relay"]["max_request"] == found["gateway"]["max_request"] == found["leader"]["max_body"] == most
    assert "max_body" not in found["shuffler"], "reports behind a shuffler are not large"
    assert open_stack(tmp_path / "large", None).options == made.options
    with pytest.raises(UsageError, match="takes reports of 4194304 bytes"):
        open_stack(tmp_path / "large", None, max_upload=1 << 20)
    with pytest.raises(UsageError, match="--max-upload"):
        open_stack(tmp_path / "refused", None, max_upload=2 << 20)
    assert not (tmp_path / "refused").exists()
    usual = open_stack(tmp_path / "usual", None, max_upload=1 << 18)
    assert "max_request" not in json.loads(usual.configs["relay"].read_text())


def test_a_stack_accepts_noise_shares_where_it_was_made_to_and_keeps_to_it(tmp_path: Path) -> None:
    made = open_stack(tmp_path / "shares", None, unbounded_local=True)
    assert parse_policy(made.policy_path.read_bytes(), made.policy_path.name).allow_unbounded_local
    assert open_stack(tmp_path / "shares", None).options == made.options
    plain = open_stack(tmp_path / "plain", None)
    assert not parse_policy(plain.policy_path.read_bytes(), plain.policy_path.name).allow_unbounded_local
    with pytest.raises(UsageError, match="does not accept noise shares"):
        open_stack(tmp_path / "plain", None, unbounded_local=True)


def test_an_option_that_the_stack_does_not_have_is_refused_not_ignored(tmp_path: Path) -> None:
    open_stack(tmp_path / "made", None)
    with pytest.raises(UsageError, match="B of 20 and more"):
        open_stack(tmp_path / "made", None, batch_floor=37)
    with pytest.raises(UsageError, match="of 20 devices"):
        open_stack(tmp_path / "made", None, min_audience=37)


def test_a_stack_whose_making_was_interrupted_is_made_again_in_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("infra.stacks.new_layout.write_index", fail)
        with pytest.raises(OSError, match="No space left"):
            open_stack(tmp_path / "made", None)
    assert (tmp_path / "made" / "policy.json").exists()
    (tmp_path / "made" / "images").mkdir()
    assert load_layout(open_stack(tmp_path / "made", None).state_dir).services
    with pytest.raises(UsageError, match="holds files that are not a stack's"):
        open_stack(tmp_path, None)
    (tmp_path / "disk" / "lost+found").mkdir(parents=True)
    open_stack(tmp_path / "disk", None)


def test_a_device_is_found_where_its_stack_was_moved_to(layout: Layout, tmp_path: Path) -> None:
    provision_agents(layout, 1, SeededEntropy(2), NOW)
    moved = tmp_path / "moved"
    shutil.copytree(layout.state_dir, moved)
    config = load_config(moved / "agents" / "0" / "agent.json", AgentConfig)
    assert config.policy.resolve() == moved / "policy.json"
    assert read_secret(config.attestation.identity).startswith(b"-----BEGIN PRIVATE KEY-----")
    assert config.relay_url == layout.urls["relay"]


@pytest.mark.false_alarm(4e-6, "five exact binomial tails")
def test_provisioned_devices_have_the_attributes_that_the_stacks_recipes_may_target(layout: Layout) -> None:
    """Of 300 devices each value has its share up to 5 standard deviations."""
    configs = [load_config(path, AgentConfig) for path in provision_agents(layout, 300, SeededEntropy(4), NOW)]
    policy = json.loads(layout.policy_path.read_text())
    assert policy["attributes"] == {name: list(values) for name, values in ATTRIBUTES.items()}
    for name, values in ATTRIBUTES.items():
        for value, share in zip(values, SHARES[name], strict=True):
            held = sum(config.attributes[name] == value for config in configs)
            assert abs(held - 300 * share) < 5 * (300 * share * (1 - share)) ** 0.5


@pytest.mark.false_alarm(1e-4, "a mean of 300 draws beyond 4.1 of its standard errors")
def test_provisioned_visits_are_geometric_with_the_stated_mean(layout: Layout) -> None:
    paths = provision_agents(layout, 300, SeededEntropy(4), NOW)
    rows = [(path.parent / "data.csv").read_text().splitlines()[1].split(",") for path in paths]
    visits = [int(row[0]) for row in rows]
    assert min(visits) == 0
    assert max(visits) <= 20
    assert abs(sum(visits) / len(visits) - MEAN_VISITS) < 0.8, "four standard errors"
    assert {row[1] for row in rows} == {"0", "1"}


def test_the_terminal_names_every_service_and_commands_that_can_be_pasted(layout: Layout) -> None:
    services = [
        ServiceProcess(
            service_part(layout, name),
            cast("asyncio.subprocess.Process", SimpleNamespace(pid=4000 + number)),
        )
        for number, name in enumerate(SERVICES)
    ]
    agent = layout.state_dir / "agents" / "0" / "agent.json"
    console = Console(file=io.StringIO(), width=80, highlight=False)
    show(layout, services, [agent], console)
    text = cast("io.StringIO", console.file).getvalue()
    for service in services:
        assert service.part.url in text
        assert str(service.pid) in text
        assert OPERATORS[service.name] in text
    asked = re.search(r"--population (\d+)", text)
    assert asked is not None
    assert FILL * int(asked[1]) >= layout.options.batch_floor
    assert "--rate 1" in text
    for name in PEOPLE:
        assert str(layout.credentials[name]) in text
    assert f"Dashboard: {layout.urls['admin']}" in text
    assert f"tacit agent host '{agent.parent.parent}'" in text
    wait = max(300, 4 * layout.options.epoch_seconds)
    assert f"tacit collect visits --wait {wait} --state-dir '{layout.state_dir}'" in text
    assert f"tacit recipe publish visits.json --state-dir '{layout.state_dir}'" in text
    assert text.index("tacit agent host") < text.index("tacit recipe new"), "agents run before anything is asked"


@pytest.mark.parametrize(
    ("devices", "flags"),
    [
        (0, "--population 25 --out"),
        (19, "--population 25 --out"),
        (20, "--population 20 --min-batch-size 20 --out"),
        (24, "--population 24 --min-batch-size 20 --out"),
        (25, "--population 25 --out"),
        (60, "--population 60 --out"),
    ],
)
def test_the_terminal_asks_the_devices_that_there_are_and_says_if_they_are_too_few(
    tmp_path: Path, devices: int, flags: str
) -> None:
    layout = create_layout(tmp_path / "stack", StackOptions(batch_floor=20), SeededEntropy(4), NOW)
    console = Console(file=io.StringIO(), width=80, highlight=False)
    show(layout, [], [tmp_path / "agents" / str(number) / "agent.json" for number in range(devices)], console)
    text = cast("io.StringIO", console.file).getvalue()
    assert flags in text
    assert ("start this again with --agents 25." in text) == (devices == 19)


def modules_of(service: str) -> set[str]:
    """What a process that serves it has imported."""
    program = (
        "import json, sys\n"
        "from infra.cli import build\n"
        "from infra.stacks.deployables import deployable\n"
        f"build('serve'); deployable('{service}'); print(json.dumps(sorted(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_the_process_of_a_relay_holds_no_code_that_opens_messages() -> None:
    loaded = modules_of("relay")
    assert "relay.app" in loaded
    assert loaded.isdisjoint(
        {"tacit.hpke", "tacit.ohttp", "tacit.vdaf.prio3", "tacit.messages", "services.gateway.app"}
    )


@pytest.mark.parametrize("service", ["leader", "gateway", "recipe_server"])
def test_a_service_imports_the_clients_of_servers_and_drawings_when_it_uses_them(service: str) -> None:
    """Imports are most of the time that a service needs to start."""
    loaded = modules_of(service)
    assert deployable(service).create_app.__module__ in loaded
    assert loaded.isdisjoint({"redis", "aiomqtt", "asyncpg", "numpy", "scipy", "matplotlib", "dp_accounting"})


def setting(layout: Layout, setting: str) -> object:
    name, _, member = setting.partition(".")
    return json.loads(layout.configs[name].read_text()).get(member)


def test_gateway_and_uploads_together_are_one_process_and_the_relay_sends_frames(tmp_path: Path) -> None:
    layout = create_layout(tmp_path, StackOptions(), SeededEntropy(1), NOW)
    parts = deploy(layout, Deployment(together=True, batch_crypto=True))
    ingest = parts.first[-1]
    assert [part.label for part in parts.first] == [name for name in SERVICES if name not in HOSTED] + ["ingest"]
    assert [(part.name, part.url, part.config) for part in ingest.services] == [
        (name, layout.urls[name], layout.configs[name]) for name in ("gateway", "leader")
    ]
    gateway, leader = (str(layout.configs[name]) for name in HOSTED)
    assert ingest.arguments == ["ingest", "--config", gateway, "--leader-config", leader]
    assert setting(layout, "relay.frames") == {}
    assert [
        setting(layout, f"{name}.batch_crypto") for name in ("gateway", "leader", "helper", "analyzer", "shuffler")
    ] == [True] * 5
    assert parts.further == [], "a database file has one process"
    assert setting(layout, "leader.roles") is None


def test_frames_on_both_ways_need_no_common_process(tmp_path: Path) -> None:
    layout = create_layout(tmp_path, StackOptions(), SeededEntropy(1), NOW)
    parts = deploy(layout, Deployment(frames=True))
    assert [part.label for part in parts.first] == list(SERVICES)
    assert setting(layout, "relay.frames") == {}
    targets = json.loads(layout.configs["gateway"].read_text())["targets"]
    assert [target["origin"] for target in targets if target.get("frames")] == [layout.urls["leader"]]
    deploy(layout, Deployment())
    assert setting(layout, "relay.frames") is None


def test_on_a_database_server_jobs_are_another_process_than_uploads(tmp_path: Path) -> None:
    layout = create_layout(tmp_path, StackOptions(), SeededEntropy(1), NOW)
    amend_config(layout.configs["leader"], database_file="database.url")
    parts = deploy(layout, Deployment(together=True))
    assert setting(layout, "leader.roles") == ["upload"]
    assert [part.label for part in parts.further] == ["leader worker-1"]
    assert json.loads(parts.further[0].config.read_text())["roles"] == ["worker"]
    assert len(deploy(layout, Deployment(together=True, leader_workers=2)).further) == 2


def test_a_choice_that_is_not_repeated_is_undone_and_settings_made_by_hand_stay(tmp_path: Path) -> None:
    layout = create_layout(tmp_path, StackOptions(), SeededEntropy(1), NOW)
    before = {name: json.loads(path.read_text()) for name, path in layout.configs.items()}
    amend_config(layout.configs["helper"], batch_crypto=True)
    for _ in range(2):
        deploy(layout, Deployment(together=True, batch_crypto=True))
    parts = deploy(layout, Deployment())
    assert [part.label for part in parts.first] == list(SERVICES)
    assert setting(layout, "helper.batch_crypto") is True
    amend_config(layout.configs["helper"], batch_crypto=None)
    assert {name: json.loads(path.read_text()) for name, path in layout.configs.items()} == before


def test_in_a_stack_with_tls_each_caller_is_known_by_the_name_of_its_own_certificate(tmp_path: Path) -> None:
    made = open_stack(tmp_path / "stack", None, tls=True)
    assert open_stack(tmp_path / "stack", None, tls=True).options.tls
    for caller, service in CREDENTIALS.values():
        listen = deployable(service).load(made.configs[service]).listen
        name = party_name(caller, OPERATORS)
        assert [name in names for names in listen.client_names.values()].count(True) == 1
        certificate = x509.load_pem_x509_certificate((made.state_dir / caller / "tls.pem").read_bytes())
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert name in names.get_values_for_type(x509.DNSName)
    plain = open_stack(tmp_path / "plain", None)
    assert not plain.options.tls
    with pytest.raises(UsageError, match="speaks plain HTTP on loopback; choose another --state-dir"):
        open_stack(tmp_path / "plain", None, tls=True)


async def test_a_stack_with_tls_works_in_one_process(tmp_path: Path) -> None:
    """Every service calls those it needs: issuer, gateway and both aggregators the log, the log its witnesses."""
    now = SystemClock().now()
    options = StackOptions(epoch_seconds=86400, slots_per_epoch=1, witnesses=1, tls=True)
    layout = create_layout(tmp_path / "stack", options, OsEntropy(), now)
    stack = LocalStack(layout, SimClock(now), OsEntropy())
    async with stack.running(), layout.transport() as operator:
        await stack.settle(rounds=20)
        policy = parse_policy(layout.policy_path.read_bytes(), layout.policy_path.name)
        log = await verified_log(operator, layout, policy)
        assert log.directories
        for name in ("issuer", "attester"):
            assert await read_counts(operator, name, layout.urls[name], layout.operator_token(name)) == {}
        config = agent_config(layout, tmp_path, {"kind": "csv", "path": tmp_path / "data.csv"})
        async with HttpTransport(tls=ClientTls(config.tls_ca)) as device:
            for name, url in layout.urls.items():
                assert (await device.request("GET", f"{url}/healthz")).status == 200, name
            with pytest.raises(Abort, match="Credentials"):
                await call(device, "GET", f"{layout.urls['leader']}/v1/recipes", bearer=layout.operator_token("leader"))
