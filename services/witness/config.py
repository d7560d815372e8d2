"""Configuration of a witness."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tacit.service.config import ConfigPath, Frozen, ServiceConfig


class WitnessedLog(Frozen):
    """A log that this witness watches: its signed-note key, whose name is the log's origin, and the base URL below
    which its tiles are."""

    key: str
    url: Annotated[str, Field(pattern=r"^https?://[\x21-\x7e]*[^/\s]$", max_length=512)]


class WitnessConfig(ServiceConfig):
    """``name`` is the witness's own, as its cosignatures carry it, ``signing_key`` the 0600 file with its Ed25519 key
    (base64url of 32 bytes). ``max_step`` bounds the entries that are read for one request: a log that is further ahead
    asks for what lies between first.
    """

    name: Annotated[str, Field(pattern=r"^[^\s+]{1,200}$")]
    signing_key: ConfigPath
    logs: Annotated[tuple[WitnessedLog, ...], Field(min_length=1)]
    max_step: Annotated[int, Field(ge=1, le=1 << 20)] = 8192
