"""The shared object of the kernels: found, or compiled on first use, and called through ctypes, which releases the
interpreter lock around every call.

``TACIT_NATIVE`` chooses a path: ``off`` (pure Python), ``baseline``, ``avx2``, ``avx512`` or ``ifma``; if unset, the
fastest that the processor supports.
"""

from __future__ import annotations

import ctypes
import logging
import threading
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from functools import cache
from pathlib import Path

from tacit.native_build import BuildError, library_folders, open_library
from tacit.native_level import LEVELS, OFF, VARIABLE, wanted_level
from tacit.vdaf.native.build import SOURCES, compile_library, library_name

_log = logging.getLogger(__name__)
_loading = threading.Lock()


class Shape(ctypes.Structure):
    """The native library's ``tacit_shape``: the parameters of a circuit."""

    _fields_ = (
        ("circuit", c_uint32),
        ("field_bits", c_uint32),
        ("proofs", c_uint32),
        ("algorithm_id", c_uint32),
        ("length", c_uint64),
        ("maximum", c_uint64),
        ("chunk", c_uint64),
        ("flips", c_uint64),
        ("scale", c_uint64),
        ("centre", c_uint64),
        ("max_square", c_uint64),
    )


class Sizes(ctypes.Structure):
    """The native library's ``tacit_sizes``: bytes per report in the rows of each kind."""

    _fields_ = tuple(
        (name, c_uint64)
        for name in ("public_share", "leader_share", "verifier_share", "seed", "out_share", "rand", "measurement")
    )


def level() -> str:
    """The path that verification takes in this process: one of ``LEVELS``, or ``off`` for pure Python."""
    chosen = chosen_level()
    return OFF if chosen is None else LEVELS[chosen]


def chosen_level(*, build: bool = True) -> int | None:
    """Index into ``LEVELS``, or None for pure Python. ``build`` as for ``load``. Raises as ``wanted_level``."""
    wanted = wanted_level()
    library = None if wanted == OFF else load(build=build)
    if library is None:
        return None
    best = int(library.tacit_best_level())
    if wanted and LEVELS.index(wanted) > best:
        _warn_once(f"{VARIABLE}={wanted}: this processor supports at most {LEVELS[best]}, which is used")
    return min(best, LEVELS.index(wanted)) if wanted else best


def usable_levels() -> list[str]:
    """Every level that this processor runs, slowest first."""
    library = load()
    return [] if library is None else list(LEVELS[: library.tacit_best_level() + 1])


def exercise(chosen: int, field_bits: int, primitive: int, rounds: int) -> int:
    """Run a primitive for a benchmark (0: Keccak permutation, 1: field product, 2: multiply-add); return how many times
    it ran."""
    library = load()
    return 0 if library is None else int(library.tacit_exercise(chosen, field_bits, primitive, rounds))


def load(*, build: bool = True) -> ctypes.CDLL | None:
    """The shared object, or None (reported once in the log) where it neither exists nor can be compiled. Without
    ``build`` it is not compiled, and nothing is reported."""
    # `cache` alone would let two threads compile at the same time
    with _loading:
        return _load(build)


@cache
def _load(build: bool) -> ctypes.CDLL | None:
    try:
        library = open_library(library_name(), _folders(), compile_library if build else _leave)
    except BuildError as error:
        if build:
            _log.warning("the Prio3 kernels are not available (%s); reports are verified in pure Python", error)
        return None
    library.tacit_best_level.argtypes = ()
    library.tacit_best_level.restype = c_int
    library.tacit_plan_new.argtypes = (c_int, POINTER(Shape), c_char_p, c_size_t, POINTER(Sizes))
    library.tacit_plan_new.restype = c_void_p
    library.tacit_plan_free.argtypes = (c_void_p,)
    library.tacit_plan_free.restype = None
    for function, before, after in (
        (library.tacit_verify_init, (c_int, c_char_p, c_size_t, c_size_t), 7),
        (library.tacit_decide, (c_size_t,), 5),
        (library.tacit_aggregate, (c_size_t,), 3),
        (library.tacit_shard, (c_size_t,), 6),
    ):
        function.argtypes = (c_void_p, *before, *(c_void_p, c_size_t) * after)
        function.restype = c_int
    library.tacit_exercise.argtypes = (c_int, c_uint32, c_int, c_uint64)
    library.tacit_exercise.restype = c_uint64
    return library


def _leave(target: Path) -> Path:
    raise BuildError(f"it is not at {target}")


def _folders() -> tuple[Path, ...]:
    return library_folders(SOURCES)


@cache
def _warn_once(text: str) -> None:
    _log.warning("%s", text)
