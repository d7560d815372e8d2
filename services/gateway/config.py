"""Configuration of the OHTTP gateway."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, PositiveFloat, PositiveInt

from tacit.service.backends import RedisConfig
from tacit.service.config import ConfigPath, Frozen, ServiceConfig
from tacit.tlog.leaves import MAX_ROTATION_SECONDS, MIN_ROTATION_SECONDS


class TargetRule(Frozen):
    """Requests that may pass."""

    origin: str
    """To exactly this origin, ``https://HOST:PORT``."""
    path_prefix: str = Field(default="/", pattern=r"^/")
    """On paths at or below this one."""
    methods: tuple[str, ...] = Field(default=("POST",), min_length=1)
    """With one of these methods."""
    bearer: ConfigPath | None = None
    """File (0600) with the bearer token by which that target knows this gateway."""


class GatewayConfig(ServiceConfig):
    """A gateway opens requests from one relay and passes them to listed targets."""

    operator: str = Field(default="gateway", pattern=r"^[A-Za-z0-9][A-Za-z0-9.:_-]{0,252}$")
    """The name under which the gateway signs its leaves."""
    targets: tuple[TargetRule, ...] = ()
    """The allow list; empty means that nothing passes."""
    relay_bearer: ConfigPath | None = None
    """File (0600) with the relay's bearer token; without it ``listen.client_ca`` must demand the relay's
    certificate."""
    date_window: int = Field(default=600, ge=60)
    """Seconds that a request's Date may differ from our clock; requests are remembered for it."""
    replay_window: RedisConfig | None = None
    """A Redis server that remembers them instead of the gateway's database."""
    rotation_seconds: int = Field(default=30 * 86400, ge=MIN_ROTATION_SECONDS, le=MAX_ROTATION_SECONDS)
    """Length of a key's period (P3), the same for as long as the gateway exists: devices pin it. A key is active for
    one period and accepted as the previous one for another."""
    max_request: PositiveInt = 262_144
    """Bytes of an encapsulated request, by default the largest size class."""
    max_in_flight: PositiveInt = 256 << 20
    """Bytes that all requests together may hold; above it relays get 503."""
    max_frame: PositiveInt = 4 << 20
    """Bytes of one frame (``tacit.frames``) of a relay that sends several messages together."""
    max_frame_messages: PositiveInt = 256
    """Messages of one frame."""
    group_delay: float = Field(default=0.005, ge=0, le=1)
    """Seconds for which requests wait for others to be remembered with, in one transaction."""
    batch_crypto: bool = False
    """Open requests that arrive together in vector registers, where the processor can; this project's own code then
    handles the private key (``tacit.multibuffer.hpke``)."""
    target_timeout: PositiveFloat = 20.0
    """Seconds that a target has to answer."""
    recipe_server_url: str | None = None
    """Where key configurations are published, without a final slash; without it nowhere."""
    signing_key: ConfigPath | None = None
    """File (0600) with the base64url of the Ed25519 seed that signs leaves, by default ``signing.key`` in
    ``state_dir``; made on the first start."""
    bucket_seconds: int = Field(default=300, ge=60)
    """Width of the time buckets of the traffic counters."""

    @property
    def signing_key_path(self) -> Path:
        """File of the signing key."""
        return self.signing_key or self.state_dir / "signing.key"

    @property
    def key_ring_path(self) -> Path:
        """File of the OHTTP keys."""
        return self.state_dir / "ohttp-keys.json"
