"""Configuration of the issuer."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tacit.service.config import ConfigPath, ServiceConfig

MAX_SLOTS = 64
"""Live keys (four epochs at most) have distinct one-byte ids, of which there are 256."""


class IssuerConfig(ServiceConfig):
    """``name`` is the issuer's name in challenges and in its directory leaves.

    ``signing_key`` is a 0600 file with the Ed25519 key that signs directory leaves (``tacit.service.keys``).
    ``attester_credential`` is a 0600 file with the attester's bearer token, which counts on loopback, or beside the
    client certificate that ``listen.client_ca`` demands of the attester. Without ``operator_token``, a 0600 file too,
    nobody may read the counts. ``request_uri`` is where clients of the directory
    send token requests. Leaves go to ``recipe_server_url`` (no slash at its end). Durations are in seconds,
    ``lookahead`` in epochs.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9.:_-]{0,252}$")]
    signing_key: ConfigPath
    attester_credential: ConfigPath | None = None
    operator_token: ConfigPath | None = None
    recipe_server_url: str
    request_uri: Annotated[str, Field(min_length=1, max_length=512)]
    epoch_seconds: Annotated[int, Field(ge=1, le=366 * 86400)] = 86400
    slots_per_epoch: Annotated[int, Field(ge=1, le=MAX_SLOTS)] = 8
    lookahead: Annotated[int, Field(ge=1, le=2)] = 2
    grace_seconds: Annotated[int, Field(ge=0)] = 3600
    directory_max_age: Annotated[int, Field(ge=0)] = 3600
    key_bits: Literal[2048] = 2048
    sign_threads: Annotated[int, Field(ge=1, le=256)] = 2
    idle_seconds: Annotated[float, Field(gt=0)] = 5.0
