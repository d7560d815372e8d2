"""Secure aggregation, the collector: asks the leader for a batch, and opens both aggregate shares (DAP-18)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from tacit.errors import CryptoError, DecodeError, Refusal
from tacit.hpke import KeyPair
from tacit.messages import BatchMode, CollectionJobReq, CollectionJobResp, HpkeConfig, Interval, Role
from tacit.models.interfaces.collector import CollectorSide
from tacit.models.secure_aggregation.form import aggregators_of
from tacit.recipe.derive import hpke_config, task_of
from tacit.recipe.model import Recipe
from tacit.roles.collector import AggregateResult, collection_request, open_collection
from tacit.task import Task

LEADER = "leader"


@dataclass(frozen=True)
class DapSource:
    """A DAP task, and the key pair to which aggregate shares are sealed."""

    task: Task
    key_pair: KeyPair = field(repr=False)

    @property
    def party(self) -> str:
        """The leader, from which batches are collected (see ``Source.party``)."""
        return LEADER

    @property
    def once(self) -> bool:
        """See ``Source.once``: a query by time covers the one interval."""
        return self.task.batch_mode is BatchMode.TIME_INTERVAL

    @property
    def yield_url(self) -> str:
        """The URL at which the leader tells its yield (see ``Source.yield_url``)."""
        return self.task.url(Role.LEADER, "yield")

    @property
    def jobs_url(self) -> str:
        """The URL of the leader's collection jobs."""
        return self.task.url(Role.LEADER, "collection_jobs")

    def request(self, interval: Interval | None) -> bytes:
        """See ``Source.request``: a CollectionJobReq."""
        return collection_request(self.task, interval).encode()

    def opened(self, request: bytes, body: bytes) -> AggregateResult:
        """The aggregate in the leader's answer to ``request``. Raises ``Refusal``: those of ``open_collection``,
        ``collection-malformed`` and ``collection-sealed``."""
        try:
            asked, answer = CollectionJobReq.decode(request), CollectionJobResp.decode(body)
            return open_collection(self.task, self.key_pair, asked, answer)
        except DecodeError as error:
            raise Refusal("collection-malformed", str(error)) from error
        except CryptoError as error:
            raise Refusal("collection-sealed", str(error)) from error


class SecureAggregationCollector(CollectorSide):
    """The collector side of every model with two aggregators."""

    party: ClassVar[str] = LEADER

    def sealed_to(self, recipe: Recipe) -> HpkeConfig:
        """The configuration that the recipe names for its collector. Raises refusal ``hpke-key-invalid``."""
        return hpke_config(aggregators_of(recipe.parties).collector.hpke_config)

    def source(self, recipe: Recipe, slot_key: bytes, key_pair: KeyPair | None) -> DapSource:
        """The recipe's DAP task. Raises the refusals of ``task_of``."""
        if key_pair is None:
            raise ValueError("aggregate shares are opened with the collector's key pair")
        return DapSource(task_of(recipe, slot_key), key_pair)
