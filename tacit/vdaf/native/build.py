"""The compilation of the Prio3 kernels. Standard library only: the build hook runs it before anything is installed."""

from __future__ import annotations

from pathlib import Path

from tacit.native_build import AVX2, AVX512, IFMA, BuildError, Unit, compiler, is_x86
from tacit.native_build import compile_library as _compile_library
from tacit.native_build import library_name as _library_name

__all__ = ["BuildError", "compile_library", "compiler", "level_flags", "library_name", "units"]

SOURCES = Path(__file__).resolve().parent
FIELDS = (64, 128)
FLAGS = (
    *("-O3", "-fno-tree-slp-vectorize", "-std=gnu11", "-fPIC", "-fvisibility=hidden"),
    *("-Wno-psabi", "-Wno-unknown-pragmas"),
)
# never -march=native: what is built here runs elsewhere, and the processor there chooses its level
X86_LEVELS = ((), AVX2, AVX512, IFMA)


def level_flags() -> tuple[tuple[str, ...], ...]:
    """Compiler flags of each level that exists for this kind of processor."""
    return X86_LEVELS if is_x86() else X86_LEVELS[:1]


def library_name() -> str:
    """Name of the shared object for exactly these sources, so that an outdated one is never loaded."""
    return _library_name("_kernels", SOURCES, (FLAGS, level_flags()))


def units() -> list[Unit]:
    """Name and compiler arguments of each object: a kernel for each level and field, the plan, the dispatcher."""
    kernels = [
        (
            f"kernel_{level}_{field}",
            [*flags, f"-DTACIT_LEVEL={level}", f"-DTACIT_FIELD={field}", str(SOURCES / "kernel.c")],
        )
        for level, flags in enumerate(level_flags())
        for field in FIELDS
    ]
    return [*kernels, *((name, [str(SOURCES / f"{name}.c")]) for name in ("plan", "dispatch"))]


def compile_library(target: Path) -> Path:
    """Compile and link into ``target`` (replaced in one step). Raises ``BuildError``."""
    return _compile_library(target, units(), FLAGS)
