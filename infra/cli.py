"""The command ``tacit``: parses, calls, and turns every error into one line and an exit code.

Exit codes: 0 ok, 1 refused or failed, 2 usage, 78 failed in a way that trying again makes worse. Answers go to
stdout, progress and errors to stderr.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import Annotated

import typer
from typer.exceptions import TyperException

from infra.imports import no_collection
from infra.plain import visible
from tacit import __version__
from tacit.errors import Abort, Fatal, HarmfulToRetryError, Refusal, TacitError
from tacit.native_level import wanted_level
from tacit.ports import TransportError

OK, FAILED, USAGE, INTERRUPTED, NEVER_AGAIN = 0, 1, 2, 130, 78
COMPLETION = "_TACIT_COMPLETE"
PACKAGES = ("services", "relay", "attester", "recipe_server", "client_agent", "infra")
"""Of which an image of one domain lacks most (``infra.images``)."""
SUMMARY = "Private federated analytics: signed recipes, anonymous contributions, noisy aggregates."

COMMANDS = {
    "demo": (
        "infra.lab.commands.demo:demo",
        "Run every party on this machine and answer one question about real devices.",
    ),
    "up": ("infra.commands.up:commands", "Run every service as a process of its own until Ctrl-C."),
    "staging": ("infra.commands.staging:app", "Run a whole deployment with many devices on this machine."),
    "status": ("infra.commands.status:status", "Show services, servers and, per task, where the reports are."),
    "serve": ("infra.commands.serve:serve", "Run one service until it is told to stop (Ctrl-C or SIGTERM)."),
    "backup": ("infra.commands.backup:backup", "Copy the database of a service, running or not, and its own files."),
    "restore": (
        "infra.commands.backup:restore",
        "Put a backup's database in the place of that of a service that was stopped.",
    ),
    "agent": ("infra.commands.agent:app", "Run one device's agent, or read its journal."),
    "recipe": ("infra.commands.recipe:app", "Design, write, check, sign, publish and read recipes."),
    "series": ("infra.commands.series:app", "Several rounds of one recipe, charged as one."),
    "collect": ("infra.commands.results:collect", "Ask for a recipe's batch, and show the result once it is released."),
    "results": (
        "infra.commands.results:results",
        "Show what was released: estimates, their errors, and what they cost.",
    ),
    "admin": ("infra.commands.admin:app", "Questions, results, people and audit over an admin API."),
    "operator": ("infra.commands.operator:app", "One service, for the organisation that runs it: status, jobs, keys."),
    "log": ("infra.commands.log:app", "Read the whole log from outside: verify it, and watch what it says."),
    "fleet": ("infra.lab.commands.fleet:app", "Simulate very many devices over the real wire."),
    "keys": ("infra.commands.keys:app", "Make and show key files (mode 0600)."),
    "privacy": ("infra.commands.privacy:app", "Account for privacy: mechanisms, worked examples, budgets."),
    "figures": (
        "infra.lab.commands.figures:app",
        "Draw the figures of the papers, from corrected formulas and from measurements.",
    ),
    "schemas": (
        "infra.commands.schemas:schemas",
        "Write the JSON Schemas of every document, and the rules and members as tables.",
    ),
    "vectors": (
        "infra.lab.commands.vectors:vectors",
        "Write test vectors for other implementations: from a recipe to a report and to a result, byte by byte.",
    ),
    "bench": ("infra.lab.commands.bench:app", "Measure what each stage costs, beside the floor of this machine."),
}
"""Name -> module and function, or module and group of commands; and what it is for, so that the list of commands needs
none of the modules."""


def build(wanted: str = "") -> typer.Typer:
    """All commands by name; of these only ``wanted`` is imported and can be called, so that a service starts without
    the demo's modules and a list of commands without any."""
    app = typer.Typer(
        name="tacit",
        help=SUMMARY,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_in_common)
    for name, (place, summary) in COMMANDS.items():
        if name != wanted:
            app.command(name, help=summary)(_not_imported)
            continue
        module, _, member = place.partition(":")
        with no_collection():
            found = getattr(importlib.import_module(module), member)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command(name)(found)
    return app


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
    raise Fatal("this command was not asked for")


def main() -> None:
    """Console script."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command; returns its exit code. With ``--json`` a failure is a document on stdout too:
    ``{"error": {"kind", "rule"?, "detail"}}``."""
    tell = partial(_complain, as_json="--json" in arguments)
    try:
        wanted_level()
        code = build(_wanted(arguments))(_asking(arguments), prog_name="tacit", standalone_mode=False)
    except TyperException as error:
        place = getattr(getattr(error, "ctx", None), "command_path", "tacit")
        tell("usage", error.format_message(), hint=f"try: {place} --help")
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
        tell("failed", f"{error.title or 'refused'} {error.detail}".strip())
        return FAILED
    except (TacitError, TransportError) as error:
        tell("failed", str(error))
        return NEVER_AGAIN if isinstance(error, HarmfulToRetryError) else FAILED
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in PACKAGES:
            raise
        tell("failed", f"this image has no {error.name}: it holds the code of one organisation's part alone")
        return FAILED
    return int(code) if isinstance(code, int) else OK


def _asking(arguments: Sequence[str]) -> list[str]:
    """``arguments``; where they name no command, or a group of commands and none of it, they ask for help."""
    given = list(arguments)
    is_group = len(given) == 1 and COMMANDS.get(given[0], ("", ""))[0].endswith(":app")
    return [*given, "--help"] if not given or is_group else given


def _wanted(arguments: Sequence[str]) -> str:
    """The command that is asked for, or that a shell wants completed."""
    words = (
        os.environ["COMP_WORDS"].split()[1:] if COMPLETION in os.environ and "COMP_WORDS" in os.environ else arguments
    )
    return next((word for word in words if not word.startswith("-")), "")


def _complain(kind: str, detail: str, *, rule: str = "", hint: str = "", as_json: bool = False) -> None:
    detail = visible(" ".join(detail.split()))
    print(f"tacit: {f'refused by rule {rule}: ' if rule else ''}{detail}", file=sys.stderr)
    if hint:
        print(f"tacit: {hint}", file=sys.stderr)
    if as_json:
        print(json.dumps({"error": {"kind": kind, **({"rule": rule} if rule else {}), "detail": detail}}))


if __name__ == "__main__":
    main()
