"""Prio3SumVecField64MultiproofHmacSha256Aes128 (0xFFFF1003), which Janus has beside the VDAFs of the draft.

It is Prio3SumVec over the smaller field, with several proofs in place of a large field, and with another XOF:
HMAC-SHA256 makes a key and a first counter block for AES-128, whose key stream is the output. No draft specifies it;
the facts are those of libprio-rs (``XofHmacSha256Aes128``) and of Janus's messages. The kernels do not have this XOF.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from typing import ClassVar

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from tacit.vdaf.circuits import SumVec
from tacit.vdaf.field import Field64
from tacit.vdaf.prio3 import Prio3
from tacit.vdaf.xof import Xof

ALGORITHM_ID = 0xFFFF1003
LEAST_PROOFS = 2
"""Janus takes two. With p proofs a forged report passes with a probability of about (calls / 2^64)^p a try."""

_BLOCK = 16
_COUNTERS = 1 << 64


class XofHmacSha256Aes128(Xof):
    """AES-128 in counter mode, whose counter is the lower half of the block and never carries into the upper one."""

    MOST_DST = 0xFF

    def __init__(self, seed: bytes, dst: bytes, binder: bytes = b"") -> None:
        if len(dst) > self.MOST_DST:
            raise ValueError(f"a domain separation tag of {len(dst)} bytes is too long")
        tag = hmac.digest(seed, bytes((len(dst),)) + dst + binder, "sha256")
        self._key, self._upper = tag[:16], tag[16:24]
        self._begin(int.from_bytes(tag[24:], "big"))

    def _begin(self, counter: int) -> None:
        mode = modes.CTR(self._upper + counter.to_bytes(8, "big"))
        self._stream = Cipher(algorithms.AES(self._key), mode).encryptor()
        self._left = (_COUNTERS - counter) * _BLOCK

    def next(self, length: int) -> bytes:
        # the library's counter has 128 bits: where the lower half is used up, the stream goes on from its zero
        output = self._stream.update(bytes(min(length, self._left)))
        self._left -= len(output)
        if len(output) < length:
            self._begin(0)
            return output + self.next(length - len(output))
        return output


class Prio3SumVecField64Multiproof(Prio3[Sequence[int]]):
    """The element-wise sum of vectors of ``length`` integers in [0, ``max_measurement``], with ``proofs`` proofs."""

    XOF: ClassVar[type[Xof]] = XofHmacSha256Aes128
    LEAST_PROOFS: ClassVar[int] = LEAST_PROOFS

    def __init__(self, shares: int, length: int, max_measurement: int, chunk_length: int, proofs: int) -> None:
        super().__init__(SumVec(Field64, length, max_measurement, chunk_length), ALGORITHM_ID, shares, proofs)
        self.length = length
        self.max_measurement = max_measurement
        self.chunk_length = chunk_length
