"""The demo of the shuffled model with more answers, and messages, than this machine could seal: some devices are agents
that seal each of their messages, and those of all others are drawn by the same law and counted.

All parties are the real ones, and take the agents' bundles as always. Of the others, the shuffler is told how many
there are, and the analyzer how many messages there are about each answer (``infra.lab.demo.counting``). Attacks are
tried on the staged recipe, all of whose devices seal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from infra.lab.demo.dataset import Dataset
from infra.lab.demo.fleet import Fleet
from infra.lab.demo.results.result import StagedRefusal
from infra.lab.demo.results.shuffled_result import MOST_MESSAGES
from infra.lab.demo.results.view import Stages
from infra.lab.demo.run import AGENTS_OF_A_CROWD
from infra.lab.demo.shuffled_run import ShuffledRun
from infra.lab.demo.staging import Recipes
from infra.lab.devices.counted import NO_ANSWER, crowd_totals
from tacit.methods.shuffled_few import Flipped
from tacit.models.parties import SHUFFLER
from tacit.models.shuffled.task import counts_of
from tacit.ports import Clock, Transport
from tacit.recipe.encoder import encoder_of
from tacit.recipe.model import Recipe

if TYPE_CHECKING:
    from client_agent.deciding import AgentEnv
    from infra.lab.demo.services import Services

MOST_SEALED = 20_000
"""Messages that all agents together seal at most."""
DELTA = Decimal("0.00000001")
LEAST_SHARE = 0.99
"""B, as a share of the devices: all of them take part."""


class CountedRun(ShuffledRun):
    """A run of model ``shuffled`` in which only some devices are agents; the totals of the others are drawn by the
    law of their messages."""

    _counted: ClassVar[bool] = True
    _has_crowd = False

    def __init__(self, dataset: Dataset, randomizer: str, state_dir: Path, stages: Stages) -> None:
        super().__init__(dataset, randomizer, state_dir, stages)
        messages = counts_of(self._main_recipe()).messages
        self._agents = min(AGENTS_OF_A_CROWD, MOST_SEALED // messages) if messages <= MOST_MESSAGES else 0
        self.caution = "" if messages <= MOST_MESSAGES else _beyond_policies(randomizer, messages)
        """What to say before a run that devices with a usual policy would refuse; those of the run allow any number of
        messages."""

    async def _crowd(self, recipe: Recipe, world: AgentEnv) -> CountedCrowd:
        """The messages of all devices that are no agents: only their totals, which are drawn at once."""
        del world
        encoder, method = encoder_of(recipe.question), counts_of(recipe)
        encoded = [encoder.encode(value if value.strip() else None) for value in self._dataset.values[self._agents :]]
        answers = np.array([one if isinstance(one, int) else NO_ANSWER for one in encoded], dtype=np.int64)
        file = self._layout.state_dir / "crowd.npy"
        name = "other devices: messages drawn and counted"
        with self._timed("crowd"), self._stages.stage(name, len(answers)) as tick:
            np.save(file, crowd_totals(method, answers, self._entropy, tick))
        self._others = CountedCrowd(self._stack, recipe.hash, len(answers), method.messages, file)
        return self._others

    async def _forged(self, recipe: Recipe, transport: Transport) -> list[StagedRefusal]:
        await self._settle(SHUFFLER)
        await self._others.hand_over()
        return await super()._forged(recipe, transport)

    async def _told_outside(self, fleet: Fleet, recipes: Recipes) -> StagedRefusal:
        return await super()._told_outside(fleet, Recipes(recipes.drill, recipes.drill))

    def _outside(self) -> str:
        return "neither"

    def _inside(self) -> str:
        return "yes"

    def _main_members(self) -> dict[str, Any]:
        return {
            "statistic": self._dataset.question.asked.statistic,
            "rate": Decimal(1),
            "delta": DELTA,
            "min_batch_size": math.floor(LEAST_SHARE * len(self._dataset.values)),
        }


def _beyond_policies(randomizer: str, messages: int) -> str:
    fewer = "give more --devices" if randomizer == Flipped.NAME else "--variant flipped has few with enough --devices"
    return (
        f"{randomizer} has {messages:,} messages a device, and policies usually allow {MOST_MESSAGES:,}: real devices "
        f"would refuse, so all messages are drawn and counted here; {fewer}"
    )


class CountedCrowd:
    """The devices of a run whose messages are counted: ``sampled`` of them, all that there are."""

    def __init__(self, services: Services, task_id: bytes, devices: int, messages: int, file: Path) -> None:
        self._services = services
        self._task_id = task_id
        self._messages = devices * messages
        self._file = file
        self.sampled = devices

    async def send(self, _clock: Clock, tick: Callable[[int], None]) -> None:
        """Let the shuffler count their bundles."""
        await self._services.count_bundles(self._task_id, self.sampled)
        tick(self.sampled)

    async def hand_over(self) -> None:
        """Let the analyzer count their messages."""
        await self._services.count_messages(self._task_id, self._messages, self._file)
