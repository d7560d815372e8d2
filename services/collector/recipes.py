"""The collector's view of the log: which recipes it may collect, and with which key."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from services.collector.config import CollectorConfig
from services.collector.records import Collection
from tacit.aggregator.keys import HpkeKey, find_key
from tacit.errors import Refusal
from tacit.hpke import KeyPair
from tacit.logview.live import LiveLog, LiveRecipe, LiveSeries, charges_of
from tacit.logview.log_source import log_at
from tacit.logview.stored import LeavesTx, StoredLog, stored_live
from tacit.models.collectors import collector_side
from tacit.models.interfaces.collector import CollectorSide, Source
from tacit.recipe.charges import rightful
from tacit.recipe.model import Recipe
from tacit.roles.collector import AggregateResult
from tacit.rules import table as rules
from tacit.rules.budget import find_overspent
from tacit.service.app import ServiceEnv
from tacit.service.base.store import Transactions

ACTIVE = "active"
REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Known:
    """A recipe in the log as the collector judges it. ``source`` is what can be collected, if the recipe is active."""

    recipe: Recipe
    state: str
    rule: str = ""
    detail: str = ""
    source: Source | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """The recipe's hash (base64url)."""
        return self.recipe.hash_text

    def document(self, row: Collection, aggregate: AggregateResult, now: float) -> dict[str, Any]:
        """The result document of a batch, in the form of the recipe's model."""
        return collector_side(self.recipe.model).release(self.recipe, row.id, row.number, aggregate, now)

    def active(self) -> Source:
        """What can be collected. Raises the recipe's ``Refusal`` if it is not active."""
        if self.source is None:
            raise Refusal(self.rule, self.detail)
        return self.source


class Recipes:
    """The log's recipes that are sealed to this collector, kept up to date by ``step``."""

    def __init__(
        self, store: Transactions[LeavesTx], keys: Sequence[HpkeKey], config: CollectorConfig, deps: ServiceEnv
    ) -> None:
        self._store = store
        self._keys = keys
        self._config = config
        self._clock = deps.clock
        required = config.policy.log_policy(config.log.note_key(), deps.clock.now)
        self._log = StoredLog(store, log_at(deps.transport, config.log.url), required, config.policy)
        self._known: dict[bytes, Known] = {}
        self._judged = False

    async def step(self) -> int:
        """Fetch and verify the log's new entries; returns how many leaves were new."""
        fresh = await self._log.fetch() or 0
        if fresh or not self._judged:
            await self.load()
        return fresh

    async def load(self) -> None:
        """Judge every recipe in the stored leaves."""
        async with self._store.read() as tx:
            live = await stored_live(tx)
        now = self._clock.now()
        over = find_overspent(self._config.policy, charges_of(live, now), now)
        self._known = {item.recipe.hash: self._judge(live, item, now, over) for item in live.recipes}
        self._judged = True

    def all(self) -> list[Known]:
        """Every recipe of the log in the log's order, the refused ones too, as judged when new leaves were last
        read."""
        return list(self._known.values())

    def find(self, recipe_hash: bytes) -> Known | None:
        """The recipe with this hash (32 bytes), which may be a refused one; None if the leaves read so far hold
        none."""
        return self._known.get(recipe_hash)

    def _judge(self, live: LiveLog, item: LiveRecipe, now: float, over: Container[str]) -> Known:
        """Whether this collector may collect the recipe: our key or credential, and every rule of the table.

        The rules are checked as of the interval's start, because collecting comes after its end. In an account that is
        ``over``, what came first in the log has the room (P22); in any other, everything fits together.
        """
        recipe = item.recipe
        context = live.context(item, float(recipe.interval.start))
        if recipe.privacy.account in over:
            charged: LiveRecipe | LiveSeries = item
            if context.series is not None:
                charged = next(one for one in live.series if one.series.hash == context.series.hash)
            charges = rightful(charges_of(live, now, before=charged.index), self._config.policy)
            context = replace(context, charges=charges)
        try:
            side = collector_side(recipe.model)
            key_pair = self._own_key(side, recipe)
            rules.require(recipe, self._config.policy, context)
            source = side.source(recipe, live.slot_key(recipe), key_pair)
        except Refusal as refusal:
            return Known(recipe, REFUSED, refusal.rule, refusal.detail)
        except Exception as error:  # an error in one recipe must not keep the others from being collected
            return Known(recipe, REFUSED, "recipe-unusable", f"unexpected {type(error).__name__}")
        return Known(recipe, ACTIVE, source=source)

    def _own_key(self, side: CollectorSide, recipe: Recipe) -> KeyPair | None:
        """What this collector needs to ask for the recipe's result: the key pair to which it is sealed, or a credential
        if it is not sealed. Raises ``Refusal`` ``own-hpke-key`` or ``own-credential``."""
        config = side.sealed_to(recipe)
        if config is None:
            if self._config.analyzer_token is None:
                raise Refusal("own-credential", "this collector has no analyzer_token, with which the sum is asked for")
            return None
        key = find_key(self._keys, config)
        if key is None:
            raise Refusal("own-hpke-key", "the recipe's shares are sealed to a key that we do not hold")
        return key.key_pair
