"""Configuration of the relay."""

from __future__ import annotations

from pydantic import Field, PositiveFloat, PositiveInt

from tacit.service.config import ConfigPath, Frozen, ServiceConfig


class Frames(Frozen):
    """Sending several messages to the gateway together: ours takes such frames, others do not.

    * ``max_messages``, ``max_bytes``: of one frame; it leaves when it is full. Not above the gateway's
      ``max_frame_messages`` and ``max_frame``.
    * ``max_delay``: seconds that a frame waits for more messages.
    """

    max_messages: int = Field(default=64, ge=1, le=256)
    max_bytes: int = Field(default=2 << 20, ge=1 << 12, le=64 << 20)
    max_delay: float = Field(default=0.05, gt=0, le=5)


class RelayLog(Frozen):
    """Where the gateway's key sets come from: the log's ``url`` without a final slash and its ``key`` (signed-note
    key), the ``gateway``'s name there and the Ed25519 key of its leaves (``signing_key``, base64url)."""

    url: str
    key: str
    gateway: str
    signing_key: str
    poll_seconds: PositiveFloat = 10.0


class RelayConfig(ServiceConfig):
    """A relay forwards to exactly one gateway.

    * ``gateway_url``: URL of the gateway without a final slash; messages go to ``{gateway_url}/gateway``.
    * ``gateway_bearer``: 0600 file with the bearer token for the gateway.
    * ``max_request``, ``max_response``: bytes of one encapsulated message, by default the largest size class.
    * ``max_in_flight``: bytes that all requests together may hold, each counted as its body and the largest
      response; above it clients get 503.
    * ``gateway_timeout``: seconds that the gateway has to answer.
    * ``retry_after_least``, ``retry_after_most``: range in seconds of the random Retry-After of a 503.
    * ``frames``: how messages share an exchange with the gateway; without it every message has its own, as RFC 9458
      describes.
    * ``log``: the log whose key sets of the gateway are served to devices that have no key any more; without it, none.
    * ``bucket_seconds``: width of the time buckets of the traffic counters.
    """

    gateway_url: str
    gateway_bearer: ConfigPath | None = None
    max_request: PositiveInt = 262_144
    max_response: PositiveInt = 262_144
    max_in_flight: PositiveInt = 256 << 20
    gateway_timeout: PositiveFloat = 30.0
    retry_after_least: PositiveInt = 2
    retry_after_most: PositiveInt = 20
    frames: Frames | None = None
    log: RelayLog | None = None
    bucket_seconds: int = Field(default=300, ge=60)
