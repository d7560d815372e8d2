"""Documents about accounts of a sign-in provider, invitations and passkeys."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from tacit.service.documents.admin import Document, PosixSeconds


class OpenIdBody(Document):
    """The start of a sign-in at the provider. ``invitation``: given to bind the account to a person; ``next``: the page
    to open afterwards."""

    invitation: Annotated[str | None, Field(max_length=128)] = None
    next: Annotated[str | None, Field(max_length=1024)] = None


class AuthorizationDocument(Document):
    """The provider's URL at which the browser has to sign in within ten minutes."""

    url: str


class OpenIdReturn(Document):
    """The parameters with which the provider sent the browser back: ``state`` and either ``code`` or ``error``."""

    state: Annotated[str, Field(max_length=128)]
    code: Annotated[str | None, Field(min_length=1, max_length=4096)] = None
    error: Annotated[str | None, Field(max_length=256)] = None
    iss: Annotated[str | None, Field(max_length=512)] = None


class PasskeyOptionsBody(Document):
    """A request for the options to register a passkey, with the ``invitation`` that allows it."""

    invitation: Annotated[str, Field(max_length=128)]


class OptionsDocument(Document):
    """``options``: the ``publicKey`` argument for a browser's ``navigator.credentials``, binary members in
    base64url."""

    options: dict[str, Any]


class PasskeyBody(Document):
    """A passkey that a browser made, in the form of WebAuthn's ``toJSON``."""

    invitation: Annotated[str, Field(max_length=128)]
    label: Annotated[str, Field(max_length=64)] = ""
    credential: dict[str, Any]


class PasskeyDocument(Document):
    """A passkey: its ``id`` in base64url, and ``counter``, the number of uses that its authenticator reports."""

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
    """``assertion``: a passkey's answer in the form of WebAuthn's ``toJSON``, if the act needs one."""

    may_be_left_out: ClassVar[bool] = True
    assertion: dict[str, Any] | None = None
