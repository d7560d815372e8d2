"""What a device makes of its examples, and which models it keeps."""

from __future__ import annotations

import hashlib
import threading
import warnings
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from client_agent.answering import Data, DatumReply
from client_agent.config import AgentConfig
from client_agent.data.sources import CallableSource, Value
from client_agent.journal import Fact, MemoryAgentStore, Trouble
from client_agent.learning.model_files import MOST_FILES, ModelFiles
from client_agent.learning.training import Trainer
from client_agent.oblivious import ObliviousClient
from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.learning import LEARNING, Model, model_of, training_series
from infra.lab.kit.recipes import NOW, URLS, RecipeKit
from tacit import bhttp
from tacit.learning import local, model_file
from tacit.learning.projection import Projected
from tacit.logview.live import LiveLog
from tacit.models.secure_aggregation.form import SecureAggregationParties
from tacit.recipe.asking import asked_until
from tacit.recipe.encoder import encoder_of
from tacit.recipe.encoder_specs import Update
from tacit.recipe.model import Recipe
from tacit.recipe.series import Series
from tacit.recipe.training import Projection, Quantile
from tacit.rules import table as rules
from tacit.tlog.leaves import LeafType, SignedLeaf, sign_leaf

KIT = RecipeKit()
POLICY = KIT.policy.model_copy(update={"allow_unbounded_local": True})
CONFIG = cast(AgentConfig, SimpleNamespace(learning=True, relay_url=URLS["relay"], recipe_server_url="x"))
EXAMPLES: list[str | int | float | bool] = [0.5, -1, 0, 2.0, 0.25, 1, 1, 1, 1]
MODEL = model_of(LEARNING, seed=1)


@dataclass
class Server:
    """Hands models out in one piece, and notes what it was asked for."""

    files: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def request(self, _method: str, url: str) -> bhttp.Response:
        self.asked.append(url.removeprefix("x"))
        file = self.files.get(url.removeprefix("x"))
        return bhttp.Response(404) if file is None else bhttp.Response(200, (), file)

    def hold(self, *models: Model) -> None:
        self.files |= {f"{model.stated().path}/0": model.file for model in models}


def files_of(server: Server) -> ModelFiles:
    return ModelFiles(CONFIG, POLICY, cast(ObliviousClient, server))


def leaves(series: Series, recipe: Recipe) -> list[SignedLeaf]:
    opt_ins = [KIT.opt_in_leaf(recipe, role) for role in ("leader", "helper")]
    return [KIT.series_leaf(series), KIT.directory_leaf(), KIT.recipe_leaf(recipe), *opt_ins]


def log_of(*found: SignedLeaf) -> LiveLog:
    return LiveLog.from_leaves(enumerate(found))


def trained_round(spec: Update = LEARNING, model: Model = MODEL, clip: int | str = 1, index: int = 0) -> Recipe:
    return KIT.round(training_series(KIT, rate=1, spec=spec), index, model.stated(clip).text())


@dataclass
class Kept:
    """A model that is here, or not."""

    file: bytes | None

    def of(self, _recipe: Recipe) -> bytes | None:
        return self.file


async def answered(
    recipe: Recipe, value: Value | None, file: bytes | None = MODEL.file, seconds: float = 10.0, seed: bytes = b"a"
) -> tuple[Value | None, str]:
    """The vector of a device with this value, and what its owner is told."""
    store = MemoryAgentStore()
    trainer = Trainer(cast(ModelFiles, Kept(file)), SeededEntropy(seed))
    data = Data(CallableSource(lambda _metric: value), {}, store, SimClock(NOW), trainer)
    (reply,) = await data.replies([recipe], seconds)
    assert isinstance(reply, DatumReply)
    trouble = Trouble.decode(await store.fact(Fact.SOURCE_TROUBLE))
    return reply.value, trouble.what if trouble else ""


