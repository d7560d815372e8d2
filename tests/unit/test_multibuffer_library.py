"""How the multi-buffer kernels are found, tested, chosen and done without; what sanitizers and a tracer say of them."""

from __future__ import annotations

import ctypes
import logging
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from tacit.errors import Fatal, UsageError
from tacit.multibuffer import build, library
from tacit.multibuffer.interface import Multibuffer, Setup
from tacit.multibuffer.known_answers import failed_answers
from tacit.native_build import is_x86
from tests.kit.multibuffer import LEVELS, chosen_kernels

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


@pytest.fixture(params=LEVELS)
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Multibuffer:
    return chosen_kernels(request.param, monkeypatch)


@pytest.fixture
def unloaded() -> Iterator[None]:
    """What the test loads, or fails to load, is forgotten after it."""
    library._kernels.cache_clear()
    yield
    library._kernels.cache_clear()


@pytest.mark.parametrize("name", ["off", "baseline"])
def test_a_path_without_vectors_means_openssl(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TACIT_NATIVE", name)
    assert library.kernels() is None


def test_the_fastest_kernels_that_the_path_and_the_processor_allow_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = chosen_kernels("avx2", monkeypatch)
    monkeypatch.setenv("TACIT_NATIVE", "avx512")
    assert library.kernels() is slow
    monkeypatch.setenv("TACIT_NATIVE", "ifma")
    best = library.kernels()
    monkeypatch.delenv("TACIT_NATIVE")
    assert best is not None
    assert library.kernels() is best


def test_an_unknown_path_is_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TACIT_NATIVE", "sse9")
    with pytest.raises(UsageError, match="TACIT_NATIVE must be one of off, baseline"):
        library.kernels()


@pytest.mark.usefixtures("unloaded")
def test_without_a_compiler_openssl_does_everything_and_the_log_says_so_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(library, "_folders", lambda: (tmp_path,))
    monkeypatch.setattr(build, "is_x86", lambda: True)
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("CC", "TACIT_NATIVE"):
        monkeypatch.delenv(name, raising=False)
    with caplog.at_level(logging.WARNING):
        assert [library.kernels(), library.kernels()] == [None, None]
    assert [record.message for record in caplog.records] == [
        "the multi-buffer kernels are not available (no C compiler); OpenSSL takes messages one by one"
    ]


def test_another_kind_of_processor_is_not_compiled_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(build, "is_x86", lambda: False)
    with pytest.raises(build.BuildError, match="support x86-64 only"):
        build.compile_library(tmp_path / "kernels.so")


@pytest.mark.usefixtures("unloaded")
def test_a_processor_without_the_instructions_is_left_to_openssl(
    kernels: Multibuffer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kernels.usable
    library._kernels.cache_clear()
    monkeypatch.setattr(Multibuffer, "usable", property(lambda _: False))
    assert library.kernels() is None


@pytest.mark.usefixtures("unloaded")
@pytest.mark.parametrize("operation", ["rsa_verify", "x25519", "hpke_open", "hpke_seal"])
def test_kernels_that_fail_their_self_test_are_not_used(
    kernels: Multibuffer, operation: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert failed_answers(kernels) == []
    right = getattr(Multibuffer, operation)

    def wrong(self: Multibuffer, first: object, *rest: bytes, **named: bool) -> object:
        *most, last = rest
        return right(self, first, *most, last[:-1] + bytes((last[-1] ^ 1,)), **named)

    library._kernels.cache_clear()
    monkeypatch.setattr(Multibuffer, operation, wrong)
    with caplog.at_level(logging.ERROR):
        assert library.kernels() is None
    assert len(caplog.records) == 1


def test_lengths_that_do_not_fit_are_a_fault_of_ours(kernels: Multibuffer) -> None:
    setup = Setup(bytes(32), bytes(10), bytes(65), 16)
    for wrong in (
        Setup(bytes(31), bytes(10), bytes(65), 16),
        Setup(bytes(32), bytes(9), bytes(65), 16),
        Setup(bytes(32), bytes(10), bytes(66), 16),
        Setup(bytes(32), bytes(10), bytes(65), 24),
    ):
        with pytest.raises(Fatal):
            kernels.hpke_open(bytes(32), wrong, bytes(64), exporters=False)
        with pytest.raises(Fatal):
            kernels.hpke_seal(wrong, bytes(64))
    with pytest.raises(Fatal):
        kernels.hpke_open(bytes(31), setup, bytes(64), exporters=False)
    with pytest.raises(Fatal):
        kernels.hpke_seal(setup, bytes(33))
    with pytest.raises(Fatal):
        kernels.x25519(bytes(64), bytes(32))
    with pytest.raises(Fatal):
        kernels.rsa_verify(bytes(256), bytes(256), bytes(256), bytes(48))  # an even modulus
    with pytest.raises(Fatal):
        kernels.rsa_verify(b"\xff" * 256, bytes(256), bytes(256), bytes(49))


def test_describing_the_library_needs_nothing_but_the_standard_library() -> None:
    program = "import runpy, sys; sys.path.insert(0, '.'); run = runpy.run_path\n"
    program += "print(run('tacit/multibuffer/build.py')['library_name']())"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == build.library_name()


def test_the_name_of_the_library_follows_its_sources(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(build, "SOURCES", tmp_path)
    (tmp_path / "rsa.c").write_text("int one;\n")
    first = build.library_name()
    (tmp_path / "rsa.c").write_text("int two;\n")
    assert build.library_name() != first


def _compiled(tmp_path: Path, source: str, flags: list[str], *, library_too: bool = True) -> Path:
    objects = []
    units = build.units() if library_too else []
    for name, arguments in [*units, ("program", [str(HERE / source)])]:
        objects.append(str(tmp_path / f"{name}.o"))
        subprocess.run(
            [*build.compiler(), *flags, f"-I{build.SOURCES}", "-c", *arguments, "-o", objects[-1]], check=True
        )
    program = tmp_path / "program"
    subprocess.run([*build.compiler(), *flags, "-o", str(program), *objects], check=True)
    return program


@pytest.mark.slow
@pytest.mark.skipif(not is_x86(), reason="the kernels are for x86-64")
def test_sanitizers_find_nothing(tmp_path: Path) -> None:
    flags = ["-g1", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-std=gnu11", "-Wno-psabi"]
    program = _compiled(tmp_path, "multibuffer_exercise.c", flags)
    for level in range(len(LEVELS)):
        done = subprocess.run([str(program), str(level)], capture_output=True, text=True, timeout=300, check=False)
        assert (done.stderr, done.returncode) == ("", 0)
        assert done.stdout in ("ok\n", "absent\n")


@pytest.mark.slow
@pytest.mark.skipif(not is_x86(), reason="the kernels are for x86-64")
@pytest.mark.parametrize("level", LEVELS)
def test_the_path_through_the_code_is_the_same_for_any_secret(level: str, tmp_path: Path) -> None:
    """Every instruction of two calls with opposite private keys, by single-stepping what the build's own flags make."""
    program = _compiled(tmp_path, "multibuffer_trace.c", [*build.FLAGS, "-fvisibility=default"])
    command = [str(program), str(LEVELS.index(level))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    verdict = done.stdout.splitlines()[-1]
    if verdict in ("absent", "forbidden", "slow"):
        pytest.skip(f"tracing the kernels: {verdict}")
    verdicts = dict(re.findall(r"^(\w+) \d+ (\w+)$", done.stdout, flags=re.MULTILINE))
    assert verdicts == {"control": "different", "open": "same"}


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("valgrind"), reason="needs valgrind")
def test_no_branch_and_no_address_depends_on_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The secrets count as uninitialised memory. Valgrind knows no AVX-512, so AVX2 alone."""
    chosen_kernels("avx2", monkeypatch)
    program = _compiled(tmp_path, "multibuffer_secret.c", [*build.FLAGS, "-fvisibility=default"])
    command = ["valgrind", "-q", "--error-exitcode=99", str(program), str(LEVELS.index("avx2"))]
    control = subprocess.run([*command, "control"], capture_output=True, text=True, timeout=240, check=False)
    assert (control.returncode, "depends on uninitialised" in control.stderr) == (99, True)
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert (done.stderr, done.returncode) == ("", 0)


@pytest.mark.slow
@pytest.mark.skipif(not is_x86(), reason="the kernels are for x86-64")
@pytest.mark.parametrize("level", LEVELS)
def test_the_stack_that_is_overwritten_is_deeper_than_any_that_is_used(level: str, tmp_path: Path) -> None:
    (source,) = (arguments for name, arguments in build.units() if name == f"hpke_{level}")
    command = [*build.compiler(), *build.FLAGS, "-fstack-usage", "-c", *source, "-o", str(tmp_path / "hpke.o")]
    subprocess.run(command, check=True)
    lines = (line.split("\t") for line in (tmp_path / "hpke.su").read_text().splitlines())
    usage = {name.rsplit(":", 1)[1].split(".")[0]: int(size) for name, size, _ in lines}
    forgotten = usage.pop("forget")
    entered = {"hpke_open", "hpke_seal", "x25519"}
    assert sum(size for name, size in usage.items() if name not in entered) < forgotten


@pytest.mark.slow
def test_powers_agree_with_exact_arithmetic_for_every_kind_of_value(kernels: Multibuffer, tmp_path: Path) -> None:
    flags = [*build.FLAGS, *build.LEVELS[kernels.level], "-shared"]
    opened = ctypes.CDLL(str(_compiled(tmp_path, "multibuffer_powers.c", flags, library_too=False)))
    generator = random.Random(65537)
    moduli = [rsa.generate_private_key(65537, 2048).public_key().public_numbers().n for _ in range(3)]
    moduli += [2**2048 - 1, 2**2047 + 1, 2**2048 - 2**1024 + 1]
    for modulus in moduli:
        edges = [0, 1, 2, modulus - 1, modulus, modulus + 1, 2**2048 - 1, 2**2047]
        edges += [2**i - 1 for width in (28, 52) for i in range(0, 2048, width)]
        values = [value % 2**2048 for value in edges] + [generator.getrandbits(2048) for _ in range(301)]
        results = ctypes.create_string_buffer(256 * len(values))
        opened.powers(
            modulus.to_bytes(256, "big"),
            pow(2, 2 * kernels.r_bits, modulus).to_bytes(256, "big"),
            ctypes.c_size_t(len(values)),
            b"".join(value.to_bytes(256, "big") for value in values),
            results,
        )
        found = [int.from_bytes(results.raw[256 * i : 256 * i + 256], "big") for i in range(len(values))]
        assert found == [pow(value, 65537, modulus) for value in values]
