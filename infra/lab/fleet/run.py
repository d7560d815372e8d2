"""Plans the shards of a fleet, runs them, and has the result judged."""

from __future__ import annotations

import asyncio
import contextlib
import math
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from infra.lab.devices.destination import Destination, Say, require_local
from infra.lab.devices.faults import parse_faults
from infra.lab.devices.metrics import Snapshot
from infra.lab.devices.pool import Workers, run_in_processes, run_on_ray
from infra.lab.devices.population import Population
from infra.lab.devices.prepared import (
    MAX_DEVICES,
    PreparedHeader,
    PreparedWriter,
    Totals,
    read_header,
    read_totals,
)
from infra.lab.devices.profile import Profile
from infra.lab.devices.series_draws import drawn_rounds
from infra.lab.devices.shard import ShardPlan, ShardResult
from infra.lab.fleet.oracle import Oracle, Verdict
from infra.lab.fleet.origin import Origin, open_target, over, population_of, slot_private_key, state_keys
from infra.lab.fleet.result import FleetResult
from infra.lab.learning.learners import Learners
from infra.lab.learning.population import digits
from tacit.adapters.network.http import HttpTransport
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.errors import UsageError
from tacit.extras import missing_extra
from tacit.ports import Transport
from tacit.recipe.derive import is_watched
from tacit.recipe.encoder_specs import Update
from tacit.recipe.model import Recipe
from tacit.recipe.training import External, read_round_model

DIGITS: Final = "digits"
SEED: Final = 1
"""Which devices hold which digits: the same in every round."""


def trains(recipe: Recipe) -> bool:
    """Whether devices train a model for the recipe."""
    return isinstance(recipe.question.encoder, Update)


def learners_of(target: Destination, devices: int, missing: float) -> Learners:
    """``devices`` devices that train the round's model. Raises ``UsageError`` for a model that reads no digits, and for
    a share of devices without a value."""
    spec, train = target.recipe.question.encoder, digits().train
    if not isinstance(spec, Update):
        raise UsageError(f"recipe {target.recipe.name} trains no model")
    inputs, classes = train.features.shape[1], int(train.labels.max()) + 1
    architecture = spec.training.architecture
    if isinstance(architecture, External) or (architecture.inputs, architecture.classes) != (inputs, classes):
        raise UsageError(
            f"a fleet's devices hold digits, for models of {inputs} inputs and {classes} classes; "
            "--data uniform sends made-up updates to any other"
        )
    if missing:
        raise UsageError("--missing is not for devices with digits: all of them have some")
    stated = read_round_model(target.recipe.question.round_input or "", spec.training)
    return Learners(spec, stated.clip, target.model, devices, SEED)


FOLDER_NAMES = {"postgres": "database", "redis": "redis", "mosquitto": "mosquitto"}

T = TypeVar("T")

RELEASE_PATIENCE = 120.0
OPT_IN_SECONDS = 30.0
Look = Callable[[Sequence[Snapshot]], None]


@dataclass(frozen=True)
class Load:
    """The options of a run. ``rate`` is in contributions per second of all workers together, ``None`` for as fast as
    possible; ``limit`` is in seconds for the whole run; ``direct`` signs tokens with the issuer's key."""

    devices: int | None
    rate: float | None = None
    profile: Profile = Profile.STEADY
    faults: str = ""
    workers: int = 1
    window: int = 64
    direct: bool = False
    limit: float = 3600.0
    ray: str = ""
    prepared: Path | None = None


@dataclass(frozen=True)
class Data:
    """What the devices know: a distribution (``None``: the question's default), or a CSV file's column; ``missing`` is
    the share of devices that know nothing."""

    distribution: str | None = None
    file: Path | None = None
    column: str | None = None
    missing: float = 0.0


def open_fleet(
    origin: Origin,
    reference: str,
    load: Load,
    data: Data,
    *,
    model: str | None = None,
    allow_remote: bool = False,
    say: Say | None = None,
) -> FleetRun:
    """A fleet for the recipe ``reference``, verified as its devices verify it; ``say`` is told what is waited for.
    Raises ``UsageError`` for another
    machine unless ``allow_remote`` is set, and for a recipe of another model than ``model``; also what ``open_target``
    raises."""
    if not allow_remote:
        require_local(origin.config.relay_url, origin.config.attester_url)
    target = asyncio.run(open_target(origin, reference, OPT_IN_SECONDS, say))
    if model not in (None, target.recipe.model):
        raise UsageError(f"recipe {target.recipe.name} is of model {target.recipe.model}, not {model}")
    if trains(target.recipe) and data.file is None and data.distribution in (None, DIGITS):
        population: Population = learners_of(target, load.devices or 0, data.missing)
    else:
        population = population_of(target.recipe, data.distribution, data.file, data.column, data.missing)
    return FleetRun(origin, target, load, population)


