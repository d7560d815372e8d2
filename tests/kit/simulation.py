"""The whole system in one process on simulated time: every service real, every fault where a test wants it.

Services run on their own folders and SQLite files, agents on stores in memory; they reach each other through
``InProcessTransport``, each through a link of its own that can lose, repeat or cut what crosses it and keeps a
transcript. Nothing runs in the background: tests move the one clock and step agents and services.

What is left to chance: RSA keys (made once per ``Template``), RSA-PSS salts and ECDSA nonces come from the
operating system. Everything else follows from the seed.
"""

from __future__ import annotations

import contextlib
import copy
import json
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from client_agent.agent import Agent
from client_agent.data.sources import CallableSource
from client_agent.deciding import AgentEnv
from client_agent.learning.learners import Learner
from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.network import Fault, InProcessTransport
from infra.lab.kit.recipes import survey_from
from infra.stacks.agent_configs import agent_config
from infra.stacks.deployables import deployable
from infra.stacks.layout import Layout, load_layout, signing_key_of
from infra.stacks.local import with_log
from infra.stacks.new_layout import create_layout
from infra.stacks.options import OPERATORS, StackOptions
from tacit.adapters.databases.recovery import Recovery
from tacit.aggregator.parties import PARTIES
from tacit.errors import Refusal
from tacit.messages import Report
from tacit.methods.estimators.registry import estimator_of
from tacit.ports import HttpResponse, Observer, TransportError
from tacit.recipe import derive
from tacit.recipe.encoder_specs import Categories
from tacit.recipe.model import Question, Recipe, TokenSlot
from tacit.recipe.policy import Policy, parse_policy
from tacit.recipe.series import Series
from tacit.recipe.writing.builder import propose
from tacit.roles.aggregator import Party
from tacit.service.app import DRIVERS, SERVICE_ENV, ServiceEnv
from tacit.task import Task
from tacit.tlog.leaves import LeafType, sign_leaf
from tacit.tokens.attestation import SoftwareDevice
from tacit.tokens.software_root import SoftwareRoot
from tests.kit.device import Device, JournalKeeper
from tests.kit.oracles.sealing import open_input_share
from tests.kit.wire import Wire

EPOCH_SECONDS = 7200
EPOCH = 240_000
START = EPOCH * EPOCH_SECONDS + 60.0
"""A minute into an epoch: devices plan its tokens within the next 1785 seconds."""
INTERVAL_START, INTERVAL_SECONDS = 1860, 3600
"""Of the usual recipe, in seconds from the beginning of the epoch, and seconds."""
OPTIONS = StackOptions(epoch_seconds=EPOCH_SECONDS, slots_per_epoch=2, batch_floor=2, poll_seconds=300.0)
LIMITS = {"group_delay": 0.0, "min_job_size": 1}
"""The Leader's, where the defaults would wait for time to pass by itself."""
FOUR = Question(
    text="Which of four?",
    metric="four",
    encoder=Categories(kind="categories", categories=("a", "b", "c", "d")),
    statistic="histogram",
)
DEVICE_ADDRESS = "203.0.113.77"
"""Where every device is seen to come from."""
AGENTS = "agents"
"""The link of all devices together; each service has one under its own name."""


_CAPPED = ("aggregator", "aggregator_with_relay", "half_batch", "half_batch_with_relay")
HIGH_CAPS = {f"max_epsilon_{one}": "9" for one in _CAPPED}
"""Caps under which a handful of devices may be asked something that they answer with little noise."""


def relax(folder: Path, **members: Any) -> None:
    """Change the policy of every party of the stack in ``folder``; its account is made large."""
    for path in (folder / "policy.json", *folder.glob("*/config.json")):
        body = json.loads(path.read_text())
        policy = body if path.name == "policy.json" else body.get("policy")
        if policy is not None:
            policy.update(members)
            policy["accounts"]["default"]["epsilon"] = "100"
            path.write_text(json.dumps(body))


