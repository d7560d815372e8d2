"""The exported functions of the multi-buffer kernels on bytes, through ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_int, c_size_t, c_void_p
from dataclasses import dataclass
from typing import Any

from tacit.errors import Fatal
from tacit.hpke import ENC_SIZE, NONCE_SIZE

EXPORTER_SIZE = 32
SIGNATURE_SIZE = 256
"""Bytes of an RSA signature of a token, and of the modulus."""
R_BITS = {"avx2": 2128, "ifma": 2080}
"""The logarithm of R in the Montgomery products of each instruction set, in the order of ``multibuffer.h``."""

_OK = 0


@dataclass(frozen=True, slots=True)
class Setup:
    """What the messages of a batch have in common; see ``hpke_setup`` in kernels.h."""

    public_key: bytes
    suite: bytes
    context: bytes
    key_size: int


@dataclass(slots=True, repr=False)
class DerivedKeys:
    """Rows of one batch: AEAD keys, nonces, exporter secrets if asked for; flags[i] = 1 refuses message i.

    A context manager: the keys are overwritten at its end.
    """

    keys: bytearray
    nonces: bytearray
    exporters: bytearray
    flags: bytearray

    def __enter__(self) -> DerivedKeys:
        return self

    def __exit__(self, *_: object) -> None:
        for secret in (self.keys, self.nonces, self.exporters):
            secret[:] = bytes(len(secret))


class Multibuffer:
    """The exported functions on bytes, with the instruction set ``level``, one of ``R_BITS``. Every method raises
    ``Fatal`` where the library refuses its arguments."""

    def __init__(self, library: ctypes.CDLL, level: str) -> None:
        library.tacit_multibuffer_usable.argtypes = (c_int,)
        library.tacit_multibuffer_usable.restype = c_int
        buffer = (c_void_p, c_size_t)
        for function, head, rows in (
            (library.tacit_rsa_verify, buffer * 2, 3),
            (library.tacit_x25519, (), 4),
            (library.tacit_hpke_open, (*buffer * 4, c_size_t), 5),
            (library.tacit_hpke_seal, (*buffer * 3, c_size_t), 5),
        ):
            function.argtypes = (c_int, *head, c_size_t, *buffer * rows)
            function.restype = c_int
        self._library, self.level = library, level
        self._index = list(R_BITS).index(level)

    @property
    def usable(self) -> bool:
        """Whether this processor runs the kernels."""
        return bool(self._library.tacit_multibuffer_usable(self._index))

    @property
    def r_bits(self) -> int:
        """The logarithm of the R that ``rsa_verify`` needs the square of."""
        return R_BITS[self.level]

    def rsa_verify(self, modulus: bytes, r_squared: bytes, signatures: bytes, hashes: bytes) -> bytes:
        """One byte per signature, 1 if it is valid; ``r_squared`` is 2^(2 * ``r_bits``) modulo the modulus."""
        verdicts = bytearray(len(signatures) // SIGNATURE_SIZE)
        head = (modulus, len(modulus), r_squared, len(r_squared))
        _call(self._library.tacit_rsa_verify, (self._index, *head), len(verdicts), (signatures, hashes, verdicts))
        return bytes(verdicts)

    def x25519(self, scalars: bytes, points: bytes) -> tuple[bytes, bytes]:
        """Return the shared secret of each row of scalars and points, and one byte per row, 1 if the secret is all
        zero."""
        count = len(scalars) // ENC_SIZE
        secrets, flags = bytearray(count * ENC_SIZE), bytearray(count)
        _call(self._library.tacit_x25519, (self._index,), count, (scalars, points, secrets, flags))
        return bytes(secrets), bytes(flags)

    def hpke_open(self, private_key: bytes, setup: Setup, encs: bytes, exporters: bool) -> DerivedKeys:
        """The recipient's keys for the messages whose encapsulated keys are the rows of ``encs``."""
        count = len(encs) // ENC_SIZE
        made = _rows(setup, count, exporters)
        rows = (encs, made.keys, made.nonces, made.exporters, made.flags)
        head = (self._index, private_key, len(private_key), *_head(setup))
        _call(self._library.tacit_hpke_open, head, count, rows)
        return made

    def hpke_seal(self, setup: Setup, scalars: bytes) -> tuple[bytes, DerivedKeys]:
        """Encapsulated keys and the sender's keys for as many messages as ``scalars`` has rows."""
        count = len(scalars) // ENC_SIZE
        encs, made = bytearray(count * ENC_SIZE), _rows(setup, count, False)
        rows = (scalars, encs, made.keys, made.nonces, made.flags)
        _call(self._library.tacit_hpke_seal, (self._index, *_head(setup)), count, rows)
        return bytes(encs), made


def _rows(setup: Setup, count: int, exporters: bool) -> DerivedKeys:
    sizes = (setup.key_size, NONCE_SIZE, EXPORTER_SIZE if exporters else 0, 1)
    return DerivedKeys(*(bytearray(size * count) for size in sizes))


def _head(setup: Setup) -> tuple[bytes | int, ...]:
    parts = (setup.public_key, setup.suite, setup.context)
    return (*(argument for part in parts for argument in (part, len(part))), setup.key_size)


def _call(function: Any, head: Sequence[bytes | int], count: int, rows: Sequence[bytes | bytearray]) -> None:
    """Call with every buffer followed by its length; the interpreter lock is released during the call."""
    arguments: list[object] = [*head, count]
    for row in rows:
        writable = isinstance(row, bytearray) and row
        arguments += ((ctypes.c_char * len(row)).from_buffer(row) if writable else bytes(row), len(row))
    if function(*arguments) != _OK:
        raise Fatal("the multi-buffer kernels refused a batch")