class FleetRun:
    """One run or one preparation. Raises ``UsageError`` for impossible options."""

    def __init__(
        self,
        origin: Origin,
        target: Destination,
        load: Load,
        population: Population,
        standing: Workers | None = None,
    ) -> None:
        """``standing``: workers that are there already, ``load.workers`` of them; without them, each stage starts its
        own."""
        devices = load.devices if load.prepared is None else read_header(load.prepared).devices
        if devices is None or not 1 <= devices < MAX_DEVICES:
            raise UsageError(f"--devices must be from 1 to {MAX_DEVICES - 1}")
        self._devices: int = devices
        self._faults = parse_faults(load.faults)
        if is_watched(target.recipe) or target.is_mixed:
            self._faults.require_of_watched()
        if load.direct and origin.layout is None:
            raise UsageError("--tokens direct works with a local stack only (--state-dir)")
        self._origin = origin
        self._target = target
        self._load = load
        self._population = population
        self._standing = standing
        self._folder = origin.config.state_dir / f"{target.recipe.name}-{int(time.time())}-{secrets.token_hex(3)}"

    @property
    def target(self) -> Destination:
        return self._target

    @property
    def folder(self) -> Path:
        """The folder in which each shard keeps its journal."""
        return self._folder

    def run(self, look: Look, oracle: bool, say: Say = lambda _text: None) -> tuple[FleetResult, Verdict | None]:
        """Send everything; with ``oracle``, also compare with what the stack says, and ``say`` what is waited for."""
        layout = self._origin.layout
        if oracle and layout is None:
            raise UsageError("--oracle works with a local stack only (--state-dir)")
        send_at = float(self._target.recipe.interval.start)
        plans = [replace(plan, send_at=send_at, everybody=oracle) for plan in self._plans()]
        self._check_time(plans)
        judge = Oracle(layout, self._target, SystemClock()) if oracle and layout is not None else None
        if judge is not None:
            asyncio.run(self._with_transport(judge.before))
        meter = CpuMeter(layout.state_dir) if layout is not None else None
        began = time.monotonic()
        result = FleetResult.of(self._shards(plans, look))
        result.seconds = time.monotonic() - began - result.timings.get("wait", 0.0)
        if self._load.prepared is not None:
            _add_prepared(result, self._load.prepared)
        verdict = None
        if judge is not None:
            say(f"comparing with what the stack counted, and waiting for the release (at most {RELEASE_PATIENCE:g} s)")
            verdict = asyncio.run(
                self._with_transport(lambda transport: judge.judge(result, transport, RELEASE_PATIENCE))
            )
        if meter is not None:
            result.services = meter.spent()
        return result, verdict

    def prepare(self, out: Path, look: Look) -> FleetResult:
        """Write the contributions of the sampled devices to ``out`` instead of sending them."""
        recipe = self._target.recipe
        send_at = max(recipe.interval.start, min(int(self._now()), recipe.interval.end - 1))
        parts = [out.with_name(f"{out.name}.part-{number}") for number in range(self._load.workers)]
        plans = [
            replace(plan, prepare=part, send_at=float(send_at)) for plan, part in zip(self._plans(), parts, strict=True)
        ]
        began, writer = time.monotonic(), PreparedWriter(out)
        try:
            with writer:
                result = FleetResult.of(self._shards(plans, look))
                writer.header(PreparedHeader(recipe.hash, 0, self._devices, send_at, self._load.direct))
                for part in parts:
                    writer.append(part)
                writer.finish(Totals(result.prepared, result.without_token, result.beyond))
        except BaseException:
            out.unlink(missing_ok=True)
            raise
        finally:
            for part in parts:
                part.unlink(missing_ok=True)
        result.seconds = time.monotonic() - began
        return result

    def _now(self) -> float:
        return time.time() + self._origin.ahead

    def _shards(self, plans: Sequence[ShardPlan], look: Look) -> list[ShardResult]:
        if self._load.ray:
            return run_on_ray(plans, self._load.ray, self._load.limit)
        if self._standing is not None:
            return self._standing.run(plans, look, self._load.limit)
        return run_in_processes(plans, look, self._load.limit)

    def _plans(self) -> Iterator[ShardPlan]:
        """Plans that split the devices into as many ranges as there are workers."""
        load, workers = self._load, self._load.workers
        slot_key, authority, contributions = b"", b"", 0
        layout = self._origin.layout
        opening = state_keys(layout, self._target.recipe) if layout is not None else ()
        if load.prepared is not None:
            contributions = self._contributions(load.prepared)
        elif load.direct and self._origin.layout is not None:
            slot_key = asyncio.run(slot_private_key(self._origin.layout, self._target))
        else:
            authority = self._origin.authority
        chosen = self._chosen()
        for number in range(workers):
            first, end = (self._devices * place // workers for place in (number, number + 1))
            yield ShardPlan(
                number=number,
                shards=workers,
                target=self._target,
                first=0 if load.prepared is not None else first,
                devices=self._devices if load.prepared is not None else end - first,
                population=self._population,
                journal=self._folder / f"journal-{number}.bin",
                faults=self._faults.with_churn() if load.profile is Profile.CHURN else self._faults,
                profile=load.profile,
                rate=None if load.rate is None else load.rate / workers,
                window=load.window,
                authority=authority,
                slot_key=slot_key,
                prepared=load.prepared,
                contributions=len(range(number, contributions, workers)),
                ahead=self._origin.ahead,
                state_keys=opening,
                chosen=None if chosen is None else chosen[first:end],
            )

    def _chosen(self) -> NDArray[np.bool_] | None:
        """Which devices take part, where the recipe is a round of a series with donation. Raises ``UsageError``."""
        series, place = self._target.series, self._target.recipe.series
        if series is None or place is None:
            return None
        folder = self._origin.config.state_dir
        drawn = drawn_rounds(folder, series, self._devices, place.index, OsEntropy())
        return None if drawn is None else drawn == place.index

    def _contributions(self, path: Path) -> int:
        """Number of contributions in a prepared file. Raises ``UsageError`` if they are for another recipe."""
        if read_header(path).recipe_hash != self._target.recipe.hash:
            raise UsageError(f"{path}: was prepared for another recipe than {self._target.recipe.name}")
        return read_totals(path).contributions

    def _check_time(self, plans: Sequence[ShardPlan]) -> None:
        """Raise ``UsageError`` for a load that cannot end before the recipe does."""
        recipe, now = self._target.recipe, self._now()
        left = recipe.interval.end - max(now, recipe.interval.start)
        rate, dummy_rate = Fraction(recipe.rate), recipe.sampling.dummy_rate
        expected = math.ceil((rate + (1 - rate) * dummy_rate) * self._devices)
        count = sum(plan.contributions for plan in plans) or expected
        if left <= 0:
            raise UsageError(over(recipe))
        if self._load.rate is not None and count / self._load.rate > left:
            raise UsageError(
                f"{count} contributions at {self._load.rate:g} a second take longer than the {left:.0f} s "
                f"that recipe {recipe.name} has left; raise --rate"
            )

    async def _with_transport(self, ask: Callable[[Transport], Awaitable[T]]) -> T:
        layout = self._origin.layout
        async with HttpTransport() if layout is None else layout.transport() as transport:
            return await ask(transport)


def _add_prepared(result: FleetResult, path: Path) -> None:
    """Add the devices without a contribution in the file; they were decided when it was prepared."""
    totals = read_totals(path)
    result.without_token, result.beyond = totals.without_token, totals.beyond
    result.sampled += totals.without_token + totals.beyond
    result.devices = read_header(path).devices


class CpuMeter:
    """Reads the CPU time of the processes whose command line names a file of ``state_dir``, and of their children."""

    def __init__(self, state_dir: Path) -> None:
        """Raises ``UsageError`` if psutil is not installed."""
        try:
            import psutil
        except ImportError as error:
            raise missing_extra("a fleet's report", "fleet", "psutil") from error
        self._psutil = psutil
        self._state_dir = str(state_dir.absolute())
        self._start = self._read()

    def spent(self) -> dict[str, float]:
        """CPU seconds by service since this meter was made."""
        found: dict[str, float] = {}
        for (pid, name), seconds in self._read().items():
            found[name] = found.get(name, 0.0) + seconds - self._start.get((pid, name), 0.0)
        return found

    def _read(self) -> dict[tuple[int, str], float]:
        """CPU seconds by (process id, service)."""
        found: dict[tuple[int, str], float] = {}
        for process in self._psutil.process_iter():
            with contextlib.suppress(self._psutil.Error):
                name = self._name(process.cmdline())
                if name is None:
                    continue
                for member in (process, *process.children(recursive=True)):
                    times = member.cpu_times()
                    found.setdefault((member.pid, name), times.user + times.system)
        return found

    def _name(self, command: list[str]) -> str | None:
        """The service that a command line runs for the stack."""
        if "serve" in command and any(part.startswith(f"{self._state_dir}/") for part in command):
            return command[command.index("serve") + 1]
        for folder, name in FOLDER_NAMES.items():
            if any(part.startswith(f"{self._state_dir}/{folder}") for part in command):
                return name
        return None
