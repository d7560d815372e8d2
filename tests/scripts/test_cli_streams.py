"""What becomes of a command whose answer, remarks or files cannot be written, and whose terminal lacks characters."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from infra.cli import run
from infra.lab.kit.recipes import RecipeKit
from infra.stacks.agents import provision_agents
from infra.stacks.new_layout import create_layout
from infra.stacks.options import StackOptions
from tacit.adapters.disk.files import replacing
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.errors import UsageError

FULL = "standard output: No space left on device"
COMMANDS = (["--help"], ["privacy", "mechanisms"], ["privacy", "mechanisms", "--json"], ["--version"])
"""Answers by each way of printing: help, a table, JSON, one line."""


def tacit(
    arguments: Sequence[str], redirected: str = "", folder: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[bytes]:
    """Run ``tacit`` in a shell, whose words ``redirected`` follow it."""
    program = [sys.executable, "-P", "-m", "infra.cli"]
    return subprocess.run(
        ["/bin/bash", "-o", "pipefail", "-c", f'"$@" {redirected}', "-", *program, *arguments],
        capture_output=True, check=False, cwd=folder, env={**os.environ, **environment}, timeout=120,
    )  # fmt: skip


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_an_answer_for_which_there_is_no_room_is_one_line(arguments: list[str]) -> None:
    done = tacit(arguments, ">/dev/full")
    assert (done.returncode, done.stderr.decode()) == (1, f"tacit: {FULL}\n")


def test_a_reader_that_goes_away_is_one_line() -> None:
    done = tacit(["privacy", "mechanisms", "--json"], "| true")
    assert (done.returncode, done.stderr) == (1, b"tacit: standard output: Broken pipe\n")


def test_a_failure_that_cannot_be_told_keeps_its_exit_code() -> None:
    assert tacit(["privacy", "nothing"], "2>/dev/full").returncode == 2
    done = tacit(["recipe", "check", "absent.json", "--json"], ">/dev/full")
    assert done.returncode == 1
    assert done.stderr.decode().split("\n") == ["tacit: absent.json: No such file or directory", f"tacit: {FULL}", ""]


def test_closed_streams_are_no_files_of_the_command(tmp_path: Path) -> None:
    """The next file that is opened would else have the number of the standard output."""
    assert tacit(["keys", "generate", "bearer", "--out", "here"], "<&- >&- 2>&-", tmp_path).returncode == 0
    assert (tmp_path / "here").read_text().startswith("tacit-")


@pytest.fixture
def recipe_file(tmp_path: Path) -> Path:
    """A recipe with characters of many alphabets."""
    body = RecipeKit().recipe().body()
    body["question"]["text"] = "Wie viele Besuche, “grüß dich”? – 多少 ♥ \U0001f600"
    path = tmp_path / "recipe.json"
    path.write_text(json.dumps(body, ensure_ascii=False), encoding="utf-8")
    return path


@pytest.mark.parametrize("encoding", ["iso-8859-1", "ascii"])
def test_a_terminal_that_lacks_characters_shows_others(recipe_file: Path, encoding: str) -> None:
    done = tacit(["recipe", "show", str(recipe_file)], PYTHONIOENCODING=encoding, COLUMNS="120")
    assert (done.returncode, done.stderr) == (0, b"")
    shown = done.stdout.decode(encoding)
    assert "\\u591a\\u5c11" in shown
    assert ("ü" in shown) == (encoding == "iso-8859-1")
    assert "eps" in shown
    done = tacit(["recipe", "show", str(recipe_file), "--json"], PYTHONIOENCODING=encoding)
    question = json.loads(done.stdout.decode(encoding))["recipe"]["question"]["text"]
    assert question == "Wie viele Besuche, “grüß dich”? – 多少 ♥ \U0001f600", "JSON is exact in every encoding"


def test_the_journal_is_shown_in_an_old_locale(tmp_path: Path) -> None:
    now = SystemClock().now()
    layout = create_layout(tmp_path / "stack", StackOptions(epoch_seconds=60), OsEntropy(), now)
    (config,) = provision_agents(layout, 1, OsEntropy(), now)
    tacit(["agent", "run", "--config", str(config), "--once"], LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    done = tacit(
        ["agent", "journal", "--config", str(config)],
        LC_ALL="C",
        PYTHONUTF8="0",
        PYTHONCOERCECLOCALE="0",
        COLUMNS="100",
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"eps" in done.stdout


def write_half(path: Path) -> None:
    with replacing(path) as draft:
        draft.write_text("half of")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_no_answer_in_a_file_is_half_written(
    tmp_path: Path, recipe_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "explained.json"
    out.write_text("older")
    out.chmod(0o600)
    with pytest.raises(UsageError, match="No space left on device"):
        write_half(out)
    assert (out.read_text(), sorted(path.name for path in tmp_path.iterdir())) == (
        "older",
        [out.name, recipe_file.name],
    )
    with replacing(out) as draft:
        assert draft.suffix == ".json"
        draft.write_text("newer")
    assert (out.read_text(), out.stat().st_mode & 0o777) == ("newer", 0o600)

    def full(*_arguments: object, **_more: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/somewhere/file")

    monkeypatch.setattr("infra.base.recipe_files.parse_json", full)
    assert run(["recipe", "check", str(recipe_file)]) == 1
    assert capsys.readouterr().err == "tacit: /somewhere/file: No space left on device\n"


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="needs a file system of its own")
def test_tacit_up_on_a_full_file_system_says_that_it_is_full(tmp_path: Path) -> None:
    """In a mount namespace of its own. With no room at all, and with so little that services end without a word."""
    script = f"""set -e; mount -t tmpfs -o size=2m tmpfs {tmp_path}; cd {tmp_path}
        for room in 1000 1748; do
            rm -rf st; head -c $((2048 - room))k /dev/zero > fill
            "$@" up --state-dir st 2>err || cp err /proc/self/fd/1; tail -n 1 err
        done"""
    command = ["unshare", "--mount", "/bin/bash", "-c", script, "-", sys.executable, "-P", "-m", "infra.cli"]
    done = subprocess.run(command, capture_output=True, check=False, timeout=300)
    if b"unshare" in done.stderr or b"mount:" in done.stderr:
        pytest.skip("needs a mount namespace")
    lines = [line for line in done.stdout.decode().split("\n") if line.startswith("tacit: ")]
    assert len(lines) >= 2
    assert all(" space left on device" in line for line in lines)
