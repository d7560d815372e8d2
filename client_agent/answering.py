"""Where the answer to a recipe comes from: the device's data, or the state that it kept for the recipe.

Both implement ``Origin``. ``check`` raises everything that may refuse a recipe, before anything depends on an answer
(P27). A device that passes it always has a ``Reply``, whatever that holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from client_agent.coin import coin
from client_agent.data import audience
from client_agent.data.sources import READ_SECONDS, Ask, DataSource, Reading, Value, read
from client_agent.journal import AgentStore, Fact, note
from client_agent.watching import Watching
from tacit.extension_points import WATCHED_STATE
from tacit.logview.live import LiveLog
from tacit.methods.base.method import Answer, Measurement
from tacit.methods.randomisers.registry import device_randomiser_of
from tacit.ports import Clock, Entropy
from tacit.recipe import derive
from tacit.recipe.encoder import MISSING, encoder_of, misread
from tacit.recipe.encoder_specs import Update
from tacit.recipe.model import Recipe

READ_TOGETHER = 4
"""How many data are read concurrently; beside them, one round at a time trains."""
MOST_TROUBLES = 4
"""How many troubles with a source its owner is told at once."""


class Reply(Protocol):
    """A device's answer to one recipe."""

    def drawn(self, entropy: Entropy, chosen: bool | None) -> tuple[Any, str]:
        """The measurement that an eligible device sends, drawn once; or None and the reason why nothing is sent.
        ``chosen`` is the decision of a series' draw; with None the recipe's coin decides."""
        ...


class Origin(Protocol):
    """Where the replies to some recipes come from."""

    def check(self, recipe: Recipe) -> None:
        """Raise ``Refusal`` for a recipe that cannot be answered, whatever the answer is."""
        ...

    def ready(self, recipe: Recipe, now: float) -> bool:
        """Whether the recipe can already be answered at ``now`` (POSIX seconds)."""
        ...

    def expect(self, recipe: Recipe) -> None:
        """Prepare for a recipe about which the device will decide later. Raises ``Refusal`` as ``check``."""
        ...

    async def replies(self, recipes: Sequence[Recipe], seconds: float) -> list[Reply]:
        """The replies to ``recipes``, in order, after at most about ``seconds``. Raises the store's errors."""
        ...


class Trains(Protocol):
    """What makes the updates that rounds of a training ask for (``client_agent.learning.training``)."""

    def ready(self, recipe: Recipe) -> bool:
        """Whether the round's model is here."""
        ...

    def trains(self, recipe: Recipe, ask: Ask, is_over: Callable[[], bool]) -> Ask:
        """A function that makes what the device sends, of examples that it asks for with ``ask``; it gives up when
        ``is_over``."""
        ...


class RoundModels(Protocol):
    """The models of the rounds that devices like this one train (``client_agent.learning.model_files``). ``due``:
    whether the log was read since ``fetch``; ``trouble``: why the first missing model is missing, or empty."""

    due: bool
    trouble: str

    def of(self, recipe: Recipe) -> bytes | None:
        """The file of the round's model, if it is here. Raises ``DecodeError`` for a recipe that states none."""
        ...

    def follow(self, log: LiveLog, now: float) -> None:
        """Want the models of the rounds of ``log`` that are still to be decided about at ``now`` (POSIX seconds)."""
        ...

    async def fetch(self) -> bool:
        """Ask once for each model that is missing; returns whether one came. Never raises."""
        ...


class Data:
    """The device's own data, which a source reads when it is asked, and of which ``trainer`` makes the updates that
    rounds of a training ask for (None: there is no answer to them)."""

    def __init__(
        self,
        source: DataSource,
        attributes: Mapping[str, str],
        store: AgentStore,
        clock: Clock,
        trainer: Trains | None = None,
    ) -> None:
        self._source, self._attributes, self._store, self._clock = source, attributes, store, clock
        self._trainer = trainer

    def check(self, recipe: Recipe) -> None:
        """Raise ``Refusal`` for an invalid randomizer. What draws is imported here, before there is an answer."""
        device_randomiser_of(derive.randomizer_of(recipe))

    def ready(self, recipe: Recipe, now: float) -> bool:
        """Whether a model that is to be trained is here; data need no preparation."""
        if not isinstance(recipe.question.encoder, Update):
            return True
        return self._trainer is not None and self._trainer.ready(recipe)

    def expect(self, recipe: Recipe) -> None:
        """Does nothing: data need no preparation."""

    async def replies(self, recipes: Sequence[Recipe], seconds: float) -> list[Reply]:
        """Read all data concurrently, and train one round after the other beside that, each in an even share of the
        time that is left: so no slow training makes another recipe's datum miss. A datum that does not arrive in time
        is missing. Trouble with the source is recorded for the device's owner."""
        turns, clock = asyncio.Semaphore(READ_TOGETHER), asyncio.get_running_loop().time
        end, found = clock() + min(READ_SECONDS, seconds), dict[bytes, Reading]()

        async def reading(recipe: Recipe, until: float) -> None:
            found[recipe.hash] = await read(self._ask(recipe, lambda: clock() >= until), until - clock())

        async def in_turn(recipe: Recipe) -> None:
            async with turns:
                await reading(recipe, end)

        async def training(rounds: Sequence[Recipe]) -> None:
            for at, recipe in enumerate(rounds):
                now = clock()
                await reading(recipe, now + (end - now) / (len(rounds) - at))

        rounds = [recipe for recipe in recipes if isinstance(recipe.question.encoder, Update)]
        plain = [recipe for recipe in recipes if not isinstance(recipe.question.encoder, Update)]
        await asyncio.gather(*map(in_turn, plain), training(rounds))
        troubles = dict.fromkeys(filter(None, (_trouble(recipe, found[recipe.hash]) for recipe in recipes)))
        await note(self._store, Fact.SOURCE_TROUBLE, "; ".join(list(troubles)[:MOST_TROUBLES]), self._clock.now())
        return [DatumReply(recipe, found[recipe.hash].value) for recipe in recipes]

    def _ask(self, recipe: Recipe, is_over: Callable[[], bool]) -> Ask:
        """A function that returns the datum of ``recipe``."""
        question = recipe.question

        def datum() -> Value | None:
            return audience.datum(question, self._attributes, self._source)

        if self._trainer is None or not isinstance(question.encoder, Update):
            return datum
        return self._trainer.trains(recipe, datum, is_over)


