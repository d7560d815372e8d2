"""``tacit serve``: runs one service in the foreground."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Annotated

import typer

from infra.base.loops import fastest_loop
from infra.base.service_names import KINDS
from tacit.adapters.databases.recovery import Recovery
from tacit.errors import TacitError
from tacit.ports import TransportError
from tacit.service.base.foreign_lines import foreign_lines, log_end, log_unhandled
from tacit.version import VERSIONS

INGEST = "ingest"
INTEROP = "interop"
AGENT = "agent"
"""Not a service, but its configuration can be printed."""
MARKED = (
    *("issuer", "attester", "gateway", "leader", "helper", "analyzer", "shuffler", "witness", "admin"),
    "recipe_server",
)
"""The services whose databases record what was spent."""


Name = Annotated[str, typer.Argument(help=f"One of: {', '.join((*KINDS, INGEST, INTEROP))}.", show_default=False)]
Config = Annotated[
    Path | None, typer.Option("--config", help=f"The service's configuration, JSON or TOML; {INTEROP} has none.")
]
LeaderConfig = Annotated[
    Path | None,
    typer.Option("--leader-config", help=f"For {INGEST} (a gateway and a leader in one process): the leader's."),
]
LeaderUrl = Annotated[
    str | None,
    typer.Option("--leader-url", help=f"For {INGEST}: the leader's URL in the recipes, if not its listener's."),
]
AcceptRollback = Annotated[
    bool,
    typer.Option(
        "--accept-rollback",
        help="Start once on a database from a backup: whatever may have been spent since is closed for good.",
    ),
]
NewMark = Annotated[
    bool, typer.Option("--new-mark", help="Start once with a new mark, if the database is complete without one.")
]
StopWithStdin = Annotated[
    bool, typer.Option("--stop-with-stdin", help="Stop when standard input (a pipe) closes, as under tacit up.")
]
PrintConfig = Annotated[
    bool,
    typer.Option(
        "--print-config",
        help=f"Only print a configuration with every key and its default (TOML); for {AGENT} too.",
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="With --print-config: print JSON. A service's output is always JSON.")
]
Role = Annotated[
    str, typer.Option("--role", help=f"For {INTEROP}: client, leader, helper or collector.", show_default=False)
]
Profile = Annotated[str, typer.Option("--profile", help=f"For {INTEROP}: {' or '.join(VERSIONS)}.", show_default=False)]
Host = Annotated[str, typer.Option("--host", help=f"For {INTEROP}: where to listen (127.0.0.1).", show_default=False)]
Port = Annotated[int | None, typer.Option("--port", help=f"For {INTEROP}: the port (8080).", min=0, max=65535)]
InsecureHttp = Annotated[
    bool,
    typer.Option("--insecure-http", help=f"For {INTEROP}: serve beyond loopback too, in a network of test machines."),
]
DatabaseFile = Annotated[
    Path | None,
    typer.Option("--database-file", help=f"For {INTEROP}: file (0600) with the URL of a fresh PostgreSQL database."),
]
BatchCryptoFlag = Annotated[
    bool, typer.Option("--batch-crypto", help=f"For {INTEROP}: open shares with the multi-buffer kernels.")
]


def serve(
    name: Name,
    config: Config = None,
    leader_config: LeaderConfig = None,
    leader_url: LeaderUrl = None,
    accept_rollback: AcceptRollback = False,
    new_mark: NewMark = False,
    stop_with_stdin: StopWithStdin = False,
    print_config: PrintConfig = False,
    role: Role = "",
    profile: Profile = "",
    host: Host = "",
    port: Port = None,
    insecure_http: InsecureHttp = False,
    database_file: DatabaseFile = None,
    batch_crypto: BatchCryptoFlag = False,
    as_json: AsJson = False,
) -> None:
    """Run one service until it is told to stop (Ctrl-C or SIGTERM).

    It writes one JSON line {service, url, pid} to stdout once it listens, and its log to stderr. "ingest" is a gateway
    (--config) and a leader (--leader-config) in one process: uploads reach the leader without a further exchange.

    "interop" is the interoperation test API of DAP, for tests of other implementations against ours, never for real
    data (docs/interop.md): tacit serve interop --role leader --port 8080 --profile janus-main

    To start a configuration: tacit serve relay --print-config > relay.toml

    A database that was restored from a backup is refused; docs/restoring.md says what to do then.
    Example: tacit serve relay --config .tacit/relay/config.json
    """
    if print_config:
        _print_config(name, config, as_json=as_json)
        return
    if name not in (*KINDS, INGEST, INTEROP):
        raise typer.BadParameter(f"no service is called {name}; choose one of {', '.join((*KINDS, INGEST, INTEROP))}")
    asked: dict[str, object] = {"--role": role, "--profile": profile, "--host": host, "--port": port}
    asked |= {"--insecure-http": insecure_http, "--database-file": database_file, "--batch-crypto": batch_crypto}
    if name == INTEROP:
        others = (config, leader_config, leader_url, accept_rollback or None, new_mark or None)
        storage = (database_file, batch_crypto)
        service = _interop(role, profile or "dap-18", host, port, others, storage, insecure_http=insecure_http)
    elif given := [flag for flag, value in asked.items() if value not in ("", None, False)]:
        raise typer.BadParameter(f"{given[0]} is only for {INTEROP}")
    else:
        recovery = _recovery(name, accept_rollback=accept_rollback, new_mark=new_mark)
        service = _deployed(name, config, leader_config, leader_url, recovery)
    _run(_serve(service, stop_with_stdin=stop_with_stdin))


def _print_config(name: str, config: Path | None, *, as_json: bool) -> None:
    """Print the configuration of the service, or of a device, with every key. Raises ``BadParameter``, also for a
    ``config`` to read."""
    if config is not None:
        raise typer.BadParameter("--print-config reads no configuration")
    if name not in (*KINDS, AGENT):
        raise typer.BadParameter(f"{name} has no configuration; choose one of {', '.join((*KINDS, AGENT))}")
    from infra.tools.documents.configuration import print_configuration

    print_configuration(name, as_json=as_json)


def _deployed(
    name: str, config: Path | None, leader_config: Path | None, leader_url: str | None, recovery: Recovery
) -> Coroutine[None, None, None]:
    """Return the coroutine that runs a service, or two in one process. Raises ``BadParameter``."""
    from infra.stacks.deployables import run_service

    if config is None:
        raise typer.BadParameter(f"--config is missing: the configuration of the {name}")
    if (name == INGEST) != (leader_config is not None) or (leader_url is not None and name != INGEST):
        raise typer.BadParameter(f"--leader-config goes with {INGEST}, and {INGEST} needs it")
    if leader_config is None:
        return run_service(name, config, recovery)
    from infra.stacks.ingest import run_ingest

    return run_ingest(config, leader_config, leader_url)


def _interop(
    role: str,
    profile: str,
    host: str,
    port: int | None,
    others: Sequence[object],
    storage: tuple[Path | None, bool],
    *,
    insecure_http: bool,
) -> Coroutine[None, None, None]:
    """Return the coroutine that runs the test API, which accepts none of the ``others``. Raises ``BadParameter``."""
    from infra.tools.interop.run import ROLES, run_interop, storage_of
    from tacit.service.base.config import Listen

    if any(other is not None for other in others):
        raise typer.BadParameter(f"{INTEROP} takes no configuration")
    if role not in ROLES:
        raise typer.BadParameter(f"--role must be one of {', '.join(ROLES)}")
    if profile not in VERSIONS:
        raise typer.BadParameter(f"--profile must be one of {', '.join(VERSIONS)}")
    listen = Listen(host=host or "127.0.0.1", port=8080 if port is None else port)
    database, batch = storage
    kept = storage_of(role, database, batch_crypto=batch)
    return run_interop(role, VERSIONS[profile], listen, insecure_http=insecure_http, storage=kept)


def _recovery(name: str, *, accept_rollback: bool, new_mark: bool) -> Recovery:
    """Return how the service treats an older database or a missing mark. Raises ``BadParameter``."""
    if accept_rollback and new_mark:
        raise typer.BadParameter("--accept-rollback and --new-mark exclude each other")
    if (accept_rollback or new_mark) and name not in MARKED:
        raise typer.BadParameter(f"only {', '.join(MARKED)} have a mark; serve the one concerned by itself, once")
    return Recovery.ACCEPT if accept_rollback else Recovery.NEW_MARK if new_mark else Recovery.REFUSE


def _run(serving: Coroutine[None, None, None]) -> None:
    """Serve, with everything that goes wrong in the log. Raises what has words for a person, and ``Exit`` for another
    error."""
    with foreign_lines(), asyncio.Runner(loop_factory=fastest_loop()) as runner:
        runner.get_loop().set_exception_handler(log_unhandled)
        try:
            runner.run(serving)
        except (TacitError, TransportError, ModuleNotFoundError, typer.Exit, typer.BadParameter):
            raise  # whose words a person is told
        except Exception as error:
            log_end(error)
            raise typer.Exit(1) from None


async def _serve(service: Coroutine[None, None, None], *, stop_with_stdin: bool) -> None:
    if stop_with_stdin:
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), _stop_at_end, sys.stdin.fileno())
    await service


def _stop_at_end(descriptor: int) -> None:
    """Stop this process by SIGTERM once the other end of the pipe is closed."""
    if not os.read(descriptor, 4096):
        asyncio.get_running_loop().remove_reader(descriptor)
        os.kill(os.getpid(), signal.SIGTERM)
