"""The shared object of the support counts: found, or compiled on first use, and called through ctypes, which releases
the interpreter lock around every call. ``TACIT_NATIVE=off`` chooses pure Python."""

from __future__ import annotations

import ctypes
import logging
import threading
from ctypes import c_char_p, c_int, c_size_t, c_uint, c_void_p
from functools import cache

from tacit.native_build import BuildError, library_folders, open_library
from tacit.native_level import OFF, wanted_level
from tacit.succinct.native.build import SOURCES, compile_library, library_name

_log = logging.getLogger(__name__)
_loading = threading.Lock()


def load() -> ctypes.CDLL | None:
    """The shared object, or None where pure Python is wanted, or where the object neither exists nor can be compiled
    (reported once in the log)."""
    if wanted_level() == OFF:
        return None
    with _loading:
        return _load()


@cache
def _load() -> ctypes.CDLL | None:
    try:
        library = open_library(library_name(), library_folders(SOURCES), compile_library)
    except BuildError as error:
        _log.warning("the kernel of local hashing is not available (%s); supports are counted in pure Python", error)
        return None
    library.succinct_add.argtypes = (
        *(c_char_p, c_char_p, c_size_t, c_uint),
        *(c_void_p, c_uint, c_uint, c_uint, c_void_p),
    )
    library.succinct_add.restype = c_int
    library.succinct_finish.argtypes = (c_void_p, c_uint, c_uint, c_uint, c_size_t, c_uint, c_void_p)
    library.succinct_finish.restype = c_int
    return library
