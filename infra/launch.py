"""The console script ``tacit``: on a device, which lacks the packages of the command line, it says so in one line."""

from __future__ import annotations

import sys

from tacit.extras import missing_module


def main() -> None:
    """Run ``infra.cli.main``, if its packages are installed."""
    try:
        from infra.cli import main as run
    except ModuleNotFoundError as error:
        missing = missing_module("the command tacit", error)
        if missing is None:
            raise
        sys.exit(f"tacit: {missing}")
    run()
