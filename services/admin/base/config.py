"""Configuration of the admin service. Secrets are in separate files that only their owner can read."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from tacit.aggregator.config import LogConfig
from tacit.recipe.policy import Policy
from tacit.service.base.config import ServiceConfig
from tacit.service.base.config_files import ConfigPath, Frozen
from tacit.service.base.hsm import Pkcs11Key


class OwnCollector(Frozen):
    """The organisation's own collector."""

    url: str
    """The collector's base URL."""
    token: ConfigPath
    """File (0600) with the bearer token that this service presents to it."""


class SignInConfig(Frozen):
    """Browser sessions, and the pauses after failed sign-ins."""

    session_seconds: int = Field(default=12 * 3600, ge=60, le=30 * 86400)
    """Seconds from its beginning after which a session ends."""
    idle_seconds: int = Field(default=3600, ge=60, le=30 * 86400)
    """Seconds without a request after which a session ends."""
    free_failures: int = Field(default=5, ge=1, le=100)
    """Failed sign-ins to one account before its first pause, during which every attempt is refused."""
    first_pause_seconds: int = Field(default=2, ge=1)
    """Length of the first pause in seconds; each further failure doubles it."""
    longest_pause_seconds: int = Field(default=900, ge=1)
    """Length of the longest pause in seconds."""
    forget_seconds: int = Field(default=86400, ge=1)
    """Seconds without a failure after which earlier failures are forgotten; a successful sign-in forgets them at
    once."""


class OpenIdConfig(Frozen):
    """Sign-in by OpenID Connect at one provider, beside keys and local accounts. The provider only says who somebody
    is: an administrator gives the role, and an account opens nothing until an invitation has bound it to a person."""

    issuer: Annotated[str, Field(max_length=512)]
    """The provider's issuer URL, exactly as its discovery document has it."""
    client_id: Annotated[str, Field(min_length=1, max_length=255)]
    """The id under which this service is registered at the provider. The redirect URI to register is this service's
    ``public_url`` followed by ``/sign-in/openid/return``."""
    client_secret: ConfigPath | None = None
    """File (0600) with the client's secret; none for a public client, whose sign-ins only PKCE protects."""
    scopes: tuple[Annotated[str, Field(pattern=r"^[!#-\[\]-~]{1,64}$")], ...] = ("openid",)
    """The scopes to request; ``openid`` must be among them, and no other is used here."""
    name: Annotated[str, Field(min_length=1, max_length=64)] = "your organisation's account"
    """What the sign-in page calls an account of the provider."""
    max_age_seconds: Annotated[int | None, Field(ge=0, le=30 * 86400)] = None
    """How long after somebody last authenticated to the provider (with a password, for example) they need not do so
    again; none: the provider decides."""
    ca: ConfigPath | None = None
    """PEM file with a further certificate authority to trust for the provider."""
    timeout_seconds: float = Field(default=10.0, gt=0, le=60)
    """Seconds within which the provider's complete answer must arrive."""

    @model_validator(mode="after")
    def _asks_who(self) -> Self:
        if "openid" not in self.scopes:
            raise ValueError("scopes must include openid")
        return self


PasskeyMode = Literal["off", "optional", "required"]


class AdminConfig(ServiceConfig):
    """The admin service of the analyst's organisation."""

    log: LogConfig
    """The log into which recipes are published."""
    policy: Policy = Policy()
    """The policy against which drafts are checked before they are sent to the log. An approval is bound to it."""
    parties: ConfigPath
    """JSON file with the parties of recipes by model, or only those of secure aggregation (as ``tacit recipe new
    --parties`` reads them). An approval is bound to them."""
    epoch_seconds: Annotated[int, Field(ge=5, le=366 * 86400)] = 86400
    """Length of the issuer's token epochs in seconds."""
    check_in_seconds: Annotated[float, Field(gt=0, le=7 * 86400)] = 60.0
    """How often devices look at the log, in seconds. A question without a start of its own begins late enough for all
    of them to see it."""
    analyst_key: ConfigPath | None = None
    """File (0600) with the key that signs recipes. Without it and without ``analyst_token``, each recipe waits for a
    signature that is made elsewhere."""
    analyst_token: Pkcs11Key | None = None
    """The PKCS#11 token with the key that signs recipes, instead of ``analyst_key``; it needs the extra ``hsm``."""
    collector: OwnCollector | None = None
    """The organisation's collector; without it no results can be collected or shown."""
    people: ConfigPath | None = None
    """File (0600) with the first people, each with name, role and the SHA-256 of the key (``key_sha256``, as
    ``tacit keys show`` prints it). It is read once, when the store has no people yet."""
    persons: Annotated[int, Field(ge=1, le=2)] = 2
    """How many administrators must agree to a change that makes or changes an approver or an administrator. With 1, one
    administrator can act as every person here; the overview then says so. A smaller number takes effect only after the
    earlier delay has passed."""
    approver_delay_seconds: Annotated[int, Field(ge=0, le=30 * 86400)] = 86400
    """With two persons: seconds from a second administrator's consent until the changed person's approvals and consents
    count. Meanwhile everybody sees the change on the overview. A shorter delay takes effect only after the earlier one
    has passed."""
    public_url: str | None = None
    """The URL at which browsers reach the service, if that is not its own address. Behind a proxy that terminates TLS
    it is the proxy's https URL, so that cookies are marked Secure."""
    sign_in: SignInConfig = SignInConfig()
    """Browser sessions, and the pauses after failed sign-ins."""
    openid: OpenIdConfig | None = None
    """Sign-in by OpenID Connect; without it people sign in only with keys and local accounts."""
    passkeys: PasskeyMode = "off"
    """Whether an approver must use a passkey for each approval: nobody (``off``), those who have registered one
    (``optional``) or everybody (``required``). Whoever must cannot approve with an API key alone. Passkeys need
    ``public_url``."""
    passkeys_publish: bool = False
    """Whether publishing needs a passkey in the same way."""
    fleet: ConfigPath | None = None
    """Folder (0700) in which ``tacit staging`` writes counts of its devices for the page and the API. Only a staging
    deployment has one: nobody else can count devices."""
    answer_days: Annotated[int, Field(ge=1, le=365)] = 7
    """How many days the answer to a request with an Idempotency-Key is kept."""
    audit_addresses: bool = False
    """Whether the audit log holds the address that an act came from, instead of only "loopback" or "remote"."""
    max_body: Annotated[int, Field(gt=0)] = 1 << 16
    """Largest request body in bytes."""

    @field_validator("public_url")
    @classmethod
    def _is_origin(cls, given: str | None) -> str | None:
        if given is not None and not re.fullmatch(r"https?://[A-Za-z0-9.:\[\]-]+/?", given):
            raise ValueError("must be the http(s) URL of a host, without a path")
        return given

    @property
    def secure(self) -> bool:
        """Whether browsers reach the service by https."""
        if self.public_url is not None:
            return self.public_url.startswith("https:")
        return self.listen.tls_cert is not None

    @model_validator(mode="after")
    def _url_for_browsers(self) -> Self:
        if self.openid is not None and self.public_url is None:
            raise ValueError("openid needs public_url, because the provider sends browsers back there")
        if self.passkeys != "off" and self.public_url is None:
            raise ValueError("passkeys need public_url, because they are bound to it")
        return self

    @model_validator(mode="after")
    def _one_key(self) -> Self:
        if self.analyst_key is not None and self.analyst_token is not None:
            raise ValueError("analyst_key and analyst_token exclude each other")
        return self
