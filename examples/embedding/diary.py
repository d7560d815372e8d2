"""An application with an agent inside: a diary of doctor's visits, which answers recipes about them.

python3 examples/embedding/diary.py --config .tacit/agents/0/agent.json --seconds 300
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from client_agent.config import AgentConfig
from client_agent.data.sources import Value
from client_agent.embedding import embedded
from tacit.errors import UsageError
from tacit.service.base.config_files import load_config

METRIC, EVENT = "mdvis", "visit"


class Diary:
    """The application: it knows how often its owner saw a doctor, and is the agent's source of data."""

    def __init__(self, visits: int) -> None:
        self.visits = visits

    def value(self, metric: str, round_input: str | None = None) -> Value | None:
        """The answer to a recipe about ``metric``; None if this device has no such datum, which nobody can see."""
        return self.visits if metric == METRIC else None


def tell(event: str, told: dict[str, str | int | float]) -> None:
    """Print what the owner may know about the agent's work."""
    sys.stdout.write(" ".join([event, *(f"{name}={value}" for name, value in told.items())]) + "\n")
    sys.stdout.flush()


async def live(config: AgentConfig, diary: Diary, seconds: float) -> None:
    """Do the application's own work, with the agent running beside it. After a second the owner sees a doctor."""
    async with embedded(config, diary, tell) as agent:
        await asyncio.sleep(min(1.0, seconds))
        diary.visits += 1
        agent.record(EVENT)  # for recipes that watch the event, if there are any (docs/pan-privacy.md)
        await asyncio.sleep(max(0.0, seconds - 1.0))


def main() -> None:
    """Read the command line and run the application."""
    parser = argparse.ArgumentParser(description="A diary of doctor's visits that answers recipes about them.")
    parser.add_argument("--config", type=Path, required=True, help="the agent's configuration")
    parser.add_argument("--visits", type=int, default=2, help="how often the owner has seen a doctor so far")
    parser.add_argument("--seconds", type=float, default=300.0, help="seconds to run")
    asked = parser.parse_args()
    try:
        asyncio.run(live(load_config(asked.config, AgentConfig), Diary(asked.visits), asked.seconds))
    except UsageError as error:
        sys.exit(f"diary: {error}")


if __name__ == "__main__":
    main()
