"""The topics on which a log announces its growth, and the payload: how many entries it has. It carries no authority."""

from __future__ import annotations

from tacit.errors import DecodeError

LOG, KEYS, RECIPES = "tacit/v1/log", "tacit/v1/keys", "tacit/v1/recipes"
_MAX_DIGITS = 15


def encode_size(size: int) -> bytes:
    """The payload that says that the log has ``size`` entries."""
    return b"%d" % size


def parse_size(payload: bytes) -> int:
    """The size in a payload: decimal digits without leading zeros. Raises ``DecodeError``."""
    if len(payload) > _MAX_DIGITS or not payload.isdigit() or (payload[:1] == b"0" and payload != b"0"):
        raise DecodeError("not an announcement of a log's size")
    return int(payload)
