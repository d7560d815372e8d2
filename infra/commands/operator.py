"""``tacit operator``: shows one service to the organisation that runs it, over the API beside its metrics."""

from __future__ import annotations

import asyncio
import functools
import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich.table import Table

from infra.stacks.command_options import AsJson, layout_of
from infra.stacks.options import operator_credential
from infra.stacks.workers import service_part
from infra.views.terminal import answers, notes, plain_table, print_json
from tacit.adapters.network.http import HttpTransport
from tacit.errors import UsageError
from tacit.operations.calls import call
from tacit.service.http.token_files import first_token
from tacit.service.metric_names import PATH
from tacit.time_format import format_second

ANSWER_SECONDS = 10.0
PAGE = 200

app = typer.Typer(
    help="Show status, jobs and keys of one service to the organisation that runs it.", no_args_is_help=True
)

Service = Annotated[
    str | None, typer.Argument(metavar="[SERVICE]", help="A service of the local stack.", show_default=False)
]
Url = Annotated[str | None, typer.Option("--url", help="URL of a service's metrics, instead of a local stack's.")]
KeyFile = Annotated[
    Path | None, typer.Option("--key-file", help="With --url: file (mode 0600) with the operator's token.")
]
Folder = Annotated[
    Path | None, typer.Option("--state-dir", help="Folder of a local stack (default .tacit).", show_default=False)
]
Asking = Callable[[str, str], Any]
"""Makes one exchange, given the method and the path below the service's address."""


def asking(command: Callable[..., None]) -> Callable[..., None]:
    """Replace a command's parameter ``ask`` by options that name a service; the command gets an ``Asking`` for it."""
    own = dict(inspect.signature(command, eval_str=True).parameters)
    del own["ask"]

    @functools.wraps(command)
    def taking(
        *, service: str | None, url: str | None, key_file: Path | None, state_dir: Path | None, **given: Any
    ) -> None:
        base, bearer, transport = _meant(service, url, key_file, state_dir)

        async def once(method: str, path: str) -> Any:
            async with transport() as opened:
                return await call(opened, method, base + path, bearer=bearer)

        command(ask=lambda method, path: asyncio.run(once(method, path)), **given)

    keyword = inspect.Parameter.KEYWORD_ONLY
    flags = [
        inspect.Parameter("service", keyword, default=None, annotation=Service),
        *(one.replace(kind=keyword) for one in own.values()),
        inspect.Parameter("url", keyword, default=None, annotation=Url),
        inspect.Parameter("key_file", keyword, default=None, annotation=KeyFile),
        inspect.Parameter("state_dir", keyword, default=None, annotation=Folder),
    ]
    vars(taking)["__signature__"] = inspect.Signature(flags)
    taking.__annotations__ = {one.name: one.annotation for one in flags}
    return taking


def _meant(
    service: str | None, url: str | None, key_file: Path | None, state_dir: Path | None
) -> tuple[str, str, Callable[[], HttpTransport]]:
    """The service's address, the token and a function that makes a client. Raises ``UsageError``."""
    if url is not None:
        if key_file is None or service is not None or state_dir is not None:
            raise typer.BadParameter("--url goes with --key-file, and with neither a service nor --state-dir")
        return url.rstrip("/").removesuffix(PATH), first_token(key_file), lambda: HttpTransport(timeout=ANSWER_SECONDS)
    layout = layout_of(state_dir)
    if service is None or service not in layout.configs:
        raise typer.BadParameter(f"name one service of the stack: {', '.join(layout.services)}")
    metrics, name = service_part(layout, service).metrics, operator_credential(service)
    if metrics is None or name not in layout.credentials:
        raise UsageError(f"{layout.state_dir}: its {service} has no operators' API yet; start it again with: tacit up")
    token = first_token(key_file or layout.credentials[name])
    return metrics.removesuffix(PATH), token, lambda: layout.transport(timeout=ANSWER_SECONDS)


@app.command("status")
@asking
def status(ask: Asking, as_json: AsJson = False) -> None:
    """Show whether a service is ready, and its numbers as in its metrics.

    Example: tacit operator status leader
    """
    found = ask("GET", "/v1/status")
    if as_json:
        print_json(found)
        return
    answers().print(f"{found['service']} {found['version']}: {'ready' if found['ready'] else 'not ready'}")
    for trouble in found["trouble"]:
        answers().print(f"  {trouble}", markup=False)
    _show_numbers(found["numbers"])


