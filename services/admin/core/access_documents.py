"""Documents of accounts of a sign-in provider, of invitations and of passkeys."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from services.admin.core.documents import Document, PosixSeconds


class OpenIdBody(Document):
    """A sign-in at the provider: ``invitation``, where it shall bind the account; ``next``: where to go afterwards."""

    invitation: Annotated[str | None, Field(max_length=128)] = None
    next: Annotated[str | None, Field(max_length=1024)] = None


class AuthorizationDocument(Document):
    """The URL at which a browser signs in, within ten minutes."""

    url: str


class OpenIdReturn(Document):
    """What the provider sent the browser back with: ``state`` and ``code``, or ``error``."""

    state: Annotated[str, Field(max_length=128)]
    code: Annotated[str | None, Field(min_length=1, max_length=4096)] = None
    error: Annotated[str | None, Field(max_length=256)] = None
    iss: Annotated[str | None, Field(max_length=512)] = None


class InvitationDocument(Document):
    """An invitation, shown this once: by it the person binds an account of the sign-in provider."""

    person: str
    expires: PosixSeconds
    invitation: str = Field(repr=False)


class PasskeyOptionsBody(Document):
    """Before a passkey is registered: the ``invitation`` that allows it."""

    invitation: Annotated[str, Field(max_length=128)]


class OptionsDocument(Document):
    """``options``: what a browser's ``navigator.credentials`` takes as ``publicKey``, binary members in base64url."""

    options: dict[str, Any]


class PasskeyBody(Document):
    """A passkey that a browser made, as WebAuthn's ``toJSON`` writes it."""

    invitation: Annotated[str, Field(max_length=128)]
    label: Annotated[str, Field(max_length=64)] = ""
    credential: dict[str, Any]


class PasskeyDocument(Document):
    """A passkey: its id in base64url, and how often its authenticator says that it was used."""

    id: str
    label: str
    created: PosixSeconds
    counter: int


class PasskeyList(Document):
    """Passkeys, the oldest first."""

    passkeys: list[PasskeyDocument]


class AssertionBody(Document):
    """The act for which a passkey is used."""

    act: Literal["approve", "publish"]


class ActBody(Document):
    """``assertion``: a passkey's answer as WebAuthn's ``toJSON`` writes it, where the act needs one."""

    may_be_left_out: ClassVar[bool] = True
    assertion: dict[str, Any] | None = None
