"""The models of rounds, which a device fetches through the relay like the log, and keeps in memory.

Which files it fetches, and when, follows from the log, its policy, its configuration and the time alone: all devices
with the same of them ask for the same files, whomever a round asks, whatever a device's data, journal, budget, tokens
and coins are. A file that does not come is asked for again after the next reading of the log, from its first piece on,
so that requests do not tell where an earlier attempt of the same device ended.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from client_agent import device_rules
from client_agent.config import AgentConfig
from client_agent.oblivious import ObliviousClient
from client_agent.supervision import words_of
from tacit.errors import DecodeError
from tacit.learning import model_file
from tacit.logview.live import LiveLog, LiveRecipe
from tacit.ports import TransportError
from tacit.problem import party_of
from tacit.recipe.asking import asked_until
from tacit.recipe.encoder_specs import Update
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.recipe.training import MODEL_PIECE, RoundModel, read_round_model
from tacit.retry_after import make_unanswered
from tacit.rules import table as rules

MOST_FILES: Final = 16
MOST_BYTES: Final = 4 * model_file.MAX_BYTES
"""Most files, and bytes of all of them, that a device keeps: of each analyst that of the round about which it decides
first, then of each that of the second, and so on."""
FILE_SECONDS: Final = 120.0
"""Most seconds for all pieces of a file."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A file that a round needs, the round's name, and its analyst."""

    model: RoundModel
    recipe: str
    analyst: str


class ModelFiles:
    """The files that the rounds of a verified log need. ``due``: whether the log was read since ``fetch``;
    ``trouble``: why the first missing file is missing, or empty. ``has_learner`` as for ``device_rules.pins``."""

    def __init__(
        self, config: AgentConfig, policy: Policy, client: ObliviousClient, *, has_learner: bool = False
    ) -> None:
        self._config, self._policy, self._client, self._has_learner = config, policy, client, has_learner
        self._wanted: dict[str, Wanted] = {}
        self._files: dict[str, bytes] = {}
        self._left_out = ""
        self.due, self.trouble = False, ""

    def of(self, recipe: Recipe) -> bytes | None:
        """The file of the round's model, if it is here. Raises ``DecodeError`` for a recipe that states none."""
        return self._files.get(_model_of(recipe).model)

    def follow(self, log: LiveLog, now: float) -> None:
        """Want the files of the rounds of ``log`` that are still to be decided about at ``now`` (POSIX seconds), and
        forget all others."""
        self._wanted, self._left_out, size = {}, "", 0
        for wanted in _in_turn(self._rounds(log, now)):
            if wanted.model.model in self._wanted:
                continue
            if len(self._wanted) == MOST_FILES or size + wanted.model.bytes > MOST_BYTES:
                self._left_out = f"{wanted.recipe}: too many models are trained at the same time"
                break
            self._wanted[wanted.model.model] = wanted
            size += wanted.model.bytes
        self._keep_wanted()
        self.due = True

    async def fetch(self) -> bool:
        """Ask once for each file that is missing; returns whether one came. Never raises."""
        self.due, came, troubles = False, False, list[str]()
        for name, wanted in list(self._wanted.items()):
            if name in self._files or name not in self._wanted:
                continue
            try:
                async with asyncio.timeout(FILE_SECONDS):
                    self._files[name] = await self._file(wanted.model)
                came = True
            except TimeoutError:
                troubles.append(f"{wanted.recipe}: its model did not come in time")
            except Exception as error:  # of whatever was answered; the other files are asked for all the same
                troubles.append(f"{wanted.recipe}: {words_of(error)}")
        self._keep_wanted()
        self.trouble = next(iter(troubles), self._left_out)
        return came

    def _keep_wanted(self) -> None:
        self._files = {name: file for name, file in self._files.items() if name in self._wanted}

    def _rounds(self, log: LiveLog, now: float) -> Iterator[Wanted]:
        """The models of all rounds that every device of this policy and configuration would train, those to be decided
        about first in front."""
        if device_rules.training_trouble(self._config):
            return
        for live in sorted(log.recipes, key=lambda one: (asked_until(one.recipe.interval), one.index)):
            if isinstance(live.recipe.question.encoder, Update) and now <= asked_until(live.recipe.interval):
                with contextlib.suppress(Exception):  # a recipe that cannot be judged is one that is not trained
                    if not self._refuses(log, live, now):
                        yield Wanted(_model_of(live.recipe), live.recipe.name, live.recipe.parties.analyst.operator)

    def _refuses(self, log: LiveLog, live: LiveRecipe, now: float) -> bool:
        """Whether every device of this policy and configuration refuses the recipe."""
        recipe = live.recipe
        refusals = rules.check(recipe, self._policy, log.context(live, now))
        pinned = device_rules.pins(recipe, self._config, has_learner=self._has_learner)
        return live.is_void or bool(refusals) or bool(pinned)

    async def _file(self, model: RoundModel) -> bytes:
        """A file, piece by piece. Raises ``TransportError`` and ``DecodeError``."""
        content = bytearray()
        for number in range(model.pieces):
            content += await self._piece(model, number)
        data = bytes(content)
        if not model_file.is_named(data, model.model):
            raise DecodeError("the file is not the model that the log names")
        model_file.require_numbers(data)
        return data

    async def _piece(self, model: RoundModel, number: int) -> bytes:
        response = await self._client.request("GET", f"{self._config.recipe_server_url}{model.path}/{number}")
        if response.status == 404:
            raise TransportError("the recipe server does not have its model yet")
        if response.status != 200:
            party = party_of(response.content, "the recipe server")
            raise make_unanswered(f"{party} answered {response.status}", dict(response.fields))
        if len(response.content) != min(MODEL_PIECE, model.bytes - number * MODEL_PIECE):
            raise DecodeError("a piece of its model has the wrong length")
        return response.content


def _in_turn(rounds: Iterable[Wanted]) -> list[Wanted]:
    """The first of each analyst, then the second of each, and so on, so that none keeps others out."""
    before = Counter[str]()
    turns = list[tuple[int, Wanted]]()
    for wanted in rounds:
        turns.append((before[wanted.analyst], wanted))
        before[wanted.analyst] += 1
    return [wanted for _, wanted in sorted(turns, key=lambda one: one[0])]


def _model_of(recipe: Recipe) -> RoundModel:
    """The model that a round states. Raises ``DecodeError``."""
    spec = recipe.question.encoder
    if not isinstance(spec, Update):
        raise DecodeError(f"{recipe.name} trains no model")
    return read_round_model(recipe.question.round_input or "", spec.training)
