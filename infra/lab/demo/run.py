"""The demo's run: two simulated days of the whole system in under a minute.

Every party is a real service on its own loopback port with its own keys and database, every device a real agent.
Only time is staged: all read one clock that the run moves from hour to hour, so that tokens are fetched through the
day before, reports spread over their interval, and the batch closes when the interval is over.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import ROUND_DOWN, Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from client_agent.deciding import Deps as AgentDeps
from client_agent.journal import State
from client_agent.oblivious import ObliviousClient
from infra.lab.demo.attacks import (
    Thief,
    helper_refusal,
    refused_publication,
    refused_recipe,
    staged_refusals,
)
from infra.lab.demo.dataset import Dataset
from infra.lab.demo.fleet import Device, Fleet
from infra.lab.demo.observer import FollowingObserver
from infra.lab.demo.outside import told_by_a_value_outside
from infra.lab.demo.result import Bucket, DemoResult, Sighting, StagedRefusal
from infra.lab.demo.split_view import refused_split_view
from infra.lab.demo.view import Stages
from infra.lab.kit.reports import BoundToken
from infra.layout import StackOptions, create_layout, signing_key_of
from infra.stack import LocalStack
from tacit.adapters.http import HttpTransport
from tacit.adapters.system import OsEntropy, ShiftedClock, SystemClock
from tacit.aggregator.keys import read_peer_file
from tacit.codec import unb64url
from tacit.errors import Refusal
from tacit.messages import UploadRequest
from tacit.methods.method import plain
from tacit.models.forms.form import Cap
from tacit.models.forms.registry import form_of
from tacit.ohttp import KeyConfig
from tacit.ports import Transport
from tacit.recipe.builder import propose
from tacit.recipe.derive import labels, task_of, vdaf_spec
from tacit.recipe.encoder import encoder_of
from tacit.recipe.model import Categories, Recipe
from tacit.recipe.policy import parse_policy
from tacit.recipe.quantity import exact, in_words
from tacit.recipe.survey import Survey
from tacit.task import Task
from tacit.tlog.leaves import LeafType, SignedLeaf, sign_leaf
from tacit.tokens.binding import PREIMAGE_SIZE, Preimages

if TYPE_CHECKING:
    from infra.lab.demo.crowd import Crowd

DAY, HOUR = 86400, 3600
RATE = Decimal("0.5")
PRECISION = 300
BATCH_FLOOR = 50
DRILL_DEVICES = BATCH_FLOOR - 1
DRILL_METRIC = "drill"
PREFETCH_SLICES, UPLOAD_SLICES = 12, 12
RETRIES, RETRY_SECONDS = 4, 10
"""Further moments before the interval is over, for what a busy machine did not store at once."""
WITNESSES = 2
MAIN_SLOT, DRILL_SLOT = 0, 1
MOST_AGENTS, AGENTS_OF_A_CROWD = 2000, 200
"""Up to so many devices, each is an agent of its own; of more, so many are, and the others are simulated in batches."""
CROWD_JOB, SETTLE_SECONDS = 1000, 2.0
"""Reports in a job of a crowd, and how often jobs are made of what has come."""
MOST_CONTRIBUTIONS = 10_000
"""So many contributions are enough; of more devices, fewer are asked."""
CANDIDATES = 20
"""Devices that are followed one by one; with a rate of 1/2 one of them takes part but for one run in a million."""


@dataclass(frozen=True)
class _Recipes:
    main: Recipe
    drill: Recipe


class DemoRun:
    """One run, stage by stage; ``run`` returns everything that there is to show."""

    def __init__(self, dataset: Dataset, state_dir: Path, stages: Stages) -> None:
        self._dataset = dataset
        self._stages = stages
        self._system = SystemClock()
        self._clock = ShiftedClock(self._system, start=self._system.now() // DAY * DAY + HOUR)
        self._epoch = int(self._clock.now()) // DAY + 2
        self._entropy = OsEntropy()
        self._observer = FollowingObserver(MAIN_SLOT)
        devices = len(dataset.values)
        self._agents = devices if devices <= MOST_AGENTS else AGENTS_OF_A_CROWD
        options = StackOptions(epoch_seconds=DAY, slots_per_epoch=2, batch_floor=BATCH_FLOOR, witnesses=WITNESSES)
        if devices > self._agents:
            options = replace(options, job_size=CROWD_JOB)
        self._layout = create_layout(state_dir, options, self._entropy, self._clock.now())
        self._policy = parse_policy(self._layout.policy_path.read_bytes(), self._layout.policy_path.name)
        self._stack = LocalStack(self._layout, self._clock, self._entropy, self._observer)
        self._seconds: dict[str, float] = {}

    async def run(self) -> DemoResult:
        """Everything, from empty folders to a released histogram."""
        began = time.monotonic()
        async with self._stack.running(), HttpTransport(connections=64) as transport:
            world = AgentDeps(self._clock, self._entropy, transport)
            with self._timed("keys and directories"), self._stages.stage("issuer keys, directories, log", 1):
                await self._stack.settle("issuer", "gateway", "recipe_server", "attester", "relay")
            with self._timed("attacks"), self._stages.stage("a second history of the log, for one device", 1):
                second = await refused_split_view(self._layout, self._policy, world)
            with self._timed("recipe"):
                recipes, understated = await self._publish(transport)
            fleet = await self._devices(world)
            crowd = await self._crowd(recipes.main, world)
            await self._tokens(fleet)
            await self._decide(fleet)
            followed = await self._pick_followed(fleet, recipes.main)
            await self._uploads(fleet, crowd, recipes, followed)
            with self._timed("attacks"):
                refusals = await self._attacks(fleet, recipes, transport)
            values = self._outside(), next(value for value in self._dataset.values if value.strip())
            refusals.append(await told_by_a_value_outside(fleet.devices[-1], recipes.main, *values, self._entropy))
            result = await self._collect(recipes.main, transport)
            if result.get("state") != "released":
                raise Refusal("collection", f"the collection ended as {result.get('state')}: {result.get('detail')}")
            sightings = self._observer.sightings(followed)
            self._seconds["all"] = time.monotonic() - began
            attempts = [understated, second, *refusals]
            return await self._result(fleet, crowd, recipes.main, sightings, attempts, transport)

    # Stages

    async def _publish(self, transport: Transport) -> tuple[_Recipes, StagedRefusal]:
        recipes = _Recipes(self._main_recipe(), self._drill_recipe())
        understated = _understate(recipes.main)
        policies = {
            "recipe server": self._policy,
            "leader": self._policy,
            "helper": self._policy,
            "every device": self._policy,
        }
        refusal = refused_recipe(understated, policies, self._clock.now())
        await refused_publication(self._signed(understated), self._layout.urls["recipe_server"], transport)
        with self._stages.stage("recipe: signed, logged, leader and helper opt in", 4) as tick:
            for recipe in (recipes.main, recipes.drill):
                await self._post_leaf(self._signed(recipe), transport)
                tick()
            for _ in range(3):
                await self._stack.step("leader", "helper", "collector")
            tick(2)
        return recipes, refusal

    async def _devices(self, world: AgentDeps) -> Fleet:
        metric = self._dataset.question.metric
        data = [{metric: value} for value in self._values()[: self._agents]]
        for row in data[:DRILL_DEVICES]:
            row[DRILL_METRIC] = "yes"
        stricter = self._policy.model_copy(update={"min_batch_size": BATCH_FLOOR + 1})
        policies = [self._policy if number < DRILL_DEVICES else stricter for number in range(len(data))]
        with self._timed("devices"), self._stages.stage("devices: attestation identities", len(data)) as tick:
            fleet = Fleet.make(self._layout, policies, data, world, tick)
        self._jump_to((self._epoch - 1) * DAY)
        await self._stack.settle("recipe_server")
        with self._timed("log"), self._stages.stage("devices: log fetched by relay, verified", len(data)) as tick:
            await fleet.sync(tick)
        return fleet

    async def _crowd(self, recipe: Recipe, world: AgentDeps) -> Crowd | None:
        """The other devices of a large data set: their coins, tokens and reports, made the day before."""
        values = self._values()[self._agents :]
        if not values:
            return None
        from infra.lab.demo.crowd import Crowd

        encoder = encoder_of(recipe.question)
        answers = [encoder.encode(value if value.strip() else None) for value in values]
        crowd = Crowd(self._layout, Fleet.config(self._layout), self._policy, answers)
        name, total = "other devices: coins, tokens, reports", round(recipe.rate * len(values))
        with self._timed("crowd"), self._stages.stage(name, total) as tick:
            await crowd.prepare(recipe, world, tick)
        return crowd

    async def _tokens(self, fleet: Fleet) -> None:
        """The day before: every device fetches the token of every slot at its own random time."""
        total = self._layout.options.slots_per_epoch * len(fleet.devices)
        day = (self._epoch - 1) * DAY
        with self._timed("tokens"), self._stages.stage("devices: one blind token per slot", total) as tick:
            for piece in range(1, PREFETCH_SLICES + 1):
                self._jump_to(day + piece * DAY // PREFETCH_SLICES - 1)
                for number in range(CANDIDATES):
                    with self._observer.following(number):
                        await fleet.prefetch_due(tick, only=number)
                await fleet.prefetch_due(tick)

    async def _pick_followed(self, fleet: Fleet, recipe: Recipe) -> int:
        """The first candidate whose coin said yes; its report is followed through the aggregators too."""
        for number in range(CANDIDATES):
            entry = await fleet.devices[number].entry(recipe.hash)
            if entry is not None and entry.state is State.SCHEDULED:
                report = UploadRequest.decode(entry.report).reports[0]
                self._observer.follow_report(report.report_metadata.report_id.hex())
                return number
        return 0

    async def _decide(self, fleet: Fleet) -> None:
        name = "devices: verify, coin, randomise, shard"
        with self._timed("coins"), self._stages.stage(name, len(fleet.devices)) as tick:
            await fleet.consider(tick)

    async def _uploads(self, fleet: Fleet, crowd: Crowd | None, recipes: _Recipes, followed: int) -> None:
        """The interval: reports go out at their random times, leader and helper aggregate behind them."""
        scheduled = await fleet.count(recipes.main.hash, State.SCHEDULED)
        scheduled += await fleet.count(recipes.drill.hash, State.SCHEDULED)
        interval = recipes.main.interval
        moments = [interval.start + piece * interval.duration // UPLOAD_SLICES for piece in range(1, UPLOAD_SLICES)]
        moments += [interval.end - left * RETRY_SECONDS for left in range(RETRIES, 0, -1)]
        name = "uploads by relay; leader and helper verify"
        with self._timed("uploads"), self._stages.stage(name, scheduled) as tick:
            for moment in moments:
                self._jump_to(moment)
                with self._observer.following(followed):
                    await fleet.send_due(tick, only=followed)
                await asyncio.gather(fleet.send_due(tick), self._stack.settle("leader"))
                if crowd is not None and moment == moments[0]:
                    await self._send_crowd(crowd)

    async def _send_crowd(self, crowd: Crowd) -> None:
        """The reports of the others, as fast as the stack takes them, while leader and helper aggregate."""
        with self._stages.stage("other devices: uploads in batches", crowd.sampled) as tick:
            sending = asyncio.ensure_future(crowd.send(self._clock, tick))
            try:
                while not sending.done():
                    await self._stack.settle("leader")
                    await asyncio.wait((sending,), timeout=SETTLE_SECONDS)
            finally:
                sending.cancel()
            await sending

    async def _attacks(self, fleet: Fleet, recipes: _Recipes, transport: Transport) -> list[StagedRefusal]:
        with self._stages.stage("attacks on a staged recipe, collection at B-1", 3) as tick:
            task = task_of(recipes.drill, fleet.devices[0].agent.live.slot_key(recipes.drill))
            client = ObliviousClient(
                transport,
                self._layout.urls["relay"],
                [KeyConfig.decode(unb64url(self._layout.gateway_key_config))],
                self._clock,
                self._entropy,
            )
            spender = await _spender(fleet.devices[:DRILL_DEVICES], recipes.drill)
            unspent = fleet.devices[DRILL_DEVICES : DRILL_DEVICES + 2]
            loot = [await _loot(device, DRILL_SLOT) for device in (spender, *unspent)]
            await Thief(task, client, self._clock, self._entropy).attack(*loot)
            tick()
            self._jump_to(recipes.main.interval.end + 1)
            leader = await self._aggregated(task, transport)
            tick()
            helper = await self._status("helper", task.task_id_text, transport)
            refusals = staged_refusals(leader["rejected_by_cause"], helper["rejected_by_cause"])
            collection = await self._collect(recipes.drill, transport)
            if collection.get("state") != "refused":
                raise Refusal("demo-staged", "a batch of B-1 was released")
            peer = read_peer_file(self._layout.state_dir / "leader" / "peer.json")
            problem = await helper_refusal(task, peer.token, transport)
            text = f"{collection['detail']} ({problem})"
            refusals.append(StagedRefusal(f"a collection at B-1 = {DRILL_DEVICES}", "leader, helper", text))
            return refusals

    async def _aggregated(self, task: Task, transport: Transport) -> dict[str, Any]:
        """The leader's status once it has dealt with every report; a job that failed for a moment is tried again."""
        for _ in range(20):
            await self._stack.settle("leader")
            status = await self._status("leader", task.task_id_text, transport)
            if not status["pending"]:
                break
            self._clock.jump(5)
        return status

    async def _collect(self, recipe: Recipe, transport: Transport) -> dict[str, Any]:
        with self._timed("collection"), self._stages.stage(f"collection of {recipe.name}", 1):
            path = "/v1/collections"
            body = json.dumps({"recipe_hash": recipe.hash_text}).encode()
            collection = await self._operator_call("POST", "collector", path, transport, body)
            for _ in range(100):
                await self._stack.settle("leader", "collector")
                collection = await self._operator_call("GET", "collector", f"{path}/{collection['id']}", transport)
                if collection["state"] in ("released", "refused"):
                    break
                self._clock.jump(5)
            return collection

    async def _result(
        self,
        fleet: Fleet,
        crowd: Crowd | None,
        recipe: Recipe,
        sightings: tuple[Sighting, ...],
        refusals: list[StagedRefusal],
        transport: Transport,
    ) -> DemoResult:
        released = await self._operator_call("GET", "collector", f"/v1/results/{recipe.hash_text}", transport)
        document = released["results"][0]
        task = task_of(recipe, fleet.devices[0].agent.live.slot_key(recipe))
        leader = await self._status("leader", task.task_id_text, transport)
        causes = Counter(leader["rejected_by_cause"])
        truth = self._truth(recipe)
        return DemoResult(
            source=self._dataset.source,
            question=recipe.question.text,
            recipe=_recipe_summary(recipe),
            devices=len(self._dataset.values),
            sampled=await fleet.count(recipe.hash, State.SCHEDULED, State.SENT, State.FAILED, State.EXPIRED)
            + (0 if crowd is None else crowd.sampled),
            accepted=document["report_count"],
            rejected=sum(causes.values()),
            rejected_by_cause=causes,
            privacy=document["privacy"],
            buckets=tuple(
                Bucket(row["label"], truth[row["label"]], row["estimate"], row["stderr"]) for row in document["buckets"]
            ),
            sightings=sightings,
            refusals=tuple(refusals),
            seconds=self._seconds.pop("all"),
            stages=self._seconds,
        )

    # Pieces

    def _main_recipe(self) -> Recipe:
        question = self._dataset.question.asked
        survey = Survey(
            name="demo",
            text=question.text,
            metric=question.metric,
            encoder=question.encoder,
            population=len(self._dataset.values),
            epoch=self._epoch,
            slot=MAIN_SLOT,
            start=self._epoch * DAY + 8 * HOUR,
            duration=HOUR,
            rate=rate_of(len(self._dataset.values)),
            time_precision=PRECISION,
        )
        return propose(survey, self._layout.parties)

    def _drill_recipe(self) -> Recipe:
        survey = Survey(
            name="drill",
            text="Takes part in the drill?",
            metric=DRILL_METRIC,
            encoder=Categories(kind="categories", categories=("yes", "no")),
            population=BATCH_FLOOR,
            epoch=self._epoch,
            slot=DRILL_SLOT,
            start=self._epoch * DAY + 8 * HOUR,
            duration=HOUR,
            rate=Decimal(1),
            min_batch_size=BATCH_FLOOR,
            time_precision=PRECISION,
        )
        return propose(survey, self._layout.parties)

    def _signed(self, recipe: Recipe) -> SignedLeaf:
        key = signing_key_of(self._layout)
        return sign_leaf(LeafType.RECIPE, recipe.body(), recipe.parties.analyst.operator, key)

    async def _post_leaf(self, leaf: SignedLeaf, transport: Transport) -> None:
        answer = await transport.request(
            "POST",
            f"{self._layout.urls['recipe_server']}/v1/leaves",
            headers={"content-type": "application/json"},
            body=leaf.encode(),
        )
        if answer.status not in (200, 201):
            raise Refusal("recipe-publication", answer.body.decode("utf-8", "replace")[:300])

    async def _status(self, name: str, task_id: str, transport: Transport) -> dict[str, Any]:
        return await self._operator_call("GET", name, f"/v1/tasks/{task_id}/status", transport)

    async def _operator_call(
        self, method: str, service: str, path: str, transport: Transport, body: bytes = b""
    ) -> dict[str, Any]:
        url = self._layout.urls[service] + path
        token = self._layout.operator_token(service)
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        answer = await transport.request(method, url, headers=headers, body=body)
        if answer.status >= 400:
            raise Refusal("operator-call", f"{url}: {answer.body.decode('utf-8', 'replace')[:200]}")
        found: dict[str, Any] = json.loads(answer.body)
        return found

    def _truth(self, recipe: Recipe) -> Counter[str]:
        encoder, names = encoder_of(recipe.question), labels(recipe)
        answers = (encoder.encode(value) for value in self._values())
        return Counter(names[answer] for answer in answers if isinstance(answer, int))

    def _values(self) -> tuple[str, ...]:
        """What the devices hold: the data, but that the value of the last agent lies outside the answers."""
        values, last = self._dataset.values, self._agents - 1
        return (*values[:last], self._outside(), *values[last + 1 :])

    def _outside(self) -> str:
        """A value outside the buckets, or of no category."""
        edges = self._dataset.question.edges
        return "none of the categories" if edges is None else in_words(exact(edges[0]) - 1)

    def _jump_to(self, moment: float) -> None:
        self._clock.jump(max(0.0, moment - self._clock.now()))

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self._seconds[name] = self._seconds.get(name, 0.0) + time.monotonic() - began


