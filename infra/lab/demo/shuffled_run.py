"""The demo of the shuffled model: a histogram whose noise all devices make together, behind a shuffler.

Every party and every device is as in ``infra.lab.demo.run``; bundles go to the shuffler, and their messages from there
to the analyzer, in one random order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from client_agent.oblivious import ObliviousClient
from infra.lab.demo.attacks.common import Thief
from infra.lab.demo.attacks.shuffled import ShuffledThief, as_shuffler
from infra.lab.demo.dataset import Dataset
from infra.lab.demo.fleet import Fleet
from infra.lab.demo.results.result import DemoResult, StagedRefusal
from infra.lab.demo.results.shuffled_result import ShuffledResult
from infra.lab.demo.results.view import Stages
from infra.lab.demo.run import DemoRun, rate_of
from infra.lab.demo.staging import HOUR, Recipes
from infra.lab.kit.reports import BoundToken
from tacit.errors import Refusal, UsageError
from tacit.methods.result import Zeros
from tacit.models.devices import device_side
from tacit.models.one_server import ANALYZER
from tacit.models.parties import SHUFFLER
from tacit.models.shuffled.form import Shuffled
from tacit.models.shuffled.task import counts_of
from tacit.ports import Transport
from tacit.problem import problem_type
from tacit.recipe.model import Recipe
from tacit.recipe.writing.survey import Survey
from tacit.task.shuffled import message_size

LEAST_DEVICES = 300
"""So that B of the recipe that is shown is larger."""


class ShuffledRun(DemoRun):
    """One run, stage by stage; ``run`` returns everything that there is to show."""

    MODEL: ClassVar[str] = Shuffled.name
    DRILL_BATCH: ClassVar[int] = 200
    """Fewer devices cannot hide one of them."""
    ROBBED: ClassVar[int] = 3
    RESULT: ClassVar[type[DemoResult]] = ShuffledResult

    def __init__(self, dataset: Dataset, randomizer: str, state_dir: Path, stages: Stages) -> None:
        if len(dataset.values) < LEAST_DEVICES:
            raise UsageError(f"{len(dataset.values)} devices are too few to hide in; take at least {LEAST_DEVICES}")
        super().__init__(dataset, state_dir, stages, (SHUFFLER, ANALYZER))
        self._randomizer = randomizer

    async def _attacked_further(
        self, thief: Thief, recipes: Recipes, unspent: Sequence[BoundToken], direct: Transport
    ) -> list[StagedRefusal]:
        if not isinstance(thief, ShuffledThief):
            raise Refusal("demo-staged", "the staged recipe has no shuffler")
        client, whole = self._client(direct), thief.whole(unspent[-1])
        shorter = whole[: -message_size(counts_of(recipes.drill).cells)]
        early = await self._refused("a bundle with a message less", thief.url, shorter, client)
        self._jump_to(recipes.drill.interval.end + HOUR // 12)
        late = await self._refused("a bundle after the interval", thief.url, whole, client)
        return [early, late]

    async def _attacks(
        self, fleet: Fleet, recipes: Recipes, transport: Transport, direct: Transport
    ) -> list[StagedRefusal]:
        refused = await super()._attacks(fleet, recipes, transport, direct)
        return [*refused, *await self._forged(recipes.main, transport)]

    async def _forged(self, recipe: Recipe, transport: Transport) -> list[StagedRefusal]:
        """Chunks of somebody else. The recipe that is shown has all of its own by now."""
        await self._settle(SHUFFLER)
        token = self._layout.credentials["messages"].read_text(encoding="ascii").strip()
        return await as_shuffler(self._layout.urls[ANALYZER], token, recipe.hash_text, transport)

    async def _refused(self, what: str, url: str, body: bytes, client: ObliviousClient) -> StagedRefusal:
        """Upload a bundle as any client would, which is refused before it is opened."""
        media_type = device_side(Shuffled.name).media_type
        answer = await self._patience(partial(client.request, "POST", url, media_type=media_type, content=body))
        if answer.status != 422:
            raise Refusal("demo-staged", f"the shuffler answered {answer.status} to {what}")
        return StagedRefusal(what, SHUFFLER, f"422: {(problem_type(answer.content) or '').rpartition(':')[2]}")

    def _shown_besides(self, recipe: Recipe, document: Mapping[str, Any], truth: Counter[str]) -> dict[str, Any]:
        counts = counts_of(recipe)
        return {
            "messages_per_device": counts.messages,
            "bundle_bytes": counts.messages * message_size(counts.cells),
            "answers": counts.cells,
            "largest_error": largest_error(document["buckets"], truth),
            "sealed": self._agents,
            "zeros": Zeros(**document["zeros"]).sentence() if "zeros" in document else "",
        }

    def _survey(self, **members: Any) -> Survey:
        return super()._survey(randomizer=self._randomizer, **members)

    def _main_members(self) -> dict[str, Any]:
        return {"rate": rate_of(len(self._dataset.values), highest=Decimal(1))}


def largest_error(rows: Sequence[Mapping[str, Any]], truth: Mapping[str, int]) -> float:
    """The largest error of an answer: of those that are in ``rows``, and of all others, which are estimated as 0."""
    found: dict[str, float] = {row["label"]: row["estimate"] for row in rows}
    return max(abs(found.get(label, 0.0) - truth.get(label, 0)) for label in {*found, *truth})