@dataclass(frozen=True)
class Template:
    """A stack with keys and published directories, made once and copied for every simulation."""

    folder: Path

    @classmethod
    async def make(cls, folder: Path, *, options: StackOptions = OPTIONS, now: float = START) -> Template:
        """Lay out and run a new stack until keys and directories are in the log."""
        create_layout(folder, options, SeededEntropy(b"layout"), now)
        async with Simulation(folder, now=now).running() as simulation:
            await simulation.settle("issuer", "gateway", "recipe_server", "attester")
        return cls(folder)

    @classmethod
    async def extend(
        cls, folder: Path, recipes: Callable[[Simulation], Iterable[Recipe]], *, now: float = START
    ) -> Template:
        """Run the stack of ``folder`` until ``recipes`` are active in it."""
        async with Simulation(folder, now=now).running() as simulation:
            for recipe in recipes(simulation):
                await simulation.publish(recipe)
        return cls(folder)

    def copy(self, to: Path) -> Path:
        """A fresh copy; returns ``to``."""
        shutil.copytree(self.folder, to)
        return to


class Simulation:
    """One stack of ``folder`` (a layout), with devices. ``wire`` is the transcript of everything that crossed;
    ``learners``: what the applications of devices train with, by the device's name."""

    def __init__(
        self, folder: Path, *, seed: bytes | int = 0, now: float = START, observer: Observer | None = None
    ) -> None:
        self.layout: Layout = load_layout(folder)
        self.policy: Policy = parse_policy(self.layout.policy_path.read_bytes(), self.layout.policy_path.name)
        self.clock = SimClock(now)
        self.entropy = SeededEntropy(seed).child("simulation")
        self.network = InProcessTransport()
        self.wire = Wire(self.network, self.layout.urls, self.clock, AGENTS, DEVICE_ADDRESS)
        self.apps: dict[str, web.Application] = {}
        self.devices: list[Device] = []
        self.learners: dict[str, Learner] = {}
        self.observer = observer
        self._starts = 0
        self._frozen: dict[str, Path] = {}

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Simulation]:
        """All services, while the block runs."""
        try:
            for name in self.layout.services:
                await self.start(name)
            yield self
        finally:
            await self.network.close()

    # Services

    async def start(self, name: str, recovery: Recovery = Recovery.REFUSE, **changes: Any) -> None:
        """Start a service on its folder; ``changes`` replace members of its configuration."""
        self._starts += 1
        service = deployable(name)
        config = service.load(self.layout.configs[name])
        if name == "leader":
            limits = config.limits.model_copy(update=LIMITS)  # type: ignore[attr-defined]
            config = config.model_copy(update={"limits": limits})
        elif name in {"gateway", "analyzer"}:
            config = config.model_copy(update={"group_delay": 0.0})
        entropy = self.entropy.child(f"{name} {self._starts}")
        transport = self.wire.transport(name)
        deps = ServiceEnv(self.clock, entropy, transport, self.observer, background=False, recovery=recovery)
        app = service.create_app(config.model_copy(update=changes), deps)
        await self.network.mount(self.layout.urls[name], app)
        self.apps[name] = app

    async def stop(self, name: str) -> None:
        """End a service in good order."""
        await self.network.unmount(self.layout.urls[name])

    async def restart(self, name: str, **changes: Any) -> None:
        """End a service in good order and start it again."""
        await self.stop(name)
        await self.start(name, **changes)

    def freeze(self, name: str) -> None:
        """Note what a service has on disk at this moment; the next ``kill`` falls back to it."""
        folder = self.layout.configs[name].parent
        frozen = folder.parent / f"{name}.frozen"
        shutil.rmtree(frozen, ignore_errors=True)
        shutil.copytree(folder, frozen, ignore=shutil.ignore_patterns("*-shm"))
        self._frozen[name] = frozen

    async def kill(self, name: str) -> None:
        """End a service as SIGKILL does: whatever it would still do on its way out is undone on disk."""
        if name not in self._frozen:
            self.freeze(name)
        await self.stop(name)
        folder = self.layout.configs[name].parent
        shutil.rmtree(folder)
        self._frozen.pop(name).rename(folder)

    async def crash(self, name: str) -> None:
        """``kill`` a service and start it again on what it had on disk."""
        await self.kill(name)
        await self.start(name)

    async def step(self, *names: str) -> int:
        """One step of every driver of the named services (default: all); returns how much moved."""
        moved = 0
        for name in with_log(self.layout, names):
            for driver in self.apps[name][DRIVERS]:
                with contextlib.suppress(TransportError):
                    moved += await driver.step()
        return moved

    async def settle(self, *names: str, rounds: int = 200) -> None:
        """Step until nothing moves any more."""
        for _ in range(rounds):
            if await self.step(*names) == 0:
                return

    async def ask_time(self) -> None:
        """Let each party of a collection that has not heard from the log since it started read it, as it would at once:
        nothing is closed by one clock alone."""
        for name in ("leader", "helper", "collector"):
            if self.apps[name][SERVICE_ENV].vouched.said() is None:
                with contextlib.suppress(TransportError):
                    await self.apps[name][DRIVERS][0].step()

    async def work(self, rounds: int = 200) -> None:
        """Let leader and collector do all that they can; nobody reads the log any more."""
        await self.ask_time()
        drivers = [driver for name in ("leader", "collector") for driver in self.apps[name][DRIVERS][1:]]
        for _ in range(rounds):
            moved = 0
            for driver in drivers:
                with contextlib.suppress(TransportError):
                    moved += await driver.step()
            if not moved:
                return

    def break_next(self, caller: str, callee: str, fault: Fault, path: str = "") -> None:
        """One fault on the next exchange from ``caller`` (a service, or ``AGENTS``) to a URL of ``callee`` that holds
        ``path``."""
        self.wire.break_next(caller, callee, fault, path)

    def partition(self, caller: str, callee: str) -> None:
        """From now on nothing from ``caller`` reaches ``callee``."""
        self.wire.partition(caller, callee)

    def heal(self) -> None:
        """End every fault and partition."""
        self.wire.heal()

    def rows(self, name: str, query: str) -> list[tuple[Any, ...]]:
        """What a service's database says, read from its file."""
        path = next(self.layout.configs[name].parent.glob("*.sqlite3"))
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            return connection.execute(query).fetchall()

    # Recipes

    def slot(self, number: int = 0, epoch: int = EPOCH) -> TokenSlot:
        """A slot of the stack's issuer."""
        return TokenSlot(issuer=OPERATORS["issuer"], epoch=epoch, slot=number)

    def recipe(self, **options: Any) -> Recipe:
        """A recipe of this stack: by default every device (q = 1) answers one of four categories, B = 6.
        ``options`` are those of ``survey_from``."""
        defaults: dict[str, Any] = {
            "name": "four",
            "question": FOUR,
            "population": 8,
            "rate": Decimal(1),
            "min_batch_size": 6,
            "token": self.slot(),
            "start": EPOCH * EPOCH_SECONDS + INTERVAL_START,
            "duration": INTERVAL_SECONDS,
        }
        return propose(survey_from(**{**defaults, **options}), self.layout.parties)

    async def post_recipe(self, recipe: Recipe) -> HttpResponse:
        """Sign the recipe as the stack's analyst and hand it to the log."""
        return await self._post_leaf(LeafType.RECIPE, recipe.body(), recipe.parties.analyst.operator)

    async def post_series(self, series: Series) -> HttpResponse:
        """Sign the series as the stack's analyst and hand it to the log."""
        return await self._post_leaf(LeafType.SERIES, series.body(), series.probe.parties.analyst.operator)

    async def _post_leaf(self, kind: LeafType, body: Mapping[str, Any], signer: str) -> HttpResponse:
        leaf = sign_leaf(kind, body, signer, signing_key_of(self.layout))
        url = f"{self.layout.urls['recipe_server']}/v1/leaves"
        return await self.network.request("POST", url, headers={"content-type": "application/json"}, body=leaf.encode())

    async def publish(self, recipe: Recipe) -> None:
        """Log the recipe and let both aggregators opt in. Raises ``Refusal``."""
        answer = await self.post_recipe(recipe)
        if answer.status not in (200, 201):
            raise Refusal("recipe-publication", answer.body.decode("utf-8", "replace"))
        for _ in range(3):
            await self.step("leader", "helper", "collector")

    def party(self, name: str, recipe: Recipe) -> Party:
        """What an aggregator holds for an active recipe. Raises ``LookupError``."""
        found = self.apps[name][PARTIES].find(derive.task_id(recipe))
        if found is None:
            raise LookupError(f"the {name} does not serve the recipe")
        return found

    def serves(self, recipe: Recipe) -> bool:
        """Whether both aggregators have it as an active recipe."""
        return all(self.apps[name][PARTIES].find(derive.task_id(recipe)) for name in ("leader", "helper"))

    def task(self, recipe: Recipe) -> Task:
        """The task of an active recipe."""
        return self.party("leader", recipe).task

    def measurement(self, recipe: Recipe, report: Report) -> list[int]:
        """What a report says: both shares opened with both aggregators' keys, as nobody else could."""
        vdaf, task = self.task(recipe).vdaf, self.task(recipe)
        metadata = report.report_metadata
        states, messages = [], []
        for agg_id, (name, sealed) in enumerate(
            (("leader", report.leader_encrypted_input_share), ("helper", report.helper_encrypted_input_share))
        ):
            party = self.party(name, recipe)
            opened = open_input_share(task, party.role, party.key_pair, metadata, report.public_share, sealed)
            state, message = vdaf.verify_init(
                party.verify_key,
                task.ctx,
                agg_id,
                None,
                metadata.report_id,
                vdaf.decode_public_share(report.public_share),
                vdaf.decode_input_share(agg_id, opened.payload),
            )
            states.append(state)
            messages.append(message)
        joined = vdaf.verifier_shares_to_message(task.ctx, None, messages)
        shares = [vdaf.verify_next(task.ctx, state, joined) for state in states]
        return [(a + b) % vdaf.field.MODULUS for a, b in zip(*shares, strict=True)]

    # Devices

    def provision(
        self, data: Sequence[Mapping[str, str]], attributes: Sequence[Mapping[str, str]] | None = None
    ) -> list[Device]:
        """One more device per member of ``data``, with the attributes in the same place of ``attributes``."""
        own = attributes or [{}] * len(data)
        authority = SoftwareRoot.from_pem(self.layout.device_authority.read_bytes())
        first = len(self.devices)
        for number, row in enumerate(data, start=first):
            name = f"device-{number}"
            entropy = self.entropy.child(name)
            identity = authority.issue(name, entropy, self.clock.now())
            self.devices.append(self._device(name, JournalKeeper(), identity, dict(row), dict(own[number - first])))
        return self.devices[first:]

    def adopt(self, devices: Sequence[Device]) -> list[Device]:
        """Devices of another simulation of the same template, on copies of their stores."""
        self.devices += [
            self._device(one.name, copy.deepcopy(one.store), one.identity, dict(one.data), dict(one.attributes))
            for one in devices
        ]
        return self.devices

    def restart_device(self, number: int) -> None:
        """End a device's agent and start it again on its store."""
        old = self.devices[number]
        self._starts += 1
        self.devices[number] = self._device(old.name, old.store, old.identity, old.data, old.attributes)

    def _device(
        self,
        name: str,
        store: JournalKeeper,
        identity: SoftwareDevice,
        data: dict[str, str],
        attributes: dict[str, str],
    ) -> Device:
        entropy = self.entropy.child(f"{name} {self._starts}")
        transport = self.wire.transport(name, AGENTS)
        unused = {"kind": "csv", "path": Path("unused.csv")}
        folder = self.layout.state_dir / "devices"
        config = agent_config(self.layout, folder, unused, staged=True).model_copy(update={"attributes": attributes})
        deps = AgentEnv(self.clock, entropy, transport, self.learners.get(name))
        agent = Agent(config, self.policy, deps, store, CallableSource(data.get), identity)
        return Device(name, agent, store, identity, data, attributes)

    async def step_agents(self) -> None:
        """Step every device: each does what is due."""
        for device in self.devices:
            await device.agent.step()

    async def live(self, until: float, *, pieces: int = 4) -> None:
        """Let time pass until ``until`` in ``pieces`` equal parts; after each, agents and services do what is due."""
        length = max(0.0, until - self.clock.now()) / pieces
        for _ in range(pieces):
            self.clock.jump(length)
            await self.step_agents()
            await self.work()

    # Collection

    async def operator(self, name: str, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """One call of a service's operator API. Raises ``Refusal`` with the problem document."""
        token = self.layout.operator_token(name)
        answer = await self.network.request(
            method,
            self.layout.urls[name] + path,
            headers={"authorization": f"Bearer {token}", "content-type": "application/json"},
            body=b"" if body is None else json.dumps(body).encode(),
        )
        if answer.status >= 400:
            raise Refusal("operator-call", answer.body.decode("utf-8", "replace"))
        return json.loads(answer.body)

    async def status(self, name: str, recipe: Recipe) -> dict[str, Any]:
        """An aggregator's counts for a recipe."""
        found: dict[str, Any] = await self.operator(name, "GET", f"/v1/tasks/{self.task(recipe).task_id_text}/status")
        return found

    async def collect(self, recipe: Recipe, *, attempts: int = 20) -> dict[str, Any]:
        """Ask for the recipe's next batch and work until it is released or refused; returns the collection."""
        found: dict[str, Any] = await self.operator(
            "collector", "POST", "/v1/collections", {"recipe_hash": recipe.hash_text}
        )
        for _ in range(attempts):
            await self.work()
            found = await self.operator("collector", "GET", f"/v1/collections/{found['id']}")
            if found["state"] in ("released", "refused"):
                break
            self.clock.jump(61)
        return found

    async def results(self, recipe: Recipe) -> list[dict[str, Any]]:
        """Every released result of a recipe."""
        found = await self.operator("collector", "GET", f"/v1/results/{recipe.hash_text}")
        results: list[dict[str, Any]] = found["results"]
        return results


async def assert_released_as_sent(simulation: Simulation, recipe: Recipe, truth: Sequence[float]) -> dict[str, Any]:
    """Collect the one batch of a recipe that asks everybody: it is what devices sent, and near the truth."""
    collection = await simulation.collect(recipe)
    assert collection["state"] == "released", collection
    (result,) = await simulation.results(recipe)
    reports = [report for device in simulation.devices if (report := device.report(recipe)) is not None]
    sent = [simulation.measurement(recipe, report) for report in reports]
    counts = [sum(column) for column in zip(*sent, strict=True)]
    assert [row["count"] for row in result["buckets"]] == counts
    assert result["report_count"] == len(reports)
    randomizer, design = derive.randomizer_of(recipe), derive.design_of(recipe)
    estimate = estimator_of(randomizer).estimate(counts, len(reports), design)
    assert [row["estimate"] for row in result["buckets"]] == list(estimate.values)
    assert [row["stderr"] for row in result["buckets"]] == pytest.approx(list(estimate.stderrs))
    expected = estimator_of(randomizer).expected_stderrs(truth, len(simulation.devices), design)
    for value, true, deviation in zip(estimate.values, truth, expected, strict=True):
        assert abs(value - true) < 4.5 * deviation
    found: dict[str, Any] = result
    return found
