"""One sign-in by OpenID Connect, from the browser that begins it to the person who signed in.

A sign-in is bound to a secret that is drawn when it begins and kept only by the browser, in a cookie that scripts
cannot read; state, nonce and PKCE verifier are derived from it. So nobody outside can fill a table of this service, and
an answer of the provider is valid only in that browser, and only once. An account is the pair of issuer and subject, of
which a digest is kept; an administrator's invitation binds it to a person. Names and addresses that the provider tells
are ignored.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import dataclass, field, replace
from typing import Final

from services.admin.base.problems import Problem, refuse
from services.admin.people.consent import Consent
from services.admin.people.openid import Proof
from services.admin.people.people import existing
from services.admin.storage import audit
from services.admin.storage.records import Act, Invitation, Person
from services.admin.storage.store import AdminTx, PeopleTx
from tacit.codec import b64url, unb64url
from tacit.errors import Abort, DecodeError
from tacit.ports import Entropy
from tacit.service.documents.admin_people import Kind
from tacit.service.http.auth import token_digest

FLOW_COOKIE: Final = "tacit_openid"
FLOW_SECONDS: Final = 600
"""How many seconds a person may take to sign in at the provider."""
INVITATION_SECONDS: Final = 7 * 86400
INVITATION_PREFIX: Final = "invite-"
MOST_TARGET: Final = 1024


@dataclass(frozen=True, slots=True)
class Flow:
    """A sign-in that has begun. ``secret``: 32 bytes; ``at``: when it began, in POSIX seconds; ``invitation``: its
    text, or empty; ``target``: the page to open afterwards."""

    secret: bytes = field(repr=False)
    at: int
    invitation: str = field(default="", repr=False)
    target: str = "/"

    @property
    def proof(self) -> Proof:
        """The values that this sign-in is bound to."""
        verifier = self._derive("verifier")
        challenge = b64url(hashlib.sha256(verifier.encode()).digest())
        return Proof(self._derive("state"), self._derive("nonce"), verifier, challenge)

    def _derive(self, purpose: str) -> str:
        return b64url(hashlib.sha256(f"tacit openid {purpose} v1\0".encode() + self.secret).digest())

    def cookie(self) -> str:
        """The sign-in as the text of the browser's cookie."""
        return b64url(json.dumps([b64url(self.secret), self.at, self.invitation, self.target]).encode())


def begun(entropy: Entropy, now: int, invitation: str, target: str) -> Flow:
    """Begin a sign-in at ``now`` (POSIX seconds). A ``target`` that is too long is replaced by the overview."""
    return Flow(entropy(32), now, invitation, target if len(target) <= MOST_TARGET else "/")


def target_of(cookie: str) -> str:
    """The page that a browser with this cookie wanted to open; unverified."""
    try:
        return str(json.loads(unb64url(cookie))[3])
    except (DecodeError, ValueError, TypeError, LookupError, RecursionError):
        return "/"


