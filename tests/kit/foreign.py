"""How foreign software reads what our services serve to it alone: tiles of hashes and collections of OHTTP keys."""

from __future__ import annotations

from tacit import hpke
from tacit.codec import Reader
from tacit.ohttp import KeyConfig
from tacit.tlog.merkle import HASH_SIZE


def split_tile(data: bytes, width: int) -> list[bytes]:
    """The ``width`` hashes of a tile of hashes (C2SP tlog-tiles)."""
    assert len(data) == width * HASH_SIZE
    return [data[at : at + HASH_SIZE] for at in range(0, len(data), HASH_SIZE)]


def decode_key_configs(data: bytes) -> list[KeyConfig]:
    """The configurations of an ``application/ohttp-keys`` whose KEM is supported, in order (RFC 9458 section 3.2).
    Raises ``DecodeError``."""
    items = Reader(data, "collection of keys").items(lambda reader: reader.opaque(2, minimum=3))
    return [KeyConfig.decode(item) for item in items if int.from_bytes(item[1:3], "big") == hpke.KEM_X25519]
