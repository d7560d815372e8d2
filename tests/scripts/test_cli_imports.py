"""What a command loads before it does anything, and what it loads to ask a service: imports are most of that time."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections.abc import Mapping
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


def first_loaded_by(programs: Mapping[str, str], unwanted: tuple[str, ...]) -> dict[str, str]:
    """The packages and modules ``unwanted`` that one fresh interpreter loads when it runs ``programs``, each with the
    name of the program that loads it first."""
    script = f"""
import json, sys
found = {{}}
for name, program in {dict(programs)!r}.items():
    exec(program, {{}})
    found |= {{one: name for one in {unwanted!r} if one in sys.modules and one not in found}}
print(json.dumps(found))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


def helped(path: tuple[str, ...]) -> str:
    """A program that asks a command for its help."""
    return f"from infra.cli import run\nassert run([*{path!r}, '--help']) == 0"


def test_help_loads_no_service_no_database_and_no_recipe() -> None:
    programs = {" ".join(path): helped(path) for path in all_paths() if path not in FLAGS_OF_A_SURVEY}
    assert len(programs) > len(COMMANDS)
    assert first_loaded_by(programs, DEPLOYABLES + SERVERS + HEAVY + RECIPES) == {}


def test_help_on_the_flags_of_a_survey_loads_no_service_and_no_database() -> None:
    programs = {" ".join(path): helped(path) for path in sorted(FLAGS_OF_A_SURVEY)}
    assert first_loaded_by(programs, DEPLOYABLES + SERVERS + ("Crypto", "cffi", "numpy", "scipy")) == {}


def test_a_device_loads_no_server_no_broker_and_no_database_library_unless_it_needs_one() -> None:
    """Memory of every device: with SQLAlchemy, a broker's client and a server's framework it was twice as much."""
    unwanted = (
        *("Crypto", "aiohttp", "aiomqtt", "aiosqlite", "alembic", "mako", "numpy", "prometheus_client", "redis"),
        "sqlalchemy",
    )
    assert first_loaded_by({"agent": "import client_agent.host, client_agent.embedding"}, unwanted) == {}


def test_what_is_loaded_and_must_not_be_is_found_with_the_program_that_does() -> None:
    programs = {"first": "import json", "second": "import sqlite3", "third": "import sqlite3"}
    assert first_loaded_by(programs, ("sqlite3", "wave")) == {"sqlite3": "second"}


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
    "learn show": (
        (
            "infra.stacks.api",
            "infra.views.learn_run_view",
            "tacit.operations.learning.documents",
            "tacit.operations.series_rounds",
        ),
        CHECKED,
    ),
    "privacy ledger": (("infra.stacks.api", "infra.views.ledger_view", "tacit.operations.ledger"), CHECKED),
    "log verify": (("infra.base.log_watch", "infra.views.log_view"), CHECKED),
    "log monitor": (("infra.base.log_watch", "infra.views.log_view"), CHECKED),
}
"""Commands that ask a service: the modules that they load to do so, and what these must not load."""


@pytest.mark.parametrize("unwanted", [ANSWERS, CHECKED], ids=["answers", "checked"])
def test_commands_that_ask_a_service_load_no_database_and_no_service(unwanted: tuple[str, ...]) -> None:
    programs = {
        command: f"from infra.cli import build\nbuild(*{command.split()!r})\nimport {', '.join(modules)}"
        for command, (modules, not_wanted) in WORK.items()
        if not_wanted is unwanted
    }
    assert programs
    assert first_loaded_by(programs, unwanted) == {}


def test_the_module_of_all_commands_runs_as_a_program_as_services_and_agents_are_started() -> None:
    code = "import runpy, sys; sys.argv[1:] = ['--version']; runpy.run_module('infra.cli', run_name='__main__')"
    run = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith("tacit ")