def expected(spec: Update, value: list[str | int | float | bool], clip: float) -> list[float]:
    examples = local.examples_of(spec.training.architecture, [float(one) for one in value])
    update = local.local_update(spec.training, model_file.decode(MODEL.file), examples, np.random.default_rng(0))
    room = local.room_for_units(spec.length, spec.radius)
    found: list[float] = local.sent_vector(spec.training, update, clip, room).tolist()
    return found


@pytest.mark.parametrize("clip", [1, "0.01"])
async def test_the_datum_of_a_device_that_trains_is_its_update_divided_by_the_clip(clip: int | str) -> None:
    """A clip of a hundredth shrinks it to the room that rounding needs; its text is as good as its list."""
    recipe = trained_round(clip=clip)
    wanted = expected(LEARNING, EXAMPLES, float(clip))
    assert await answered(recipe, EXAMPLES) == (wanted, "")
    assert await answered(recipe, ",".join(map(str, EXAMPLES))) == (wanted, "")
    encoded = encoder_of(recipe.question).encode(wanted)
    assert isinstance(encoded, tuple)
    zero, radius = 100, LEARNING.radius
    length = float(np.linalg.norm(np.array(encoded) - zero))
    assert 0 < length <= radius
    if clip != 1:
        assert float(np.linalg.norm(wanted)) == pytest.approx(local.room_for_units(6, radius))


async def test_what_is_sent_of_a_projected_update_is_its_projection_by_the_rounds_model() -> None:
    training = LEARNING.training.model_copy(update={"projection": Projection(entries=4)})
    spec = Update.model_validate({**LEARNING.model_dump(exclude_none=True), "length": 4, "training": training})
    whole, _ = await answered(trained_round(clip=100), EXAMPLES)
    value, _ = await answered(trained_round(spec, clip=100), EXAMPLES)
    projected = Projected(6, 4, hashlib.sha256(MODEL.file).digest())
    rows = np.array([whole], dtype=float)
    assert value == pytest.approx(projected.project(rows)[0].tolist())


async def test_the_entry_of_a_quantile_says_whether_the_update_was_long() -> None:
    training = LEARNING.training.model_copy(update={"quantile": Quantile(weight="0.5")})
    spec = Update.model_validate({**LEARNING.model_dump(exclude_none=True), "length": 7, "training": training})
    for clip, sign in (("0.01", -1), (100, 1)):
        value, _ = await answered(trained_round(spec, clip=clip), EXAMPLES)
        assert isinstance(value, list)
        assert value[-1] == sign * 0.5
        assert float(np.linalg.norm(np.array(value, dtype=float))) <= 1


async def test_examples_of_a_step_are_drawn_from_the_devices_own_randomness() -> None:
    training = LEARNING.training.model_copy(update={"batch_size": 1, "steps": 2})
    spec = LEARNING.model_copy(update={"training": training})
    recipe = trained_round(spec)
    found = {str((await answered(recipe, EXAMPLES, seed=b"%d" % seed))[0]) for seed in range(12)}
    assert 1 < len(found) <= 6
    assert (await answered(recipe, EXAMPLES, seed=b"1"))[0] == (await answered(recipe, EXAMPLES, seed=b"1"))[0]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, ""),
        ([], "no update: examples: there must be a multiple of 3 numbers"),
        ([1, 2], "no update: examples: there must be a multiple of 3 numbers"),
        ([1, 2, 2], "no update: examples: a class is not a whole number below 2"),
        ([1, float("inf"), 1], "no update: examples: a number is not finite"),
        ([1, "two", 1], "no update: examples: something is not a number"),
        ([1, None, 1], "no update: examples: something is not a number"),
        (7.0, "no update: examples: there must be a list of numbers"),
        ([1e200, 1e200, 1] * 2, "no update: the update is not finite"),
    ],
    ids=repr,
)
async def test_a_device_that_cannot_train_has_no_value_and_its_owner_learns_why(value: Value, words: str) -> None:
    training = LEARNING.training.model_copy(update={"learning_rate": 1000, "steps": 5})
    recipe = trained_round(LEARNING.model_copy(update={"training": training}))
    found, told = await answered(recipe, value)
    assert found is None
    assert told.startswith(words)
    assert bool(told) == bool(words)


