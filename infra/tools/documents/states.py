"""State diagrams of stored objects, in the page that describes them.

``python -m infra.tools.documents.states PAGE`` redraws the diagrams of PAGE: each follows a line ``<!-- states: NAME
-->`` that names one of ``MACHINES``. The keys in the page of configurations and the metrics in theirs, in the same
folder, are regenerated, too.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from client_agent.journal import ENTRY_STATES
from infra.tools.documents.configuration import CONFIGURATION, configured
from infra.tools.documents.metrics import METRICS_PAGE, listed
from services.admin.storage.records import QUESTION_STATES
from services.collector.records import COLLECTION_STATES as COLLECTOR_STATES
from services.helper.records import JOB_STATES as HELPER_JOB_STATES
from services.leader.records import BATCH_STATES, COLLECTION_STATES, JOB_STATES
from tacit.aggregator.records import TASK_STATES
from tacit.errors import UsageError
from tacit.recipe.logged import RECIPE_STATES
from tacit.states import States

MACHINES: Mapping[str, States[Any]] = {
    "task": TASK_STATES,
    "leader-job": JOB_STATES,
    "leader-batch": BATCH_STATES,
    "leader-collection": COLLECTION_STATES,
    "helper-job": HELPER_JOB_STATES,
    "collector-collection": COLLECTOR_STATES,
    "question": QUESTION_STATES,
    "recipe": RECIPE_STATES,
    "journal-entry": ENTRY_STATES,
}
_PLACE = re.compile(r"<!-- states: ([a-z-]+) -->\n(?:```mermaid\n.*?\n```\n)?", re.DOTALL)


def drawn(page: str) -> str:
    """``page`` with its diagrams redrawn from the current tables. Raises ``UsageError`` if there is no place for one of
    them."""
    places = _PLACE.findall(page)
    if sorted(places) != sorted(MACHINES):
        raise UsageError(f"the page needs one line '<!-- states: NAME -->' for each of {', '.join(MACHINES)}")
    return _PLACE.sub(lambda place: _block(place[1]), page)


def _block(name: str) -> str:
    return f"<!-- states: {name} -->\n```mermaid\n{MACHINES[name].diagram()}\n```\n"


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        path = Path(argument)
        path.write_text(drawn(path.read_text()))
        for name, made in ((CONFIGURATION, configured), (METRICS_PAGE, listed)):
            beside = path.with_name(name)
            beside.write_text(made(beside.read_text()))
