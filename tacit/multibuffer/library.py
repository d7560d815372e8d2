"""The shared object of the multi-buffer kernels: found, or compiled on first use, and tested before it is used.

``TACIT_NATIVE`` (see ``tacit.native_level``) chooses the highest instruction set that may be used, of those that the
processor supports: ``avx2`` or ``ifma``. With ``off``, ``baseline`` or neither of the two, OpenSSL takes one message at
a time.
"""

from __future__ import annotations

import logging
import threading
from functools import cache
from pathlib import Path

from tacit.multibuffer.build import SOURCES, compile_library, library_name
from tacit.multibuffer.interface import R_BITS, Multibuffer
from tacit.multibuffer.known_answers import failed_answers
from tacit.native_build import BuildError, library_folders, open_library
from tacit.native_level import LEVELS, OFF, wanted_level

_log = logging.getLogger(__name__)
_loading = threading.Lock()


def kernels() -> Multibuffer | None:
    """The kernels, or None where OpenSSL does everything. Raises ``UsageError`` for an unknown value of
    TACIT_NATIVE."""
    wanted = wanted_level() or LEVELS[-1]
    allowed = () if wanted == OFF else LEVELS[: LEVELS.index(wanted) + 1]
    with _loading:
        return _kernels(tuple(one for one in reversed(R_BITS) if one in allowed))


def level() -> str:
    """The path of the kernels: one of ``LEVELS``, or ``off`` where OpenSSL does everything. Raises as ``kernels``."""
    found = kernels()
    return OFF if found is None else found.level


@cache
def _kernels(levels: tuple[str, ...]) -> Multibuffer | None:
    """The kernels of the first of ``levels`` that the processor supports."""
    if not levels:
        return None
    try:
        library = open_library(library_name(), _folders(), compile_library)
    except BuildError as error:
        _log.warning("the multi-buffer kernels are not available (%s); OpenSSL takes messages one by one", error)
        return None
    every = (Multibuffer(library, one) for one in levels)
    found = next((one for one in every if one.usable), None)
    failed = failed_answers(found) if found else []
    if failed:
        _log.error("the multi-buffer kernels fail their self-test (%s); OpenSSL is used instead", ", ".join(failed))
        return None
    return found


def _folders() -> tuple[Path, ...]:
    return library_folders(SOURCES)
