"""``docs/interop.md``: what it prints to be run is run as it stands, on other ports."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from infra.base.free_ports import free_ports
from infra.stacks.processes import serve_command
from infra.tools.interop.run import ROLES, WARNING
from tacit.version import DAP_18, JANUS_MAIN
from tests.kit.processes import ReadyProcess

PAGE = Path(__file__).resolve().parents[2] / "docs" / "interop.md"
PRINTED = ("8081", "8082", "8083", "8084")


def blocks() -> list[str]:
    return re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize("profile", [DAP_18.name, pytest.param(JANUS_MAIN.name, marks=pytest.mark.slow)])
def test_the_example_of_the_page_runs_as_it_is_printed(tmp_path: Path, profile: str) -> None:
    bash = shutil.which("bash")
    if shutil.which("curl") is None or bash is None:
        pytest.skip("the page's example needs curl and bash, and one of them is not here")
    servers, runner = blocks()
    ports = dict(zip(PRINTED, map(str, free_ports(4)), strict=True))
    lines = [line.removesuffix(" &").split() for line in servers.splitlines()]
    assert [line[:5] for line in lines] == [["tacit", "serve", "interop", "--role", role] for role in ROLES]
    with contextlib.ExitStack() as stack:
        processes = []
        for line in lines:
            command = [*serve_command(*line[2:-1], ports[line[-1]]), "--profile", profile]
            processes.append(stack.enter_context(ReadyProcess(command, tmp_path / f"{line[4]}.log")))
        script = re.sub("|".join(PRINTED), lambda found: ports[found[0]], runner)
        done = subprocess.run(
            [bash, "-eu", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr
        for role, process in zip(ROLES, processes, strict=True):
            assert process.ready()["service"] == f"interop-{role}"
        told = [json.loads(line) for line in done.stdout.splitlines()]
        assert told[:4] == [{}] * 4
        assert [one["status"] for one in told[4:]] == ["success"] * 7 + ["complete"]
        assert {name: told[-1][name] for name in ("report_count", "result")} == {"report_count": 3, "result": "2"}
        for process in processes:
            process.signal(signal.SIGTERM)
            assert process.wait() == 0
            assert WARNING in process.stderr
            assert "Traceback" not in process.stderr
