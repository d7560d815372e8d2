"""What the runs of all models have in common beyond their world: how recipes are asked for, the staged recipe with its
attacks, and what a result says of a release.

The staged recipe, the drill, asks fewer devices than its B. A thief adds reports that must not count, so the collection
that follows must fail.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, ClassVar

from infra.lab.demo.attacks.common import SharesThief, Thief, helper_refusal, refusals_of
from infra.lab.demo.attacks.shuffled import ShuffledThief
from infra.lab.demo.attacks.watched import LocalThief, SharedThief, SingleThief
from infra.lab.demo.fleet import Device, Fleet, loot_of, spender_of
from infra.lab.demo.results.result import Bucket, StagedRefusal
from infra.lab.demo.staging import DAY, DRILL_SLOT, HOUR, PRECISION, Recipes, Staging, recipe_summary
from infra.lab.kit.reports import BoundToken
from tacit.aggregator.keys import read_peer_file
from tacit.errors import Refusal
from tacit.messages import UploadRequest
from tacit.messages.one_server import OneServerReport
from tacit.methods.result import rows
from tacit.models.devices import device_side
from tacit.models.forms import form_of
from tacit.models.interfaces.device import Channel
from tacit.models.interfaces.one_server import AnalyzerChannel
from tacit.models.local.form import Local
from tacit.models.pan_private.device import PanPrivateChannel
from tacit.models.secure_aggregation.device import DapChannel
from tacit.models.secure_aggregation.form import SecureAggregation
from tacit.models.shuffled.form import Shuffled
from tacit.ports import Entropy, Transport
from tacit.recipe.cautions import cautions
from tacit.recipe.derive import task_of
from tacit.recipe.model import Recipe
from tacit.recipe.writing.builder import propose
from tacit.recipe.writing.survey import Survey

CATEGORIES = {"kind": "categories", "categories": ["yes", "no"]}
DRILL_METRIC = "drill"


class Drilled(Staging):
    """A world in which a drill is asked beside the recipe that is shown."""

    MODEL: ClassVar[str] = SecureAggregation.name
    DRILL_BATCH: ClassVar[int] = 50
    """B of the drill."""
    DRILLED: ClassVar[int] = 49
    """Devices that answer it."""
    ROBBED: ClassVar[int] = 2
    """Devices behind them whose tokens are stolen before they are spent."""

    def _staged(self, fleet: Fleet) -> Sequence[Device]:
        """The devices that are there for the attacks, those that answer the drill first."""
        return fleet.devices

    # Recipes

    def _drill_members(self) -> dict[str, Any]:
        """Members of the drill's survey that are its own; a model may add to them."""
        return {"text": "Takes part in the drill?", "metric": DRILL_METRIC, "encoder": CATEGORIES}

    def _drill_recipe(self) -> Recipe:
        size = self.DRILL_BATCH
        asked = {"name": "drill", "slot": DRILL_SLOT, "rate": Decimal(1), "population": size, "min_batch_size": size}
        return self._proposed(**{**asked, **self._drill_members()})

    def _proposed(self, **members: Any) -> Recipe:
        """The recipe of a survey; it begins at 8 o'clock, and lasts an hour."""
        return propose(self._survey(**members), self._layout.parties_of(members.get("model", self.MODEL)))

    def _survey(self, **members: Any) -> Survey:
        start = self._epoch * DAY + 8 * HOUR
        when = {"epoch": self._epoch, "start": start, "duration": HOUR, "time_precision": PRECISION}
        return Survey.from_body({"model": self.MODEL, **when, **members})

    # Attacks

    async def _attacks(
        self, fleet: Fleet, recipes: Recipes, transport: Transport, direct: Transport
    ) -> list[StagedRefusal]:
        with self._stages.stage("attacks on a staged recipe, collection of too few", 3) as tick:
            drill, staged = recipes.drill, self._staged(fleet)
            channel = device_side(drill.model).channel(drill, fleet.devices[0].agent.live.slot_key(drill))
            spender = await spender_of(staged[: self.DRILLED], drill)
            robbed = staged[self.DRILLED : self.DRILLED + self.ROBBED]
            spent, *unspent = [await loot_of(device, drill.token.slot) for device in (spender, *robbed)]
            thief = thief_of(drill, channel, self._entropy)
            attempts = thief.attempts(spent, unspent)
            await self._offer_all(thief.url, drill.model, [attempt.body for attempt in attempts], direct)
            tick()
            found = await self._attacked_further(thief, recipes, unspent, direct)
            self._jump_to(drill.interval.end + 1)
            statuses = {name: await self._settled(name, drill, fleet, transport) for name in self._serving(drill)}
            tick()
            refused = refusals_of(attempts, {name: one["rejected_by_cause"] for name, one in statuses.items()})
            return [*refused, *found, await self._too_few(drill, fleet, transport)]

    async def _attacked_further(
        self, thief: Thief, recipes: Recipes, unspent: Sequence[BoundToken], direct: Transport
    ) -> list[StagedRefusal]:
        """What else is tried while reports are taken."""
        del thief, recipes, unspent, direct
        return []

    async def _too_few(self, drill: Recipe, fleet: Fleet, transport: Transport) -> StagedRefusal:
        """The collection of the drill's batch; and the aggregate, asked of a server by somebody who does not care about
        B. Refusal ``demo-staged`` if it is released."""
        collection = await self._collect(drill, transport)
        if collection.get("state") != "refused":
            raise Refusal("demo-staged", "a batch of fewer than B was released")
        if form_of(drill.model).proves:
            task = task_of(drill, fleet.devices[0].agent.live.slot_key(drill))
            peer = read_peer_file(self._layout.state_dir / "leader" / "peer.json")
            problem = await helper_refusal(task, peer.token, transport)
        else:
            problem = await self._refused_by_analyzer(drill, transport)
        number, size = self.DRILLED, self.DRILL_BATCH
        what = f"B-1 = {number}" if number == size - 1 else f"{number} of B = {size}"
        said = f"{collection['detail']} ({problem})"
        return StagedRefusal(f"a collection at {what}", ", ".join(self._serving(drill)), said)

    def _serving(self, recipe: Recipe) -> list[str]:
        """The run's servers that the recipe names."""
        return [name for name in self._servers if recipe.parties.server(name) is not None]

    async def _settled(self, name: str, recipe: Recipe, fleet: Fleet, transport: Transport) -> dict[str, Any]:
        """A server's status once every report is dealt with; what failed for a moment is tried again."""
        status: dict[str, Any] = {}
        for _ in range(20):
            await self._settle(self._servers[0])
            status = await self._status(name, subject_of(recipe, fleet), transport)
            if not status.get("pending"):
                break
            self._clock.jump(5)
        return status

    # Results

    async def _released(self, recipe: Recipe, transport: Transport) -> dict[str, Any]:
        """The first result that the collector has of the recipe. Raises what the operator's call raises."""
        found = await self._operator_call("GET", "collector", f"/v1/results/{recipe.hash_text}", transport)
        document: dict[str, Any] = found["results"][0]
        return document

    async def _members(
        self, fleet: Fleet, recipe: Recipe, document: dict[str, Any], transport: Transport
    ) -> dict[str, Any]:
        """The members of every result that follow from the recipe and its release."""
        status = await self._status(self._servers[0], subject_of(recipe, fleet), transport)
        return {
            "question": recipe.question.text,
            "recipe": recipe_summary(recipe),
            "accepted": document["report_count"],
            "rejected": sum(status["rejected_by_cause"].values()),
            "rejected_by_cause": status["rejected_by_cause"],
            "privacy": document["privacy"],
            "seconds": self._seconds.pop("all"),
            "stages": self._seconds,
            "warnings": tuple(cautions(document)),
        }


