"""Configuration of the relay."""

from __future__ import annotations

from pydantic import Field, PositiveFloat, PositiveInt

from tacit.service.base.config import ServiceConfig
from tacit.service.base.config_files import ConfigPath, Frozen


class Frames(Frozen):
    """Sending several messages to the gateway in one frame. This is an extension: our gateway accepts such frames,
    others do not."""

    max_messages: int = Field(default=64, ge=1, le=256)
    """Messages at which a frame is full and is sent; not above the gateway's ``max_frame_messages``."""
    max_bytes: int = Field(default=1_000_000, ge=1 << 12, le=64 << 20)
    """Bytes at which a frame is full and is sent; not above the gateway's ``max_frame``. From 1 MiB on, each is new
    memory of the system."""
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
    """The Ed25519 public key that signs the gateway's log entries (base64url)."""
    poll_seconds: PositiveFloat = 10.0
    """Seconds between two checks for new entries in the log."""


class RelayConfig(ServiceConfig):
    """Configuration of the relay, which forwards to exactly one gateway."""

    gateway_url: str
    """URL of the gateway without a final slash; messages go to ``{gateway_url}/gateway``."""
    gateway_bearer: ConfigPath | None = None
    """File (0600) with the bearer token for the gateway."""
    max_request: PositiveInt = 262_144
    """Most bytes of one encapsulated request; by default the largest size class of usual requests. 1,048,576 or
    4,194,304 take large reports too, for devices whose policies have this ``max_upload``."""
    max_response: PositiveInt = 262_144
    """Most bytes of one encapsulated response; by default the largest size class."""
    max_in_flight: PositiveInt = 256 << 20
    """Most bytes that all requests together may hold, each counted as its body plus the largest response; above this,
    clients get 503. Requests above 262,144 bytes may hold half of it."""
    gateway_timeout: PositiveFloat = 30.0
    """Seconds that the gateway has to answer."""
    retry_after_least: PositiveInt = 2
    """Lower bound of the random Retry-After of a 503, in seconds."""
    retry_after_most: PositiveInt = 20
    """Upper bound of the random Retry-After of a 503, in seconds."""
    frames: Frames | None = None
    """How messages share an exchange with the gateway; without it every message has an exchange of its own, as RFC 9458
    describes."""
    log: RelayLog | None = None
    """The log whose key sets of the gateway are served to devices that no longer have a valid key; without it, none are
    served."""
    bucket_seconds: int = Field(default=300, ge=60)
    """Width in seconds of the time buckets of the traffic counters."""
