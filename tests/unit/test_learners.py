"""Models that only the application knows: what a device sends of them, and what an application may do wrong."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from client_agent.answering import Data, DatumReply
from client_agent.data.sources import CallableSource, Value
from client_agent.journal import Fact, MemoryAgentStore, Trouble
from client_agent.learning.flower import FlowerLearner
from client_agent.learning.learners import Learner
from client_agent.learning.model_files import ModelFiles
from client_agent.learning.training import Trainer
from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.learning import LEARNING, METRIC, external, model_of
from infra.lab.kit.recipes import NOW
from tacit.errors import UsageError
from tacit.learning import local, model_file
from tacit.learning.projection import Projected
from tacit.recipe.encoder_specs import Update
from tacit.recipe.training import Projection, Quantile
from tests.unit.test_device_training import Kept, trained_round

MODEL = model_of(LEARNING, seed=1)
EXTERNAL = external(MODEL)
START = model_file.decode(MODEL.file)
SHAPES = ((2, 2), (2,))
Trains = Callable[[NDArray[np.float32]], Any]


@dataclass
class App:
    """An application that trains with a function of the parameters, and notes what else it was told."""

    trains: Trains
    told: list[tuple[Any, ...]] = field(default_factory=list)

    def train(
        self, metric: str, parameters: NDArray[np.float32], steps: int, batch_size: int | None, learning_rate: float
    ) -> NDArray[np.floating] | None:
        self.told.append((metric, steps, batch_size, learning_rate))
        return cast("NDArray[np.floating] | None", self.trains(parameters))


async def answered(learner: Learner | None, spec: Update = EXTERNAL, seconds: float = 10.0) -> tuple[Value | None, str]:
    """The vector of a device within this application, and what its owner is told; its data source is never asked."""
    store, asked = MemoryAgentStore(), list[str]()
    trainer = Trainer(cast(ModelFiles, Kept(MODEL.file)), SeededEntropy(b"app"), learner)
    data = Data(CallableSource(asked.append), {}, store, SimClock(NOW), trainer)
    (reply,) = await data.replies([trained_round(spec)], seconds)
    assert isinstance(reply, DatumReply)
    assert asked == []
    trouble = Trouble.decode(await store.fact(Fact.SOURCE_TROUBLE))
    return reply.value, trouble.what if trouble else ""


def expected(update: NDArray[np.floating], spec: Update = EXTERNAL) -> list[float]:
    room = local.room_for_units(spec.length, spec.radius)
    found: list[float] = local.sent_vector(spec.training, update, 1.0, room).tolist()
    return found


def moved(parameters: NDArray[np.float32]) -> NDArray[np.float32]:
    return parameters + np.float32(0.25)


def moved_in_place(parameters: NDArray[np.float32]) -> NDArray[np.float32]:
    parameters += np.float32(0.25)
    return parameters


@pytest.mark.parametrize("trains", [moved, moved_in_place])
async def test_what_is_sent_is_the_trained_minus_the_given_model_clipped(trains: Trains) -> None:
    app = App(trains)
    value, trouble = await answered(app)
    assert value == pytest.approx(expected(np.full(6, 0.25)), abs=1e-7)
    assert trouble == ""
    assert app.told == [(METRIC, LEARNING.training.steps, None, 0.5)]
    value, _ = await answered(App(lambda parameters: parameters.astype(np.float64) - 100.0))
    assert value == pytest.approx(expected(np.full(6, -1.0) * 100))


def raising(error: Exception) -> Trains:
    def trains(_parameters: NDArray[np.float32]) -> None:
        raise error

    return trains


@pytest.mark.parametrize(
    ("trains", "words"),
    [
        (lambda _: None, ""),
        (raising(ValueError("17 visits")), "the application's training failed: ValueError"),
        (raising(UsageError("the examples are locked")), "the examples are locked"),
        (lambda parameters: parameters[:5], "the application's training gave no array of 6 floating-point numbers"),
        (lambda parameters: parameters.reshape(2, 3), "the application's training gave no array of 6"),
        (lambda parameters: parameters.tolist(), "the application's training gave no array of 6"),
        (lambda parameters: parameters.astype(np.int64), "the application's training gave no array of 6"),
        (lambda parameters: parameters.astype(object), "the application's training gave no array of 6"),
        (lambda parameters: parameters * np.float32(np.nan), "a trained parameter is not a finite number"),
        (lambda parameters: parameters.astype(np.float64) + 1e300, "a trained parameter is not a finite number"),
    ],
)
async def test_an_application_that_gives_no_model_has_no_value_and_its_owner_learns_why(
    trains: Trains, words: str
) -> None:
    found, told = await answered(App(trains))
    assert found is None
    assert told.startswith(words)
    assert bool(told) == bool(words)


async def test_an_application_that_does_not_end_in_time_has_no_value() -> None:
    ended = threading.Event()
    found, told = await answered(App(lambda parameters: ended.wait() and moved(parameters)), seconds=0.05)
    ended.set()
    assert found is None
    assert told.startswith("the data source did not answer within 0.0")
    assert await answered(None) == (None, "the application trains no models")


class Client:
    """A client as Flower has them: adds a number to every parameter."""

    def __init__(self, examples: Any = 3, change: Callable[[list[Any]], Any] = list) -> None:
        self.examples, self.change = examples, change
        self.configs: list[dict[str, Any]] = []

    def get_parameters(self, config: dict[str, Any]) -> list[NDArray[Any]]:
        assert config == {}
        return [np.zeros(shape) for shape in SHAPES]

    def fit(self, parameters: list[NDArray[Any]], config: dict[str, Any]) -> Any:
        self.configs.append(config)
        trained = [array + number for number, array in enumerate(parameters, start=1)]
        return self.change(trained), self.examples, {"loss": 0.5}


async def test_a_flower_client_trains_its_arrays_and_is_told_plain_numbers() -> None:
    client = Client()
    trained = FlowerLearner(METRIC, client).train(METRIC, START, 7, None, 0.5)
    assert trained is not None
    assert (trained - START).tolist() == pytest.approx([1.0] * 4 + [2.0] * 2)
    FlowerLearner(METRIC, client, SHAPES).train(METRIC, START, 7, 32, 0.5)
    assert client.configs == [{"steps": 7, "batch_size": size, "learning_rate": 0.5} for size in (0, 32)]
    assert {type(one) for config in client.configs for one in config.values()} == {int, float}
    value, trouble = await answered(FlowerLearner(METRIC, client))
    assert value == pytest.approx(expected(np.array([1.0] * 4 + [2.0] * 2)))
    assert trouble == ""


async def test_a_flower_client_is_not_asked_about_anything_else() -> None:
    client = Client()
    assert await answered(FlowerLearner("steps", client)) == (None, "")
    assert client.configs == []


@pytest.mark.parametrize(
    ("client", "words"),
    [
        (Client(examples=0), ""),
        (Client(examples=None), "the application's training failed: TypeError"),
        (Client(change=lambda arrays: arrays[:1]), "the Flower client's fit gave arrays of other shapes"),
        (Client(change=lambda arrays: arrays[::-1]), "the Flower client's fit gave arrays of other shapes"),
        (Client(change=lambda arrays: [*arrays[:1], "two"]), "the Flower client's fit gave arrays of other shapes"),
        (Client(change=lambda arrays: [one / 0 for one in arrays]), "a trained parameter is not a finite number"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
async def test_what_a_flower_client_may_do_wrong_is_no_value(client: Client, words: str) -> None:
    found, told = await answered(FlowerLearner(METRIC, client))
    assert found is None
    assert told.startswith(words)
    assert bool(told) == bool(words)


async def test_a_flower_client_of_another_model_and_one_that_gives_no_triple_are_no_value() -> None:
    found, told = await answered(FlowerLearner(METRIC, Client(), [(2, 2)]))
    assert (found, told) == (None, "the Flower client has another model: 6 parameters do not fill arrays of 4")
    client = Client()
    client.fit = lambda parameters, config: [parameters, config]  # type: ignore[method-assign]
    found, told = await answered(FlowerLearner(METRIC, client))
    assert (found, told) == (None, "the Flower client's fit gave no parameters, number of examples and metrics")


async def test_a_flower_client_trains_one_round_at_a_time() -> None:
    class Slow(Client):
        inside, most = 0, 0

        def fit(self, parameters: list[NDArray[Any]], config: dict[str, Any]) -> Any:
            self.inside += 1
            self.most = max(self.most, self.inside)
            entered.wait(0.02)
            self.inside -= 1
            return super().fit(parameters, config)

    entered, client = threading.Event(), Slow()
    learner = FlowerLearner(METRIC, client)
    threads = [threading.Thread(target=learner.train, args=(METRIC, START, 1, None, 0.5)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(client.configs), client.most) == (3, 1)


async def test_a_flower_client_that_still_trains_leaves_the_next_round_without_a_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("client_agent.learning.flower.READ_SECONDS", 0.01)
    begun, ended = threading.Event(), threading.Event()

    class Hanging(Client):
        def fit(self, parameters: list[NDArray[Any]], config: dict[str, Any]) -> Any:
            begun.set()
            ended.wait()
            return super().fit(parameters, config)

    learner = FlowerLearner(METRIC, Hanging())
    thread = threading.Thread(target=learner.train, args=(METRIC, START, 1, None, 0.5))
    thread.start()
    begun.wait()
    assert await answered(learner) == (None, "the Flower client still trains for another round")
    ended.set()
    thread.join()
    assert (await answered(learner))[0] is not None


async def test_an_applications_update_is_projected_and_followed_by_a_quantiles_entry_as_any_other() -> None:
    training = EXTERNAL.training.model_copy(
        update={"projection": Projection(entries=4), "quantile": Quantile(weight="0.1")}
    )
    spec = Update.model_validate({**EXTERNAL.model_dump(exclude_none=True), "length": 5, "training": training})
    value, trouble = await answered(App(moved), spec)
    projected = Projected(6, 4, hashlib.sha256(MODEL.file).digest()).project(np.full((1, 6), 0.25))
    assert value == pytest.approx([*projected[0], 0.1], abs=1e-6)
    assert trouble == ""
