"""Passkeys (WebAuthn level 3) with which people confirm approvals; an invitation allows a person to register one.

An authenticator signs a challenge made of fresh bytes and of its purpose: the act, the question with its state and
revision, what an approval of it would bind, and the person. So an assertion is not valid for another text, act or
person; it is valid once, within two minutes. The authenticator must have verified its user (by a PIN or a fingerprint,
for example), on a page of this very origin. ``fido2`` checks the messages.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlsplit

from fido2.server import Fido2Server
from fido2.webauthn import (
    AttestedCredentialData,
    AuthenticationResponse,
    PublicKeyCredentialParameters,
    PublicKeyCredentialRpEntity,
    PublicKeyCredentialType,
    PublicKeyCredentialUserEntity,
    RegistrationResponse,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from services.admin.base.config import PasskeyMode
from services.admin.base.problems import Problem, refuse
from services.admin.people.people import Principal
from services.admin.people.sign_in import BY_SESSION
from services.admin.storage.records import Challenge, Passkey, Person
from services.admin.storage.store import PasskeysTx
from tacit.codec import b64url
from tacit.errors import Abort
from tacit.ports import Clock, Entropy
from tacit.tlog.canonical import canonical_bytes

LABEL: Final = b"tacit passkey challenge v1\0"
CHALLENGE_SECONDS: Final = 120
MOST_OF_ONE: Final = 16
"""The most passkeys that a person may have."""
MOST_ID: Final = 512
"""The longest id of a credential that is accepted, in bytes."""
ALGORITHMS: Final = (-8, -7, -257)
"""COSE identifiers of the accepted signature algorithms: EdDSA, ES256 and RS256."""
REGISTER: Final = "register"
_VERIFIED: Final = UserVerificationRequirement.REQUIRED


class Passkeys:
    """Registers and checks passkeys, in the caller's transactions. ``origin``: this service's origin, as browsers see
    it."""

    def __init__(self, mode: PasskeyMode, origin: str, clock: Clock, entropy: Entropy) -> None:
        host = urlsplit(origin).hostname or "localhost"
        self.mode = mode
        self._origin = origin.rstrip("/").lower()
        self._clock = clock
        self._entropy = entropy
        entity = PublicKeyCredentialRpEntity(id=host, name="Tacit")
        self._server = Fido2Server(entity, verify_origin=lambda found: found == self._origin)
        kind = PublicKeyCredentialType.PUBLIC_KEY
        self._server.allowed_algorithms = [PublicKeyCredentialParameters(type=kind, alg=one) for one in ALGORITHMS]

    @property
    def on(self) -> bool:
        """Whether passkeys are registered and checked at all; they may still be optional."""
        return self.mode != "off"

    def require_on(self) -> None:
        """Raises ``Abort`` (404) if this service is configured without passkeys."""
        if not self.on:
            raise refuse(Problem.NOT_FOUND, "this service is configured without passkeys")

    async def needed(self, tx: PasskeysTx, person: Person) -> bool:
        """Whether the person must use a passkey: everybody must, or whoever has one, or nobody."""
        return self.mode == "required" or (self.mode == "optional" and bool(await tx.passkeys(person.id)))

    async def registration(self, tx: PasskeysTx, who: Principal) -> dict[str, Any]:
        """The options with which a browser makes a passkey for ``who``. Raises ``Abort`` (403, 404)."""
        self._require_session(who)
        person = who.person
        known = [AttestedCredentialData(one.credential) for one in await tx.passkeys(person.id)]
        if len(known) >= MOST_OF_ONE:
            raise refuse(Problem.PASSKEY, f"a person has {MOST_OF_ONE} at most; have an administrator revoke one")
        options, _ = self._server.register_begin(
            PublicKeyCredentialUserEntity(id=person.id.encode(), name=person.name, display_name=person.name),
            known,
            resident_key_requirement=ResidentKeyRequirement.DISCOURAGED,
            user_verification=_VERIFIED,
            challenge=await self._challenge(tx, person, _registering(person)),
        )
        return dict(dict(options)["publicKey"])

    async def register(self, tx: PasskeysTx, who: Principal, label: str, answer: Mapping[str, Any]) -> Passkey:
        """Check the browser's ``answer``, and store and return the new passkey. Raises ``Abort`` (403, 404)."""
        self._require_session(who)
        person = who.person
        try:
            response = RegistrationResponse.from_dict(answer)
            state = await self._state(tx, person, response.response.client_data.challenge, _registering(person))
            data = self._server.register_complete(state, response)
            own = data.credential_data
            usable = own is not None and own.public_key[3] in ALGORITHMS and len(own.credential_id) <= MOST_ID
            if own is None or not usable or response.response.client_data.cross_origin:
                raise unusable()
        except (ValueError, TypeError, KeyError, AttributeError, AssertionError, NotImplementedError) as error:
            raise unusable() from error
        if await tx.passkey(own.credential_id) is not None:
            raise refuse(Problem.PASSKEY, "it is already registered")
        now = int(self._clock.now())
        made = Passkey(own.credential_id, person.id, label, now, data.counter, bytes(own))
        await tx.add_passkey(made)
        return made

    async def request(self, tx: PasskeysTx, who: Principal, purpose: Mapping[str, Any]) -> dict[str, Any]:
        """The options with which a browser uses a passkey for ``purpose``. Raises ``Abort`` (403, 404)."""
        self._require_session(who)
        known = [AttestedCredentialData(one.credential) for one in await tx.passkeys(who.person.id)]
        if not known:
            raise refuse(Problem.PASSKEY, "you have no passkey; register one with an invitation from an administrator")
        challenge = await self._challenge(tx, who.person, purpose)
        options, _ = self._server.authenticate_begin(known, _VERIFIED, challenge)
        return dict(dict(options)["publicKey"])

    async def shown(
        self, tx: PasskeysTx, who: Principal, purpose: Mapping[str, Any], answer: Mapping[str, Any] | None
    ) -> str:
        """Check the ``answer`` of a passkey that was used for ``purpose``. Returns the beginning of the passkey's id,
        or an empty text if none was given and none is needed. Raises ``Abort`` (403)."""
        if not self.on or (answer is None and not await self.needed(tx, who.person)):
            return ""
        if answer is None:
            raise refuse(Problem.PASSKEY_NEEDED, "sign in with a browser, and use your passkey there")
        self._require_session(who)
        known = {one.id: one for one in await tx.passkeys(who.person.id)}
        try:
            response = AuthenticationResponse.from_dict(answer)
            state = await self._state(tx, who.person, response.response.client_data.challenge, purpose)
            own = [AttestedCredentialData(one.credential) for one in known.values()]
            used = known[self._server.authenticate_complete(state, own, response).credential_id]
            if response.response.client_data.cross_origin:
                raise unusable()
        except (ValueError, TypeError, KeyError, AttributeError, AssertionError, NotImplementedError) as error:
            raise unusable() from error
        counter = int(response.response.authenticator_data.counter)
        if (counter or used.counter) and counter <= used.counter:
            raise refuse(
                Problem.PASSKEY_COUNTER,
                "its counter went back, so there may be a copy of it; have an administrator revoke it",
            )
        await tx.put_passkey(replace(used, counter=counter))
        return b64url(used.id[:6])

    async def _challenge(self, tx: PasskeysTx, person: Person, purpose: Mapping[str, Any]) -> bytes:
        now, nonce = int(self._clock.now()), self._entropy(32)
        challenge = bound(nonce, purpose)
        await tx.drop_challenges(person_id=person.id, expired_at=now)
        await tx.add_challenge(Challenge(person.id, now + CHALLENGE_SECONDS, nonce, challenge))
        return challenge

    async def _state(
        self, tx: PasskeysTx, person: Person, challenge: bytes, purpose: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Use up the challenge, and return what ``fido2`` compares the answer with. Raises ``Abort`` (403) if the
        challenge is not valid for ``person`` and ``purpose``."""
        challenge_state = await tx.challenge(challenge)
        if (
            challenge_state is None
            or challenge_state.person != person.id
            or self._clock.now() >= challenge_state.expires
        ):
            raise refuse(Problem.PASSKEY, "it took too long, was used before, or is for something else; try again")
        if bound(challenge_state.nonce, purpose) != challenge:
            raise refuse(Problem.PASSKEY, "it was used for another text, state or act; read the question again")
        if not await tx.drop_challenges(person_id=person.id, expired_at=0):
            raise refuse(Problem.PASSKEY, "another request used it at the same moment; check what that request did")
        return {"challenge": b64url(challenge), "user_verification": _VERIFIED}

    def _require_session(self, who: Principal) -> None:
        self.require_on()
        if who.by != BY_SESSION:
            raise refuse(
                Problem.PASSKEY_NEEDED, "a passkey works only in a browser that is signed in, not with an API key"
            )


def bound(nonce: bytes, purpose: Mapping[str, Any]) -> bytes:
    """The challenge that an authenticator signs for ``purpose``."""
    return hashlib.sha256(LABEL + nonce + canonical_bytes(dict(purpose))).digest()


def purpose_of(act: str, person: Person, question_id: str, state: str, revision: int, binding: bytes) -> dict[str, Any]:
    """The purpose of a passkey's use: ``act`` on a question in its present state. ``binding``: the digest that an
    approval of it would bind."""
    return {
        "act": act, "person": person.id, "question": question_id, "state": state, "revision": str(revision),
        "binding": b64url(binding),
    }  # fmt: skip


def unusable() -> Abort:
    """The refusal of an invalid message from an authenticator; it does not say what is wrong."""
    return refuse(Problem.PASSKEY, "the passkey's answer is not valid here")


def _registering(person: Person) -> dict[str, Any]:
    return {"act": REGISTER, "person": person.id}
