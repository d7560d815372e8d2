"""How C sources are compiled into a shared object, and how it is found again: shared by the two native libraries.

A library is compiled with the C compiler of the machine, when the package is installed or else on first use. Its name
holds a digest of its sources and flags, so that an outdated one is never loaded. Standard library only: the build hook
runs this before anything is installed.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

AVX2 = ("-mavx2", "-mbmi", "-mbmi2", "-mfma")
AVX512 = (*AVX2, "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mprefer-vector-width=512")
IFMA = (*AVX512, "-mavx512ifma")
COMPILE_SECONDS = 300

Unit = tuple[str, list[str]]
"""Name and arguments of one compilation."""


class BuildError(Exception):
    """A library could not be compiled or loaded; the message is one line."""


def is_x86() -> bool:
    """Whether this is an x86-64 machine."""
    return platform.machine().lower() in {"x86_64", "amd64"}


def library_name(prefix: str, sources: Path, flags: object) -> str:
    """Name of the shared object for exactly the C files in ``sources``, compiled with ``flags``."""
    digest = hashlib.sha256(repr(flags).encode())
    for path in sorted((*sources.glob("*.c"), *sources.glob("*.h"))):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return f"{prefix}-{platform.machine()}-{digest.hexdigest()[:16]}.so"


def compiler() -> list[str]:
    """The C compiler: $CC, cc, gcc or clang. Raises ``BuildError`` without one."""
    chosen = shlex.split(os.environ.get("CC", ""))
    for command in (chosen, ["cc"], ["gcc"], ["clang"]):
        if command and shutil.which(command[0]):
            return command
    raise BuildError("no C compiler")


def compile_library(target: Path, units: Sequence[Unit], flags: Sequence[str]) -> Path:
    """Compile and link into ``target`` (replaced in one step). Raises ``BuildError``."""
    command = compiler()
    try:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".kernels-") as folder:
            objects = _compile_units([*command, *flags], Path(folder), units)
            built = Path(folder) / "linked.so"
            _run([*command, "-shared", "-o", str(built), *objects], folder)
            built.replace(target)
    except OSError as error:
        raise BuildError(f"{error.strerror or 'input or output failed'}: {error.filename}") from error
    return target


def library_folders(sources: Path) -> tuple[Path, ...]:
    """The folders in which a library is searched for, and into which it is compiled on first use."""
    cache_home = os.environ.get("XDG_CACHE_HOME", "")
    home = Path(cache_home) if cache_home.startswith("/") else Path.home() / ".cache"
    return sources, home / "tacit"


def open_library(name: str, folders: Sequence[Path], compile_into: Callable[[Path], Path]) -> ctypes.CDLL:
    """Load the shared object ``name`` from the first folder that has it, or into which ``compile_into`` can put it.

    Raises ``BuildError``.
    """
    for folder in folders:
        if (folder / name).is_file():
            return _load(folder / name)
    why = BuildError("there is no folder for the compiled library")
    for folder in folders:
        try:
            return _load(compile_into(folder / name))
        except BuildError as error:
            why = error
    raise why


def _load(path: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise BuildError(f"it cannot be loaded: {error}") from error


def _compile_units(command: list[str], folder: Path, units: Sequence[Unit]) -> list[str]:
    def one(unit: Unit) -> str:
        name, arguments = unit
        output = str(folder / f"{name}.o")
        _run([*command, "-c", *arguments, "-o", output], folder)
        return output

    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        return list(pool.map(one, units))


def _run(command: list[str], folder: Path | str) -> None:
    """Run a compiler whose temporary files also lie in ``folder``."""
    surroundings = {**os.environ, "TMPDIR": str(folder)}
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=COMPILE_SECONDS, env=surroundings)  # noqa: S603
    except subprocess.CalledProcessError as error:
        first = error.stderr.decode(errors="replace").strip().partition("\n")[0]
        raise BuildError(f"the C compiler failed: {first or f'exit code {error.returncode}'}") from error
    except subprocess.TimeoutExpired as error:
        raise BuildError(f"the C compiler took more than {COMPILE_SECONDS} s") from error
