"""``examples/operator``: the notebook of the admin API, against a running stack with devices."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from infra.lab.kit.entropy import SeededEntropy
from infra.stacks.layout import load_layout
from tacit.backoff import Backoff
from tests.conftest import ROOT
from tests.http.admin_served import serving
from tests.http.test_client_results import Collector
from tests.scripts import test_cli_recipe
from tests.scripts.test_cli_recipe import AGENTS, Stack, document, early_in_an_epoch, new

stack = test_cli_recipe.stack


PROGRAM = ROOT / "examples" / "operator" / "weekly.py"


def test_the_notebook_of_the_admin_api_goes_through_all_of_its_cells(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    collector, out = Collector(), tmp_path / "weekly.png"
    collector.looks, collector.opt_ins_missing = 0, 0
    monkeypatch.setattr("tacit.client.recipes.LOOKS", Backoff(0.05, 0.1))
    monkeypatch.setattr("tacit.client.operator.OsEntropy", lambda: SeededEntropy(6))
    with serving(tmp_path / "stage", collector=collector, opting_in=True) as served:
        keys = [f"--{person}-key={served.keys[person]}" for person in ("analyst", "approver")]
        many = ["--population=1000", "--min-batch-size=400", "--seconds=60", f"--out={out}"]
        monkeypatch.setattr(sys, "argv", [str(PROGRAM), f"--url={served.url}", *keys, *many])
        runpy.run_path(str(PROGRAM))
    assert out.read_bytes().startswith(b"\x89PNG")
    shown = capsys.readouterr().out
    assert f"plot: {out}" in shown
    assert all(one["label"] in shown for one in collector.released[0]["buckets"])


@pytest.mark.slow
def test_the_notebook_of_the_admin_api_asks_waits_and_draws_what_devices_answered(
    stack: Stack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layout = load_layout(stack.folder)
    out = tmp_path / "weekly.png"
    (tmp_path / ".tacit").symlink_to(stack.folder)  # where the notebook looks for keys
    few = [f"--population={AGENTS}", "--min-batch-size=2", "--seconds=120", f"--out={out}"]
    early_in_an_epoch()
    new(
        stack, capsys, "--name", "probe", "--metric", "m", "--boolean", "--population", "3"
    )  # the log has the keys then
    done = subprocess.run(
        [sys.executable, str(PROGRAM), f"--url={layout.urls['admin']}", *few],
        capture_output=True,
        check=False,
        text=True,
        timeout=240,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert out.read_bytes().startswith(b"\x89PNG")
    assert f"plot: {out}" in done.stdout
    capsys.readouterr()
    assert stack("admin", "results", "weekly", "--json") == 0
    (result,) = document(capsys)["results"]
    assert [line.split()[0] for line in done.stdout.splitlines()[2:-1]] == [
        one["label"].split()[0] for one in result["buckets"]
    ]
    assert stack("admin", "question", "show", "weekly", "--json") == 0
    assert document(capsys)["state"] == "ended"
