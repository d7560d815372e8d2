"""Passkeys (WebAuthn level 3) by which people approve: registered by an invitation, and shown over what is approved.

What an authenticator signs is a challenge made of fresh bytes and of what it is for: the act, the question with its
state and revision, what an approval of it would bind, and the person. So an assertion is worth nothing for another
text, another act or another person; it counts once, within two minutes. The authenticator must have verified its user
(a PIN, a finger), on a page of this very origin. ``fido2`` checks the messages.
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
    AuthenticatorData,
    PublicKeyCredentialParameters,
    PublicKeyCredentialRpEntity,
    PublicKeyCredentialType,
    PublicKeyCredentialUserEntity,
    RegistrationResponse,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from services.admin.core.config import PasskeyMode
from services.admin.core.people import Principal
from services.admin.core.ports import PasskeysTx
from services.admin.core.problems import Problem, refuse
from services.admin.core.records import Challenge, Passkey, Person
from services.admin.core.sign_in import BY_SESSION
from tacit.codec import b64url
from tacit.errors import Abort
from tacit.ports import Clock, Entropy
from tacit.tlog.canonical import canonical_bytes

LABEL: Final = b"tacit passkey challenge v1\0"
CHALLENGE_SECONDS: Final = 120
MOST_OF_ONE: Final = 16
"""The most passkeys that a person may have."""
MOST_ID: Final = 512
"""Bytes of a credential's id that are taken."""
ALGORITHMS: Final = (-8, -7, -257)
"""COSE: EdDSA, ES256, RS256."""
REGISTER: Final = "register"
_VERIFIED: Final = UserVerificationRequirement.REQUIRED


class Passkeys:
    """Over a transaction of the caller's. ``origin``: of this service, as browsers have it."""

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
        """Whether there are passkeys here."""
        return self.mode != "off"

    def require_on(self) -> None:
        """Raises ``Abort`` (404)."""
        if not self.on:
            raise refuse(Problem.NOT_FOUND, "this service is configured without passkeys")

    async def needed(self, tx: PasskeysTx, person: Person) -> bool:
        """Whether the person must show one: everybody, or whoever has one."""
        return self.mode == "required" or (self.mode == "optional" and bool(await tx.passkeys(person.id)))

    async def registration(self, tx: PasskeysTx, who: Principal) -> dict[str, Any]:
        """What a browser is asked to make a passkey by. Raises ``Abort`` (403, 404)."""
        self._require_session(who)
        person = who.person
        known = [AttestedCredentialData(one.credential) for one in await tx.passkeys(person.id)]
        if len(known) >= MOST_OF_ONE:
            raise refuse(Problem.PASSKEY, f"a person has {MOST_OF_ONE} at most; let an administrator take one")
        options, _ = self._server.register_begin(
            PublicKeyCredentialUserEntity(id=person.id.encode(), name=person.name, display_name=person.name),
            known,
            resident_key_requirement=ResidentKeyRequirement.DISCOURAGED,
            user_verification=_VERIFIED,
            challenge=await self._challenge(tx, person, _registering(person)),
        )
        return dict(dict(options)["publicKey"])

    async def register(self, tx: PasskeysTx, who: Principal, label: str, answer: Mapping[str, Any]) -> Passkey:
        """The new passkey. Raises ``Abort`` (403)."""
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
        """What a browser is asked to show a passkey by, for ``purpose``. Raises ``Abort`` (403, 404)."""
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
        """The beginning of the id of the passkey that was shown for ``purpose``, or nothing where none is needed.
        Raises ``Abort`` (403)."""
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
        counter = _counter(response.response.authenticator_data)
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
        """What ``fido2`` compares an answer with; the challenge counts no more. Raises ``Abort`` (403)."""
        found = await tx.challenge(challenge)
        if found is None or found.person != person.id or self._clock.now() >= found.expires:
            raise refuse(Problem.PASSKEY, "it took too long, was used before, or is for something else; try again")
        if bound(found.nonce, purpose) != challenge:
            raise refuse(Problem.PASSKEY, "it was used for another text, state or act; read the question again")
        if not await tx.drop_challenges(person_id=person.id, expired_at=0):
            raise refuse(Problem.PASSKEY, "another request used it at the same moment; check what that request did")
        return {"challenge": b64url(challenge), "user_verification": _VERIFIED}

    def _require_session(self, who: Principal) -> None:
        self.require_on()
        if who.by != BY_SESSION:
            raise refuse(
                Problem.PASSKEY_NEEDED, "a passkey is used in a browser that is signed in, not with an API key"
            )


def bound(nonce: bytes, purpose: Mapping[str, Any]) -> bytes:
    """The challenge that an authenticator signs for ``purpose``."""
    return hashlib.sha256(LABEL + nonce + canonical_bytes(dict(purpose))).digest()


def purpose_of(act: str, person: Person, question_id: str, state: str, revision: int, binding: bytes) -> dict[str, Any]:
    """What a passkey is shown for: ``act`` on a question as it is; ``binding``: what an approval of it binds."""
    return {
        "act": act, "person": person.id, "question": question_id, "state": state, "revision": str(revision),
        "binding": b64url(binding),
    }  # fmt: skip


def unusable() -> Abort:
    """The refusal of an authenticator's message that is not valid; it does not say why."""
    return refuse(Problem.PASSKEY, "the passkey's answer is not valid here")


def _registering(person: Person) -> dict[str, Any]:
    return {"act": REGISTER, "person": person.id}


def _counter(data: AuthenticatorData) -> int:
    return int(data.counter)
