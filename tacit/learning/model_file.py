"""Model files: the public parameters that a round begins with, and their name.

A file is ``tacit-m1``, the number of entries (4 bytes, little-endian), and the entries as IEEE 754 binary32 in
little-endian order, all finite. Its name is the base64url form of the SHA-256 of the whole file. Names and forms are
checked without NumPy.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import struct
from typing import TYPE_CHECKING, Final

from tacit.codec import b64url
from tacit.errors import DecodeError
from tacit.recipe.training import FILE_ENTRY, FILE_HEADER, MAX_ENTRIES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAGIC: Final = b"tacit-m1"
MAX_BYTES: Final = FILE_HEADER + FILE_ENTRY * MAX_ENTRIES
"""Length of the longest file."""
_NOT_FINITE: Final = "model: an entry is not a finite number"
_COUNT = slice(len(MAGIC), FILE_HEADER)


def encode(parameters: NDArray[np.floating]) -> bytes:
    """The file of a model: 1 to ``MAX_ENTRIES`` parameters in one dimension, rounded to binary32. Raises ``ValueError``
    for another shape, and for a parameter that is not finite."""
    import numpy as np

    if parameters.ndim != 1 or not 1 <= parameters.size <= MAX_ENTRIES:
        raise ValueError(f"a model has 1 to {MAX_ENTRIES} parameters in one dimension")
    with np.errstate(over="ignore"):
        entries = parameters.astype("<f4")
    if not np.isfinite(entries).all():
        raise ValueError("a parameter of the model is not a finite number: lower the learning rates")
    return MAGIC + parameters.size.to_bytes(4, "little") + entries.tobytes()


def decode(data: bytes) -> NDArray[np.float32]:
    """The parameters in a file. Raises ``DecodeError``."""
    import numpy as np

    entries = np.frombuffer(data, "<f4", count=entries_of(data), offset=FILE_HEADER)
    if not np.isfinite(entries).all():
        raise DecodeError(_NOT_FINITE)
    return entries.astype(np.float32)


def entries_of(data: bytes) -> int:
    """The number of entries that the file states and has. Raises ``DecodeError``; the entries are not looked at."""
    if not data.startswith(MAGIC) or len(data) < FILE_HEADER:
        raise DecodeError("model: not a model file")
    count = int.from_bytes(data[_COUNT], "little")
    if not 1 <= count <= MAX_ENTRIES:
        raise DecodeError(f"model: a file has 1 to {MAX_ENTRIES} entries")
    if len(data) != FILE_HEADER + FILE_ENTRY * count:
        raise DecodeError(f"model: the file has {len(data)} bytes, and {count} entries take another number")
    return count


def require_numbers(data: bytes) -> None:
    """Raise ``DecodeError`` for anything that ``decode`` refuses, without NumPy."""
    entries_of(data)
    if not all(math.isfinite(entry) for (entry,) in struct.iter_unpack("<f", memoryview(data)[FILE_HEADER:])):
        raise DecodeError(_NOT_FINITE)


def name_of(data: bytes) -> str:
    """The name of a file: base64url of its SHA-256."""
    return b64url(hashlib.sha256(data).digest())


def is_named(data: bytes, name: str) -> bool:
    """Whether ``name`` is ``name_of(data)``, so that ``data`` is the file that is meant."""
    return hmac.compare_digest(name_of(data).encode(), name.encode())
