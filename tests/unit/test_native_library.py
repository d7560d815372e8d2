"""How the kernels are found, built, chosen and done without."""

from __future__ import annotations

import logging
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tacit.errors import UsageError
from tacit.multibuffer import build as multibuffer
from tacit.native_build import IFMA
from tacit.vdaf.native import LEVELS, batch, build, level, library, usable_levels
from tacit.vdaf.native.batch import BatchProver, BatchVerifier
from tacit.vdaf.prio3 import Prio3Count, Prio3Histogram

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", usable_levels())
def test_each_level_can_be_forced(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TACIT_NATIVE", name)
    assert level() == name


@pytest.mark.parametrize("sources", [build.SOURCES, multibuffer.SOURCES], ids=["kernels", "multibuffer"])
def test_a_processor_is_asked_for_everything_that_the_compiler_may_use(sources: Path) -> None:
    asked = re.findall(r'cpu_supports\("(\w+)"\)', (sources / "dispatch.c").read_text())
    assert {f"-m{name}" for name in asked} == {flag for flag in IFMA if "prefer" not in flag}


def test_the_fastest_level_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TACIT_NATIVE", raising=False)
    assert level() == usable_levels()[-1]


def test_off_means_pure_python_with_the_same_results(monkeypatch: pytest.MonkeyPatch) -> None:
    vdaf = Prio3Count(2)
    prover = BatchProver(vdaf, b"ctx")
    report = ([1], [bytes(16)], [bytes(range(64))])
    made = prover.shard(*report)
    monkeypatch.setenv("TACIT_NATIVE", "off")
    assert level() == "off"
    assert BatchProver(vdaf, b"ctx").shard(*report) == made
    verifier = BatchVerifier(vdaf, bytes(32), b"ctx")
    assert verifier._kernels is None
    assert verifier.leader(report[1], [made[0][0]], [made[0][1]]).errors == [None]


def test_an_unknown_level_is_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TACIT_NATIVE", "sse9")
    with pytest.raises(UsageError, match="TACIT_NATIVE must be one of off, baseline"):
        level()


def test_without_a_compiler_the_pure_path_runs_and_the_log_says_so_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(library, "_folders", lambda: (tmp_path,))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    library._load.cache_clear()
    try:
        with caplog.at_level(logging.WARNING):
            assert [level(), level()] == ["off", "off"]
            assert BatchVerifier(Prio3Count(2), bytes(32), b"ctx")._kernels is None
        assert [record.message for record in caplog.records] == [
            "the Prio3 kernels are not available (no C compiler); reports are verified in pure Python"
        ]
    finally:
        library._load.cache_clear()


def test_a_device_compiles_nothing_and_makes_the_same_report_in_pure_python(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    vdaf, report = Prio3Histogram(2, 20, 3), ([7], [bytes(16)], [bytes(range(128))])
    native = BatchProver(vdaf, b"ctx", alone=True)
    assert native._kernels is not None
    monkeypatch.setattr(library, "_folders", lambda: (tmp_path,))
    library._load.cache_clear()
    try:
        with caplog.at_level(logging.WARNING):
            pure = BatchProver(vdaf, b"ctx", alone=True)
        assert (pure._kernels, list(tmp_path.iterdir()), caplog.records) == (None, [], [])
        assert pure.shard(*report) == native.shard(*report)
    finally:
        library._load.cache_clear()


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("valgrind"), reason="needs valgrind")
def test_no_branch_and_no_address_of_the_prover_depends_on_a_measurement_or_on_randomness(tmp_path: Path) -> None:
    """Valgrind knows no AVX-512, so the levels below it."""
    built = build.compile_library(tmp_path / "kernels.so")
    program = tmp_path / "native_secret"
    source = Path(__file__).with_name("native_secret.c")
    command = [*build.compiler(), f"-I{build.SOURCES}", str(source), str(built), "-o", str(program)]
    subprocess.run(command, check=True)
    for name in set(usable_levels()) & {"baseline", "avx2"}:
        checked = ["valgrind", "-q", "--error-exitcode=99", str(program), str(LEVELS.index(name))]
        control = subprocess.run([*checked, "control"], capture_output=True, text=True, timeout=240, check=False)
        assert (control.returncode, "depends on uninitialised" in control.stderr) == (99, True)
        done = subprocess.run(checked, capture_output=True, text=True, timeout=240, check=False)
        assert (done.stderr, done.returncode) == ("", 0)


def test_a_failing_compiler_fails_with_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CC", "false")
    with pytest.raises(build.BuildError, match="exit code 1"):
        build.compile_library(tmp_path / "kernels.so")
    assert list(tmp_path.iterdir()) == []


def test_the_name_of_the_library_follows_its_sources(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "kernel.c").write_text("int one;\n")
    monkeypatch.setattr(build, "SOURCES", tmp_path)
    first = build.library_name()
    (tmp_path / "kernel.c").write_text("int two;\n")
    assert build.library_name() != first


def test_the_bound_on_exact_repetition_is_small() -> None:
    assert batch.MIN_REDO <= 8
    assert batch.REDO_SHARE >= 64


@pytest.mark.slow
def test_sanitizers_find_nothing(tmp_path: Path) -> None:
    program = tmp_path / "exercise"
    flags = ["-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-std=gnu11", "-Wno-psabi"]
    flags += ["-fno-sanitize=alignment"] if "clang" in build.compiler()[0] else []
    objects = []
    for name, arguments in [*build.units(), ("exercise", [str(ROOT / "tests" / "unit" / "native_exercise.c")])]:
        objects.append(str(tmp_path / f"{name}.o"))
        subprocess.run(
            [*build.compiler(), *flags, f"-I{build.SOURCES}", "-c", *arguments, "-o", objects[-1]], check=True
        )
    subprocess.run([*build.compiler(), *flags, "-o", str(program), *objects], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=300, check=False)
    assert done.stderr == ""
    assert done.stdout.split() == [str(len(usable_levels())), "levels", "ok"]


@pytest.mark.slow
@pytest.mark.skipif(len(build.level_flags()) == 1, reason="reads x86-64 assembly")
def test_no_branch_depends_on_a_carry_or_a_lane_of_a_field_operation(tmp_path: Path) -> None:
    secret = [unit for unit in build.units() if unit[0] != "plan"]  # a plan is made of public values
    for name, arguments in secret:
        output = tmp_path / f"{name}.s"
        subprocess.run([*build.compiler(), *build.FLAGS, "-S", *arguments, "-o", str(output)], check=True)
        text = output.read_text()
        assert re.findall(r"^\s+(?:adc|sbb).*\n\s+j(?:c|nc|b|ae)\s.*", text, flags=re.MULTILINE) == []
        assert re.findall(r"^\s+(?:v?ptest|v?p?movmsk\w*)\s.*", text, flags=re.MULTILINE) == []


def test_importing_the_library_needs_nothing_but_the_standard_library() -> None:
    program = "import runpy, sys; sys.path.insert(0, '.'); run = runpy.run_path\n"
    program += "print(sorted(run('tacit/vdaf/native/build.py')['X86_LEVELS'][0]))"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout == "[]\n"
    assert len(build.X86_LEVELS) == len(LEVELS)
