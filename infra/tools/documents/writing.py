"""Files that are generated from the code, by name, and how they are written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from client_agent.journal import ENTRY_STATES
from infra.tools.documents.configuration import configuration_page
from infra.tools.documents.deletions import deletions_page
from infra.tools.documents.gets import gets_page
from infra.tools.documents.metrics import METRICS
from infra.tools.documents.problems import problems_page
from infra.tools.documents.resources import resources_page
from infra.tools.documents.schemas import SCHEMAS, encode_schema, schema_of
from infra.tools.documents.stored import tables_page
from infra.tools.documents.tables import findings_page, members_page, methods_page, readme, rules_page
from infra.tools.documents.words import MADE, page, table
from services.admin.storage.records import QUESTION_STATES
from services.collector.records import COLLECTION_STATES as COLLECTOR_STATES
from services.helper.records import JOB_STATES as HELPER_JOB_STATES
from services.leader.records import BATCH_STATES, COLLECTION_STATES, JOB_STATES
from tacit.adapters.disk.files import replace_file
from tacit.aggregator.records import TASK_STATES
from tacit.errors import UsageError
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


def schema_files() -> dict[str, bytes]:
    """The content of every file of ``docs/schemas`` by name: the JSON schemas, and the pages made from the code."""
    files = {f"{name}.json": encode_schema(schema_of(name)) for name in SCHEMAS}
    pages = {
        "README.md": readme(),
        "configuration.md": configuration_page(),
        "deletions.md": deletions_page(),
        "findings.md": findings_page(),
        "gets.md": gets_page(),
        "members.md": members_page(),
        "methods.md": methods_page(),
        "metrics.md": metrics_page(),
        "problems.md": problems_page(),
        "resources.md": resources_page(),
        "rules.md": rules_page(),
        "states.md": states_page(),
        "tables.md": tables_page(),
    }
    return files | {name: text.encode() for name, text in pages.items()}


def write_files(folder: Path, files: Mapping[str, bytes]) -> list[Path]:
    """Write the files into ``folder``, which is made if needed; returns those whose content changed. Raises
    ``UsageError``."""
    changed = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            path = folder / name
            if not path.is_file() or path.read_bytes() != content:
                replace_file(path, content)
                changed.append(path)
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror or 'cannot be written'}") from error
    return changed


def metrics_page() -> str:
    """The page ``metrics.md``: every metric with its labels, rule and services."""
    rows = [
        (
            f"`{one.name}`",
            one.type,
            ", ".join(f"`{label}`" for label in one.labels),
            one.rule.value,
            ", ".join(one.by) or "every one",
            one.about,
        )
        for one in METRICS.values()
    ]
    return page(
        "# Every metric",
        f'{MADE} Rules (coarse, level, exact): "The rule" in [metrics](../metrics.md).',
        table(("metric", "type", "labels", "rule", "services", "what"), rows),
    )


def states_page() -> str:
    """The page ``states.md``: a state diagram for each table of ``MACHINES``."""
    return page(
        "# States",
        f"{MADE} The code checks every change of a state against these tables (`tacit/states.py`); another one is "
        "rolled back. `[*]` is what does not exist yet, or is deleted.",
        *(f"## {name}: {about}\n\n```mermaid\n{states.diagram()}\n```" for name, (about, states) in MACHINES.items()),
    )