def _trouble(recipe: Recipe, reading: Reading) -> str:
    """What keeps a datum from being an answer, for the device's owner: it is paid for all the same (P27)."""
    question = recipe.question
    if reading.trouble or isinstance(question.encoder, Update):
        return reading.trouble
    why = misread(question, reading.value)
    return f"{question.metric}: {why}" if why else ""


class KeptStates:
    """States of watched events. They are read when the recipe's interval begins and no sooner, so that all steps are
    over."""

    def __init__(self, watches: Watching) -> None:
        self._watches = watches

    def check(self, recipe: Recipe) -> None:
        """Raise ``Refusal`` for an invalid randomizer, and as ``plan_of``."""
        derive.randomizer_of(recipe)
        WATCHED_STATE["plan-of"](recipe)

    def ready(self, recipe: Recipe, now: float) -> bool:
        """Whether the interval has begun at ``now`` (POSIX seconds), so that all steps are over."""
        return now >= recipe.interval.start

    def expect(self, recipe: Recipe) -> None:
        """Begin to watch, unless already watching (P23: independently of the later coin)."""
        self._watches.expect(recipe)

    async def replies(self, recipes: Sequence[Recipe], seconds: float) -> list[Reply]:
        """The kept state for each recipe, or the state before the first step; returns at once."""
        return [StateReply(recipe, self._watches.state(recipe)) for recipe in recipes]


@dataclass(frozen=True, slots=True)
class AnswerSources:
    """Answers each recipe from the device's data or from the state that it kept."""

    data: Origin
    kept: Origin

    def of(self, recipe: Recipe) -> Origin:
        """Where the reply to ``recipe`` comes from: the kept state of a watched event, or else the device's data."""
        return self.kept if derive.is_watched(recipe) else self.data

    async def replies(self, recipes: Sequence[Recipe], seconds: float) -> list[Reply]:
        """The replies to ``recipes``, in their order. The data are asked first, then the kept states, each once at
        most."""
        replies_by_hash: dict[bytes, Reply] = {}
        for origin in (self.data, self.kept):
            own = [recipe for recipe in recipes if self.of(recipe) is origin]
            if own:
                replies = await origin.replies(own, seconds)
                replies_by_hash.update(zip((recipe.hash for recipe in own), replies, strict=True))
        return [replies_by_hash[recipe.hash] for recipe in recipes]


@dataclass(frozen=True, slots=True)
class DatumReply:
    """The reply of a device's data: a datum, or that there is none."""

    recipe: Recipe
    value: Value | None

    def drawn(self, entropy: Entropy, chosen: bool | None) -> tuple[Measurement | None, str]:
        """The encoded and randomised datum (see ``drawn``)."""
        return draw_answer(self.recipe, encoder_of(self.recipe.question).encode(self.value), entropy, chosen)


@dataclass(frozen=True, slots=True)
class StateReply:
    """The reply of a watched event: an encrypted state, which this device cannot read."""

    recipe: Recipe
    state: bytes

    def drawn(self, entropy: Entropy, chosen: bool | None) -> tuple[Any, str]:
        """The randomizer applied to the encrypted state, if the coin (or ``chosen``) says so."""
        if not (coin(self.recipe.sampling.rate_of(MISSING), entropy) if chosen is None else chosen):
            return None, ""
        return WATCHED_STATE["side-of"](self.recipe).randomised(self.recipe, self.state, entropy), ""


def draw_answer(
    recipe: Recipe, answer: Answer | None, entropy: Entropy, chosen: bool | None = None
) -> tuple[Measurement | None, str]:
    """What an eligible device sends, and why nothing. It sends its randomised answer (without one, ``MISSING``, a
    dummy: P27) if the coin of that answer's rate, or ``chosen`` of a series' draw, says so. Otherwise it sends a dummy
    with the probability of dummies (P20). Nothing reveals later that it was one."""
    randomiser, sampling, why = device_randomiser_of(derive.randomizer_of(recipe)), recipe.sampling, ""
    if coin(sampling.rate_of(answer), entropy) if chosen is None else chosen:
        measurement = randomiser.missing(entropy) if answer is MISSING else randomiser.randomise(answer, entropy)
        if measurement is not None:
            return measurement, ""
        why = "randomised beyond the bound"
    if sampling.dummies is not None and coin(sampling.dummy_rate, entropy):
        return randomiser.dummy(entropy), ""
    return None, why
