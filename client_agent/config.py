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

MAX_CLOCK_ERROR = 366 * 86400.0


class IssuerPin(Frozen):
    """The token issuer."""

    name: str
    """Its name in challenges."""
    signing_key: str
    """The Ed25519 key that signs its directories (base64url)."""
    epoch_seconds: int = Field(gt=0)
    """Length of its epochs."""


class GatewayPin(Frozen):
    """The OHTTP gateway."""

    name: str
    """Its name in the log."""
    signing_key: str
    """The Ed25519 key of its log leaves (base64url)."""
    rotation_seconds: int = Field(ge=MIN_ROTATION_SECONDS, le=MAX_ROTATION_SECONDS)
    """Length of its key periods; key sets of periods of another length do not count."""
    period: int = Field(ge=0)
    """The period of ``key_config``."""
    key_config: str
    """The key configuration (base64url) that is active in ``period``, for the first fetch (P3)."""


class SoftwareAttestation(Frozen):
    """Identity of a software-root device."""

    identity: ConfigPath
    """PEM file (0600) with its key and its certificates."""


class Timing(Frozen):
    """How the agent spreads its traffic."""

    poll_seconds: float = Field(default=60.0, gt=0)
    """Pause between two looks at the log."""
    retry_seconds: float = Field(default=5.0, gt=0)
    """Pause after the first request that failed; each further one is longer."""
    retry_limit_seconds: float = Field(default=300.0, gt=0)
    """The longest of these pauses."""
    late_seconds: float = Field(default=600.0, ge=0)
    """For how long after the time that was drawn for it a report is still offered."""
    resume_seconds: float = Field(default=300.0, ge=0)
    """Where that time passed while the device was off, it goes out at a random moment of so many seconds."""
    join_late: bool = True
    """Fetch tokens of an epoch that has already begun, too."""
    tick_seconds: float = Field(default=1.0, ge=0.1, le=3600)
    """How often the encrypted state of watched events is replaced in memory."""

    @property
    def backoff(self) -> Backoff:
        """The pauses after requests that failed."""
        return Backoff(self.retry_seconds, self.retry_limit_seconds)


class Budget(Frozen):
    """The device's own ledger (P21)."""

    epsilon: DecimalText = "10"
    """The claims (a) that are charged within ``days`` compose to at most this, by replacement."""
    epsilon_with_relay: DecimalText | None = None
    """The same of their claims (b), against an aggregator with the relay; absent: twice ``epsilon``."""
    delta: DecimalText = "0.00001"
    """At which they are composed."""
    days: int = Field(default=365, ge=1)
    """Length of the window in days."""

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

    A broker sees the address of whoever listens to it. It knows no device by name, and hears nothing from one.
    """

    operator: str = Field(min_length=1, max_length=253)
    """Who runs the broker: nobody who is an analyst."""
    host: str = Field(min_length=1, max_length=253)
    """Where it is."""
    port: int = Field(default=8883, ge=1, le=65535)
    """Its port."""
    tls: bool = True
    """Whether it is spoken to over TLS; without it only on loopback, or with ``insecure_http``."""
    tls_ca: ConfigPath | None = None
    """PEM file of the authority to trust for it, by default the system's."""
    delay_seconds: float = Field(default=30.0, gt=0)
    """The device looks at the log within so many seconds of an announcement, at a random moment, through the relay as
    ever."""


class AgentConfig(Frozen):
    """One device."""

    state_dir: ConfigPath
    """The device's own folder: journal, tokens, ledger."""
    log_key: str
    """The transparency log's key as a signed-note key (name+id+base64)."""
    issuer: IssuerPin
    """The token issuer, pinned."""
    gateway: GatewayPin
    """The OHTTP gateway, pinned."""
    relay_url: Base
    """Where everything but token requests is sent."""
    recipe_server_url: Base
    """The log, as the gateway reaches it."""
    attester_url: Base
    """Where tokens are asked for, without the relay."""
    attestation: SoftwareAttestation
    """By which the attester knows the device."""
    policy: ConfigPath
    """File with what the device demands of a recipe (JSON or TOML)."""
    source: CsvSourceConfig | JsonLinesSourceConfig | SqliteSourceConfig | None = Field(
        default=None, discriminator="kind"
    )
    """Where the device's own data is; absent where an application embeds the agent, and is asked itself."""
    attributes: dict[AttributeName, AttributeValue] = Field(default_factory=dict)
    """The device's own attributes, by which recipes may choose their audience; evaluated on the device alone."""
    timing: Timing = Timing()
    """How the agent spreads its traffic. Seconds."""
    budget: Budget = Budget()
    """What recipes may cost the device."""
    announcements: Announcements | None = None
    """A broker that says when the log grew; absent: none is listened to."""
    tls_ca: ConfigPath | None = None
    """PEM file of a further authority to trust for relay and attester."""
    insecure_http: bool = False
    """Plain connections to other machines are allowed. For tests; never with people's data."""
    clock_error_seconds: float = Field(default=0.0, ge=-MAX_CLOCK_ERROR, le=MAX_CLOCK_ERROR, allow_inf_nan=False)
    """The agent takes the time for so much later than the machine says (negative: earlier). For staging, to see what
    wrong clocks do; never with people's data."""
