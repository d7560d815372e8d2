"""Agents that share a process: each decides as it does alone, and what becomes of one is nobody else's affair."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from client_agent import host as hosting
from client_agent.agent import Agent
from client_agent.common import Common
from client_agent.config import LOCK, AgentConfig
from client_agent.host import AgentHost, Counts
from client_agent.journal import Entry, Fact, Prefetch
from client_agent.runner import DATABASE, MARK, open_agent
from client_agent.store import SqlAgentStore
from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from infra.stacks.agents import provision_agents
from infra.stacks.new_layout import create_layout
from infra.stacks.options import StackOptions
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.ports import HttpResponse, Transport
from tacit.recipe.policy import Policy
from tacit.service.base.config_files import load_config
from tacit.service.base.secret_files import write_secret
from tacit.tokens.software_root import SoftwareRoot
from tests.http.agent_world import KIT, World, give_token, leaves_of

DEVICES = 8
SOMETIMES = KIT.recipe(min_batch_size=200)


class Wire:
    """The world's network; what was sent once is not sent again, but answered as it was, and ``only_known`` refuses all
    else."""

    def __init__(self, world: World) -> None:
        self._network, self._answers, self.only_known = (
            world.network,
            dict[tuple[str, str, bytes], HttpResponse](),
            False,
        )
        self.sent = Counter[tuple[str, str, bytes]]()

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> HttpResponse:
        key = method, url, body
        self.sent[key] += 1
        if key not in self._answers:
            assert not self.only_known, "a request that no device alone has sent"
            self._answers[key] = await self._network.request(method, url, headers=headers, body=body)
        return self._answers[key]


class Network(Common):
    """What agents have in common, on a network in memory."""

    def __init__(self, wire: Transport) -> None:
        super().__init__()
        self._wire = wire

    async def transport(self, config: AgentConfig) -> Any:
        return self._wire

    def policy(self, path: Path, read: Callable[[Path], bytes]) -> Policy:
        return KIT.policy


async def device(world: World, folder: Path, root: SoftwareRoot, value: int) -> AgentConfig:
    write_secret(folder / "identity.pem", root.issue(folder.name, OsEntropy(), world.clock.now()).to_pem())
    (folder / "data.csv").write_text(f"mdvis\n{value}\n")
    kept = await SqlAgentStore.open(folder / DATABASE)
    await give_token(kept)
    await kept.close()
    return config_at(world, folder)


def config_at(world: World, folder: Path, error: float = 0.0) -> AgentConfig:
    return world.config(
        clock_error_seconds=error,
        state_dir=folder,
        attestation={"identity": folder / "identity.pem"},
        source={"kind": "csv", "path": folder / "data.csv"},
    )


async def lived(
    world: World, folder: Path, common: Common, error: float = 0.0
) -> tuple[list[Entry], list[Prefetch], list[bytes], float]:
    """What one device has decided, holds, believes, and when it would come back, after some steps of its life."""
    entropy, config = SeededEntropy(folder.name.encode()), config_at(world, folder, error)
    async with open_agent(config, world.clock, common=common, entropy=entropy) as (agent, store):
        due = [await agent.step() for _ in range(3)]
        return await store.entries(), await store.prefetches(), [await store.fact(fact) for fact in Fact], due[-1]


async def test_hosted_devices_decide_to_the_byte_what_each_decides_alone(world: World, tmp_path: Path) -> None:
    world.log.add(*leaves_of(SOMETIMES))
    root = SoftwareRoot.create(SeededEntropy(b"root"), world.clock.now())
    for number in range(DEVICES):
        await device(world, tmp_path / "alone" / str(number), root, number)
    shutil.copytree(tmp_path / "alone", tmp_path / "hosted")
    names, wire, alone = [str(number) for number in range(DEVICES)], Wire(world), []
    for name in names:
        async with Network(wire) as own:
            alone.append(await lived(world, tmp_path / "alone" / name, own))
    sent_alone, wire.sent, wire.only_known = wire.sent, Counter(), True
    async with Network(wire) as common:
        hosted = await asyncio.gather(*(lived(world, tmp_path / "hosted" / name, common) for name in names))
    assert hosted == alone
    assert wire.sent == sent_alone, "servers are asked for the same, by each"
    assert {entry.state.value for entries, *_ in alone for entry in entries} >= {"scheduled", "not-sampled"}
    times = [entry.send_at for entries, *_ in alone for entry in entries if entry.report]
    assert len(set(times)) == len(times) > 1, "no two of a host are planned for one moment"
    reports = [entry.report for entries, *_ in alone for entry in entries if entry.report]
    assert len(set(reports)) == len(reports)


async def test_a_clock_wrong_within_a_minute_changes_no_byte_and_no_wrong_clock_leads_into_another_interval(
    world: World, tmp_path: Path
) -> None:
    world.log.add(*leaves_of(SOMETIMES))
    root = SoftwareRoot.create(SeededEntropy(b"root"), world.clock.now())
    for number in range(4):
        await device(world, tmp_path / "right" / str(number), root, number)
    world.clock.jump(150)
    wire, interval = Wire(world), SOMETIMES.interval

    async def with_error(error: float) -> tuple[list[Entry], Counter[tuple[str, str, bytes]]]:
        folder, wire.sent = tmp_path / f"{error}", Counter()
        shutil.copytree(tmp_path / "right", folder)
        async with Network(wire) as common:
            lives = [await lived(world, folder / str(number), common, error) for number in range(4)]
        return [entry for life in lives for entry in life[0]], wire.sent

    right, sent = await with_error(0.0)
    assert {entry.state.value for entry in right} == {"scheduled", "not-sampled"}
    wire.only_known = True
    for error in (25.0, -25.0):  # of the same minute, which the gateway reads in every request
        entries, wrong = await with_error(error)
        assert wrong == sent, "servers are asked for the same, to the byte"
        assert [(one.state, one.report, one.send_at) for one in entries] == [
            (one.state, one.report, one.send_at) for one in right
        ]
    wire.only_known = False
    for error in (2.0 * interval.duration, -2.0 * interval.duration):
        entries, _ = await with_error(error)
        assert all(interval.start <= one.send_at <= interval.end for one in entries if one.report), "by its own clock"
        assert not [one for one in entries if one.attempts], "nobody sends before its own clock says so"
        if error > 0:
            assert not [one for one in entries if one.report or one.charged_epsilon], "after it nobody is asked"


# A host of real folders, whose stack does not run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    now = SystemClock().now()
    layout = create_layout(tmp_path, StackOptions(epoch_seconds=60), OsEntropy(), now)
    paths = provision_agents(layout, 4, SeededEntropy(1), now)
    return paths[0].parents[1]


async def until(
    host: AgentHost, wanted: Callable[[Counts], bool], look: Callable[[], Awaitable[None]] | None = None
) -> Counts:
    async with asyncio.timeout(60):
        while True:
            if look is not None:
                await look()
            counts = await host.counts()
            if wanted(counts):
                return counts
            await asyncio.sleep(0.01)


class Hosted:
    """A host whose scans the test asks for."""

    def __init__(self, folder: Path) -> None:
        self.clock, self.told, self.common = SimClock(1_800_000_000.0), list[tuple[str, str]](), Common()
        self.host = AgentHost(folder, self.clock, lambda name, why: self.told.append((name, why)))

    async def until(self, wanted: Callable[[Counts], bool]) -> Counts:
        return await until(self.host, wanted, lambda: self.host.scan(self.common))


@pytest.fixture
async def hosted(folder: Path) -> AsyncIterator[Hosted]:
    hosted = Hosted(folder)
    async with hosted.common:
        yield hosted
        await hosted.host._end()


async def test_folders_come_and_go_and_a_bad_one_stops_nobody(folder: Path, hosted: Hosted) -> None:
    good = (folder / "1" / "agent.json").read_text()
    (folder / "1" / "agent.json").write_text("{")
    (folder / "2" / "identity.pem").chmod(0o644)
    (folder / "notes").mkdir()
    (folder / "readme.txt").write_text("no device")
    counts = await hosted.until(lambda one: one.working == 2 and one.failed == 2)
    assert (counts.devices, counts.troubles) == (4, {"log-trouble": 2})
    assert [name for name, _ in sorted(hosted.told)] == ["1", "2"]
    assert all(why and "\n" not in why for _, why in hosted.told)
    (folder / "1" / "agent.json").write_text(good)
    (folder / "2" / "identity.pem").chmod(0o600)
    await hosted.until(lambda one: one.working == 3 and one.failed == 1)
    hosted.clock.jump(hosting.RETRY_SECONDS)
    await hosted.until(lambda one: one.working == 4 and one.failed == 0)
    shutil.rmtree(folder / "0")
    (folder / "3" / "agent.json").rename(folder / "3" / "aside.json")
    counts = await hosted.until(lambda one: one.devices == 2)
    assert counts.working == 2
    assert not (folder / "0").exists(), "nothing is made where a device was taken away"
    (folder / "3" / "aside.json").rename(folder / "3" / "agent.json")
    await hosted.until(lambda one: one.working == 3)
    assert len(hosted.told) == 2


async def test_a_device_is_at_work_in_one_place(folder: Path, hosted: Hosted) -> None:
    await hosted.until(lambda one: one.working == 4)
    other = Hosted(folder)
    async with other.common:
        counts = await other.until(lambda one: one.failed == 4)
        await other.host._end()
    assert counts.working == 0
    assert {why.rpartition(": ")[2].partition(" (")[0] for _, why in other.told} == {"another agent is at work here"}


async def test_a_device_whose_disk_breaks_fails_alone_and_comes_back(
    folder: Path, hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    original: Callable[[Agent], Awaitable[float]] = Agent.prefetch

    async def prefetch(self: Agent) -> float:
        if self._config.state_dir.name == "2" and breaks:
            raise OSError(5, "a name that nobody should read")
        return await original(self)

    breaks = [True]
    monkeypatch.setattr(Agent, "prefetch", prefetch)
    await hosted.until(lambda one: one.working == 3 and one.failed == 1)
    ((name, why),) = hosted.told
    assert (name, why) == ("2", "its files: OSError")
    breaks.clear()
    hosted.clock.jump(hosting.RETRY_SECONDS)
    await hosted.until(lambda one: one.working == 4)


async def test_a_host_ends_all_its_devices_and_leaves_whole_folders(folder: Path) -> None:
    clock, stop = SystemClock(), asyncio.Event()
    host = AgentHost(folder, clock, lambda _name, why: pytest.fail(why))
    running = asyncio.ensure_future(host.run(stop))
    await until(host, lambda one: one.working == 4)
    stop.set()
    await running
    for number in range(4):
        names = {path.name for path in (folder / str(number)).iterdir()}
        assert {DATABASE, MARK, LOCK} < names
        assert not any(name.endswith(("-wal", "-shm", ".sock")) for name in names)
    async with open_agent(load_config(folder / "0" / "agent.json", AgentConfig)) as (_, store):
        assert await store.fact(Fact.LOG_TROUBLE)
