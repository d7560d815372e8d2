"""The shared object of the multi-buffer kernels: found, or compiled on first use, and tested before it is used.

``TACIT_NATIVE`` (see ``tacit.native_level``) chooses: unset or ``ifma`` uses the kernels where the processor supports
them; any other level uses OpenSSL one message at a time.
"""

from __future__ import annotations

import logging
import threading
from functools import cache
from pathlib import Path

from tacit.multibuffer.build import SOURCES, compile_library, library_name
from tacit.multibuffer.interface import Multibuffer
from tacit.multibuffer.known_answers import failed_answers
from tacit.native_build import BuildError, library_folders, open_library
from tacit.native_level import wanted_level

_NEEDED = "ifma"

_log = logging.getLogger(__name__)
_loading = threading.Lock()


def kernels() -> Multibuffer | None:
    """The kernels, or None where OpenSSL does everything. Raises ``UsageError`` for an unknown value of
    TACIT_NATIVE."""
    wanted = wanted_level()
    if wanted not in ("", _NEEDED):
        return None
    with _loading:
        return _kernels()


@cache
def _kernels() -> Multibuffer | None:
    try:
        found = Multibuffer(open_library(library_name(), _folders(), compile_library))
    except BuildError as error:
        _log.warning("the multi-buffer kernels are not available (%s); OpenSSL takes messages one by one", error)
        return None
    if not found.usable:
        return None
    failed = failed_answers(found)
    if failed:
        _log.error("the multi-buffer kernels fail their self-test (%s); OpenSSL is used instead", ", ".join(failed))
        return None
    return found


def _folders() -> tuple[Path, ...]:
    return library_folders(SOURCES)
