"""The shared object of the multi-buffer kernels: found, or compiled on first use, and tested before it is used.

``TACIT_NATIVE`` (see ``tacit.vdaf.native.library``) chooses: unset or ``ifma``, the kernels where the processor runs
them; any other path, OpenSSL one message at a time.
"""

from __future__ import annotations

import ctypes
import logging
import os
import threading
from collections.abc import Sequence
from ctypes import c_int, c_size_t, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

from tacit.errors import Fatal
from tacit.multibuffer.build import SOURCES, compile_library, library_name
from tacit.multibuffer.known_answers import failed_answers
from tacit.native_build import BuildError, library_folders, open_library
from tacit.vdaf.native.library import LEVELS, OFF, VARIABLE

_NEEDED = "ifma"
_OK = 0

_log = logging.getLogger(__name__)
_loading = threading.Lock()


class Multibuffer:
    """The exported functions over bytes. Every method raises ``Fatal`` where the library refuses its arguments."""

    def __init__(self, library: ctypes.CDLL) -> None:
        library.tacit_multibuffer_usable.argtypes = ()
        library.tacit_multibuffer_usable.restype = c_int
        buffer = (c_void_p, c_size_t)
        library.tacit_rsa_verify.argtypes = (*buffer * 2, c_size_t, *buffer * 3)
        library.tacit_rsa_verify.restype = c_int
        self._library = library

    @property
    def usable(self) -> bool:
        """Whether this processor runs the kernels."""
        return bool(self._library.tacit_multibuffer_usable())

    def rsa_verify(self, modulus: bytes, r_squared: bytes, signatures: bytes, hashes: bytes) -> bytes:
        """One byte per signature of 256 bytes, 1 if it is valid (``multibuffer.h``)."""
        verdicts = bytearray(len(signatures) // 256)
        self._call(self._library.tacit_rsa_verify, (modulus, r_squared), (signatures, hashes), (verdicts,))
        return bytes(verdicts)

    def _call(self, function: Any, head: Sequence[bytes], rows: Sequence[bytes], outputs: Sequence[bytearray]) -> None:
        """The last of ``outputs`` has one byte per message; the interpreter lock is released meanwhile."""
        held = [(ctypes.c_char * len(output)).from_buffer(output) if output else None for output in outputs]
        arguments: list[object] = [part for data in head for part in (data, len(data))]
        arguments.append(len(outputs[-1]))
        arguments += [part for data in rows for part in (data, len(data))]
        arguments += [part for output, buffer in zip(outputs, held, strict=True) for part in (buffer, len(output))]
        if function(*arguments) != _OK:
            raise Fatal("the multi-buffer kernels refuse a batch")


def kernels() -> Multibuffer | None:
    """The kernels, or None where OpenSSL does everything. Raises ``ValueError`` for a TACIT_NATIVE that is no path."""
    wanted = os.environ.get(VARIABLE, "")
    if wanted and wanted not in (OFF, *LEVELS):
        raise ValueError(f"{VARIABLE} must be one of {', '.join((OFF, *LEVELS))}, not {wanted!r}")
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
