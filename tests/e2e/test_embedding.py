"""``examples/embedding``: an application with an agent inside, whose data the agent asks for."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

from client_agent.config import AgentConfig
from client_agent.data.sources import CallableSource, open_source
from client_agent.embedding import embedded
from infra.lab.kit.entropy import SeededEntropy
from infra.stacks.agents import provision_agents
from infra.stacks.new_layout import create_layout
from infra.stacks.options import StackOptions
from tacit.adapters.network.http import HttpTransport
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.errors import UsageError
from tacit.service.base.config_files import load_config
from tests.conftest import ROOT
from tests.e2e import test_node_device
from tests.e2e.test_node_device import DEVICES, publish
from tests.e2e.test_up import Operator, Stack, collected
from tests.kit.walks import walks_program

stack = test_node_device.stack
PROGRAM = ROOT / "examples" / "embedding" / "diary.py"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """The configuration of a device whose stack does not run, and which names no data."""
    now = SystemClock().now()
    layout = create_layout(tmp_path, StackOptions(epoch_seconds=60), OsEntropy(), now)
    (path,) = provision_agents(layout, 1, SeededEntropy(1), now)
    document = json.loads(path.read_text())
    del document["source"]
    path.write_text(json.dumps(document))
    return path


@pytest.fixture(scope="module")
def diary() -> ModuleType:
    """The example program, loaded as a module."""
    spec = importlib.util.spec_from_file_location("diary", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_example_lives_with_its_agent_and_tells_its_owner_what_is_wrong(config: Path) -> None:
    command = [sys.executable, str(PROGRAM), "--config", str(config), "--seconds", "1"]
    done = subprocess.run(command, capture_output=True, check=False, text=True, timeout=60, cwd=config.parent)
    assert (done.returncode, done.stderr) == (0, "")
    assert "log-trouble detail=POST failed: ConnectionRefusedError" in done.stdout
    assert (config.parent / "agent.sqlite3").exists()


async def test_the_program_that_trains_a_model_of_its_own_runs_as_printed(config: Path) -> None:
    """It lives until it is closed, which it is at once; tests/simulation/test_external_model.py lets it train."""
    program, closed = walks_program(config.parent), asyncio.Event()
    closed.set()
    await program["live"](config, program["Walks"]([1.0, 2.0], [0.2, 0.5]), closed)
    assert (config.parent / "agent.sqlite3").exists()


async def test_two_applications_with_one_device_are_one_too_many(config: Path) -> None:
    settings = load_config(config, AgentConfig)
    source = CallableSource(lambda _metric: 3)
    async with embedded(settings, source) as agent:
        assert agent.record("visit") is False
        with pytest.raises(UsageError, match="another agent is at work here"):
            async with embedded(settings, source):
                pass
    with pytest.raises(UsageError, match="be the source yourself"):
        open_source(settings.source)


@pytest.mark.slow
async def test_what_the_diaries_say_is_what_is_counted(
    stack: Stack, diary: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each has seen two doctors, and sees another one before it is asked: what counts is what it says when asked."""
    paths = provision_agents(stack.layout, DEVICES, OsEntropy(), time.time())
    configs = [load_config(path, AgentConfig).model_copy(update={"source": None}) for path in paths]
    async with HttpTransport() as http:
        operator = Operator(stack, http)
        lives = [asyncio.ensure_future(diary.live(one, diary.Diary(2), 170)) for one in configs]
        try:
            recipe = await publish(stack, http)
            await asyncio.sleep(max(0.0, recipe.interval.end - time.time()))
            result = await collected(operator, recipe)
        finally:
            for one in lives:
                one.cancel()
            await asyncio.gather(*lives, return_exceptions=True)
    sent = sum(line.startswith("sent recipe=visits") for line in capsys.readouterr().out.splitlines())
    assert result["report_count"] == sent
    assert sum(bucket["count"] for bucket in result["buckets"]) == sent
