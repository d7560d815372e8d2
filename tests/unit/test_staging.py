"""A staging deployment without its processes: the report's comparison by exact small cases, devices that come and go as
files, and who has a route to whom."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest

from client_agent.config import AgentConfig
from client_agent.data.sources import CsvSource, CsvSourceConfig
from client_agent.hints import check_broker
from client_agent.host import CONFIG_NAMES
from client_agent.journal import Entry, State
from client_agent.runner import open_store
from infra.backing.backing_servers import BROKER, BROKER_FILE
from infra.base.remembered_servers import remember
from infra.base.service_calls import DEVICES
from infra.commands.staging_options import dealt_to
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.recipes import survey_from
from infra.stacks.agents import CONFIG_NAME, DATA_NAME
from infra.stacks.examples import give_examples
from infra.stacks.layout import Layout
from infra.stacks.new_layout import create_layout
from infra.stacks.opening import WITNESSES, open_stack
from infra.stacks.options import ORGANISATIONS, StackOptions, organisation_of
from infra.stacks.workers import service_part
from infra.tools.staging.agents import SINGLE_LOG, count_devices, processes_of, watch_agents
from infra.tools.staging.choices import Driver, Mode
from infra.tools.staging.devices import LEFT, Devices
from infra.tools.staging.natures import Natures, natures_in
from infra.tools.staging.networks import CONSOLE, PLACES, namespaces_of, neighbours, network_of
from infra.tools.staging.report import Ends, Served, mismatches, read_journals, report
from infra.tools.staging.running import describe
from tacit.errors import UsageError
from tacit.operations.status import TaskStatus
from tacit.recipe.encoder_specs import Buckets
from tacit.recipe.model import Question, Recipe, TokenSlot
from tacit.recipe.policy import parse_policy
from tacit.recipe.writing.builder import propose
from tacit.service.base.config_files import load_config
from tacit.service.base.secret_files import write_secret

NOW = 1_790_000_000.0
AGENTS = 7
PLAIN = Natures()
AGENTS_OF = {"hosts": 2, "single": 2, "devices": 500, "working": 500}


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    options = StackOptions(epoch_seconds=600, batch_floor=20, tls=True, network="10.77.9", witnesses=2)
    return create_layout(tmp_path_factory.mktemp("staging") / "stack", options, SeededEntropy(1), NOW)


@pytest.fixture(scope="module")
def recipe(layout: Layout) -> Recipe:
    survey = survey_from(
        name="visits",
        question=Question(
            text="How many?", metric="mdvis", encoder=Buckets(kind="buckets", edges=(0, 1, 2)), statistic="histogram"
        ),
        population=50,
        token=TokenSlot(issuer=layout.parties.issuer.name, epoch=int(NOW // 600) + 1, slot=0),
        start=int(NOW) + 600,
        duration=60,
        rate=Decimal("0.5"),
        min_batch_size=20,
        time_precision=1,
    )
    return propose(survey, layout.parties)


def devices_of(layout: Layout, folder: Path, agents: int = AGENTS, natures: Natures = PLAIN) -> Devices:
    found = Devices(folder)
    found.populate(layout, agents, 2, 3, natures, SeededEntropy(2), NOW)
    return found


def found(states: dict[str, int], served: Served) -> list[tuple[str, int]]:
    return [(one.cause, one.count) for one in mismatches("r", Ends(Counter(states)), served)]


def test_an_answer_that_is_missing_from_a_release_has_a_cause() -> None:
    assert found({"sent": 30, "not-sampled": 9}, Served(30)) == []
    assert found({"sent": 30, "expired": 2}, Served(30)) == [("late", 2)]
    assert found({"sent": 30, "scheduled": 1}, Served(29, waiting=1)) == [("late", 1), ("late", 1)]
    assert found({"sent": 30}, Served(28, {"token-spent": 2})) == [("refused", 2)]
    assert found({"sent": 28, "failed": 2}, Served(28)) == [("refused", 2)]
    assert found({"sent": 30}, Served(27, {"token-spent": 1})) == [("refused", 1), ("lost", 2)]
    assert found({"sent": 30}, Served(31)) == [("unjournalled", 1)]
    assert found({"sent": 30, "expired": 2}, Served(None)) == [], "nothing was released yet"
    ends = Ends(Counter(sent=28, failed=3), Counter(task_expired=1, hpke_decrypt_error=2))
    failed = mismatches("r", ends, Served(28))
    assert [(one.cause, one.count, one.detail) for one in failed] == [
        ("late", 1, "sent after the server had closed the batch"),
        ("refused", 2, "refused when they were sent: 2 hpke_decrypt_error"),
    ]
    (one,) = mismatches("r", Ends(Counter(sent=30)), Served(28, {"token-spent": 1, "internal": 1}))
    assert one.detail == "rejected after they were accepted: 1 internal, 1 token-spent"


def test_the_report_adds_up_journals_and_releases_and_knows_what_is_true(
    layout: Layout, recipe: Recipe, tmp_path: Path
) -> None:
    devices = devices_of(layout, tmp_path)
    states = [State.SENT, State.SENT, State.SENT, State.EXPIRED, State.NOT_SAMPLED, State.INELIGIBLE]
    for config, state in zip(devices.configs, states, strict=False):  # the seventh never started
        (config.parent / "data.csv").write_text("mdvis,crashed\n1,0\n" if state is State.SENT else "mdvis\n7\n")
        asyncio.run(journalled(config, recipe, state))
    devices.leave(1, SeededEntropy(3))
    journals = asyncio.run(read_journals(devices.configs))
    results = [{"recipe_hash": recipe.hash_text, "report_count": 2, "buckets": buckets(0.5, 2.5, 2.0)}]
    page: dict[str, Any] = {"rejected_by_cause": {"token-spent": 1}, "pending": 0}
    document = report(journals, results, [TaskStatus("visits", recipe.hash_text, "active", "", page)], [recipe])
    assert {name: document[name] for name in ("devices", "answered", "released", "journalled")} == {
        "devices": 6,
        "answered": 3,
        "released": 2,
        "journalled": 3,
    }
    assert [(one["cause"], one["count"]) for one in document["mismatches"]] == [("late", 1), ("refused", 1)]
    (row,) = document["recipes"]
    assert row["journalled"] == {"sent": 3, "expired": 1, "not-sampled": 1, "ineligible": 1}
    truths = [(one["label"], one["estimate"], one["truth"]) for one in row["estimates"]]
    assert truths == [("0", 0.5, 0), ("1", 2.5, 3), ("2 or more", 2.0, 2)]
    before = report(journals, [], [], [recipe])
    assert (before["released"], before["journalled"], before["mismatches"]) == (0, 0, [])
    assert before["recipes"][0]["released"] is None
    with pytest.raises(UsageError, match="there are no devices here"):
        asyncio.run(read_journals([]))


def test_what_wrong_clocks_missed_is_told_apart_and_no_mismatch(layout: Layout, recipe: Recipe, tmp_path: Path) -> None:
    devices = devices_of(layout, tmp_path, 8, Natures(clock_skew=30, skewed=0.5))
    configs = {path: load_config(path, AgentConfig) for path in devices.configs}
    wrong = [path for path, config in configs.items() if config.clock_error_seconds]
    right = [path for path in configs if path not in wrong]
    fates = [(State.SENT, ""), (State.EXPIRED, ""), (State.FAILED, "batch_collected"), (State.FAILED, "odd")]
    for path, (state, detail) in zip(wrong, fates, strict=True):
        asyncio.run(journalled(path, recipe, state, detail))
    for path, state in zip(right, [State.SENT, State.SENT, State.SENT, State.INELIGIBLE], strict=True):
        asyncio.run(journalled(path, recipe, state))
    journals = asyncio.run(read_journals(devices.configs))
    results = [{"recipe_hash": recipe.hash_text, "report_count": 4, "buckets": buckets(0.5, 2.5, 2.0)}]
    document = report(journals, results, [], [recipe])
    assert (document["released"], document["journalled"], document["mismatches"]) == (4, 4, [])
    ends = {"devices": 4, "answered": 1, "late": 2, "refused": {"odd": 1}, "not_asked": 0}
    assert document["wrong_clocks"] == ends
    assert document["recipes"][0]["journalled"] == {"sent": 4, "expired": 1, "failed": 2, "ineligible": 1}
    before = report(journals, [], [], [recipe])["wrong_clocks"]
    assert before == {**ends, "answered": 0, "late": 0, "refused": {}}, "only of what was released"
    results[0]["report_count"] = 3
    (lost,) = report(journals, results, [], [recipe])["mismatches"]
    assert (lost["cause"], lost["count"]) == ("lost", 1), "a wrong clock excuses no answer that was sent"


def buckets(*estimates: float) -> list[dict[str, Any]]:
    labels = ("0", "1", "2 or more")
    return [{"label": label, "estimate": one, "stderr": 1.0} for label, one in zip(labels, estimates, strict=True)]


async def journalled(path: Path, recipe: Recipe, state: State, detail: str = "") -> None:
    """Have the journal of a device say that it met the recipe."""
    store = await open_store(load_config(path, AgentConfig))
    try:
        start = State.SCHEDULED if state in {State.SENT, State.EXPIRED, State.FAILED} else state
        await store.decide(Entry(recipe.hash, recipe.name, start, NOW))
        if start is not state:
            await store.update(Entry(recipe.hash, recipe.name, state, NOW, detail))
    finally:
        await store.close()


def test_devices_join_leave_and_start_again_as_files(layout: Layout, tmp_path: Path) -> None:
    devices = devices_of(layout, tmp_path)
    entropy = SeededEntropy(4)
    assert [len(list(host.iterdir())) for host in devices.hosts] == [3, 2]
    assert [folder.name for folder in devices.single] == ["0", "1"]
    assert [folder.name for folder in devices.hosted] == ["2", "3", "4", "5", "6"]
    load_config(devices.hosted[0] / CONFIG_NAME, AgentConfig)
    devices.join(layout, 3, entropy, NOW)
    assert sorted(len(list(host.iterdir())) for host in devices.hosts) == [4, 4]
    devices.leave(4, entropy)
    gone = [path.parent for path in devices.configs if path.name == LEFT]
    assert (len(gone), devices.present, len(devices.configs)) == (4, 6, 10)
    assert LEFT not in CONFIG_NAMES, "a host takes no notice of it"
    before = stamps(devices)
    devices.restart(2, entropy)
    after = stamps(devices)
    assert sum(after[folder] != before[folder] for folder in after) == 2
    devices.join(layout, 1, entropy, NOW)
    assert max(int(path.parent.name) for path in devices.configs) == 10, "no number is given twice"
    with pytest.raises(UsageError, match="9 devices cannot leave: there are 7"):
        devices.leave(9, entropy)
    devices.populate(layout, 7, 2, 3, PLAIN, entropy, NOW)
    assert devices.present == 7, "those that are there stay, and none is too many"


def test_every_device_gets_its_examples_however_it_runs_and_so_do_more_after_another_start(
    layout: Layout, tmp_path: Path
) -> None:
    file, stack = tmp_path / "digits.csv", tmp_path / "stack"
    file.write_text("".join(f"{number},0\n" for number in range(20)))
    for agents, wanted in ((AGENTS, AGENTS), (9, 9), (3, 9)):
        devices = devices_of(layout, Devices.of(stack).folder, agents)
        assert devices.present == wanted
        found = dealt_to(file, Mode.PROCESSES, stack, agents)
        assert found is not None
        give_examples(devices.folders, found)
        held = [CsvSource(CsvSourceConfig(kind="csv", path=folder / DATA_NAME)) for folder in devices.folders]
        cells = [str(source.value("digits")).split(",")[::2] for source in held]
        assert cells == [[str(number) for number in range(first, 20, wanted)] for first in range(wanted)]
        assert all(source.value("mdvis") is not None for source in held)


def test_examples_are_dealt_before_there_are_devices_and_refused_where_none_can_train(tmp_path: Path) -> None:
    file = tmp_path / "digits.csv"
    file.write_text("1,0\n" * 7)
    found = dealt_to(file, Mode.PROCESSES, tmp_path / "none", 7)
    assert found is not None
    assert len(found.cells) == 7
    with pytest.raises(UsageError, match="7 examples for 8 devices"):
        dealt_to(file, Mode.NAMESPACES, tmp_path / "none", 8)
    with pytest.raises(UsageError, match="devices in containers train nothing"):
        dealt_to(file, Mode.CONTAINERS, tmp_path / "none", 7)
    assert dealt_to(None, Mode.CONTAINERS, tmp_path / "none", 7) is None


def test_the_page_counts_the_services_that_status_counts(layout: Layout) -> None:
    assert layout.options.witnesses == WITNESSES
    page = (Path(__file__).parents[2] / "docs" / "staging.md").read_text()
    assert re.findall(r"(\d+) of (\d+) services", page) == [(str(len(layout.services)),) * 2]


def test_some_devices_have_wrong_clocks_and_some_listen_to_the_broker(tmp_path: Path) -> None:
    options = StackOptions(epoch_seconds=600, tls=True, witnesses=2)
    layout = create_layout(tmp_path / "stack", options, SeededEntropy(6), NOW)
    natures = Natures(clock_skew=90, skewed=0.4, driven_by=Driver.BOTH)
    with pytest.raises(UsageError, match="devices driven by both need a broker; start with --with mosquitto"):
        devices_of(layout, tmp_path / "none", 10, natures)
    remember(layout.state_dir / BROKER, 1883)
    write_secret(layout.configs["leader"].parent / BROKER_FILE, b"mqtts://127.0.0.1:1883")
    devices = devices_of(layout, tmp_path / "devices", 10, natures)
    configs = [load_config(path, AgentConfig) for path in devices.configs]
    errors = Counter(config.clock_error_seconds for config in configs)
    assert errors == {90.0: 2, -90.0: 2, 0.0: 6}, "as many ahead as behind"
    heard = [config for config in configs if config.announcements is not None]
    assert len(heard) == 5
    for config in heard:
        assert config.announcements is not None
        assert (config.announcements.port, config.announcements.tls) == (1883, True)
        assert config.announcements.tls_ca is not None
        assert config.announcements.tls_ca.is_file()
        assert config.timing.poll_seconds == 60
        check_broker(config, parse_policy(layout.policy_path.read_bytes(), layout.policy_path.name))
    assert all(config.timing.poll_seconds == 40 for config in configs if config not in heard)
    devices.join(layout, 5, SeededEntropy(7), NOW)
    joined = [load_config(path, AgentConfig) for path in devices.configs[10:]]
    assert sum(bool(config.clock_error_seconds) for config in joined) == 2, "those that join are alike"
    (devices.folder / "natures.json").write_text('{"clock_skew": 5}')
    with pytest.raises(UsageError, match="wrong clocks need both"):
        natures_in(devices.folder)


def stamps(devices: Devices) -> dict[Path, int]:
    return {folder: (folder / CONFIG_NAME).stat().st_mtime_ns for folder in (*devices.hosted, *devices.single)}


async def until(found: Callable[[], bool]) -> None:
    for _ in range(6000):
        if found():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not happen")


class FakeChild:
    """A process that runs until it is told to stop."""

    made: ClassVar[list[FakeChild]] = []

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self.command, self.log, self.runs = command, log, True
        self.made.append(self)

    def stop(self) -> None:
        self.runs = False


async def test_single_devices_leave_and_start_again_as_their_files_say(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("infra.tools.staging.agents.Child", FakeChild)
    monkeypatch.setattr("infra.tools.staging.agents.WATCH_SECONDS", 0.01)
    devices, news = devices_of(layout, tmp_path), list[str]()
    stays, leaves = (folder / CONFIG_NAME for folder in devices.single)
    children = {path.parent / SINGLE_LOG: FakeChild([], path) for path in (stays, leaves)}
    first = dict(children)
    told = list[int]()
    runners = processes_of(devices, ["within"])
    watched = watch_agents(devices, runners, cast("Any", children), news.append, lambda: told.append(len(children)))
    watching = asyncio.ensure_future(watched)
    await asyncio.sleep(0.05)
    assert children == first
    leaves.rename(leaves.with_name(LEFT))
    os.utime(stays, ns=(1, 1))
    log = stays.parent / SINGLE_LOG
    await until(lambda: list(children) == [log] and children[log] is not first[log])
    await until(lambda: not any(one.runs for one in first.values()))
    fresh = children[log]
    assert fresh.command[0] == "within"
    assert str(stays) in fresh.command
    fresh.stop()
    await until(lambda: bool(news))
    watching.cancel()
    assert news[0].startswith("agents ended: ")
    assert told[-1] == 1


def test_what_hosts_told_last_is_added_up(layout: Layout, tmp_path: Path) -> None:
    devices = devices_of(layout, tmp_path)
    line = {"event": "counts", "working": 2, "changing": 0, "failed": 1, "slots_held": 3, "slots_known": 4}
    for host in devices.hosts:
        told = [{**line, "working": 0}, {**line, "troubles": {"log-trouble": 1}, "entries": {"sent": 2}}]
        host.with_suffix(".log").write_text("".join(json.dumps(one) + "\n" for one in told) + '{"event": "co')
    (devices.single[0] / "agent.log").write_text('{"event": "started"}\n')
    total = count_devices(devices)
    assert (total["hosts"], total["single"], total["devices"], total["working"]) == (2, 2, 7, 5)
    assert count_devices(devices, lambda log: log.name != "host-1.log")["working"] == 3, "one host has ended"
    assert (total["failed"], total["troubles"], total["entries"]) == (2, {"log-trouble": 2}, {"sent": 4})


def test_each_organisation_has_an_address_and_routes_to_those_it_speaks_with(layout: Layout) -> None:
    places = {name: layout.urls[name].rpartition(":")[0] for name in layout.services}
    by_organisation = {organisation_of(name): place for name, place in places.items()}
    assert tuple(sorted(by_organisation)) == tuple(sorted(ORGANISATIONS))
    assert len(set(by_organisation.values())) == len(ORGANISATIONS) == 9
    assert by_organisation["leader"] == f"https://10.77.9.{11 + PLACES.index('leader')}"
    assert neighbours(DEVICES) == ("attester", "relay")
    assert set(neighbours("attester")) == {"issuer", "devices", "console"}
    assert set(neighbours("helper")) == {"analyst", "leader", "console"}
    for place in PLACES:
        assert all(place in neighbours(other) for other in neighbours(place)), "answers come back"
    assert CONSOLE not in neighbours(DEVICES)
    assert set(namespaces_of(layout.state_dir)) == {*ORGANISATIONS, "devices", "hub"}
    assert network_of(layout.state_dir) == network_of(layout.state_dir)


def test_the_document_names_the_services_of_every_organisation(layout: Layout) -> None:
    document = describe(layout, Mode.PROCESSES, [service_part(layout, name) for name in layout.services], AGENTS_OF)
    assert document["mode"] == "processes"
    assert list(document["organisations"]) == list(ORGANISATIONS)
    assert set(document["organisations"]["analyst"]) == {"recipe_server", "gateway", "collector", "admin"}
    assert document["organisations"]["witnesses"] == {name: layout.urls[name] for name in ("witness_1", "witness_2")}
    assert document["agents"] == {"hosts": 2, "single": 2, "devices": 500}


def test_a_stack_with_networks_is_not_started_on_loopback_nor_the_other_way_round(
    layout: Layout, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="has its services in networks of their own; choose another --state-dir"):
        open_stack(layout.state_dir, None, network="")
    create_layout(tmp_path / "plain", StackOptions(), SeededEntropy(5), NOW)
    with pytest.raises(UsageError, match="has its services on loopback; choose another --state-dir"):
        open_stack(tmp_path / "plain", None, network="10.77.1")
