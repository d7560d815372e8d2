"""``tacit log``: reads a log from outside, and reports what should not be in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from infra.stacks.command_options import AsJson, Server, StateDir, layout_of, policy_of
from infra.views.plain import visible
from infra.views.terminal import answers, notes, print_json, print_json_line
from tacit.adapters.disk.folder import FolderTransport, SavingTransport
from tacit.adapters.network.http import HttpTransport
from tacit.adapters.network.tls import ClientTls
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.errors import DecodeError, UsageError
from tacit.logview.whole import MAX_BUNDLE
from tacit.monitor.findings import Finding
from tacit.ports import Transport, TransportError
from tacit.time_format import format_utc
from tacit.tlog.checkpoint import NoteKey

if TYPE_CHECKING:
    from infra.base.log_watch import LogReport, Place
    from tacit.service.run import Ready


app = typer.Typer(help="Read the whole log from outside: verify it, or monitor it.", no_args_is_help=True)

KEPT = "monitor.json"
LEAST_WIDTH = 120

Key = Annotated[str | None, typer.Option("--key", help="With --server or --from: the log's note key.")]
PolicyFile = Annotated[
    Path | None, typer.Option("--policy", help="Policy to judge the log by (default: the stack's, or the strictest).")
]
Authority = Annotated[
    Path | None, typer.Option("--ca", help="With --server: a PEM file of authorities to trust besides the system's.")
]
Folder = Annotated[
    Path | None, typer.Option("--from", help="A copy of the log: a folder with checkpoint and tile/, as it is served.")
]
Keep = Annotated[
    Path | None,
    typer.Option("--keep", help=f"File to remember what was seen (default: the stack's {KEPT}; mode 0600)."),
]


@app.command("verify")
def verify(
    state_dir: StateDir = None,
    server: Server = None,
    key: Key = None,
    ca: Authority = None,
    policy: PolicyFile = None,
    folder: Folder = None,
    keep: Keep = None,
    save: Annotated[Path | None, typer.Option("--save", help="Write a copy of the log into this folder.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check the log's integrity once: the checkpoint and its cosignatures, every entry and hash tile, that it extends
    what was seen before, and the signature of every leaf.

    Exits with 1 if something is wrong.
    Example: tacit log verify --state-dir .tacit --save log-copy
    """
    place, kept = _place(state_dir, server, key, ca, policy, folder), _kept_path(state_dir, server, folder, keep)
    _end(asyncio.run(_once(place, kept, folder, save, judge=False)), as_json=as_json)


@app.command("monitor")
def monitor(
    state_dir: StateDir = None,
    server: Server = None,
    key: Key = None,
    ca: Authority = None,
    policy: PolicyFile = None,
    folder: Folder = None,
    keep: Keep = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Continue until Ctrl-C, and print each finding once.")
    ] = False,
    every: Annotated[float, typer.Option("--every", min=1, help="With --follow: seconds between two reads.")] = 60.0,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="With --follow: where /metrics and /healthz are (loopback).")
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Read and judge every leaf: recompute claims, compose accounts, and find leaves that take something twice or came
    late, unknown kinds, and recipes and parties that fell silent.

    Late leaves are found by comparison with an earlier run, so run it regularly. Exits with 1 if something was found.
    Example: tacit log monitor --follow --port 9470
    """
    place, kept = _place(state_dir, server, key, ca, policy, folder), _kept_path(state_dir, server, folder, keep)
    if kept is None:
        raise typer.BadParameter("give --keep, a file to remember what was seen")
    if not follow:
        _end(asyncio.run(_once(place, kept, folder, None, judge=True)), as_json=as_json)
        return
    if asyncio.run(_follow(place, kept, folder, every, port, as_json=as_json)):
        raise typer.Exit(1)


def _place(
    state_dir: Path | None,
    server: str | None,
    key: str | None,
    ca: Path | None,
    policy: Path | None,
    folder: Path | None,
) -> Place:
    from infra.base.log_watch import Place
    from tacit.recipe.policy import Policy

    given = None if policy is None else policy_of(policy)
    if ca is not None and server is None:
        raise typer.BadParameter("--ca needs --server")
    if server is None and folder is None:
        if key is not None:
            raise typer.BadParameter("--key needs --server or --from")
        layout = layout_of(state_dir)
        own = given or policy_of(layout.policy_path)
        return Place(layout.urls["recipe_server"], NoteKey.decode(layout.log_key), own, layout.client_tls)
    if key is None or state_dir is not None or (server is not None and folder is not None):
        raise typer.BadParameter("give --server or --from, without --state-dir, and the log's --key")
    try:
        pinned = NoteKey.decode(key)
    except DecodeError as error:
        raise UsageError(f"--key: {error}") from error
    return Place((server or "file://").rstrip("/"), pinned, given or Policy(), ClientTls(ca))


def _kept_path(state_dir: Path | None, server: str | None, folder: Path | None, keep: Path | None) -> Path | None:
    if keep is None and server is None and folder is None:
        return layout_of(state_dir).state_dir / KEPT
    return keep


@asynccontextmanager
async def _transport(place: Place, folder: Path | None, save: Path | None) -> AsyncIterator[Transport]:
    if folder is not None:
        yield FolderTransport(folder)
        return
    async with HttpTransport(connections=4, max_response=MAX_BUNDLE, tls=place.tls) as transport:
        yield transport if save is None else SavingTransport(transport, save)


async def _once(place: Place, kept: Path | None, folder: Path | None, save: Path | None, *, judge: bool) -> LogReport:
    from infra.base.log_watch import Watch
    from infra.views.log_view import Bars

    async with _transport(place, folder, save) as transport:
        watch = Watch(place, transport, SystemClock(), kept)
        stage = Bars(notes()).stage
        try:
            return await (watch.look(stage) if judge else watch.verify(stage))
        except TransportError as error:
            raise TransportError(f"the log at {folder or place.url} cannot be read: {error}") from error


def _end(report: LogReport, *, as_json: bool) -> None:
    from infra.views.log_view import show_report

    if as_json:
        print_json(report.document())
    else:
        show_report(report, answers(LEAST_WIDTH))
    if report.findings:
        raise typer.Exit(1)


async def _follow(place: Place, kept: Path, folder: Path | None, every: float, port: int, *, as_json: bool) -> bool:
    """Watch the log until told to stop; return whether anything was found."""
    from infra.base.log_watch import Watch
    from infra.commands.log_service import Monitor, create_app
    from infra.views.log_view import Bars
    from tacit.service.app import ServiceEnv
    from tacit.service.base.config import Listen
    from tacit.service.base.log import set_log_level
    from tacit.service.run import serve

    console = answers(LEAST_WIDTH)

    def tell(finding: Finding) -> None:
        if as_json:
            print_json_line(finding.document())
            return
        leaf = "" if finding.index is None else f"leaf {finding.index}: "
        words = Text.assemble((finding.kind, "red"), f"  {leaf}{visible(finding.what)}")
        console.print(Text.assemble((format_utc(SystemClock().now()), "dim"), "  ", words), soft_wrap=True)

    def ready(site: Ready) -> None:
        notes().print(f"watching {place.key.name} every {every:g} s; {site.url}/metrics, {site.url}/healthz")

    set_log_level("warning")
    async with _transport(place, folder, None) as transport:
        watching = Monitor(Watch(place, transport, SystemClock(), kept), Bars(notes()).stage, tell)
        service = create_app(watching, ServiceEnv(SystemClock(), OsEntropy(), transport), every)
        await serve(service, Listen(port=port), ready=ready)
    return watching.found
