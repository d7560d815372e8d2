"""The demo of the local model: which texts of a large domain are frequent, from reports that each hide their text.

Every party and every device is as in ``infra.lab.demo.run``; one server, the analyzer, takes the reports, and searches
them once the interval is over.
"""

from __future__ import annotations

from collections import Counter
from decimal import ROUND_DOWN, Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from infra.lab.demo.dataset import Dataset, Question
from infra.lab.demo.fleet import Fleet, loot_of, spender_of
from infra.lab.demo.local_result import LocalResult
from infra.lab.demo.result import Bucket, Sighting, StagedRefusal
from infra.lab.demo.run import BATCH_FLOOR, DRAWN, DRILL_DEVICES, DRILL_METRIC, DemoRun
from infra.lab.demo.staging import DAY, DRILL_SLOT, HOUR, MAIN_SLOT, PRECISION, Recipes, recipe_summary
from infra.lab.demo.view import Stages
from infra.lab.demo.watched_attacks import LocalThief, refusals_of
from infra.lab.demo.words import Texts
from tacit.errors import Refusal
from tacit.messages.one_server import OneServerReport
from tacit.methods.registry import METHODS
from tacit.methods.result import rows
from tacit.models.devices import device_side
from tacit.models.faces.one_server import AnalyzerChannel
from tacit.models.local.form import Local
from tacit.models.one_server import ANALYZER
from tacit.ports import Transport
from tacit.recipe.builder import propose
from tacit.recipe.cautions import cautions
from tacit.recipe.encoder import StringEncoder, encoder_of
from tacit.recipe.encoder_specs import Strings
from tacit.recipe.model import Recipe
from tacit.recipe.survey import Survey

if TYPE_CHECKING:
    from infra.lab.demo.crowd import Others

MOST_CONTRIBUTIONS = 15_000
"""At most about so many devices take part: the more devices, the lower the sampling rate."""


