"""What the models with one server have in common at the collector: how a released aggregate is asked for and read."""

from __future__ import annotations

import json
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from tacit.errors import Refusal
from tacit.hpke import KeyPair
from tacit.messages import HpkeConfig, Interval
from tacit.models.interfaces.collector import CollectorSide
from tacit.models.one_server import ANALYZER
from tacit.recipe.model import Recipe
from tacit.roles.collector import AggregateResult
from tacit.task.one_server import OneServerTask

MAX_NUMBER = (1 << 63) - 1


@dataclass(frozen=True)
class OneServerSource:
    """The task of a recipe with one server, as the collector asks for it."""

    task: OneServerTask

    @property
    def party(self) -> str:
        """The role of the one server: the analyzer, or a shuffler."""
        return self.task.role

    @property
    def once(self) -> bool:
        """Always true: the server releases one aggregate (see ``Source.once``)."""
        return True

    @property
    def yield_url(self) -> str:
        """The URL at which the server says how full the batch is."""
        return self.task.url("yield")

    @property
    def aggregate_url(self) -> str:
        return self.task.url("aggregate")

    def request(self, interval: Interval | None) -> bytes:
        """See ``Source.request``: the aggregate is asked for by its URL alone."""
        del interval
        return b""

    def opened(self, body: bytes) -> AggregateResult:
        """The aggregate in the server's answer; see ``read_aggregate``."""
        return read_aggregate(self.task, body)


class AnalyzerCollector(CollectorSide):
    """The collector side of a model whose results come from the analyzer."""

    party: ClassVar[str] = ANALYZER

    def sealed_to(self, recipe: Recipe) -> HpkeConfig | None:
        """None: the analyzer answers with the aggregate itself."""
        del recipe
        return None

    @abstractmethod
    def task(self, recipe: Recipe, slot_key: bytes) -> OneServerTask:
        """The recipe's task. Raises the refusals of ``task_of_one_server``."""

    def source(self, recipe: Recipe, slot_key: bytes, key_pair: KeyPair | None) -> OneServerSource:
        """The recipe's task. Raises the refusals of ``task``."""
        del key_pair
        return OneServerSource(self.task(recipe, slot_key))


def read_aggregate(task: OneServerTask, body: bytes) -> AggregateResult:
    """The aggregate in an answer's body, with its interval in seconds. Raises ``Refusal``: ``collection-malformed`` if
    the aggregate does not fit the recipe, ``collection-size`` for fewer than B reports."""
    found = _members(body)
    count, values = found["report_count"], found["values"]
    if not all(type(one) is int and 0 <= one <= MAX_NUMBER for one in (count, *values)):
        raise Refusal("collection-malformed", "the aggregate's numbers must be whole and not negative")
    if len(values) != task.cells:
        raise Refusal("collection-malformed", f"the aggregate has {len(values)} values; {task.cells} are expected")
    if count < task.min_batch_size:
        raise Refusal("collection-size", f"{count} reports are fewer than {task.min_batch_size}")
    interval = Interval(task.start_seconds, task.end_seconds - task.start_seconds)
    return AggregateResult(count, interval, tuple(values), found.get("search"))


def _members(body: bytes) -> dict[str, Any]:
    try:
        found: Any = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refusal("collection-malformed", "the aggregate is not JSON") from error
    needed = {"report_count", "values"}
    if not isinstance(found, dict) or not needed <= set(found) <= {*needed, "search"}:
        raise Refusal("collection-malformed", "the aggregate must have the members report_count and values")
    if not isinstance(found["values"], list):
        raise Refusal("collection-malformed", "the aggregate's values must be a list")
    return found