async def test_a_model_that_went_meanwhile_and_a_training_without_time_are_no_value() -> None:
    assert await answered(trained_round(), EXAMPLES, None) == (None, "the round's model is not here any more")
    found, told = await answered(trained_round(), EXAMPLES, seconds=-1.0)
    assert (found, "no time was left" in told) == (None, True)


async def test_an_update_that_is_too_long_to_be_measured_is_no_value() -> None:
    training = LEARNING.training.model_copy(update={"learning_rate": 1000, "steps": 1})
    recipe = trained_round(LEARNING.model_copy(update={"training": training}), clip="0.000000001")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for long in (1e200, 1e303):
            examples: Value = [long, 0, 0, long, 0, 1]
            assert await answered(recipe, examples) == (None, "no update: the update is too long")


async def test_trainings_that_never_end_keep_no_other_datum_and_no_quick_training_from_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each round has its share of the time, and the data of other recipes wait for none."""
    series = training_series(KIT, rounds=5, rate=1)
    rounds = [KIT.round(series, at, MODEL.stated(1 if at == 4 else "0.5").text()) for at in range(5)]
    plain, begun = KIT.recipe(), list[str]()
    update, value = local.sent_vector, CallableSource(lambda name: EXAMPLES if name == "strokes" else 7)

    def endless(training: Any, found: Any, clip: float, *others: Any) -> Any:
        begun.append(str(clip))
        if clip != 1:
            threading.Event().wait(5)
        return update(training, found, clip, *others)

    monkeypatch.setattr(local, "sent_vector", endless)
    trainer = Trainer(cast(ModelFiles, Kept(MODEL.file)), SeededEntropy(b"a"))
    data = Data(value, {}, MemoryAgentStore(), SimClock(NOW), trainer)
    replies = cast(list[DatumReply], await data.replies([*rounds, plain], 1.0))
    assert [reply.value is None for reply in replies] == [True] * 4 + [False, False]
    assert begun == ["0.5"] * 4 + ["1.0"]


def test_a_training_that_is_over_time_ends_by_itself() -> None:
    """The device has long given it up; nothing goes on in the background."""
    trainer = Trainer(cast(ModelFiles, Kept(MODEL.file)), SeededEntropy(b"late"))
    ended: list[type[BaseException]] = []

    def run() -> None:
        try:
            trainer.trains(trained_round(), lambda: EXAMPLES, lambda: True)()
        except TimeoutError as error:
            ended.append(type(error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert ended == [TimeoutError]


async def test_models_are_kept_until_nobody_decides_about_their_rounds_any_more() -> None:
    server, recipe = Server(), trained_round()
    server.hold(MODEL)
    series = training_series(KIT, rate=1)
    log, files = log_of(*leaves(series, recipe)), files_of(server)
    assert files.of(recipe) is None
    files.follow(log, NOW)
    assert files.due
    assert await files.fetch()
    assert not files.due
    assert files.of(recipe) == MODEL.file
    files.follow(log, asked_until(recipe.interval))
    assert files.of(recipe) == MODEL.file
    files.follow(log, asked_until(recipe.interval) + 1)
    assert files.of(recipe) is None
    assert not await files.fetch()
    assert len(server.asked) == 1


async def test_a_round_that_cannot_be_judged_keeps_no_other_from_its_model(monkeypatch: pytest.MonkeyPatch) -> None:
    server, found = Server(), [KIT.directory_leaf()]
    server.hold(MODEL)
    rounds = list[Recipe]()
    for number, model in enumerate((model_of(LEARNING, seed=2), MODEL)):
        series = training_series(KIT, rounds=1, rate=1, name=f"training-{number}", slot=number)
        rounds.append(KIT.round(series, 0, model.stated().text()))
        found += [leaf for leaf in leaves(series, rounds[-1]) if leaf.type is not LeafType.ISSUER_DIRECTORY]
    check = rules.check

    def fails(recipe: Recipe, *others: Any) -> Any:
        if recipe == rounds[0]:
            raise ZeroDivisionError
        return check(recipe, *others)

    monkeypatch.setattr(rules, "check", fails)
    files = files_of(server)
    files.follow(log_of(*found), NOW)
    assert await files.fetch()
    assert [files.of(recipe) for recipe in rounds] == [None, MODEL.file]
    assert len(server.asked) == 1


async def test_the_model_of_a_void_round_is_forgotten() -> None:
    server, recipe = Server(), trained_round()
    server.hold(MODEL)
    found, files = leaves(training_series(KIT, rate=1), recipe), files_of(server)
    files.follow(log_of(*found), NOW)
    await files.fetch()
    files.follow(log_of(*found, *(KIT.void_leaf(recipe, role) for role in ("leader", "helper"))), NOW)
    assert files.of(recipe) is None


async def test_a_device_keeps_no_more_models_than_it_may() -> None:
    """Those of the rounds about which it decides first, whichever it had before; the owner learns of the rest."""
    server, found, rounds = Server(), [KIT.directory_leaf(slots=MOST_FILES + 2)], []
    for number in range(MOST_FILES + 1):
        model = model_of(LEARNING, seed=number)
        server.hold(model)
        series = training_series(KIT, rounds=1, rate=1, name=f"training-{number}", slot=number)
        rounds.append(KIT.round(series, 0, model.stated().text()))
        found += [KIT.series_leaf(series), KIT.recipe_leaf(rounds[-1])]
        found += [KIT.opt_in_leaf(rounds[-1], role) for role in ("leader", "helper")]
    files = files_of(server)
    files.follow(log_of(*found), NOW)
    await files.fetch()
    assert [files.of(recipe) is not None for recipe in rounds] == [*[True] * MOST_FILES, False]
    assert files.trouble == f"{rounds[-1].name}: too many models are trained at the same time"


class Others(RecipeKit):
    """Another analyst, with the same key."""

    def parties(self) -> SecureAggregationParties:
        found = super().parties()
        analyst = found.analyst.model_copy(update={"operator": "other.example"})
        return found.model_copy(update={"analyst": analyst})

    def series_leaf(self, series: Series) -> SignedLeaf:
        return sign_leaf(LeafType.SERIES, series.body(), "other.example", self.keys["analyst"])


async def test_an_analyst_with_many_rounds_keeps_no_other_analysts_model_out() -> None:
    server, found, rounds = Server(), [KIT.directory_leaf(slots=MOST_FILES + 2)], []
    for number in range(MOST_FILES + 2):
        kit, model = Others() if number == MOST_FILES + 1 else KIT, model_of(LEARNING, seed=number)
        server.hold(model)
        series = training_series(kit, rounds=1, rate=1, name=f"training-{number}", slot=number)
        rounds.append(kit.round(series, 0, model.stated().text()))
        found += [kit.series_leaf(series), kit.recipe_leaf(rounds[-1])]
        found += [kit.opt_in_leaf(rounds[-1], role) for role in ("leader", "helper")]
    analysts = {"other.example": next(iter((POLICY.analysts or {}).values()))}
    policy = POLICY.model_copy(update={"analysts": {**(POLICY.analysts or {}), **analysts}})
    files = ModelFiles(CONFIG, policy, cast(ObliviousClient, server))
    files.follow(log_of(*found), NOW)
    await files.fetch()
    assert [files.of(recipe) is not None for recipe in rounds] == [*[True] * (MOST_FILES - 1), False, False, True]