def thief_of(recipe: Recipe, channel: Channel, entropy: Entropy) -> Thief:
    """Who attacks ``recipe``. ``TypeError`` for an unknown channel."""
    if isinstance(channel, PanPrivateChannel):
        return SharedThief(recipe, channel, entropy)
    if isinstance(channel, DapChannel):
        return SharesThief(channel, entropy)
    if isinstance(channel, AnalyzerChannel):
        kinds = {Local.name: LocalThief, Shuffled.name: ShuffledThief}
        return kinds.get(recipe.model, SingleThief)(recipe, channel, entropy)
    raise TypeError(f"nobody attacks model {recipe.model}")


def subject_of(recipe: Recipe, fleet: Fleet) -> str:
    """The id by which servers know the recipe: its hash with one server, its task id with two."""
    if not form_of(recipe.model).proves:
        return recipe.hash_text
    return task_of(recipe, fleet.devices[0].agent.live.slot_key(recipe)).task_id_text


def report_id_of(model: str, body: bytes) -> bytes:
    """The id (16 bytes) of the only report in a body that a device sends. Raises ``DecodeError``."""
    if not form_of(model).proves:
        return OneServerReport.decode(body).report_id
    return UploadRequest.decode(body).reports[0].report_metadata.report_id


def buckets_of(
    document: Mapping[str, Any], truth: Mapping[str, int | float], most: int | None = None
) -> tuple[Bucket, ...]:
    """The answers of a release beside the truth, at ``most`` so many."""
    return tuple(
        Bucket(row["label"], truth[row.get("item", row["label"])], row["estimate"], row["stderr"])
        for row in rows(document)[:most]
    )
