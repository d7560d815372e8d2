"""The PROXY line, version 1, in which a front proxy names the client of a connection that it passes on."""

from __future__ import annotations

MOST = 107
"""Most bytes of the line."""


def divide(data: bytes) -> tuple[str | None, bytes] | None:
    """The client's address in the line with which ``data`` begins (None if it names none), and what follows; None until
    the line is complete. Raises ``ValueError`` for another beginning."""
    line, end, rest = data.partition(b"\r\n")
    if not end and len(data) <= MOST:
        return None
    parts = line.split(b" ")
    if not end or len(line) > MOST or parts[0] != b"PROXY" or len(parts) < 2:
        raise ValueError("the connection does not begin with a PROXY line")
    named = parts[1] in {b"TCP4", b"TCP6"} and len(parts) == 6
    return parts[2].decode("latin-1") if named else None, rest
