"""Configuration of the relay."""

from __future__ import annotations

from pydantic import Field, PositiveFloat, PositiveInt

from tacit.service.config import ConfigPath, ServiceConfig


class RelayConfig(ServiceConfig):
    """A relay forwards to exactly one gateway.

    * ``gateway_url``: URL of the gateway without a final slash; messages go to ``{gateway_url}/gateway``.
    * ``gateway_bearer``: 0600 file with the bearer token for the gateway (loopback).
    * ``gateway_ca``, ``client_cert``, ``client_key``: trust and client certificate for a gateway behind TLS.
    * ``max_request``, ``max_response``: bytes of one encapsulated message, by default the largest size class.
    * ``max_in_flight``: bytes that all requests together may hold, each counted as its body and the largest
      response; above it clients get 503.
    * ``gateway_timeout``: seconds that the gateway has to answer.
    * ``retry_after_least``, ``retry_after_most``: range in seconds of the random Retry-After of a 503.
    * ``bucket_seconds``: width of the time buckets of the traffic counters.
    """

    gateway_url: str
    gateway_bearer: ConfigPath | None = None
    gateway_ca: ConfigPath | None = None
    client_cert: ConfigPath | None = None
    client_key: ConfigPath | None = None
    max_request: PositiveInt = 262_144
    max_response: PositiveInt = 262_144
    max_in_flight: PositiveInt = 256 << 20
    gateway_timeout: PositiveFloat = 30.0
    retry_after_least: PositiveInt = 2
    retry_after_most: PositiveInt = 20
    bucket_seconds: int = Field(default=300, ge=60)
