"""The command ``tacit``: parses arguments, calls the command, and turns every error into one line and an exit code.

Exit codes: 0 ok, 1 refused or failed, 2 usage, 78 failed in a way that trying again makes worse. Answers go to
stdout, progress and errors to stderr.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
from collections.abc import Sequence
from copy import copy
from functools import partial
from typing import Annotated, Any

import typer
from typer.core import TyperCommand
from typer.exceptions import TyperException
from typer.models import TyperInfo

from infra.base.garbage import no_collection
from infra.base.standard_streams import OutputError, abandon_output, end_output, prepare_streams
from infra.views.plain import visible
from infra.views.policy_words import for_authors
from tacit import __version__
from tacit.errors import Abort, Fatal, HarmfulToRetryError, Refusal, TacitError
from tacit.extras import LABORATORY, missing_laboratory, missing_module
from tacit.native_level import wanted_level
from tacit.ports import TransportError

_LIKE_AN_OPTION = re.compile(r"-[A-Za-z0-9_-]{42}")
"""A hash of 32 bytes that begins with a hyphen; no option has so long a name."""

OK, FAILED, USAGE, INTERRUPTED, NEVER_AGAIN = 0, 1, 2, 130, 78
COMPLETION = "_TACIT_COMPLETE"
PACKAGES = ("services", "relay", "attester", "recipe_server", "client_agent", "infra")
"""Packages of which a container image for one domain holds only a few (``infra.tools.images``)."""
SUMMARY = "Private federated analytics: signed recipes, anonymous contributions, noisy aggregates."

COMMANDS = {
    "demo": (
        "infra.lab.commands.demo:demo",
        "Run every party on this machine and answer one question about real devices.",
    ),
    "up": ("infra.commands.up:commands", "Run every service as a process of its own until Ctrl-C."),
    "staging": ("infra.commands.staging:app", "Run a whole deployment with many devices on this machine."),
    "status": ("infra.commands.status:status", "Show services, servers and, for each task, how far its reports are."),
    "serve": ("infra.commands.serve:serve", "Run one service until it is told to stop (Ctrl-C or SIGTERM)."),
    "backup": (
        "infra.commands.backup:backup",
        "Copy a snapshot of a service's database, running or not, and its own files.",
    ),
    "restore": ("infra.commands.backup:restore", "Replace the database of a stopped service by a backup."),
    "agent": ("infra.commands.agent:app", "Run one device's agent, or read its journal."),
    "recipe": ("infra.commands.recipes.recipe:app", "Design, write, check, sign, publish and read recipes."),
    "series": ("infra.commands.recipes.series:app", "Ask one recipe in several rounds that are charged once."),
    "learn": ("infra.commands.learn:app", "Train a model by the sums that devices contribute."),
    "collect": ("infra.commands.results:collect", "Collect a recipe's batch, and show the result once it is released."),
    "results": (
        "infra.commands.results:results",
        "Show released results: estimates, their errors, and what they cost.",
    ),
    "admin": (
        "infra.commands.admin.main:app",
        "Manage questions, results, people and the audit log over an admin API.",
    ),
    "operator": (
        "infra.commands.operator:app",
        "Show status, jobs and keys of one service to the organisation that runs it.",
    ),
    "log": ("infra.commands.log:app", "Read the whole log from outside: verify it, or monitor it."),
    "fleet": ("infra.lab.commands.fleet:app", "Simulate very many devices over the real wire."),
    "keys": ("infra.commands.keys:app", "Make and show key files (mode 0600)."),
    "privacy": ("infra.commands.privacy:app", "Account for privacy: mechanisms, worked examples, budgets."),
    "figures": (
        "infra.lab.commands.figures:app",
        "Draw the figures of the papers, from corrected formulas and from measurements.",
    ),
    "schemas": (
        "infra.commands.schemas:schemas",
        "Write JSON Schemas of every document, and tables of the rules and members.",
    ),
    "vectors": (
        "infra.lab.commands.vectors:vectors",
        "Write test vectors for other implementations: from a recipe to a report and to a result, byte by byte.",
    ),
    "bench": ("infra.lab.commands.bench:app", "Measure what each stage costs, beside the floor of this machine."),
}
"""By command: where its function or group of commands is, and its summary, so that the list of commands imports none of
the modules."""


def build(*wanted: str) -> typer.Typer:
    """Return the application with the names and summaries of all commands. Only the command that the words ``wanted``
    begin with is imported and can be called, so that a service starts without the demo's modules; of a group, only the
    command that they go on with."""
    app = typer.Typer(
        name="tacit",
        help=SUMMARY,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_in_common)
    for name, (place, summary) in COMMANDS.items():
        if name not in wanted[:1]:
            app.command(name, help=summary)(_not_imported)
            continue
        module, _, member = place.partition(":")
        with no_collection():
            found = getattr(importlib.import_module(module), member)
        if isinstance(found, typer.Typer):
            app.add_typer(_only(found, wanted[1:]), name=name)
        else:
            app.command(name)(found)
    return taking_hashes(app)


def _only(group: typer.Typer, wanted: Sequence[str]) -> typer.Typer:
    """``group`` with no other command than the one that ``wanted`` begins with, or with all if it is not there."""
    commands = [one for one in group.registered_commands if one.name in wanted[:1]]
    groups = [one for one in group.registered_groups if one.name in wanted[:1]]
    if not wanted or (not commands and not groups):
        return group
    one = copy(group)
    one.registered_commands = commands
    one.registered_groups = [_narrow(inner, wanted[1:]) for inner in groups]
    return one


def _narrow(inner: TyperInfo, wanted: Sequence[str]) -> TyperInfo:
    one = copy(inner)
    one.typer_instance = None if inner.typer_instance is None else _only(inner.typer_instance, wanted)
    return one


def _print_version(asked: bool) -> None:
    if asked:
        print(f"tacit {__version__}")
        raise typer.Exit


def _in_common(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    pass


def _not_imported() -> None:
    raise Fatal("this command was not imported")


def main() -> None:
    """Run ``tacit`` with the process's arguments and exit: the entry point of the console script."""
    prepare_streams()
    try:
        code = run(sys.argv[1:])
        end_output()
    except OutputError as error:
        print(f"tacit: {error}", file=sys.stderr)
        abandon_output()
        code = FAILED
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code. With ``--json``, a failure is also a document on stdout:
    ``{"error": {"kind", "rule"?, "detail"}}``."""
    tell = partial(_complain, as_json="--json" in arguments)
    try:
        wanted_level()
        code = build(*_command_words(arguments))(_asking(arguments), prog_name="tacit", standalone_mode=False)
    except TyperException as error:
        place = getattr(getattr(error, "ctx", None), "command_path", "tacit")
        tell("usage", error.format_message().replace("Value error, ", ""), hint=f"try: {place} --help")
        return USAGE
    except typer.Exit as stop:
        return int(stop.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        tell("interrupted", "interrupted")
        return INTERRUPTED
    except Refusal as error:
        tell("refused", error.detail, rule=error.rule)
        return FAILED
    except Abort as error:
        tell("failed", error.words)
        return FAILED
    except (TacitError, TransportError, OSError) as error:
        tell("failed", _of_system(error) if isinstance(error, OSError) else str(error))
        return NEVER_AGAIN if isinstance(error, HarmfulToRetryError) else FAILED
    except ModuleNotFoundError as error:
        tell("failed", _lacking(error, arguments))
        return FAILED
    if code == INTERRUPTED:  # typer makes an exit code of a Ctrl-C in a command
        tell("interrupted", "interrupted")
    return int(code) if isinstance(code, int) else OK


def _of_system(error: OSError) -> str:
    """What the system says of a file: a full disk, a folder without permission."""
    return ": ".join(str(one) for one in (error.filename, error.strerror or error) if one is not None)


def _lacking(error: ModuleNotFoundError, arguments: Sequence[str]) -> str:
    """What is said where a part of Tacit is not installed. Raises ``error`` where it is about anything else."""
    name, command = error.name or "", " ".join(("tacit", *_command_words(arguments)[:1]))
    if (missing := missing_module(command, error)) is not None:
        return str(missing)
    if name.partition(".")[0] not in PACKAGES:
        raise error
    if f"{name}.".startswith(f"{LABORATORY}."):
        return str(missing_laboratory(command))
    return f"this image has no {name}: it holds only the code of one organisation's part"


def _asking(arguments: Sequence[str]) -> list[str]:
    """``arguments``, with ``--help`` added if they name no command, or only a group of commands."""
    given = list(arguments)
    is_group = len(given) == 1 and COMMANDS.get(given[0], ("", ""))[0].endswith(":app")
    return [*given, "--help"] if not given or is_group else given


def _command_words(arguments: Sequence[str]) -> list[str]:
    """The words of the command line that may name a command, or of the one that a shell is completing."""
    words = (
        os.environ["COMP_WORDS"].split()[1:] if COMPLETION in os.environ and "COMP_WORDS" in os.environ else arguments
    )
    return [word for word in words if not word.startswith("-")]


def _complain(kind: str, detail: str, *, rule: str = "", hint: str = "", as_json: bool = False) -> None:
    detail = for_authors(visible(" ".join(detail.split())))
    print(f"tacit: {f'refused by rule {rule}: ' if rule else ''}{detail}", file=sys.stderr)
    if hint:
        print(f"tacit: {hint}", file=sys.stderr)
    if as_json:
        print(json.dumps({"error": {"kind": kind, **({"rule": rule} if rule else {}), "detail": detail}}))


class HashCommand(TyperCommand):
    """A command that takes hashes as arguments wherever they stand."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse ``args``, in which hashes that look like options are moved behind ``--``."""
        with_value = {
            name
            for one in self.params
            if not getattr(one, "is_flag", True)
            for name in (*one.opts, *one.secondary_opts)
        }
        return super().parse_args(ctx, move_hashes_last(args, with_value))


def move_hashes_last(args: Sequence[str], with_value: set[str]) -> list[str]:
    """``args`` with the hashes that look like options at the end, behind ``--``, unless they are the value of an option
    (those ``with_value`` have one)."""
    if "--" in args:
        return list(args)
    before = ["", *args]
    found = [one for last, one in zip(before, args, strict=False) if _is_hash(one) and last not in with_value]
    if not found:
        return list(args)
    rest = [one for last, one in zip(before, args, strict=False) if not _is_hash(one) or last in with_value]
    return [*rest, "--", *found]


def taking_hashes(app: typer.Typer) -> typer.Typer:
    """``app``, whose commands, and those of its groups, take such hashes."""
    for command in app.registered_commands:
        command.cls = HashCommand
    for group in app.registered_groups:
        if group.typer_instance is not None:
            taking_hashes(group.typer_instance)
    return app


def _is_hash(argument: str) -> bool:
    return _LIKE_AN_OPTION.fullmatch(argument) is not None


if __name__ == "__main__":
    main()
