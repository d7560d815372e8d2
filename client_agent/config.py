"""The agent's configuration: one JSON or TOML file, unknown members refused.

It pins what a device must know before it trusts anything: the log's key, the issuer's key, the gateway's signing
key with its first OHTTP key configuration, and where relay and attester are (P3). Everything else it learns from
the log.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

from pydantic import Field, field_validator

from client_agent.sources import CsvSourceConfig, JsonLinesSourceConfig, SqliteSourceConfig
from tacit.ledger.account import Account
from tacit.pauses import Backoff
from tacit.recipe.member_types import AttributeName, AttributeValue, DecimalText
from tacit.service.config import ConfigPath, Frozen
from tacit.tlog.leaves import MAX_ROTATION_SECONDS, MIN_ROTATION_SECONDS

Base = Annotated[str, Field(pattern=r"^https?://[\x21-\x7e]*[^/\s]$", max_length=512)]
"""A base URL without a slash at its end."""


class IssuerPin(Frozen):
    """The token issuer: name, Ed25519 key that signs its directories, and the length of its epochs."""

    name: str
    signing_key: str
    epoch_seconds: int = Field(gt=0)


class GatewayPin(Frozen):
    """The OHTTP gateway: name, Ed25519 key of its log leaves, length of its key periods (key sets of periods of another
    length do not count), and the key configuration (base64url) that is active in ``period``, for the first fetch
    (P3)."""

    name: str
    signing_key: str
    rotation_seconds: int = Field(ge=MIN_ROTATION_SECONDS, le=MAX_ROTATION_SECONDS)
    period: int = Field(ge=0)
    key_config: str


class SoftwareAttestation(Frozen):
    """Identity of a software-root device: one PEM file of mode 0600 with its key and its certificates."""

    identity: ConfigPath


class Timing(Frozen):
    """How the agent spreads its traffic. Seconds. ``late_seconds``: for how long after the time that was
    drawn for it a report is still offered; ``resume_seconds``: where that time passed while the device was off, it goes
    out at a random moment of so many seconds. ``join_late``: fetch tokens of an epoch that has already begun, too."""

    poll_seconds: float = Field(default=60.0, gt=0)
    retry_seconds: float = Field(default=5.0, gt=0)
    retry_limit_seconds: float = Field(default=300.0, gt=0)
    late_seconds: float = Field(default=600.0, ge=0)
    resume_seconds: float = Field(default=300.0, ge=0)
    join_late: bool = True

    @property
    def backoff(self) -> Backoff:
        """The pauses after requests that failed."""
        return Backoff(self.retry_seconds, self.retry_limit_seconds)


class Budget(Frozen):
    """The device's own ledger (P21): the claims that are charged within ``days`` compose to at most ``epsilon`` at
    ``delta``, by replacement; their claims (b), against an aggregator with the relay, to ``epsilon_with_relay``
    (absent: twice as much)."""

    epsilon: DecimalText = "10"
    epsilon_with_relay: DecimalText | None = None
    delta: DecimalText = "0.00001"
    days: int = Field(default=365, ge=1)

    @field_validator("delta")
    @classmethod
    def _delta(cls, text: str) -> str:
        if not Decimal("1e-15") <= Decimal(text) < 1:
            raise ValueError("delta must be at least 1e-15 and below 1")
        return text

    @property
    def account(self) -> Account:
        """As an account of its own."""
        beside = 2 * Decimal(self.epsilon) if self.epsilon_with_relay is None else Decimal(self.epsilon_with_relay)
        return Account("device", Decimal(self.epsilon), Decimal(self.delta), self.seconds, beside)

    @property
    def seconds(self) -> int:
        """Length of the window in seconds."""
        return self.days * 86400


class Announcements(Frozen):
    """A broker that says when the log grew; off unless the device's owner wants it (P12).

    A broker sees the address of whoever listens to it. So it is run by ``operator``, who must not be an analyst, knows
    no device by name, and hears nothing from one; the device looks at the log within ``delay_seconds`` of an
    announcement, at a random moment, through the relay as ever.
    """

    operator: str = Field(min_length=1, max_length=253)
    host: str = Field(min_length=1, max_length=253)
    port: int = Field(default=8883, ge=1, le=65535)
    tls: bool = True
    tls_ca: ConfigPath | None = None
    delay_seconds: float = Field(default=30.0, gt=0)


class AgentConfig(Frozen):
    """One device."""

    state_dir: ConfigPath
    log_key: str
    """The transparency log's key as a signed-note key (name+id+base64)."""
    issuer: IssuerPin
    gateway: GatewayPin
    relay_url: Base
    recipe_server_url: Base
    attester_url: Base
    attestation: SoftwareAttestation
    policy: ConfigPath
    source: CsvSourceConfig | JsonLinesSourceConfig | SqliteSourceConfig = Field(discriminator="kind")
    attributes: dict[AttributeName, AttributeValue] = Field(default_factory=dict)
    """The device's own attributes, by which recipes may choose their audience; evaluated on the device alone."""
    timing: Timing = Timing()
    budget: Budget = Budget()
    announcements: Announcements | None = None
    tls_ca: ConfigPath | None = None
    insecure_http: bool = False