@app.command("jobs")
@asking
def jobs(
    ask: Asking,
    stuck: Annotated[bool, typer.Option("--stuck", help="Only jobs that make no progress.")] = False,
    as_json: AsJson = False,
) -> None:
    """List a service's jobs, and what they wait for.

    Example: tacit operator jobs collector --stuck
    """
    found: dict[str, Any] = {"jobs": [], "numbers": []}
    cursor: str | None = "0"
    while cursor is not None:
        page = ask("GET", f"/v1/jobs?limit={PAGE}&cursor={cursor}")
        found["jobs"] += [one for one in page["jobs"] if one["stuck"] or not stuck]
        found["numbers"], cursor = page["numbers"], page["next"]
    rows = [
        (one["id"], one["about"], f"{one['state']}{' (stuck)' if one['stuck'] else ''}", one["detail"])
        for one in found["jobs"]
    ]
    _show(found, rows, "job", "about", "state", "why", as_json=as_json)
    if not as_json:
        _show_numbers(found["numbers"])


@app.command("retry", context_settings={"ignore_unknown_options": True})
@asking
def retry(
    ask: Asking,
    job: Annotated[str, typer.Option("--job", help="The job's id.")],
    as_json: AsJson = False,
) -> None:
    """Retry a job now.

    Example: tacit operator retry leader --job background.following-the-log
    """
    found = ask("POST", f"/v1/jobs/{quote(job, safe='')}/retry")
    if as_json:
        print_json(found)
    else:
        notes().print(f"{found['id']} is retried", markup=False)


@app.command("rejections")
@asking
def rejections(ask: Asking, as_json: AsJson = False) -> None:
    """Show what a service refused, by cause, in steps of 100.

    Example: tacit operator rejections helper
    """
    found = ask("GET", "/v1/rejections")
    rows = [(one["cause"], f"{one['count']:,.0f}") for one in found["causes"]]
    rows += [(f"{one['route']} {one['status']}", f"{one['count']:,.0f}") for one in found["requests"]]
    _show(found, rows, "what", "how often", as_json=as_json)


@app.command("issuance")
@asking
def issuance(ask: Asking, as_json: AsJson = False) -> None:
    """Show how many tokens the issuer signed, or the attester passed on, by epoch, in steps of 100.

    Example: tacit operator issuance issuer
    """
    found = ask("GET", "/v1/issuance")
    rows = [(one["epoch"], f"{one['tokens']:,.0f}") for one in found["epochs"]]
    _show(found, rows, "epoch", "tokens", as_json=as_json)


@app.command("keys")
@asking
def keys(ask: Asking, as_json: AsJson = False) -> None:
    """List a service's keys and certificates, and when they end.

    Example: tacit operator keys gateway
    """
    found = ask("GET", "/v1/keys")
    rows = [
        (one["use"], one["name"], "" if one["ends"] is None else format_second(one["ends"])) for one in found["keys"]
    ]
    rows += [("certificate", one["use"], format_second(one["ends"])) for one in found["certificates"]]
    _show(found, rows, "use", "key", "ends", as_json=as_json)


def _show(found: Any, rows: Iterable[Sequence[str]], *columns: str, as_json: bool) -> None:
    """Print what the service answered, as JSON or as a table."""
    if as_json:
        print_json(found)
    else:
        answers().print(_table(rows, *columns))


def _show_numbers(numbers: list[Mapping[str, Any]]) -> None:
    rows = []
    for one in numbers:
        labels = ", ".join(f"{name} {value}" for name, value in one["labels"].items())
        name = f"{one['name']}{f' ({labels})' if labels else ''}"
        rows.append((name, number_words(one["name"], one["value"]), one["rule"]))
    answers().print(_table(rows, "number", "value", "shown"))


def number_words(name: str, value: float) -> str:
    """The value of the number ``name`` for a person: a moment if its name says so, whole numbers with every digit."""
    if name.endswith("_timestamp_seconds") or name == "process_start_time_seconds":
        return format_second(int(value)) if value > 0 else "never"
    return f"{value:,.0f}" if math.isfinite(value) and value == round(value) else f"{value:,g}"


def _table(rows: Iterable[Sequence[str]], *columns: str) -> Table:
    table = plain_table(*columns)
    for row in rows:
        table.add_row(*row)
    return table