def flow_of(cookie: str, state: str, now: int) -> Flow:
    """The sign-in that the browser with this cookie began. Raises ``Abort`` (403) if it is too old or ``state`` is not
    its state."""
    try:
        secret, at, invitation, target = json.loads(unb64url(cookie))
        flow = Flow(unb64url(secret, length=32), int(at), str(invitation), str(target))
    except (DecodeError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise stray() from error
    if not flow.at <= now < flow.at + FLOW_SECONDS:
        raise stray()
    if not hmac.compare_digest(state.encode("utf-8", "surrogateescape"), flow.proof.state.encode()):
        raise stray()
    return flow


def stray() -> Abort:
    """The refusal of a provider's answer for which this browser does not wait."""
    return refuse(
        Problem.STRAY, "it was not begun in this browser, took too long, or was already completed; begin again"
    )


def identity_of(issuer: str, subject: str) -> str:
    """The digest under which an account of the provider is stored, in hexadecimal."""
    return hashlib.sha256(f"tacit identity v1\0{issuer}\0{subject}".encode()).hexdigest()


async def invite(tx: PeopleTx, entropy: Entropy, person_id: str, now: int) -> tuple[Invitation, str]:
    """Make an invitation of a person, in place of an earlier one. Returns it with its text, which nobody can read
    again. Raises ``Abort`` (404)."""
    await existing(tx, person_id)
    text, digest = new_invitation(entropy)
    return await put_invitation(tx, person_id, digest, now), text


def new_invitation(entropy: Entropy) -> tuple[str, bytes]:
    """The text of a fresh invitation, and its digest."""
    text = INVITATION_PREFIX + b64url(entropy(32))
    return text, token_digest(text)


async def put_invitation(tx: PeopleTx, person_id: str, digest: bytes, now: int) -> Invitation:
    """Store an invitation with this digest that is valid for ``INVITATION_SECONDS`` from ``now`` (POSIX seconds), in
    place of the person's earlier one."""
    invitation = Invitation(person_id, now + INVITATION_SECONDS, digest)
    await tx.drop_invitations(person_id=person_id, expired_at=now)
    await tx.add_invitation(invitation)
    return invitation


async def take_invitation(tx: PeopleTx, text: str, person: Person, now: int) -> None:
    """Use up the invitation of ``person`` with this text. Raises ``Abort`` (403) if it is not valid."""
    await require_invitation(tx, text, person, now)
    await tx.drop_invitations(person_id=person.id, expired_at=now)


async def require_invitation(tx: PeopleTx, text: str, person: Person, now: int) -> None:
    """Check that ``text`` is a valid invitation of ``person``. Raises ``Abort`` (403) if not."""
    invitation = await tx.invitation(token_digest(text.encode("utf-8", "surrogateescape")))
    if invitation is None or invitation.person != person.id or now >= invitation.expires:
        raise refuse(Problem.INVITATION, "it was used, has expired, or was revoked; ask for another one")


async def unbind(tx: PeopleTx, person_id: str, now: int) -> Person:
    """Unbind the person's account, revoke their invitation and end their sessions. Returns the changed person. Raises
    ``Abort`` (404)."""
    person = replace(await existing(tx, person_id), identity=None)
    await tx.put_person(person)
    await tx.drop_invitations(person_id=person_id, expired_at=now)
    await tx.drop_sessions(person_id=person_id)
    return person


async def person_of(tx: AdminTx, flow: Flow, identity: str, now: int, source: str, consent: Consent) -> Person:
    """Complete the sign-in ``flow`` with the account ``identity`` and return the person. If the flow has an invitation,
    the account is first bound to the invited person. A flow is valid once. Raises ``Abort``: 403 if the account is
    bound to nobody or the invitation is not valid, 409 if the account is bound to somebody else."""
    if not await tx.use_flow(token_digest(flow.proof.state), now, now - FLOW_SECONDS):
        raise stray()
    person = await tx.person_identified(identity)
    if flow.invitation:
        invitation = await tx.invitation(token_digest(flow.invitation))
        if invitation is None or now >= invitation.expires:
            raise refuse(Problem.INVITATION, "it was used, has expired, or was revoked; ask for another one")
        if person is not None and person.id != invitation.person:
            raise refuse(Problem.IDENTITY_TAKEN, "sign out at the provider, and sign in there as yourself")
        invited = await existing(tx, invitation.person)
        if invited.identity is not None and invited.identity != identity:
            await tx.drop_sessions(person_id=invited.id)  # the earlier account is no longer valid
        person = await consent.note(
            tx, replace(invited, identity=identity), Kind.ACCOUNT, f"bound the account {identity[:16]}"
        )
        await tx.put_person(person)
        await tx.drop_invitations(person_id=person.id, expired_at=now)
        await audit.record(
            tx, Act(person.id, "person.bind", person.id, now, source, "done", f"account {identity[:16]}")
        )
    if person is None or person.disabled:
        raise refuse(Problem.UNBOUND, "ask an administrator for an invitation")
    return person
