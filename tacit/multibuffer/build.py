"""The compilation of the multi-buffer kernels. Standard library only: the build hook runs it before anything is
installed.
"""

from __future__ import annotations

from pathlib import Path

from tacit.native_build import AVX2, IFMA, BuildError, Unit, compiler, is_x86
from tacit.native_build import compile_library as _compile_library
from tacit.native_build import library_name as _library_name

__all__ = ["BuildError", "compile_library", "compiler", "library_name", "units"]

SOURCES = Path(__file__).resolve().parent
FLAGS = ("-O3", "-std=gnu11", "-fPIC", "-fvisibility=hidden", "-Wno-psabi", "-Wno-unknown-pragmas")
KERNELS = ("rsa", "hpke")
LEVELS = {"avx2": AVX2, "ifma": IFMA}
"""Instruction sets in the order of ``multibuffer.h``, with their compiler flags."""


def library_name() -> str:
    """Name of the shared object for exactly these sources, so that an outdated one is never loaded."""
    return _library_name("_multibuffer", SOURCES, (FLAGS, LEVELS))


def units() -> list[Unit]:
    """Name and arguments of every compilation. Raises ``BuildError`` where the kernels cannot be compiled."""
    if not is_x86():
        raise BuildError("the multi-buffer kernels support x86-64 only")
    kernels: list[Unit] = [
        (f"{name}_{level}", [*flags, str(SOURCES / f"{name}.c")]) for level, flags in LEVELS.items() for name in KERNELS
    ]
    return [*kernels, ("dispatch", [str(SOURCES / "dispatch.c")])]


def compile_library(target: Path) -> Path:
    """Compile and link into ``target`` (replaced in one step). Raises ``BuildError``."""
    return _compile_library(target, units(), FLAGS)
