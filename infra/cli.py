"""The command ``tacit``: parses, calls, and turns every error into one line and an exit code.

Exit codes: 0 ok, 1 refused or failed, 2 usage. Answers go to stdout, progress and errors to stderr.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Sequence

import typer
from typer.exceptions import TyperException

from tacit.errors import Abort, Refusal, TacitError
from tacit.ports import TransportError

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130

COMMANDS = {
    "demo": "infra.commands.demo:demo",
    "up": "infra.commands.up:up",
    "status": "infra.commands.status:status",
    "serve": "infra.commands.serve:serve",
    "agent": "infra.commands.agent:app",
    "recipe": "infra.commands.recipe:app",
    "series": "infra.commands.series:app",
    "collect": "infra.commands.results:collect",
    "results": "infra.commands.results:results",
    "fleet": "infra.commands.fleet:app",
    "keys": "infra.commands.keys:app",
    "privacy": "infra.commands.privacy:app",
    "figures": "infra.commands.figures:figures",
    "bench": "infra.commands.bench:app",
}
"""Name -> module and function, or module and group of commands."""


def build(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """The commands called ``names``. Only their modules are imported: a service starts without the demo's."""
    app = typer.Typer(
        name="tacit",
        help="Private federated analytics: signed recipes, anonymous contributions, noisy aggregates.",
        add_completion=False,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback()(_nothing_in_common)
    for name in names:
        module, _, member = COMMANDS[name].partition(":")
        found = getattr(importlib.import_module(module), member)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command(name)(found)
    return app


def _nothing_in_common() -> None:
    """Private federated analytics: signed recipes, anonymous contributions, noisy aggregates."""


def main() -> None:
    """Console script."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command; returns its exit code."""
    first = next(iter(arguments), "")
    try:
        app = build([first] if first in COMMANDS else COMMANDS)
        code = app(list(arguments), prog_name="tacit", standalone_mode=False)
    except TyperException as error:
        place = getattr(getattr(error, "ctx", None), "command_path", "tacit")
        _complain(error.format_message(), f"try: {place} --help")
        return USAGE
    except typer.Exit as stop:
        return int(stop.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        _complain("interrupted")
        return INTERRUPTED
    except Refusal as error:
        _complain(f"refused by rule {error.rule}: {error.detail}")
        return FAILED
    except Abort as error:
        _complain(f"{error.title or 'refused'} {error.detail}".strip())
        return FAILED
    except (TacitError, TransportError) as error:
        _complain(str(error))
        return FAILED
    return int(code) if isinstance(code, int) else OK


def _complain(*lines: str) -> None:
    for line in lines:
        print(f"tacit: {' '.join(line.split())}", file=sys.stderr)


if __name__ == "__main__":
    main()
