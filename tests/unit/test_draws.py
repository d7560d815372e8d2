"""Tests that draw are found, and their stated rates are compared with what happens."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.draws import stated

ROOT = Path(__file__).resolve().parents[2]
HEAD = """
import os, random, secrets, subprocess, sys
import numpy as np, pytest
from infra.lab.kit.entropy import SeededEntropy
from tacit import hpke
from tacit.adapters.system import OsEntropy
from tacit.methods.base.draws import bernoulli
"""
CASES = {
    "bytes": ("assert os.urandom(1)[0] >= 0", True),
    "entropy": ("assert bernoulli(1 << 127, OsEntropy()) in {True, False}", True),
    "integers": ("assert secrets.randbelow(10) < 10", True),
    "numbers": ("assert np.random.default_rng().random() < 1", True),
    "choice": ("assert random.SystemRandom().choice([1, 2]) < 3", True),
    "process": ("subprocess.run([sys.executable, '-m', 'infra.cli', 'demo', '--help'], check=True)", True),
    "seeded": ("assert bernoulli(1 << 127, SeededEntropy(1)) in {True, False}", False),
    "seeded_numbers": ("assert np.random.default_rng(3).random() < 1", False),
    "key": ("assert len(hpke.generate_key_pair(OsEntropy()).public) == 32", False),
    "name": ("assert len(secrets.token_hex(4)) == 8", False),
}


def asked(folder: Path, tests: str, *options: str) -> subprocess.CompletedProcess[str]:
    """``tests`` run under the rules of these tests."""
    path = folder / "tests" / "test_here.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text(HEAD + tests)
    settings = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(folder), "-p", "tests.conftest"]
    command = [sys.executable, "-m", "pytest", *settings, "-n0", *options, str(path)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)


def test_who_draws_from_the_system_and_states_no_rate_fails_and_who_draws_keys_or_has_a_seed_does_not(
    tmp_path: Path,
) -> None:
    done = asked(tmp_path, "".join(f"def test_{name}():\n    {body}\n" for name, (body, _) in CASES.items()))
    errors = [line for line in done.stdout.splitlines() if line.startswith("ERROR ")]
    found = {name: any(line.split()[1].endswith(f"::test_{name}") for line in errors) for name in CASES}
    assert found == {name: draws for name, (_, draws) in CASES.items()}, done.stdout
    assert f"{len(CASES)} passed" in done.stdout, "the tests themselves hold"


@pytest.mark.parametrize(
    "arguments", [(), (1e-9,), ("rarely", "so it is"), (1.5, "too often"), (0.1, "")], ids=lambda given: str(len(given))
)
def test_a_mark_without_a_rate_and_a_reason_is_refused(
    arguments: tuple[object, ...], request: pytest.FixtureRequest
) -> None:
    request.node.add_marker(pytest.mark.false_alarm(*arguments))
    with pytest.raises(pytest.UsageError, match="takes a rate from 0 to 1 and a reason"):
        stated(request.node)
    request.node.own_markers.pop()


COINS = """
@pytest.mark.false_alarm(0.5, "one bit")
def test_honest():
    assert SeededEntropy(1)(1)[0] < 128

@pytest.mark.false_alarm(0.001, "a lie")
def test_liar():
    assert SeededEntropy(1)(1)[0] < 129

@pytest.mark.false_alarm(0, "certain", runs=3)
@pytest.mark.parametrize("bound", [256])
def test_certain(bound):
    assert SeededEntropy(1)(1)[0] < bound

def test_that_is_not_meant():
    assert True
"""


@pytest.mark.slow
def test_many_runs_have_other_seeds_each_and_are_compared_with_the_stated_rate(tmp_path: Path) -> None:
    done = asked(tmp_path, COINS, "--runs", "40")
    table = done.stdout.partition("failures  runs")[2].partition("more often than they state")[0].splitlines()[1:]
    found = {line.rpartition("::test_")[2]: line for line in table if "::test_" in line}
    assert {name: (line.split()[1], "TOO OFTEN" in line) for name, line in found.items()} == {
        "honest": ("40", False),
        "liar": ("40", True),
        "certain[256]": ("3", False),
    }
    assert 0 < int(found["honest"].split()[0]) < 40
    assert done.returncode == 1
    fitting = asked(tmp_path, COINS, "--runs", "40", "-k", "not liar")
    assert (fitting.returncode, "failed" in fitting.stdout) == (0, True)
