"""Compiles the kernels with the C compiler that the machine has. Standard library only: the build hook runs it before
anything is installed.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SOURCES = Path(__file__).resolve().parent
FIELDS = (64, 128)
FLAGS = (
    *("-O3", "-fno-tree-slp-vectorize", "-std=gnu11", "-fPIC", "-fvisibility=hidden"),
    *("-Wno-psabi", "-Wno-unknown-pragmas"),
)
_AVX2 = ("-mavx2", "-mbmi", "-mbmi2", "-mfma")
_AVX512 = (*_AVX2, "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mprefer-vector-width=512")
X86_LEVELS = ((), _AVX2, _AVX512, (*_AVX512, "-mavx512ifma"))
COMPILE_SECONDS = 300


class BuildError(Exception):
    """The kernels did not compile; says why in one line."""


def level_flags() -> tuple[tuple[str, ...], ...]:
    """Compiler flags of each level that this kind of processor has a path for."""
    return X86_LEVELS if platform.machine().lower() in {"x86_64", "amd64"} else X86_LEVELS[:1]


def library_name() -> str:
    """Name of the shared object of exactly these sources: an outdated one is never loaded."""
    digest = hashlib.sha256(repr((FLAGS, level_flags())).encode())
    for path in sorted((*SOURCES.glob("*.c"), *SOURCES.glob("*.h"))):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return f"_kernels-{platform.machine()}-{digest.hexdigest()[:16]}.so"


def compiler() -> list[str]:
    """The C compiler: $CC, cc, gcc or clang. Raises ``BuildError`` without one."""
    chosen = shlex.split(os.environ.get("CC", ""))
    for command in (chosen, ["cc"], ["gcc"], ["clang"]):
        if command and shutil.which(command[0]):
            return command
    raise BuildError("no C compiler")


def units() -> list[tuple[str, list[str]]]:
    """Name and arguments of every compilation."""
    kernels = [
        (
            f"kernel_{level}_{field}",
            [*flags, f"-DTACIT_LEVEL={level}", f"-DTACIT_FIELD={field}", str(SOURCES / "kernel.c")],
        )
        for level, flags in enumerate(level_flags())
        for field in FIELDS
    ]
    return [*kernels, *((name, [str(SOURCES / f"{name}.c")]) for name in ("plan", "dispatch"))]


def compile_library(target: Path, extra_flags: tuple[str, ...] = ()) -> Path:
    """Compile and link into ``target`` (replaced in one step). Raises ``BuildError``."""
    command = compiler()
    try:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".kernels-") as folder:
            objects = _compile_units(command, Path(folder), extra_flags)
            built = Path(folder) / "linked.so"
            _run([*command, "-shared", *extra_flags, "-o", str(built), *objects])
            built.replace(target)
    except OSError as error:
        raise BuildError(f"{error.strerror or 'input or output failed'}: {error.filename}") from error
    return target


def _compile_units(command: list[str], folder: Path, extra_flags: tuple[str, ...]) -> list[str]:
    def one(unit: tuple[str, list[str]]) -> str:
        name, arguments = unit
        output = str(folder / f"{name}.o")
        _run([*command, *FLAGS, *extra_flags, "-c", *arguments, "-o", output])
        return output

    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        return list(pool.map(one, units()))


def _run(command: list[str]) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=COMPILE_SECONDS)  # noqa: S603
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {error.returncode}"]
        raise BuildError(f"the C compiler failed: {lines[0]}") from error
    except subprocess.TimeoutExpired as error:
        raise BuildError(f"the C compiler took more than {COMPILE_SECONDS} s") from error
