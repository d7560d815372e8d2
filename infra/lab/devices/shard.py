"""One shard of a fleet: runs a range of devices from their coins to their acknowledgements, or to a file.

The same coroutine runs in the caller's process (tests), in a worker process and as a Ray task.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from client_agent.journal import State
from client_agent.oblivious import ObliviousClient
from client_agent.wallet import HeldToken
from infra.lab.devices.arrivals import arrivals
from infra.lab.devices.contributions import BATCH, Builder, Contribution, Draft, Maker, SubmissionBuilder
from infra.lab.devices.decisions import Decided, Randomised, decide, kept_cells, randomise, watched, with_dummies
from infra.lab.devices.destination import Destination
from infra.lab.devices.events import Opened
from infra.lab.devices.faults import NO_FAULTS, Fault, FaultMix
from infra.lab.devices.faulty_transports import AbortingTransport, SlowTransport
from infra.lab.devices.journal import FleetJournal, Header
from infra.lab.devices.metrics import Snapshot
from infra.lab.devices.population import Population
from infra.lab.devices.prepared import PreparedWriter, read_contributions
from infra.lab.devices.profile import Profile
from infra.lab.devices.sealing import RequestSenders
from infra.lab.devices.sender import Clients, Deliveries, Due, Sender
from infra.lab.devices.tokens import DirectTokens, IssuedTokens, TokenSource
from infra.lab.devices.truth import added, totals
from tacit import ohttp
from tacit.adapters.network.tls import ClientTls
from tacit.methods.base.method import Method
from tacit.methods.base.statistics import STATISTICS
from tacit.methods.estimators.registry import estimator_of
from tacit.methods.result import MOST_LISTED
from tacit.models.devices import device_side
from tacit.panprivate.elgamal import PrivateKey
from tacit.ports import Clock, Entropy, Transport
from tacit.recipe import derive
from tacit.recipe.derive import is_watched
from tacit.tokens.software_root import SoftwareRoot

JOURNAL_BATCH = 256
TOKEN_BATCH = 2048
TELL_SECONDS = 0.25
Tell = Callable[[Snapshot], None]


@dataclass(frozen=True)
class World:
    """The clock, randomness and network that a shard uses."""

    clock: Clock
    entropy: Entropy
    transport: Transport


@dataclass(frozen=True)
class ShardPlan:
    """The instructions for one shard. ``authority`` (PEM) issues identities for issued tokens, ``slot_key`` (PKCS#8)
    signs direct ones; one of the two is set unless contributions are ``prepared``. ``rate`` is this shard's own;
    ``send_at`` is the POSIX second from which reports are sent. ``contributions`` is this shard's number of those in
    the ``prepared`` file. ``prepare`` is a file to write instead of sending. ``everybody``: also add up what all
    devices know. The services' clock is ``ahead`` of this machine's, in seconds. ``state_keys`` open what devices that
    watched an event send, so that the oracle knows it. ``chosen``: which of the devices take part, where their draw for
    a series said it.
    """

    number: int
    shards: int
    target: Destination
    first: int
    devices: int
    population: Population
    journal: Path
    faults: FaultMix = NO_FAULTS
    profile: Profile = Profile.STEADY
    rate: float | None = None
    window: int = 64
    send_at: float = 0.0
    authority: bytes = field(default=b"", repr=False)
    slot_key: bytes = field(default=b"", repr=False)
    prepared: Path | None = None
    contributions: int = 0
    prepare: Path | None = None
    everybody: bool = False
    ahead: float = 0.0
    state_keys: tuple[PrivateKey, ...] = field(default=(), repr=False)
    chosen: NDArray[np.bool_] | None = field(default=None, repr=False)


@dataclass
class ShardResult:
    """What one shard did. ``sampled`` devices were to send something, ``dummies`` of them a dummy; ``beyond`` of them
    did not, as their output lay beyond the weight bound. ``known``: what all devices know, one total per label of the
    question, if the plan asks for it; ``answered``: the same totals of their answers, rounded and clipped; ``items``:
    how many devices have each item of a large domain, or each of more answers than a result lists. ``timings``:
    wall-clock seconds by stage; ``cpu``: CPU seconds of this process by stage."""

    devices: int = 0
    sampled: int = 0
    dummies: int = 0
    beyond: int = 0
    without_token: int = 0
    prepared: int = 0
    known: list[float] = field(default_factory=list)
    answered: list[float] = field(default_factory=list)
    items: Counter[int] = field(default_factory=Counter)
    deliveries: Deliveries = field(default_factory=Deliveries)
    progress: Snapshot = field(default_factory=Snapshot)
    timings: dict[str, float] = field(default_factory=dict)
    cpu: dict[str, float] = field(default_factory=dict)


class Shard:
    """Runs one plan. ``tell`` is called with the progress every quarter of a second."""

    def __init__(self, plan: ShardPlan, world: World, tell: Tell) -> None:
        self._plan = plan
        self._world = world
        self._tell = tell
        self._generator = np.random.default_rng(int.from_bytes(world.entropy(16), "big"))
        self._builder = _maker(plan.target, world.entropy)
        self._changes: list[tuple[int, State, int]] = []
        self._result = ShardResult(devices=plan.devices)
        self._progress = self._result.progress

    async def run(self) -> ShardResult:
        """Carry out the whole plan. Raises what its parts raise."""
        plan = self._plan
        header = Header(plan.target.recipe.hash, self._world.clock.now(), plan.first, plan.devices)
        ticking = asyncio.ensure_future(self._tick())
        try:
            with FleetJournal(plan.journal, header) as journal:
                self._journal = journal
                await self._run()
                self._flush()
        finally:
            ticking.cancel()
        self._tell(self._progress)
        return self._result

    async def _run(self) -> None:
        plan = self._plan
        if plan.prepared is not None:
            await self._send(self._from_file(plan.prepared))
            return
        self._source = self._token_source()
        if plan.prepare is not None:
            await self._prepare(plan.prepare)
            return
        with self._stage("decide"):
            answers = [answer for chunk in self._decided() for answer in chunk]
        with self._stage("tokens"):
            held = await self._tokens(answers)
        await self._send(self._made(answers, held))

    def _decided(self) -> Iterator[list[Randomised]]:
        """Decide for every device, and write its journal line; yields randomised answers and dummies by chunk."""
        plan, entropy = self._plan, self._world.entropy
        recipe = plan.target.recipe
        randomizer, sampling = derive.randomizer_of(recipe), recipe.sampling
        cells, adds = kept_cells(randomizer), estimator_of(randomizer).missing_adds(derive.design_of(recipe))
        opened = self._opened()
        devices = (plan.population, plan.first, plan.devices)
        chunks = decide(
            sampling, *devices, entropy, self._generator, cells, everybody=plan.everybody, chosen=plan.chosen
        )
        for chunk in chunks:
            if plan.everybody:
                self._add_up(chunk, adds)
            answers, beyond, dummies = self._answered(chunk, randomizer, opened)
            scheduled = np.array([answer.device for answer in answers], dtype=np.uint32)
            self._journal.decided(chunk.first, chunk.count, scheduled, self._world.clock.now())
            self._result.beyond += len(beyond)
            self._result.dummies += dummies
            self._result.sampled += len(answers) + len(beyond)
            yield answers

    def _answered(
        self, chunk: Decided, randomizer: Method, opened: Opened | None
    ) -> tuple[list[Randomised], list[int], int]:
        """Return what the devices of a chunk send, which of them withhold what they drew, and how many send dummies."""
        recipe, entropy = self._plan.target.recipe, self._world.entropy
        if opened is not None:
            return watched(chunk, recipe, opened, entropy), [], 0
        answers, beyond = randomise(chunk, randomizer, entropy)
        real = len(answers)
        answers, beyond = with_dummies(chunk, answers, beyond, randomizer, recipe.sampling.dummy_rate, entropy)
        return answers, beyond, len(answers) - real

    def _opened(self) -> Opened | None:
        """Return what opens the answers of devices that watched an event; None if the recipe watches none."""
        target = self._plan.target
        if not is_watched(target.recipe):
            return None
        return Opened(target.recipe, None if target.has_one_server else target.task, self._plan.state_keys)

    def _add_up(self, chunk: Decided, missing_adds: Sequence[float]) -> None:
        """Add to the result what the devices of a chunk know (before rounding and clipping, where they have numbers)
        and what they answer (before it is randomised)."""
        result, question = self._result, self._plan.target.recipe.question
        if STATISTICS[question.statistic].is_ranked or len(missing_adds) > MOST_LISTED:
            result.items.update(answer for answer in chunk.everybody if isinstance(answer, int))
            return
        answered = totals(question, chunk.everybody, missing_adds)
        known = answered
        if chunk.numbers is not None:
            known = totals(question, chunk.everybody, missing_adds, chunk.numbers)
        result.known, result.answered = added(result.known, known), added(result.answered, answered)

    async def _tokens(self, answers: Sequence[Randomised]) -> dict[int, HeldToken]:
        held: dict[int, HeldToken] = {}
        for begin in range(0, len(answers), TOKEN_BATCH):
            devices = [answer.device for answer in answers[begin : begin + TOKEN_BATCH]]
            for device, token in zip(devices, await self._source.fetch(devices), strict=True):
                if token is None:
                    self._result.without_token += 1
                    self._note(device, State.FAILED, 0)
                else:
                    held[device] = token
            self._progress.tokens += len(devices)
        return held

    def _token_source(self) -> TokenSource:
        plan, world = self._plan, self._world
        slot_key = plan.target.slot_key
        if plan.slot_key:
            return DirectTokens(slot_key, plan.slot_key, world.entropy)
        authority = SoftwareRoot.from_pem(plan.authority)
        url = plan.target.attester_url
        return IssuedTokens(slot_key, authority, world.transport, url, world.clock, world.entropy)

    async def _made(self, answers: Sequence[Randomised], held: dict[int, HeldToken]) -> AsyncIterator[Due]:
        """Yield contributions with their times; one batch is made while the previous one is sent."""
        world, plan = self._world, self._plan
        ready = [answer for answer in answers if answer.device in held]
        self._progress.due = len(ready)
        offsets = arrivals(plan.profile, len(ready), plan.rate, self._generator)
        faults = plan.faults.draw(len(ready), self._generator)
        begin = world.clock.now()

        def build(at: int) -> list[Contribution]:
            drafts = [
                Draft(answer, held.pop(answer.device), Fault(fault))
                for answer, fault in zip(ready[at : at + BATCH], faults[at : at + BATCH], strict=True)
            ]
            return self._builder.build(drafts)

        following = asyncio.ensure_future(asyncio.to_thread(build, 0)) if ready else None
        for at in range(0, len(ready), BATCH):
            made = await following if following is not None else []
            more = at + BATCH < len(ready)
            following = asyncio.ensure_future(asyncio.to_thread(build, at + BATCH)) if more else None
            for place, contribution in enumerate(made, start=at):
                yield self._due(begin, offsets[place]), contribution

    def _due(self, begin: float, offset: float) -> float | None:
        """Return when a contribution is due; None, without a rate, means when a sender is free for it."""
        return None if self._plan.rate is None else begin + float(offset)

    async def _from_file(self, path: Path) -> AsyncIterator[Due]:
        plan = self._plan
        begin = self._world.clock.now()
        self._progress.due = plan.contributions
        offsets = arrivals(plan.profile, plan.contributions, plan.rate, self._generator)
        for place, contribution in enumerate(read_contributions(path, plan.number, plan.shards)):
            self._note(contribution.device, State.SCHEDULED, 0)
            self._result.sampled += 1
            yield self._due(begin, offsets[place]), contribution

    async def _prepare(self, path: Path) -> None:
        """Write the contributions to a part of the prepared file instead of sending them, one chunk of devices at a
        time."""
        chunks = self._decided()
        with PreparedWriter(path) as writer:
            while True:
                with self._stage("decide"):
                    answers = next(chunks, None)
                if answers is None:
                    break
                with self._stage("tokens"):
                    held = await self._tokens(answers)
                with self._stage("build"):
                    await self._write(writer, [answer for answer in answers if answer.device in held], held)
        self._result.prepared = writer.contributions

    async def _write(self, writer: PreparedWriter, ready: Sequence[Randomised], held: dict[int, HeldToken]) -> None:
        faults = self._plan.faults.draw(len(ready), self._generator)
        for at in range(0, len(ready), BATCH):
            pairs = zip(ready[at : at + BATCH], faults[at : at + BATCH], strict=True)
            drafts = [Draft(answer, held.pop(answer.device), Fault(fault)) for answer, fault in pairs]
            writer.write(await asyncio.to_thread(self._builder.build, drafts))
            self._progress.due = writer.contributions

    async def _send(self, source: AsyncIterator[Due]) -> None:
        plan, world = self._plan, self._world
        self._flush()
        with self._stage("wait"):
            await world.clock.sleep(max(0.0, plan.send_at - world.clock.now()))
        target = plan.target
        model = device_side(target.recipe.model).sends_as(target.recipe)
        sender = Sender(
            self._clients(),
            model,
            target.url,
            world.clock,
            world.entropy,
            target.deadline,
            plan.window,
            self._note,
        )
        sender.progress = self._progress
        sender.deliveries = self._result.deliveries
        with self._stage("send"):
            await sender.run(source)

    def _clients(self) -> Clients:
        target, world = self._plan.target, self._world
        senders = RequestSenders(world.entropy)
        tls, insecure_http = ClientTls(target.tls_ca), target.insecure_http
        rude = (AbortingTransport(tls, insecure_http=insecure_http), SlowTransport(tls, insecure_http=insecure_http))
        return Clients(
            *(
                ObliviousClient(
                    transport,
                    target.relay_url,
                    target.key_configs,
                    world.clock,
                    world.entropy,
                    senders,
                    ohttp.REQUEST_CLASSES[-1],
                )
                for transport in (world.transport, *rude)
            )
        )

    def _note(self, device: int, state: State, attempts: int) -> None:
        self._changes.append((device, state, attempts))
        if len(self._changes) >= JOURNAL_BATCH:
            self._flush()

    def _flush(self) -> None:
        changes, self._changes = self._changes, []
        self._journal.changed(changes, self._world.clock.now())

    def _stage(self, name: str) -> _Stage:
        self._progress.stage = name
        return _Stage(name, self._result)

    async def _tick(self) -> None:
        while True:
            self._tell(self._progress)
            await asyncio.sleep(TELL_SECONDS)


def _maker(target: Destination, entropy: Entropy) -> Maker:
    """Return what makes the recipe's contributions."""
    if target.has_one_server or target.is_mixed or is_watched(target.recipe):
        return SubmissionBuilder(target.recipe, target.token_key_spki, entropy)
    return Builder(target.task, entropy)


class _Stage:
    """Adds the wall-clock and CPU seconds of a block to one stage of the result."""

    def __init__(self, name: str, result: ShardResult) -> None:
        self._name = name
        self._result = result

    def __enter__(self) -> None:
        self._began = (time.monotonic(), time.process_time())

    def __exit__(self, *_error: object) -> None:
        wall, cpu = self._began
        timings, cpus = self._result.timings, self._result.cpu
        timings[self._name] = timings.get(self._name, 0.0) + time.monotonic() - wall
        cpus[self._name] = cpus.get(self._name, 0.0) + time.process_time() - cpu
