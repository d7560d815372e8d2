"""Describes the stack that ``tacit up`` runs, for a person and as a JSON document."""

from __future__ import annotations

import math
import shlex
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from infra.stacks.command_options import STATE_DIR
from infra.stacks.layout import Layout
from infra.stacks.options import OPERATORS, PEOPLE, operator_credential
from infra.stacks.processes import ServiceProcess
from infra.stacks.workers import Part
from tacit.counting_words import plural
from tacit.operations.pace import QUICK_EPOCH
from tacit.recipe.writing.sampling_plan import FILL
from tacit.service.metric_names import PATH as METRICS_PATH

LATEST_EPOCH = 3
"""Epochs after which the result of a question for one epoch is there."""
SERVICE_NAMES = (
    "relay",
    "gateway",
    "attester",
    "issuer",
    "recipe_server",
    "leader",
    "helper",
    "shuffler",
    "analyzer",
    "collector",
    "admin",
)


def describe(layout: Layout, services: list[ServiceProcess]) -> dict[str, Any]:
    """Return the document of ``tacit up --json``: ``state_dir``, ``credentials``, ``{url, pid, config, metrics}`` for
    each service and further process (without ``metrics`` if its configuration has none), and ``operators`` with
    ``{url, key_file}`` for each of them."""
    found = {
        part.label: {"url": part.url, "pid": one.pid, "config": str(part.config), **_metrics_of(part)}
        for one in services
        for part in one.part.services
    }
    return {
        "state_dir": str(layout.state_dir),
        "credentials": {name: str(path) for name, path in sorted(layout.credentials.items())},
        **{name: found.pop(name) for name in SERVICE_NAMES},
        **found,
        "operators": operators_of(layout, services),
    }


def operators_of(layout: Layout, services: list[ServiceProcess]) -> dict[str, dict[str, str]]:
    """Return, for each process, the URL of its operator API and the file with the token for it."""
    parts = [part for one in services for part in one.part.services]
    return {
        part.label: {
            "url": part.metrics.removesuffix(METRICS_PATH),
            "key_file": str(layout.credentials[operator_credential(part.label.partition(" ")[0])]),
        }
        for part in parts
        if part.metrics is not None
    }


def _metrics_of(part: Part) -> dict[str, str]:
    return {} if part.metrics is None else {"metrics": part.metrics}


def show(layout: Layout, services: list[ServiceProcess], agents: list[Path], console: Console) -> None:
    """Print a table of the services, where their files are, and commands to try next."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for heading in ("service", "operator", "url", "pid"):
        table.add_column(heading, no_wrap=True)
    for service in services:
        for part in service.part.services:
            table.add_row(part.label, OPERATORS.get(part.label) or OPERATORS[part.name], part.url, str(service.pid))
    console.print(table)
    folder = str(layout.state_dir)
    console.print(f"Each service's config.json, database and service.log: {folder}/SERVICE/", soft_wrap=True)
    if "admin" in layout.urls:
        console.print(f"Dashboard: {layout.urls['admin']}; sign in with one of these key files:", soft_wrap=True)
        for name, role in [(name, role) for name, role in PEOPLE.items() if name in layout.credentials]:
            console.print(f"  {role:<13} {layout.credentials[name]}", soft_wrap=True, markup=False, highlight=False)
    seconds = layout.options.epoch_seconds
    least, most = (f"{count * seconds / 60:.0f}" for count in (1, LATEST_EPOCH))
    ready = "one to two minutes" if seconds <= QUICK_EPOCH else f"{least} to {most} minutes"
    console.print(
        f"Token epochs last {seconds} s. A question is asked during one; its result is ready {ready} after it is "
        "published.",
        soft_wrap=True,
    )
    if 0 < len(agents) < layout.options.batch_floor:
        console.print(
            f"A result needs {layout.options.batch_floor} answers, which {plural(len(agents), 'device')} cannot give: "
            f"start this again with --agents {_usual_population(layout)}.",
            soft_wrap=True,
        )
    console.print(
        "Next, in a second terminal:",
        *(f"  {line}" for line in _next(layout, agents)),
        sep="\n",
        soft_wrap=True,
        markup=False,
    )
    console.print("Ctrl-C stops everything.")


def _next(layout: Layout, agents: list[Path]) -> list[str]:
    """Commands to try next, ready to be pasted."""
    place = where(layout)
    question = (
        "--name visits --text 'Who saw a doctor at all?' --metric mdvis --buckets 0,1 --missing ignore --rate 1 "
        f"{_count_asked(layout, len(agents))}"
    )
    first = [f"tacit agent host {shlex.quote(str(agents[0].parent.parent))}"] if agents else []
    return [
        *first,
        f"tacit recipe new {question} --out visits.json{place}",
        f"tacit recipe publish visits.json{place}",
        f"tacit collect visits --wait {max(300, (LATEST_EPOCH + 1) * layout.options.epoch_seconds)}{place}",
    ]


def _count_asked(layout: Layout, devices: int) -> str:
    """How many devices are asked at rate 1: those there are, if the least B can be filled with them."""
    floor, usual = layout.options.batch_floor, _usual_population(layout)
    if floor <= devices < usual:
        return f"--population {devices} --min-batch-size {floor}"
    return f"--population {max(devices, usual)}"


def _usual_population(layout: Layout) -> int:
    """The fewest devices whose B, a usual share of them, is one that the stack's policies accept."""
    return math.ceil(layout.options.batch_floor / FILL)


def where(layout: Layout) -> str:
    """Return the option that names the stack, or an empty text if the stack is in the default folder."""
    elsewhere = layout.state_dir != STATE_DIR.absolute()
    return f" --state-dir {shlex.quote(str(layout.state_dir))}" if elsewhere else ""