def rate_of(devices: int) -> Decimal:
    """The share of the devices that is asked."""
    return min(RATE, (Decimal(MOST_CONTRIBUTIONS) / devices).quantize(Decimal("0.001"), ROUND_DOWN))


async def _spender(devices: Sequence[Device], recipe: Recipe) -> Device:
    """A device whose report, and with it its token, the leader has."""
    for device in devices:
        entry = await device.entry(recipe.hash)
        if entry is not None and entry.state is State.SENT:
            return device
    raise Refusal("demo-staged", "no device has sent its report of the staged recipe")


async def _loot(device: Device, slot: int) -> BoundToken:
    """The token of ``slot`` that a device holds or held, with its secrets."""
    for prefetch in await device.store.prefetches():
        if prefetch.slot.slot == slot and prefetch.token:
            secrets = prefetch.preimages
            return BoundToken(prefetch.token, Preimages(secrets[:PREIMAGE_SIZE], secrets[PREIMAGE_SIZE:]))
    raise Refusal("demo-staged", "a device has no token for the staged recipe")


def _understate(recipe: Recipe) -> Recipe:
    """The same recipe with every claim but the local one divided by two."""
    body = recipe.body()
    claims = body["privacy"]["epsilon"]
    for name in (row.name for row in form_of(recipe.model).adversaries if row.cap is not Cap.LOCAL):
        claims[name] = plain(Decimal(claims[name]) / 2)
    body["name"] = "understated"
    return Recipe.from_body(body)


def _recipe_summary(recipe: Recipe) -> dict[str, Any]:
    """What the JSON document says about the recipe."""
    return {
        "name": recipe.name,
        "hash": recipe.hash_text,
        "model": recipe.model,
        "min_batch_size": recipe.batch.min_batch_size,
        "sampling_rate": float(recipe.rate),
        "randomizer": {
            "name": recipe.randomizer.name,
            "epsilon0": float(recipe.epsilon0),
            "categories": recipe.randomizer.categories,
        },
        "vdaf": {
            "name": vdaf_spec(recipe).name,
            "length": vdaf_spec(recipe).length,
            "chunk_length": vdaf_spec(recipe).chunk_length,
        },
    }
