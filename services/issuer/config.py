"""Configuration of the issuer."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tacit.service.base.config import ServiceConfig
from tacit.service.base.config_files import ConfigPath
from tacit.tlog.token_directories import MAX_LOOKAHEAD

MAX_SLOTS = 64
"""Most slots per epoch: live keys (of four epochs at most) have distinct one-byte ids, of which there are 256."""


class IssuerConfig(ServiceConfig):
    """The issuer's configuration file."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9.:_-]{0,252}$")]
    """The issuer's name in challenges and in its directory leaves."""
    signing_key: ConfigPath
    """File (0600) with the Ed25519 key that signs directory leaves (``tacit.service.base.keys``)."""
    attester_credential: ConfigPath | None = None
    """File (0600) with the attester's bearer token. It is accepted on loopback, or together with the client certificate
    that ``listen.client_ca`` demands of the attester."""
    recipe_server_url: str
    """URL of the recipe server, without a final slash, to which directory leaves are sent."""
    request_uri: Annotated[str, Field(min_length=1, max_length=512)]
    """URI to which clients of the directory send token requests."""
    epoch_seconds: Annotated[int, Field(ge=1, le=366 * 86400)] = 86400
    """Length of an epoch in seconds; devices pin it."""
    slots_per_epoch: Annotated[int, Field(ge=1, le=MAX_SLOTS)] = 8
    """Tokens that each device gets for an epoch, which is the number of recipes that it can answer in the epoch."""
    lookahead: Annotated[int, Field(ge=1, le=MAX_LOOKAHEAD)] = 2
    """Number of future epochs for which there are keys."""
    grace_seconds: Annotated[int, Field(ge=0)] = 3600
    """Seconds after an epoch for which its private keys are kept."""
    directory_max_age: Annotated[int, Field(ge=0)] = 3600
    """Seconds for which the directory may be cached."""
    key_bits: Literal[2048] = 2048
    """Size of the RSA keys of blind tokens."""
    sign_threads: Annotated[int, Field(ge=1, le=256)] = 2
    """Number of threads that sign."""
    idle_seconds: Annotated[float, Field(gt=0)] = 5.0
    """Seconds between two checks whether keys or leaves are due."""
