"""The metrics of all services, in the order of their page."""

from __future__ import annotations

from attester.app import REFUSED
from recipe_server.metrics import SHOWN as OF_THE_LOG
from services.collector.metrics import SHOWN as OF_THE_COLLECTOR
from services.leader.metrics import SHOWN as OF_THE_LEADER
from services.witness.app import SHOWN as OF_A_WITNESS
from tacit.aggregator.metrics import SHOWN as OF_AGGREGATORS
from tacit.service.metric_names import KEY_METRICS, OF_EVERY_SERVICE, TOKENS, Shown

METRICS: dict[str, Shown] = OF_EVERY_SERVICE | {
    one.name: one
    for one in (
        *OF_AGGREGATORS,
        *OF_THE_LEADER,
        *OF_THE_COLLECTOR,
        TOKENS,
        REFUSED,
        *KEY_METRICS,
        *OF_THE_LOG,
        *OF_A_WITNESS,
    )
}
"""By name."""
