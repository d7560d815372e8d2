"""The functions of libsodium on ristretto255 (RFC 9496), from the library that the package ``rbcl`` contains.

``rbcl``, when imported, writes that library to the temporary folder, loads it from there and leaves it behind. So it is
never imported: its library is read from where the package is installed and loaded from memory, on first use. Nothing is
written to any disk, and no folder has to allow execution. Where the kernel does not provide such memory, the libsodium
of the operating system is used.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import threading
from functools import cache
from pathlib import Path
from typing import Final

from tacit.errors import UsageError

SIZE: Final = 32
WIDE: Final = 64
SYSTEM_NAMES: Final = ("libsodium.so.23", "libsodium.so.26")
"""Names of the library in operating systems; 1.0.18, the first version with ristretto255, is the oldest
libsodium.so.23."""

_EMBEDDED: Final = re.compile(rb"bytes\.fromhex\(\s*'([0-9a-f]+)'\s*\)")
_ARGUMENTS: Final = {
    "crypto_core_ristretto255_is_valid_point": 1,
    "crypto_core_ristretto255_scalar_reduce": 2,
    "crypto_core_ristretto255_add": 3,
    "crypto_core_ristretto255_sub": 3,
    "crypto_scalarmult_ristretto255_base": 2,
    "crypto_scalarmult_ristretto255": 3,
}

_loading = threading.Lock()


def is_valid_point(element: bytes) -> bool:
    """Whether 32 bytes are the canonical form of an element (RFC 9496 section 4.3.1)."""
    _check(element, SIZE)
    return bool(library().crypto_core_ristretto255_is_valid_point(element))


def scalar_reduce(wide: bytes) -> bytes:
    """64 bytes, little-endian, modulo the group's order."""
    _check(wide, WIDE)
    result = ctypes.create_string_buffer(SIZE)
    library().crypto_core_ristretto255_scalar_reduce(result, wide)
    return result.raw


def add(first: bytes, second: bytes) -> bytes:
    """The sum of two elements; the identity where one of them is not an element."""
    return _of_two("crypto_core_ristretto255_add", first, second)


def subtract(first: bytes, second: bytes) -> bytes:
    """``first`` minus ``second``; the identity where one of them is not an element."""
    return _of_two("crypto_core_ristretto255_sub", first, second)


def multiply_base(scalar: bytes) -> bytes:
    """The multiple of the generator, in a time that does not depend on the scalar."""
    _check(scalar, SIZE)
    result = ctypes.create_string_buffer(SIZE)
    library().crypto_scalarmult_ristretto255_base(
        result, scalar
    )  # the return value only says whether this is the identity
    return result.raw


def multiply(scalar: bytes, element: bytes) -> bytes:
    """The multiple of ``element``, in a time that does not depend on the scalar; the identity also where ``element`` is
    not an element."""
    _check(scalar, SIZE)
    _check(element, SIZE)
    result = ctypes.create_string_buffer(SIZE)
    library().crypto_scalarmult_ristretto255(result, scalar, element)
    return result.raw


def library() -> ctypes.CDLL:
    """libsodium, loaded and initialised once. Raises ``UsageError`` where neither way of loading it works."""
    with _loading:
        return _library()


@cache
def _library() -> ctypes.CDLL:
    try:
        return _bound(_from_memory(embedded_library()))
    except OSError as error:
        for name in SYSTEM_NAMES:
            try:
                return _bound(ctypes.CDLL(name))
            except OSError:
                continue
        raise UsageError(
            f"libsodium does not load from memory ({error}), and this system has none of its own: "
            "install the system's package of libsodium (Debian: libsodium23)"
        ) from error


def embedded_library() -> bytes:
    """The shared object inside the installed ``rbcl``, which is not imported for it. Raises ``OSError``."""
    found = importlib.util.find_spec("rbcl")
    if found is None or found.origin is None:
        raise OSError("the package rbcl is not installed")
    text = Path(found.origin).with_name("_sodium.py").read_bytes()
    embedded = _EMBEDDED.search(text)
    if embedded is None:
        raise OSError("the package rbcl holds no library")
    return bytes.fromhex(embedded[1].decode())


def _from_memory(shared_object: bytes) -> ctypes.CDLL:
    """Load a shared object from memory. Raises ``OSError``."""
    descriptor = os.memfd_create("libsodium")
    with os.fdopen(descriptor, "wb") as file:
        file.write(shared_object)
        file.flush()
        return ctypes.CDLL(f"/proc/self/fd/{descriptor}")  # the mapping stays when the descriptor is closed


def _bound(loaded: ctypes.CDLL) -> ctypes.CDLL:
    """``loaded`` with its functions declared. Raises ``OSError`` for a library without them."""
    try:
        for name, arguments in _ARGUMENTS.items():
            getattr(loaded, name).argtypes = [ctypes.c_char_p] * arguments
        loaded.crypto_core_ristretto255_scalar_reduce.restype = None
    except AttributeError as error:
        raise OSError(f"this libsodium is too old: {error}") from error
    if loaded.sodium_init() < 0:
        raise OSError("libsodium does not initialise")
    return loaded


def _of_two(name: str, first: bytes, second: bytes) -> bytes:
    _check(first, SIZE)
    _check(second, SIZE)
    result = ctypes.create_string_buffer(SIZE)
    getattr(library(), name)(result, first, second)
    return result.raw


def _check(data: bytes, size: int) -> None:
    """Check sizes, because libsodium does not."""
    if len(data) != size:
        raise ValueError(f"{size} bytes are needed, not {len(data)}")
