"""Byte strings as group elements and back, so that secret shares can be encrypted and rerandomised.

About a quarter of the even numbers below 2^254 are canonical forms of ristretto255 elements (RFC 9496 section 4.3.1). A
chunk of 30 bytes takes the middle of the 32; the seven upper bits of the first byte and the lower six of the last hold
a counter, and the first counter value that gives an element is used. The probability that none of the 8,192 values does
is (3/4)^8192 < 10^-1000. The number of attempts depends on the chunk, so what is embedded must be uniform and made anew
whether or not it is used: secret shares are.
"""

from __future__ import annotations

from tacit.errors import CryptoError, DecodeError
from tacit.panprivate.group import Group
from tacit.panprivate.ristretto import RISTRETTO255

CHUNK_SIZE = 30
"""Bytes that one element carries."""
_COUNTERS = 1 << 13


def elements_for(length: int) -> int:
    """How many elements carry ``length`` bytes, ``CHUNK_SIZE`` each; 0 for none."""
    return -(-length // CHUNK_SIZE)


def embed(data: bytes, group: Group = RISTRETTO255) -> list[bytes]:
    """Elements that carry ``data``; the last chunk is padded with zeros."""
    padded = data.ljust(elements_for(len(data)) * CHUNK_SIZE, b"\0")
    return [_embed(padded[at : at + CHUNK_SIZE], group) for at in range(0, len(padded), CHUNK_SIZE)]


def _embed(chunk: bytes, group: Group) -> bytes:
    for counter in range(_COUNTERS):
        candidate = bytes(((counter & 0x7F) << 1,)) + chunk + bytes((counter >> 7,))
        if group.is_element(candidate):
            return candidate
    raise CryptoError("no counter gives an element for this chunk")


def extract(elements: list[bytes], length: int) -> bytes:
    """The ``length`` bytes that ``elements`` carry, whatever the counters. Raises ``DecodeError`` for the wrong number
    of elements, and where the padding is not zero."""
    if len(elements) != elements_for(length):
        raise DecodeError(f"{len(elements)} elements do not carry {length} bytes")
    data = b"".join(element[1 : 1 + CHUNK_SIZE] for element in elements)
    if any(data[length:]):
        raise DecodeError("the padding of the last element is not zero")
    return data[:length]
