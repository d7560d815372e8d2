"""``tacit agent host`` beside a stack: what its devices say that they sent is counted, however the host ends."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from client_agent.config import AgentConfig
from client_agent.journal import Entry, State
from client_agent.runner import journal_of, open_store
from infra.stacks.agents import provision_agents
from tacit.adapters.network.http import HttpTransport
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.codec import b64url
from tacit.recipe.derive import task_id
from tacit.service.base.config_files import load_config
from tests.e2e import test_node_device
from tests.e2e.test_node_device import DEVICES, FLOOR, publish
from tests.e2e.test_up import Operator, Stack, collected

pytestmark = pytest.mark.slow
stack = test_node_device.stack
COMMAND = [sys.executable, "-c", "from infra.cli import main; main()", "agent", "host", "--json", "--every", "0.2"]


@contextmanager
def hosting(folder: Path, output: Path) -> Iterator[None]:
    """A host of ``folder`` that writes to ``output``, and is killed in the end."""
    with output.open("wb") as sink, subprocess.Popen([*COMMAND, str(folder)], stderr=sink) as host:
        try:
            yield
        finally:
            host.send_signal(signal.SIGKILL)


async def entries_of(config: AgentConfig) -> list[Entry]:
    async with journal_of(config) as store:
        return await store.entries()


async def test_a_host_answers_a_recipe_and_a_sudden_end_takes_nothing_from_any_journal(
    stack: Stack, tmp_path: Path
) -> None:
    paths = provision_agents(stack.layout, DEVICES, OsEntropy(), time.time())
    configs = [load_config(path, AgentConfig) for path in paths]
    output = tmp_path / "host"
    async with HttpTransport() as http:
        operator = Operator(stack, http)
        with hosting(paths[0].parents[1], output):
            recipe = await publish(stack, http)

            async def settled() -> bool:
                counts = [json.loads(line) for line in output.read_text().splitlines() if '"counts"' in line]
                entries = counts[-1]["entries"] if counts else {}
                return sum(entries.values()) == DEVICES and State.SCHEDULED.value not in entries

            await operator.until("every report", settled, seconds=90)
        kept = [await entries_of(config) for config in configs]
        assert [len(entries) for entries in kept] == [1] * DEVICES
        sent = sum(entry.state is State.SENT for (entry,) in kept)
        assert sent >= FLOOR
        await asyncio.sleep(max(0.0, recipe.interval.end - time.time()))
        result = await collected(operator, recipe)
        assert result["report_count"] == sent
        status = f"/v1/tasks/{b64url(task_id(recipe))}/status"
        assert (await operator.document("leader", status))["distinct_nullifiers"] == sent
    for config, entries in zip(configs, kept, strict=True):
        store = await open_store(config, SystemClock())
        assert await store.entries() == entries, "the journal fits its mark, and says what it said"
        await store.close()
