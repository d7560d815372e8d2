"""The compilation of the support counts. Standard library only: the build hook runs it before anything is installed."""

from __future__ import annotations

from pathlib import Path

from tacit.native_build import BuildError
from tacit.native_build import compile_library as _compile_library
from tacit.native_build import library_name as _library_name

__all__ = ["BuildError", "compile_library", "library_name"]

SOURCES = Path(__file__).resolve().parent
FLAGS = ("-O3", "-std=gnu11", "-fPIC", "-fvisibility=hidden", "-Wno-unknown-pragmas")


def library_name() -> str:
    """Name of the shared object for exactly these sources, so that an outdated one is never loaded."""
    return _library_name("_supports", SOURCES, FLAGS)


def compile_library(target: Path) -> Path:
    """Compile and link into ``target`` (replaced in one step). Raises ``BuildError``."""
    return _compile_library(target, [("supports", [str(SOURCES / "supports.c")])], FLAGS)
