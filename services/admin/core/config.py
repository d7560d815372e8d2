"""Configuration of the admin service. Secrets stand in files of their own, readable by their owner only."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from tacit.aggregator.config import LogConfig
from tacit.recipe.policy import Policy
from tacit.service.config import ConfigPath, Frozen, ServiceConfig
from tacit.service.hsm import Pkcs11Key


class OwnCollector(Frozen):
    """The organisation's own collector."""

    url: str
    """Its URL."""
    token: ConfigPath
    """File (0600) with the bearer token that opens it to this service."""


class SignInConfig(Frozen):
    """Sessions of browsers, and the pauses after failures to sign in."""

    session_seconds: int = Field(default=12 * 3600, ge=60, le=30 * 86400)
    """Seconds after its beginning in which a session ends."""
    idle_seconds: int = Field(default=3600, ge=60, le=30 * 86400)
    """Seconds without a request after which a session ends."""
    free_failures: int = Field(default=5, ge=1, le=100)
    """Failures of one account before the first pause, in which nothing is heard of it."""
    first_pause_seconds: int = Field(default=2, ge=1)
    """Seconds of the first pause; each further failure doubles it."""
    longest_pause_seconds: int = Field(default=900, ge=1)
    """Seconds of the longest pause."""
    forget_seconds: int = Field(default=86400, ge=1)
    """Seconds without a failure after which those of before count no more; a success ends them at once."""


class OpenIdConfig(Frozen):
    """Sign-in by OpenID Connect at one provider, beside keys and local accounts. It says who somebody is and nothing
    else: a role is what an administrator gave, and an account opens nothing before an invitation has bound it to a
    person."""

    issuer: Annotated[str, Field(max_length=512)]
    """The provider's issuer URL, exactly as its discovery document has it."""
    client_id: Annotated[str, Field(min_length=1, max_length=255)]
    """What the provider knows this service by. There the redirect URI is this service's ``public_url`` followed by
    ``/sign-in/openid/return``."""
    client_secret: ConfigPath | None = None
    """File (0600) with the client's secret; none for a public client, whose sign-ins PKCE alone holds together."""
    scopes: tuple[Annotated[str, Field(pattern=r"^[!#-\[\]-~]{1,64}$")], ...] = ("openid",)
    """What is asked for; ``openid`` must be among it, and more is of no use here."""
    name: Annotated[str, Field(min_length=1, max_length=64)] = "your organisation's account"
    """What the sign-in page calls an account of the provider."""
    max_age_seconds: Annotated[int | None, Field(ge=0, le=30 * 86400)] = None
    """For how long after somebody gave the provider a password (or the like) it is not asked for again; none: as the
    provider likes."""
    ca: ConfigPath | None = None
    """PEM file of a further authority to trust for the provider."""
    timeout_seconds: float = Field(default=10.0, gt=0, le=60)
    """Within which the provider must answer in full."""

    @model_validator(mode="after")
    def _asks_who(self) -> Self:
        if "openid" not in self.scopes:
            raise ValueError("scopes must hold openid")
        return self


PasskeyMode = Literal["off", "optional", "required"]


class AdminConfig(ServiceConfig):
    """The admin service of the analyst's organisation."""

    log: LogConfig
    """The log into which recipes are published."""
    policy: Policy = Policy()
    """What drafts are checked against before the log is asked; an approval holds for it."""
    parties: ConfigPath
    """JSON file with the parties of recipes by model, or those of secure aggregation alone (as ``tacit recipe new
    --parties`` takes them); an approval holds for them."""
    epoch_seconds: Annotated[int, Field(ge=5, le=366 * 86400)] = 86400
    """Length of the issuer's token epochs in seconds."""
    check_in_seconds: Annotated[float, Field(gt=0, le=7 * 86400)] = 60.0
    """How often devices look at the log, in seconds: what has no start of its own is published early enough for all."""
    analyst_key: ConfigPath | None = None
    """File (0600) with the key that signs recipes; without it, and without ``analyst_token``, signatures come from
    elsewhere, over the recipe that waits for one."""
    analyst_token: Pkcs11Key | None = None
    """The PKCS#11 token with the key that signs recipes, in the place of ``analyst_key``; it needs the extra
    ``hsm``."""
    collector: OwnCollector | None = None
    """The organisation's collector; without it nothing can be collected or shown of results."""
    people: ConfigPath | None = None
    """File (0600) with the first people, each with name, role and the SHA-256 of the key (``key_sha256``, as
    ``tacit keys show`` prints it); it is read into an empty store, once."""
    persons: Annotated[int, Field(ge=1, le=2)] = 2
    """How many administrators a change needs that makes or changes an approver or an administrator. With 1, one
    administrator can be every person here; the overview then says so. A smaller number holds only once the delay that
    held before has passed."""
    approver_delay_seconds: Annotated[int, Field(ge=0, le=30 * 86400)] = 86400
    """With two persons: seconds from a second administrator's consent until the changed person's approvals and consents
    count. All see the change on the overview meanwhile. A shorter delay holds only once the one before has passed."""
    public_url: str | None = None
    """Where browsers reach the service, if not at its own address: behind a proxy that ends TLS, its https URL, so that
    cookies are marked Secure."""
    sign_in: SignInConfig = SignInConfig()
    """Sessions of browsers, and the pauses after failures to sign in."""
    openid: OpenIdConfig | None = None
    """Sign-in by OpenID Connect; without it keys and local accounts alone open."""
    passkeys: PasskeyMode = "off"
    """Whether an approval needs a passkey of its approver, shown over what is approved: never, of those who have
    registered one, or of everybody. Who needs one approves with no API key alone. It needs ``public_url``."""
    passkeys_publish: bool = False
    """Whether publishing needs a passkey just so."""
    fleet: ConfigPath | None = None
    """Folder (0700) in which ``tacit staging`` tells how its devices are, in counts, for the page and the API. Of a
    staging deployment alone: nobody else can count devices."""
    answer_days: Annotated[int, Field(ge=1, le=365)] = 7
    """Days for which the answer to a request with an Idempotency-Key is kept."""
    audit_addresses: bool = False
    """Whether the audit log holds the address that an act came from, instead of loopback or remote alone."""
    max_body: Annotated[int, Field(gt=0)] = 1 << 16
    """Largest request body in bytes."""

    @field_validator("public_url")
    @classmethod
    def _is_origin(cls, given: str | None) -> str | None:
        if given is not None and not re.fullmatch(r"https?://[A-Za-z0-9.:\[\]-]+/?", given):
            raise ValueError("takes the http(s) URL of a host, without a path")
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
            raise ValueError("openid needs public_url, to which the provider sends browsers back")
        if self.passkeys != "off" and self.public_url is None:
            raise ValueError("passkeys need public_url, which they are bound to")
        return self

    @model_validator(mode="after")
    def _one_key(self) -> Self:
        if self.analyst_key is not None and self.analyst_token is not None:
            raise ValueError("analyst_key and analyst_token exclude each other")
        return self
