"""State diagrams of stored objects, from their tables of moves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from client_agent.journal import ENTRY_STATES
from infra.tools.documents.words import MADE, page
from services.admin.storage.records import QUESTION_STATES
from services.collector.records import COLLECTION_STATES as COLLECTOR_STATES
from services.helper.records import JOB_STATES as HELPER_JOB_STATES
from services.leader.records import BATCH_STATES, COLLECTION_STATES, JOB_STATES
from tacit.aggregator.records import TASK_STATES
from tacit.recipe.logged import RECIPE_STATES
from tacit.states import States

MACHINES: Mapping[str, tuple[str, States[Any]]] = {
    "task": ("a recipe at leader, helper, analyzer or shuffler", TASK_STATES),
    "leader-job": ("an aggregation job at the leader", JOB_STATES),
    "leader-batch": ("a leader-selected batch", BATCH_STATES),
    "leader-collection": ("a collection job at the leader", COLLECTION_STATES),
    "helper-job": ("an aggregation job at the helper", HELPER_JOB_STATES),
    "collector-collection": ("a collection at the collector", COLLECTOR_STATES),
    "question": ("a question in the admin service", QUESTION_STATES),
    "recipe": ("a recipe in the log", RECIPE_STATES),
    "journal-entry": ("a recipe at a device", ENTRY_STATES),
}
"""Name -> what has these states, and its table."""


def states_page() -> str:
    """The page of diagrams."""
    return page(
        "# States",
        f"{MADE} The code checks every change of a state against these tables (`tacit/states.py`); another one is "
        "rolled back. `[*]` is what does not exist yet, or is deleted.",
        *(f"## {name}: {about}\n\n```mermaid\n{states.diagram()}\n```" for name, (about, states) in MACHINES.items()),
    )