class LocalRun(DemoRun):
    """One run, stage by stage; ``run`` returns everything that there is to show."""

    ROBBED_DEVICES: ClassVar[int] = 3

    def __init__(self, texts: Texts, epsilon: Decimal, top: int, engine: str, state_dir: Path, stages: Stages) -> None:
        question = Question(f"Which values of {texts.metric} are frequent?", texts.metric)
        self._method = next(one for one in METHODS.values() if engine == one.ENGINE)
        # few devices hide little in each other: a release may tell as much as the analyzer learns anyway
        self._release_cap = f"{max(epsilon, Decimal(1)):f}"
        super().__init__(Dataset(texts.source, question, texts.values), state_dir, stages, (ANALYZER,))
        self._texts = texts
        self._epsilon = epsilon
        self._top = top

    def _report_id(self, body: bytes) -> bytes:
        return OneServerReport.decode(body).report_id

    async def _attacks(
        self, fleet: Fleet, recipes: Recipes, transport: Transport, direct: Transport
    ) -> list[StagedRefusal]:
        with self._stages.stage("attacks on a staged recipe, collection at B-1", 3) as tick:
            drill, staged = recipes.drill, self._staged(fleet)
            channel = device_side(drill.model).channel(drill, fleet.devices[0].agent.live.slot_key(drill))
            if not isinstance(channel, AnalyzerChannel):
                raise Refusal("demo-staged", "the staged recipe has no analyzer")
            spender = await spender_of(staged[:DRILL_DEVICES], drill)
            unspent = [await loot_of(device, DRILL_SLOT) for device in staged[DRILL_DEVICES:]]
            thief = LocalThief(drill, channel, self._entropy)
            attempts = thief.attempts(await loot_of(spender, DRILL_SLOT), unspent)
            await self._offer_all(thief.url, Local.name, [attempt.body for attempt in attempts], direct)
            tick()
            self._jump_to(recipes.main.interval.end + 1)
            await self._settle(ANALYZER)
            status = await self._status(ANALYZER, drill.hash_text, transport)
            tick()
            refusals = refusals_of(attempts, {ANALYZER: status["rejected_by_cause"]})
            collection = await self._collect(drill, transport)
            if collection.get("state") != "refused":
                raise Refusal("demo-staged", "a batch of B-1 was released")
            problem = await self._refused_by_analyzer(drill, transport)
            attempt = f"a collection at B-1 = {DRILL_DEVICES}"
            return [*refusals, StagedRefusal(attempt, ANALYZER, f"{collection['detail']} ({problem})")]

    async def _result(
        self,
        fleet: Fleet,
        crowd: Others | None,
        recipe: Recipe,
        sightings: tuple[Sighting, ...],
        refusals: list[StagedRefusal],
        transport: Transport,
    ) -> LocalResult:
        released = await self._operator_call("GET", "collector", f"/v1/results/{recipe.hash_text}", transport)
        document = released["results"][0]
        status = await self._status(ANALYZER, recipe.hash_text, transport)
        ranked, truth = document["ranked"], self._truth(recipe)
        hitters = [
            Bucket(row["label"], truth[row["item"]], row["estimate"], row["stderr"])
            for row in rows(document)[: self._top]
        ]
        spec = recipe.question.encoder
        return LocalResult(
            source=self._texts.source,
            question=recipe.question.text,
            recipe=recipe_summary(recipe),
            devices=len(self._texts.values),
            staged=len(self._staged(fleet)),
            sampled=await fleet.count(recipe.hash, *DRAWN, first=self._agents)
            + (0 if crowd is None else crowd.sampled),
            accepted=document["report_count"],
            rejected=sum(status["rejected_by_cause"].values()),
            rejected_by_cause=status["rejected_by_cause"],
            privacy=document["privacy"],
            buckets=tuple(hitters),
            sightings=sightings,
            refusals=tuple(refusals),
            seconds=self._seconds.pop("all"),
            stages=self._seconds,
            warnings=tuple(cautions(document)),
            threshold=ranked["threshold"]["estimate"],
            false_positive_rate=ranked["threshold"]["false_positive_rate"],
            rest_below=ranked["rest"]["below"],
            rest_probability=ranked["rest"]["probability"],
            domain_bits=spec.bits if isinstance(spec, Strings) else 0,
            frequent=tuple(truth.most_common(self._top)),
        )

    # Pieces

    def _main_recipe(self) -> Recipe:
        number, most = len(self._texts.values), min(MOST_CONTRIBUTIONS, self._method.MOST_PLANNED)
        return self._proposed(
            name="demo",
            text=self._dataset.question.text,
            metric=self._texts.metric,
            encoder=self._texts.encoder,
            population=number,
            slot=MAIN_SLOT,
            rate=min(Decimal(1), (Decimal(most) / number).quantize(Decimal("0.001"), ROUND_DOWN)),
            randomizer=self._method.NAME,
        )

    def _drill_recipe(self) -> Recipe:
        return self._proposed(
            name="drill",
            text="Takes part in the drill?",
            metric=DRILL_METRIC,
            encoder={"kind": "categories", "categories": ["yes", "no"]},
            population=BATCH_FLOOR,
            slot=DRILL_SLOT,
            rate=Decimal(1),
            min_batch_size=BATCH_FLOOR,
            epsilon=min(self._epsilon, Decimal(1)),
        )

    def _proposed(self, **members: Any) -> Recipe:
        survey = Survey.from_body(
            {
                "model": Local.name,
                "epsilon": self._epsilon,
                "epoch": self._epoch,
                "start": self._epoch * DAY + 8 * HOUR,
                "duration": HOUR,
                "time_precision": PRECISION,
                **members,
            }
        )
        return propose(survey, self._layout.parties_of(Local.name))

    def _truth(self, recipe: Recipe) -> Counter[str]:
        """How many devices have each text of the domain."""
        encoder = encoder_of(recipe.question)
        items = (encoder.encode(value) for value in self._texts.values)
        texts = (encoder.text(item) for item in items if isinstance(encoder, StringEncoder) and isinstance(item, int))
        return Counter(text for text in texts if text is not None)

    def _outside(self) -> str:
        """A text that the domain does not hold."""
        return "a text that is longer than every one of the domain"
