"""Training runs on the whole stack, taken from round to round, interrupted and taken up again."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from infra.authoring.learning import Files
from infra.commands.learn_run import _Shown
from infra.lab.kit.learning import STROKES
from infra.stacks.api import whole_log
from infra.stacks.layout import signing_key_of
from infra.views.learn_run_view import line_of
from tacit.errors import UsageError
from tacit.learning import model_file
from tacit.learning.plan import Plan
from tacit.logview.live import LiveLog
from tacit.operations.learning.documents import run_document
from tacit.operations.learning.placing import Epochs, placed_run, refusals_of
from tacit.operations.learning.rounds import next_round
from tacit.operations.learning.run import LearningRun, Place, Standing, Waiting, published_series, read_standing
from tacit.operations.pace import Pace
from tacit.operations.results import CollectorAccess
from tacit.operations.series_rounds import publish_round
from tacit.ports import HttpResponse, Transport, TransportError
from tacit.recipe.series import Series
from tacit.recipe.training import read_round_model
from tests.kit.simulation import EPOCH_SECONDS, HIGH_CAPS, OPTIONS, Simulation, Template, relax

DEVICES = 10
LOOK_SECONDS = 590.0
OPTIMISER = {"kind": "fedavg", "learning_rate": 1, "momentum": "0.5"}
SIZES = {"devices": DEVICES, "min_batch_size": 4, "round_seconds": 2400, "release_seconds": 1200}
PLAN = Plan.model_validate({**STROKES, **SIZES, "server": OPTIMISER})
EXAMPLES = "1,0,0,0,1,1,0.9,0.1,0"


@dataclass
class Living:
    """The simulation's clock, on which devices and services do what is due while somebody sleeps; at the time ``ends``
    whoever sleeps is interrupted."""

    simulation: Simulation
    ends: float = float("inf")

    def now(self) -> float:
        return self.simulation.clock.now()

    async def sleep(self, seconds: float) -> None:
        until = self.now() + seconds
        while self.now() < until:
            if self.now() >= self.ends:
                raise KeyboardInterrupt
            self.simulation.clock.jump(min(LOOK_SECONDS, until - self.now()))
            await self.simulation.step_agents()
            await self.simulation.settle()


@dataclass
class Noting:
    """A way to the services that notes the model files that it carries; the first one is lost on the way."""

    transport: Transport
    files: list[tuple[str, bytes]] = field(default_factory=list)

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> HttpResponse:
        if method == "PUT":
            self.files.append((url.rsplit("/", 1)[-1], body))
            if len(self.files) == 1:
                raise TransportError("lost")
        return await self.transport.request(method, url, headers=headers, body=body)


@contextlib.contextmanager
def untold(_waiting: Waiting) -> Iterator[None]:
    yield


@pytest.fixture(scope="module")
def permissive(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """A stack whose parties accept recipes without a local guarantee, and little noise."""
    folder = tmp_path_factory.mktemp("learning") / "stack"
    found = asyncio.run(Template.make(folder, options=replace(OPTIONS, unbounded_local=True)))
    relax(folder, **HIGH_CAPS)
    return found


def place(simulation: Simulation, transport: Transport, ends: float = float("inf")) -> Place:
    urls, token = simulation.layout.urls, simulation.layout.operator_token("collector")
    at = CollectorAccess(urls["collector"], urls["recipe_server"], lambda: token)
    log = partial(whole_log, simulation.network, simulation.layout, simulation.policy)
    return Place(transport, log, at, Living(simulation, ends))


def taken_up(simulation: Simulation, at: Place, plan: Plan = PLAN) -> AsyncIterator[Standing]:
    """The run, by somebody who knows nothing but its plan."""
    return LearningRun(plan, plan.name, at, signing_key_of(simulation.layout), 600.0, untold).standings()


async def ended(simulation: Simulation, at: Place) -> list[Standing]:
    """Where the run was on its way to its end."""
    return [standing async for standing in taken_up(simulation, at)]


async def begun(simulation: Simulation, at: Place) -> Series:
    epochs = Epochs(EPOCH_SECONDS, simulation.layout.options.slots_per_epoch)
    series = placed_run(PLAN, simulation.layout.parties, await at.log(), epochs, at.clock.now(), Pace(300.0))
    assert refusals_of(PLAN, series, simulation.policy, at.clock.now()) == []
    logged = await published_series(at, series, signing_key_of(simulation.layout))
    assert logged.series == series
    return series


@pytest.mark.slow
@pytest.mark.false_alarm(2e-5, "fewer than 4 of 10 devices whose coins say yes with probability 0.9, in two rounds")
async def test_a_run_that_is_interrupted_anywhere_goes_on_with_the_same_models(
    permissive: Template, tmp_path: Path
) -> None:
    """The first model is lost on its way, and the end comes before devices decide and while a release is awaited."""
    simulation = Simulation(permissive.copy(tmp_path / "stack"), seed=5)
    async with simulation.running():
        simulation.provision([{"strokes": EXAMPLES}] * DEVICES)
        noting = Noting(simulation.network)
        at = place(simulation, noting)
        series = await begun(simulation, at)
        for ends in (series.interval.start - 2 * LOOK_SECONDS, series.interval.start + PLAN.round_seconds + 1):
            with pytest.raises(KeyboardInterrupt):
                await ended(simulation, place(simulation, noting, ends))
        seen = await ended(simulation, at)
        assert [(len(one.rounds), one.is_waiting) for one in seen] == [(1, True), (1, False), (2, False)]
        last = seen[-1]
        assert (last.run, last.rounds) == ((await read_standing(PLAN, PLAN.name, at)).run, last.rounds)
        rounds = [read_round_model(str(one.recipe.question.round_input), PLAN.training) for one in last.rounds]
        assert [file for file, _ in noting.files] == [rounds[0].model] * 3 + [rounds[1].model]
        assert all(model_file.is_named(body, name) for name, body in noting.files)
        assert [one.model for one in last.run.rounds] == [noting.files[0][1], noting.files[-1][1]]
        assert all((one.contributions or 0) >= PLAN.min_batch_size for one in last.run.rounds)
        check_files(last, tmp_path)


def check_files(last: Standing, folder: Path) -> None:
    """Rows, JSON, the newest model in both forms, and a changed plan."""
    test, model, layers = folder / "test.csv", folder / "newest.model", folder / "newest.npz"
    test.write_text("1,0,0\n0,1,1\n")
    files = Files.of(PLAN, test, model, None)
    rows = files.rows(last)
    files.write(last, rows)
    Files.of(PLAN, None, layers, None).write(last, rows)
    assert model.read_bytes() == last.run.model
    parameters = model_file.decode(last.run.model)
    with np.load(layers) as found:
        assert sorted(found) == ["biases", "weights"]
        assert found["weights"].ravel().tolist() + found["biases"].tolist() == parameters.tolist()
    check_unwritten(last, folder)
    document = json.loads(json.dumps(run_document(last.series, rows, model_file.name_of(last.run.model))))
    assert document["rounds"] == [
        {
            "round": index,
            "contributions": trained.contributions,
            "loss": row.loss,
            "accuracy": row.accuracy,
            "recipe_hash": live.recipe.hash_text,
            "log_index": live.index,
        }
        for index, (row, live, trained) in enumerate(zip(rows, last.rounds, last.run.rounds, strict=True))
    ]
    assert document["accuracy"] == rows[-1].accuracy
    assert (document["devices"], document["private"], document["clip"]) == (DEVICES, True, 1)
    assert document["seconds"] == 2 * PLAN.period - PLAN.release_seconds
    assert float(document["epsilon"]["aggregator"]) <= 8


def check_unwritten(last: Standing, folder: Path) -> None:
    """A file that cannot be written ends no run; it is told at the end, unless it could be written later."""
    gone = folder / "gone"
    gone.mkdir()
    shown = _Shown(Files.of(PLAN, None, gone / "newest.model", None), as_json=True)
    gone.rmdir()
    shown.take(last)
    with pytest.raises(UsageError, match="No such file"):
        shown.require_written()
    gone.mkdir()
    shown.take(last)
    shown.require_written()
    assert (gone / "newest.model").read_bytes() == last.run.model


@pytest.mark.slow
@pytest.mark.false_alarm(2e-5, "fewer than 4 of 10 devices whose coins say yes with probability 0.9, in two rounds")
async def test_two_runs_of_a_plan_at_once_pass_no_round_over(permissive: Template, tmp_path: Path) -> None:
    """The other one publishes the second round while this one reads that the first is released."""
    simulation = Simulation(permissive.copy(tmp_path / "stack"), seed=7)
    async with simulation.running():
        simulation.provision([{"strokes": EXAMPLES}] * DEVICES)
        at = place(simulation, simulation.network)
        series = await begun(simulation, at)

        async def log() -> LiveLog:
            one = await read_standing(PLAN, PLAN.name, at)
            if len(one.rounds) == 1 and one.run.waits_for is None:
                following = next_round(PLAN, series, one.run, at.clock.now())
                assert following is not None
                await publish_round(at.transport, at.server, following.recipe, signing_key_of(simulation.layout))
            return await at.log()

        seen = await ended(simulation, replace(at, log=log))
        assert [(len(one.rounds), one.passed_over) for one in seen] == [(0, ""), (2, ""), (2, "")]
        assert all((one.contributions or 0) >= PLAN.min_batch_size for one in seen[-1].run.rounds)


@pytest.mark.slow
async def test_rounds_without_enough_contributions_are_passed_over_and_train_the_same_model(
    permissive: Template, tmp_path: Path
) -> None:
    simulation = Simulation(permissive.copy(tmp_path / "stack"), seed=6)
    async with simulation.running():
        at = place(simulation, simulation.network)
        await begun(simulation, at)
        seen = await ended(simulation, at)
        assert [one.contributions for one in seen[-1].run.rounds] == [None, None]
        assert all(one.passed_over for one in seen[1:])
        models = {one.model for one in seen[-1].run.rounds} | {seen[-1].run.model}
        assert len(models) == 1
        rows = Files.of(PLAN, None, None, None).rows(seen[-1])
        assert [row.contributions for row in rows] == [None, None]
        assert rows[-1].passed_over in line_of(rows[-1]).plain
        again = await read_standing(PLAN, PLAN.name, at)
        assert (again.run, again.is_waiting) == (seen[-1].run, True), "its release may still come"
        assert "not yet" in line_of(Files.of(PLAN, None, None, None).rows(again)[-1]).plain
