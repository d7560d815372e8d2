"""Configuration of the relay."""

from __future__ import annotations

from pydantic import Field, PositiveFloat, PositiveInt

from tacit.service.config import ConfigPath, Frozen, ServiceConfig


class Frames(Frozen):
    """Sending several messages to the gateway together: ours takes such frames, others do not."""

    max_messages: int = Field(default=64, ge=1, le=256)
    """Messages with which a frame is full and leaves; not above the gateway's ``max_frame_messages``."""
    max_bytes: int = Field(default=2 << 20, ge=1 << 12, le=64 << 20)
    """Bytes with which it is; not above the gateway's ``max_frame``."""
    max_delay: float = Field(default=0.05, gt=0, le=5)
    """Seconds that a frame waits for more messages."""


class RelayLog(Frozen):
    """Where the gateway's key sets come from."""

    url: str
    """The log's URL, without a final slash."""
    key: str
    """The log's signed-note key."""
    gateway: str
    """The gateway's name in the log."""
    signing_key: str
    """The Ed25519 key of the gateway's leaves (base64url)."""
    poll_seconds: PositiveFloat = 10.0
    """Pause between two looks whether the log grew."""


class RelayConfig(ServiceConfig):
    """A relay forwards to exactly one gateway."""

    gateway_url: str
    """URL of the gateway without a final slash; messages go to ``{gateway_url}/gateway``."""
    gateway_bearer: ConfigPath | None = None
    """File (0600) with the bearer token for the gateway."""
    max_request: PositiveInt = 262_144
    """Bytes of one encapsulated request, by default the largest size class."""
    max_response: PositiveInt = 262_144
    """Bytes of one encapsulated response, by default the largest size class."""
    max_in_flight: PositiveInt = 256 << 20
    """Bytes that all requests together may hold, each counted as its body and the largest response; above it clients
    get 503."""
    gateway_timeout: PositiveFloat = 30.0
    """Seconds that the gateway has to answer."""
    retry_after_least: PositiveInt = 2
    """Least seconds of the random Retry-After of a 503."""
    retry_after_most: PositiveInt = 20
    """Most seconds of the random Retry-After of a 503."""
    frames: Frames | None = None
    """How messages share an exchange with the gateway; without it every message has its own, as RFC 9458 describes."""
    log: RelayLog | None = None
    """The log whose key sets of the gateway are served to devices that have no key any more; without it, none."""
    bucket_seconds: int = Field(default=300, ge=60)
    """Width of the time buckets of the traffic counters."""
