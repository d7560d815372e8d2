"""The console script ``tacit-agent``: runs a device's agent where nothing but the base of Tacit is installed.

``tacit agent run`` does the same, with lines for people, where the extra ``cli`` is. Exit codes are those of ``tacit``.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from client_agent.config import AgentConfig
from client_agent.process import json_lines, run_agents
from tacit import __version__
from tacit.errors import HarmfulToRetryError, TacitError
from tacit.native_level import wanted_level
from tacit.ports import TransportError
from tacit.service.base.config_files import load_config

FAILED, NEVER_AGAIN = 1, 78


def run(arguments: Sequence[str]) -> int:
    """Run the agents that the command line names; return the exit code. Whatever ends them is one line on stderr."""
    parser = argparse.ArgumentParser(
        prog="tacit-agent",
        description="Run one device's agent (or several) until SIGINT or SIGTERM; events are JSON lines on stderr.",
    )
    parser.add_argument(
        "--config", type=Path, action="append", required=True, help="an agent's configuration, JSON or TOML"
    )
    parser.add_argument(
        "--once", action="store_true", help="do what is due now, then end; 1 if the log is not readable"
    )
    parser.add_argument("--until", type=float, metavar="SECONDS", help="end after this many seconds")
    parser.add_argument("--version", action="version", version=f"tacit {__version__}")
    asked = parser.parse_args(arguments)
    try:
        wanted_level()
        configs = [load_config(path, AgentConfig) for path in asked.config]
        return int(asyncio.run(run_agents(configs, json_lines(), once=asked.once, until=asked.until)))
    except (TacitError, TransportError, OSError) as error:
        print(f"tacit-agent: {error}", file=sys.stderr)
        return NEVER_AGAIN if isinstance(error, HarmfulToRetryError) else FAILED


def main() -> None:
    """Run with the process's arguments and exit."""
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
