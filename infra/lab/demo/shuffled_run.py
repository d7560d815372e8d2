"""The demo of the shuffled model: a histogram whose noise all devices make together, behind a shuffler.

Every party and every device is as in ``infra.lab.demo.run``; bundles go to the shuffler, and their messages from there
to the analyzer, in one random order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import ROUND_DOWN, Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from client_agent.oblivious import ObliviousClient
from infra.lab.demo.attacks import offered
from infra.lab.demo.dataset import Dataset
from infra.lab.demo.fleet import Fleet, loot_of, spender_of
from infra.lab.demo.result import Bucket, Sighting, StagedRefusal
from infra.lab.demo.run import DRAWN, DRILL_DEVICES, DRILL_METRIC, DemoRun
from infra.lab.demo.shuffled_attacks import ShuffledThief, as_shuffler
from infra.lab.demo.shuffled_result import ShuffledResult
from infra.lab.demo.staging import DAY, DRILL_SLOT, HOUR, MAIN_SLOT, PRECISION, Recipes, recipe_summary
from infra.lab.demo.view import Stages
from infra.lab.demo.watched_attacks import refusals_of
from tacit.codec import unb64url
from tacit.errors import Refusal, UsageError
from tacit.messages.one_server import OneServerReport
from tacit.methods.result import Zeros
from tacit.models.devices import device_side
from tacit.models.faces.one_server import AnalyzerChannel
from tacit.models.one_server import ANALYZER
from tacit.models.shuffled.form import SHUFFLER, Shuffled
from tacit.models.shuffled.task import counts_of
from tacit.ohttp import KeyConfig
from tacit.ports import Transport
from tacit.problem import problem_type
from tacit.recipe.builder import propose
from tacit.recipe.cautions import cautions
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.recipe.survey import Survey
from tacit.task.shuffled import message_size

if TYPE_CHECKING:
    from infra.lab.demo.crowd import Others

DRILL_BATCH = 200
"""B of the staged recipe: fewer devices cannot hide one of them."""
LEAST_DEVICES = 300
"""So that B of the recipe that is shown is larger."""
MOST_CONTRIBUTIONS = 5_000


class ShuffledRun(DemoRun):
    """One run, stage by stage; ``run`` returns everything that there is to show."""

    ROBBED_DEVICES: ClassVar[int] = 3

    def __init__(self, dataset: Dataset, randomizer: str, state_dir: Path, stages: Stages) -> None:
        if len(dataset.values) < LEAST_DEVICES:
            raise UsageError(f"{len(dataset.values)} devices are too few to hide in; take at least {LEAST_DEVICES}")
        super().__init__(dataset, state_dir, stages, (SHUFFLER, ANALYZER))
        self._randomizer = randomizer

    def _report_id(self, body: bytes) -> bytes:
        return OneServerReport.decode(body).report_id

    async def _attacks(
        self, fleet: Fleet, recipes: Recipes, transport: Transport, direct: Transport
    ) -> list[StagedRefusal]:
        with self._stages.stage("attacks on a staged recipe, collection of too few", 3) as tick:
            drill, staged = recipes.drill, self._staged(fleet)
            channel = device_side(drill.model).channel(drill, fleet.devices[0].agent.live.slot_key(drill))
            if not isinstance(channel, AnalyzerChannel):
                raise Refusal("demo-staged", "the staged recipe has no shuffler")
            spender = await spender_of(staged[:DRILL_DEVICES], drill)
            *unspent, late = [await loot_of(device, DRILL_SLOT) for device in staged[DRILL_DEVICES:]]
            thief = ShuffledThief(drill, channel, self._entropy)
            attempts = thief.attempts(await loot_of(spender, DRILL_SLOT), unspent)
            client = self._client(direct)
            media_type = device_side(Shuffled.name).media_type
            for attempt in attempts:
                await self._patience(partial(offered, client, thief.url, media_type, attempt.body))
            whole = thief.whole(late)
            refused = [
                await self._refused(
                    "a bundle with a message less", thief.url, whole[: -message_size(counts_of(drill).cells)], client
                )
            ]
            tick()
            before = await self._status(SHUFFLER, drill.hash_text, transport)
            refused += refusals_of(attempts, {SHUFFLER: before["rejected_by_cause"]})
            self._jump_to(recipes.main.interval.end + HOUR // 12)
            refused.append(await self._refused("a bundle after the interval", thief.url, whole, client))
            tick()
            collection = await self._collect(drill, transport)
            if collection.get("state") != "refused":
                raise Refusal("demo-staged", "a batch below B was released")
            tried = f"a collection at {DRILL_DEVICES} of B = {DRILL_BATCH}"
            found = StagedRefusal(tried, f"{SHUFFLER}, {ANALYZER}", collection["detail"])
            return [*refused, found, *await self._forged(recipes.main, transport)]

    async def _forged(self, recipe: Recipe, transport: Transport) -> list[StagedRefusal]:
        """Chunks of somebody else. The recipe that is shown has all of its own by now."""
        await self._settle(SHUFFLER)
        token = self._layout.credentials["messages"].read_text(encoding="ascii").strip()
        return await as_shuffler(self._layout.urls[ANALYZER], token, recipe.hash_text, transport)

    def _client(self, transport: Transport) -> ObliviousClient:
        keys = [KeyConfig.decode(unb64url(self._layout.gateway_key_config))]
        return ObliviousClient(transport, self._layout.urls["relay"], keys, self._clock, self._entropy)

    async def _refused(self, what: str, url: str, body: bytes, client: ObliviousClient) -> StagedRefusal:
        """Upload a bundle as any client would, which is refused before it is opened."""
        media_type = device_side(Shuffled.name).media_type
        answer = await self._patience(partial(client.request, "POST", url, media_type=media_type, content=body))
        if answer.status != 422:
            raise Refusal("demo-staged", f"the shuffler answered {answer.status} to {what}")
        return StagedRefusal(what, SHUFFLER, f"422: {(problem_type(answer.content) or '').rpartition(':')[2]}")

    async def _result(
        self,
        fleet: Fleet,
        crowd: Others | None,
        recipe: Recipe,
        sightings: tuple[Sighting, ...],
        refusals: list[StagedRefusal],
        transport: Transport,
    ) -> ShuffledResult:
        released = await self._operator_call("GET", "collector", f"/v1/results/{recipe.hash_text}", transport)
        document: Mapping[str, Any] = released["results"][0]
        status = await self._status(SHUFFLER, recipe.hash_text, transport)
        truth, counts = self._truth(recipe), counts_of(recipe)
        drawn = await fleet.count(recipe.hash, *DRAWN, first=self._agents)
        rows: Sequence[Mapping[str, Any]] = document["buckets"]
        return ShuffledResult(
            source=self._dataset.source,
            question=recipe.question.text,
            recipe=recipe_summary(recipe),
            devices=len(self._dataset.values),
            staged=len(self._staged(fleet)),
            sampled=drawn + (0 if crowd is None else crowd.sampled),
            accepted=document["report_count"],
            rejected=sum(status["rejected_by_cause"].values()),
            rejected_by_cause=status["rejected_by_cause"],
            privacy=document["privacy"],
            buckets=tuple(Bucket(row["label"], truth[row["label"]], row["estimate"], row["stderr"]) for row in rows),
            sightings=sightings,
            refusals=tuple(refusals),
            seconds=self._seconds.pop("all"),
            stages=self._seconds,
            warnings=tuple(cautions(dict(document))),
            messages_per_device=counts.messages,
            bundle_bytes=counts.messages * message_size(counts.cells),
            answers=counts.cells,
            largest_error=largest_error(rows, truth),
            sealed=self._agents,
            zeros=Zeros(**document["zeros"]).sentence() if "zeros" in document else "",
        )

    # Pieces

    def _main_recipe(self) -> Recipe:
        question, number = self._dataset.question.asked, len(self._dataset.values)
        return self._proposed(
            name="demo",
            text=question.text,
            metric=question.metric,
            encoder=question.encoder,
            missing=self._dataset.question.missing,
            population=number,
            slot=MAIN_SLOT,
            rate=min(Decimal(1), (Decimal(MOST_CONTRIBUTIONS) / number).quantize(Decimal("0.001"), ROUND_DOWN)),
        )

    def _drill_recipe(self) -> Recipe:
        return self._proposed(
            name="drill",
            text="Takes part in the drill?",
            metric=DRILL_METRIC,
            encoder={"kind": "categories", "categories": ["yes", "no"]},
            population=DRILL_BATCH,
            slot=DRILL_SLOT,
            rate=Decimal(1),
            min_batch_size=DRILL_BATCH,
        )

    def _proposed(self, **members: Any) -> Recipe:
        start = self._epoch * DAY + 8 * HOUR
        when = {"epoch": self._epoch, "start": start, "duration": HOUR, "time_precision": PRECISION}
        body = {"model": Shuffled.name, "randomizer": self._randomizer, **when, **members}
        return propose(Survey.from_body(body), self._layout.parties_of(Shuffled.name))

    def _refusing(self, *, drill: bool = False, main: bool = False) -> Policy:
        """The policy of a device that refuses the recipe of the attacks, or the one that is shown."""
        limits = {"min_batch_size": DRILL_BATCH + 1} if drill else {}
        return self._policy.model_copy(update=limits | ({"max_batch_size": DRILL_BATCH} if main else {}))


def largest_error(rows: Sequence[Mapping[str, Any]], truth: Mapping[str, int]) -> float:
    """The largest error of an answer: of those that are in ``rows``, and of all others, which are estimated as 0."""
    found: dict[str, float] = {row["label"]: row["estimate"] for row in rows}
    return max(abs(found.get(label, 0.0) - truth.get(label, 0)) for label in {*found, *truth})
