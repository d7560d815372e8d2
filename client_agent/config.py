"""The agent's configuration: one JSON or TOML file, unknown members refused.

It pins what a device must know before it trusts anything: the log's key, the issuer's key, the gateway's signing
key with its first OHTTP key configuration, and where relay and attester are (P3). Everything else it learns from
the log.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

from pydantic import Field, field_validator

from client_agent.data.sources import CsvSourceConfig, JsonLinesSourceConfig, SqliteSourceConfig
from client_agent.limits import MAX_CLOCK_ERROR
from tacit.backoff import Backoff
from tacit.ledger.account import Account
from tacit.recipe.member_types import AttributeName, AttributeValue, DecimalText
from tacit.service.base.config_files import ConfigPath, Frozen
from tacit.tlog.key_sets import MAX_ROTATION_SECONDS, MIN_ROTATION_SECONDS

Base = Annotated[str, Field(pattern=r"^https?://[\x21-\x7e]*[^/\s]$", max_length=512)]
"""A base URL without a final slash."""

LOCK = "agent.lock"
"""Name of the file in the state folder that an agent at work has locked."""


class IssuerPin(Frozen):
    """The name and the key of the token issuer that the device trusts."""

    name: str
    """The issuer's name in challenges."""
    signing_key: str
    """The Ed25519 key that signs the issuer's directories (base64url)."""
    epoch_seconds: int = Field(gt=0)
    """Length of the issuer's epochs in seconds."""


class GatewayPin(Frozen):
    """The name and the key of the OHTTP gateway that the device trusts."""

    name: str
    """The gateway's name in the log."""
    signing_key: str
    """The Ed25519 key that signs the gateway's log entries (base64url)."""
    rotation_seconds: int = Field(ge=MIN_ROTATION_SECONDS, le=MAX_ROTATION_SECONDS)
    """Length of the gateway's key periods in seconds; key sets with another length are ignored."""
    period: int = Field(ge=0)
    """The number of the period in which ``key_config`` is active."""
    key_config: str
    """The key configuration (base64url) that is active in ``period``, for the first fetch (P3)."""


class SoftwareAttestation(Frozen):
    """Identity of a software-root device."""

    identity: ConfigPath
    """PEM file (0600) with the device's key and its certificates."""


class Timing(Frozen):
    """How the agent spreads its traffic over time."""

    poll_seconds: float = Field(default=60.0, gt=0)
    """Mean pause in seconds between two readings of the log."""
    retry_seconds: float = Field(default=5.0, gt=0)
    """Seconds before the retry of a first failed request; each further pause is longer."""
    retry_limit_seconds: float = Field(default=300.0, gt=0)
    """The longest of these pauses in seconds."""
    late_seconds: float = Field(default=600.0, ge=0)
    """Seconds after its planned time for which a report is still offered."""
    resume_seconds: float = Field(default=300.0, ge=0)
    """If the planned time passed while the device was off, the report is sent at a random moment of this many
    seconds."""
    join_late: bool = True
    """Whether to fetch tokens of an epoch that has already begun, too."""
    tick_seconds: float = Field(default=1.0, ge=0.1, le=3600)
    """Seconds after which the encrypted state of watched events is replaced in memory."""

    @property
    def backoff(self) -> Backoff:
        """The pauses after failed requests."""
        return Backoff(self.retry_seconds, self.retry_limit_seconds)


class Budget(Frozen):
    """The device's own privacy ledger (P21)."""

    epsilon: DecimalText = "10"
    """Upper bound on the composed epsilon of the claims (a) that are charged within ``days``; adjacency is by
    replacement."""
    epsilon_with_relay: DecimalText | None = None
    """The same bound for the claims (b), against an aggregator together with the relay; absent: twice ``epsilon``."""
    delta: DecimalText = "0.00001"
    """The delta at which the claims are composed."""
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
        beside = 2 * Decimal(self.epsilon) if self.epsilon_with_relay is None else Decimal(self.epsilon_with_relay)
        return Account("device", Decimal(self.epsilon), Decimal(self.delta), self.seconds, beside)

    @property
    def seconds(self) -> int:
        """Length of the window in seconds: ``days`` of 86,400 each."""
        return self.days * 86400


class Announcements(Frozen):
    """A broker that announces growth of the log; off unless the device's owner wants it (P12).

    A broker sees the addresses of its listeners. It knows no device by name, and receives nothing from one.
    """

    operator: str = Field(min_length=1, max_length=253)
    """Who runs the broker; this must not be an analyst."""
    host: str = Field(min_length=1, max_length=253)
    """Host name or address of the broker."""
    port: int = Field(default=8883, ge=1, le=65535)
    """The port of the MQTT broker."""
    tls: bool = True
    """Whether to connect over TLS; without it only to loopback, or with ``insecure_http``."""
    tls_ca: ConfigPath | None = None
    """PEM file of the authority that the broker's certificate must come from; by default the system's authorities."""
    delay_seconds: float = Field(default=30.0, gt=0)
    """After an announcement the device reads the log at a random moment within this many seconds, through the relay as
    always."""


class AgentConfig(Frozen):
    """Configuration of one device: where its data are, whom it trusts, and what it allows."""

    state_dir: ConfigPath
    """The device's own folder: journal, tokens, ledger."""
    log_key: str
    """The transparency log's key as a signed-note key (name+id+base64)."""
    issuer: IssuerPin
    """The token issuer that the device trusts."""
    gateway: GatewayPin
    """The OHTTP gateway, pinned."""
    relay_url: Base
    """URL of the relay, which gets everything but token requests."""
    recipe_server_url: Base
    """URL of the recipe server (the log), as the gateway reaches it."""
    attester_url: Base
    """URL of the attester, from which tokens are requested without the relay."""
    attestation: SoftwareAttestation
    """The identity with which the device proves itself to the attester."""
    policy: ConfigPath
    """File with what the device demands of a recipe (JSON or TOML)."""
    source: CsvSourceConfig | JsonLinesSourceConfig | SqliteSourceConfig | None = Field(
        default=None, discriminator="kind"
    )
    """Where the device's own data are. Absent if an application embeds the agent and supplies the data itself."""
    attributes: dict[AttributeName, AttributeValue] = Field(default_factory=dict)
    """The device's own attributes, by which recipes may choose their audience; they are evaluated only on the
    device."""
    timing: Timing = Timing()
    """How the agent spreads its traffic. Seconds."""
    learning: bool = True
    """Whether to train models: rounds that do are refused where this is false, or where NumPy (extra ``learn``) is not
    installed."""
    budget: Budget = Budget()
    """What recipes may cost the device in privacy."""
    announcements: Announcements | None = None
    """A broker that announces growth of the log; without it the device only polls."""
    tls_ca: ConfigPath | None = None
    """PEM file of an additional authority to trust for relay and attester."""
    insecure_http: bool = False
    """Allow plain HTTP to other machines. For tests; never with people's data."""
    clock_error_seconds: float = Field(default=0.0, ge=-MAX_CLOCK_ERROR, le=MAX_CLOCK_ERROR, allow_inf_nan=False)
    """Seconds by which the agent takes the time to be later than the machine says (negative: earlier). For staging, to
    see what wrong clocks do; never with people's data."""
