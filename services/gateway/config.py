"""Configuration of the OHTTP gateway."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, PositiveFloat, PositiveInt

from tacit.service.base.backends import RedisConfig
from tacit.service.base.config import ServiceConfig
from tacit.service.base.config_files import ConfigPath, Frozen
from tacit.tlog.key_sets import MAX_ROTATION_SECONDS, MIN_ROTATION_SECONDS


class TargetRule(Frozen):
    """Requests that the gateway forwards to one target."""

    origin: str
    """Origin of the target, ``https://HOST:PORT``; requests must name exactly this origin."""
    path_prefix: str = Field(default="/", pattern=r"^/")
    """Only requests for paths at or below this one are forwarded."""
    methods: tuple[str, ...] = Field(default=("POST",), min_length=1)
    """Only requests with one of these methods are forwarded."""
    bearer: ConfigPath | None = None
    """File (0600) with the bearer token with which this gateway authenticates to the target."""
    frames: bool = False
    """Whether the target is a leader of this software that knows this gateway: uploads that are ready at the same time
    then go to it in one request, in random order. ``path_prefix`` is then the leader's prefix, with or without
    ``/tasks/``."""

    @property
    def leader_url(self) -> str:
        """``origin`` and ``path_prefix`` without a final slash and ``/tasks``; ``/tasks/...`` and ``/uploads`` follow
        it."""
        return self.origin + self.path_prefix.rstrip("/").removesuffix("/tasks")


class GatewayConfig(ServiceConfig):
    """Configuration of a gateway, which opens requests from one relay and forwards them to listed targets."""

    operator: str = Field(default="gateway", pattern=r"^[A-Za-z0-9][A-Za-z0-9.:_-]{0,252}$")
    """The name under which the gateway signs its log entries."""
    targets: tuple[TargetRule, ...] = ()
    """The allow list; if it is empty, nothing is forwarded."""
    relay_bearer: ConfigPath | None = None
    """File (0600) with the relay's bearer token; without it ``listen.client_ca`` must demand the relay's
    certificate."""
    date_window: int = Field(default=600, ge=60)
    """Most seconds by which a request's Date may differ from the gateway's clock; requests are remembered for ten
    minutes more."""
    replay_window: RedisConfig | None = None
    """A Redis server that remembers requests instead of the gateway's database."""
    rotation_seconds: int = Field(default=30 * 86400, ge=MIN_ROTATION_SECONDS, le=MAX_ROTATION_SECONDS)
    """Length in seconds of a key's period (P3). It must stay the same for as long as the gateway exists, since devices
    pin it. A key is active for one period, and accepted as the previous key for the next."""
    max_request: PositiveInt = 262_144
    """Most bytes of an encapsulated request; by default the largest size class of usual requests. As at the relay,
    1,048,576 or 4,194,304 take large reports too."""
    max_in_flight: PositiveInt = 256 << 20
    """Most bytes that all requests together may hold; above this, relays get 503. Requests above 262,144 bytes may
    hold half of it."""
    max_frame: PositiveInt = 4 << 20
    """Most bytes of one frame (``tacit.message_frames``) of a relay that sends several messages together."""
    max_frame_messages: PositiveInt = 256
    """Most messages in one frame."""
    group_delay: float = Field(default=0.005, ge=0, le=1)
    """Seconds that a request waits for others to be remembered in the same transaction."""
    batch_crypto: bool = False
    """Open requests that arrive together in vector registers, if the processor supports it; this project's own code
    then handles the private key (``tacit.multibuffer.hpke``)."""
    target_timeout: PositiveFloat = 20.0
    """Seconds that a target has to answer."""
    recipe_server_url: str | None = None
    """URL of the recipe server, without a final slash, to which key configurations are published; without it none are
    published."""
    signing_key: ConfigPath | None = None
    """File (0600) with the base64url of the Ed25519 seed that signs log entries; by default ``signing.key`` in
    ``state_dir``. Made on the first start."""
    bucket_seconds: int = Field(default=300, ge=60)
    """Width in seconds of the time buckets of the traffic counters."""

    @property
    def signing_key_path(self) -> Path:
        return self.signing_key or self.state_dir / "signing.key"

    @property
    def key_ring_path(self) -> Path:
        return self.state_dir / "ohttp-keys.json"
