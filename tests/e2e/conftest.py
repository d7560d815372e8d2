"""Real processes on loopback: a stack run by ``tacit up``, and single services run by ``tacit serve``."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from infra.stacks.layout import Layout
from infra.stacks.new_layout import create_layout
from infra.stacks.options import StackOptions
from infra.stacks.processes import serve_command
from tacit.adapters.system import OsEntropy
from tests.conftest import left_in
from tests.kit.processes import ReadyProcess
from tests.printed import Walk
from tests.printed_in_full import walking


@pytest.fixture(scope="module", autouse=True)
def nothing_in_the_temporary_folder() -> Iterator[Path]:
    """The temporary folder of every process that a module starts, services, agents, commands and those that it kills:
    empty once they have ended."""
    folder = Path(tempfile.mkdtemp(prefix="tacit-e2e-"))
    folder.chmod(0o1777)  # database servers have users of their own
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(folder))
        yield folder
    left = left_in(folder)
    shutil.rmtree(folder, ignore_errors=True)
    assert left == []


@pytest.fixture(scope="module")
def walks(request: pytest.FixtureRequest) -> Iterator[dict[str, Walk]]:
    """Walks through the documents that the module names as ``PLACES``."""
    with walking(request.module.PLACES) as found:
        yield found


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """A stack that has not been started, in the midst of a token epoch, with a low floor of B."""
    now = time.time()
    epoch_seconds = next(length for length in range(3600, 7200, 60) if length - now % length > 900)
    options = StackOptions(
        epoch_seconds=epoch_seconds,
        batch_floor=20,
        poll_seconds=0.5,
        idle_seconds=0.2,
        slots_per_epoch=1,
        witnesses=2,
    )
    return create_layout(tmp_path_factory.mktemp("e2e") / "stack", options, OsEntropy(), now)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., ReadyProcess]]:
    """``serve(name, config, *flags, piped_stdin=False)`` starts one service as a process."""
    with contextlib.ExitStack() as stack:

        def start(name: str, config: Path, *flags: str, piped_stdin: bool = False) -> ReadyProcess:
            command = [*serve_command(name, "--config", str(config)), *flags]
            return stack.enter_context(ReadyProcess(command, tmp_path / f"{name}.log", piped_stdin=piped_stdin))

        yield start
