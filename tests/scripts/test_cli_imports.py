"""What a command loads before it does anything, and what it loads to ask a service: imports are most of that time."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from typing import Any

import pytest
import typer

from infra.cli import COMMANDS, build

DEPLOYABLES = ("attester", "recipe_server", "relay", "services")
SERVERS = (
    "aiohttp",
    "aiomqtt",
    "alembic",
    "asyncpg",
    "jinja2",
    "prometheus_client",
    "redis",
    "sqlalchemy",
    "structlog",
)
"""What only services, databases and brokers need."""
HEAVY = ("Crypto", "cffi", "dp_accounting", "gmpy2", "matplotlib", "numpy", "pandas", "pyarrow", "ray", "scipy")
RECIPES = ("tacit.models.forms", "tacit.recipe.model", "tacit.recipe.policy", "tacit.task", "tacit.vdaf.prio3")
"""The models of recipes, and what is computed from a recipe."""
FLAGS_OF_A_SURVEY = {
    ("recipe", "design"), ("recipe", "census"), ("recipe", "new"), ("admin", "question", "new"),
    ("admin", "question", "edit"),
}  # fmt: skip
"""Commands whose help is the descriptions in the model of a survey."""


def paths(command: Any, path: tuple[str, ...]) -> list[tuple[str, ...]]:
    inner = getattr(command, "commands", {})
    return [one for name, below in inner.items() for one in paths(below, (*path, name))] or [path]


@functools.cache
def all_paths() -> list[tuple[str, ...]]:
    return [
        path
        for name in COMMANDS
        for path in paths(typer.main.get_command(build(name)).commands[name], (name,))  # type: ignore[attr-defined]
    ]


def held_after(program: str, unwanted: tuple[str, ...]) -> list[str]:
    """Which of the packages and modules ``unwanted`` a fresh interpreter has loaded after ``program``."""
    tell = f"print(json.dumps([name for name in {unwanted!r} if name in sys.modules]))"
    done = subprocess.run(
        [sys.executable, "-c", f"import json, sys\n{program}\n{tell}"], capture_output=True, text=True, check=True
    )
    found: list[str] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("name", COMMANDS)
def test_help_loads_no_service_no_database_and_no_recipe(name: str) -> None:
    mine = [list(path) for path in all_paths() if path[0] == name and path not in FLAGS_OF_A_SURVEY]
    program = f"from infra.cli import run\nfor path in {mine!r}: assert run([*path, '--help']) == 0"
    assert held_after(program, DEPLOYABLES + SERVERS + HEAVY + RECIPES) == []


@pytest.mark.parametrize("path", sorted(FLAGS_OF_A_SURVEY), ids=" ".join)
def test_help_on_the_flags_of_a_survey_loads_no_service_and_no_database(path: tuple[str, ...]) -> None:
    program = f"from infra.cli import run\nassert run([*{path!r}, '--help']) == 0"
    assert held_after(program, DEPLOYABLES + SERVERS + ("Crypto", "cffi", "numpy", "scipy")) == []


ANSWERS = DEPLOYABLES + SERVERS + HEAVY + RECIPES
"""Not needed to ask for a document and to show it."""
CHECKED = DEPLOYABLES + SERVERS + ("Crypto", "cffi", "dp_accounting", "numpy", "pandas", "scipy")
"""Not needed to check what a log holds, which takes the models of recipes."""
WORK = {
    "status": (("infra.stacks.status", "tacit.operations.status", "tacit.operations.servers"), ANSWERS),
    "operator status": (("tacit.operations.calls", "infra.stacks.workers"), ANSWERS),
    "results": (("tacit.operations.results", "tacit.operations.tables"), ANSWERS),
    "collect": (("infra.authoring.recipe_names", "tacit.operations.results"), ANSWERS),
    "admin question list": (("tacit.client", "infra.views.admin_view"), ANSWERS),
    "admin audit list": (("tacit.client", "infra.views.admin_view"), ANSWERS),
    "admin people list": (("tacit.client", "infra.views.admin_view"), ANSWERS),
    "recipe list": (("infra.authoring.recipe_names", "tacit.operations.calls"), ANSWERS),
    "recipe show": (("infra.stacks.api", "infra.views.recipe_view", "tacit.operations.services"), CHECKED),
    "recipe yield": (("tacit.operations.yields",), CHECKED),
    "recipe publish": (("infra.stacks.api", "infra.authoring.publishing"), CHECKED),
    "series next": (("infra.stacks.api", "infra.views.search_view", "tacit.operations.prefix_rounds"), CHECKED),
    "series show": (("infra.stacks.api", "infra.views.series_view"), CHECKED),
    "privacy ledger": (("infra.stacks.api", "infra.views.ledger_view", "tacit.operations.ledger"), CHECKED),
    "log verify": (("infra.base.log_watch", "infra.views.log_view"), CHECKED),
    "log monitor": (("infra.base.log_watch", "infra.views.log_view"), CHECKED),
}
"""Commands that ask a service: the modules that they load to do so, and what these must not load."""


@pytest.mark.parametrize("command", WORK)
def test_a_command_that_asks_a_service_loads_no_database_and_no_service(command: str) -> None:
    modules, unwanted = WORK[command]
    program = f"from infra.cli import build\nbuild(*{command.split()!r})\nimport {', '.join(modules)}"
    assert held_after(program, unwanted) == []
