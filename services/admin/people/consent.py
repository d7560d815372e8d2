"""Consent: a change to an approver or administrator needs a second administrator, and all see it before it counts.

An act that gives such a person a role or a way to sign in is not done at once. It waits as a ``Change`` that everybody
can see, until a second administrator consents to exactly that change (its digest covers what will be done, who asked
for it, and how the person could sign in at that time). Then it is done, and the person's approvals and consents count
only after the delay of the rule. Acts that take power away need no consent.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from services.admin.base.problems import Problem, not_found, refuse
from services.admin.people.people import POWERFUL, Principal, new_id
from services.admin.storage.consent_store import ConsentTx
from services.admin.storage.records import Change, KeptRule, Person
from services.admin.storage.store import AdminTx
from tacit.codec import b64url
from tacit.errors import Abort
from tacit.ports import Clock, Entropy
from tacit.service.documents.admin_people import Kind, Role
from tacit.time_format import format_utc
from tacit.tlog.canonical import canonical_bytes

LABEL: Final = b"tacit change v1\0"
WAYS_LABEL: Final = b"tacit ways in v1\0"
CHANGE_SECONDS: Final = 7 * 86400
"""How many seconds a change waits for consent."""
MOST_WAITING: Final = 50
"""The most changes that may wait at a time."""


@dataclass(frozen=True, slots=True)
class Rule:
    """How many administrators (``persons``) a change needs, and after how many seconds (``delay``) it counts."""

    persons: int
    delay: int

    @property
    def guards(self) -> bool:
        """Whether a second administrator is needed."""
        return self.persons > 1

    def __str__(self) -> str:
        return f"{self.persons} persons, {self.delay} s" if self.guards else "1 person"


def rule_of(kept: KeptRule, now: int) -> Rule:
    """The rule that applies at ``now``. A weaker configuration does not apply until the earlier rule's delay has
    passed; until then the stricter value of each setting does."""
    if now >= holds_from(kept):
        return Rule(kept.persons, kept.delay)
    return Rule(max(kept.persons, kept.before_persons), max(kept.delay, kept.before_delay))


def holds_from(kept: KeptRule) -> int:
    """The POSIX second from which the configured rule alone holds."""
    weaker = kept.persons < kept.before_persons or kept.delay < kept.before_delay
    return kept.since + (kept.before_delay if weaker and kept.before_persons > 1 else 0)


async def ways_in(tx: AdminTx, person: Person) -> bytes:
    """A digest (32 bytes) of a person's role and of everything with which they can sign in."""
    body: dict[str, Any] = {
        "person": person.id,
        "role": person.role,
        "disabled": person.disabled,
        "password": hashlib.sha256(person.password.encode()).hexdigest(),
        "identity": person.identity or "",
        "keys": sorted(f"{one.digest.hex()} {one.expires}" for one in await tx.keys(person.id)),
        "passkeys": sorted(one.id.hex() for one in await tx.passkeys(person.id)),
    }
    return hashlib.sha256(WAYS_LABEL + canonical_bytes(body)).digest()


class Consent:
    """The changes that need consent, in the caller's transactions. ``configured``: the rule in the configuration;
    ``begins``: the clock by which a wait begins, which is over by ``clock`` (default: the same)."""

    def __init__(self, configured: Rule, clock: Clock, entropy: Entropy, begins: Clock | None = None) -> None:
        self._configured = configured
        self._clock = clock
        self._begins = begins or clock
        self._entropy = entropy

    @property
    def _now(self) -> int:
        return int(self._clock.now())

    async def _counts_from(self, tx: ConsentTx) -> int:
        """The time from which what is changed now counts."""
        return int(self._begins.now()) + (await self.rule(tx)).delay

    async def settle(self, tx: ConsentTx) -> str:
        """Store the configured rule. Returns the difference from the stored one in words, or an empty text. A weaker
        rule applies only later (``holds_from``)."""
        kept, now, new = await tx.kept_rule(), self._now, self._configured
        if kept is None:
            await tx.put_rule(KeptRule(new.persons, new.delay, now, new.persons, new.delay))
            return ""
        if Rule(kept.persons, kept.delay) == new:
            return ""
        held = rule_of(kept, now)
        changed = KeptRule(new.persons, new.delay, int(self._begins.now()), held.persons, held.delay)
        await tx.put_rule(changed)
        return f"{held} before, {new} from {format_utc(holds_from(changed))}"

    async def rule(self, tx: ConsentTx) -> Rule:
        """The rule that applies now: ``rule_of`` the stored one, or the configured one before ``settle`` has stored
        any."""
        kept = await tx.kept_rule()
        return self._configured if kept is None else rule_of(kept, self._now)

    async def needed(self, tx: ConsentTx, role: str) -> bool:
        """Whether a change that makes or leaves somebody a ``role`` needs a second administrator."""
        return role in POWERFUL and (await self.rule(tx)).guards

    def require_counting(self, person: Person) -> None:
        """Raises ``Abort`` (403) while the person's approvals and consents do not count."""
        if person.counts_from > self._now:
            raise refuse(
                Problem.COUNTS_LATER,
                "you were changed a while ago; your approvals and consents count from "
                f"{format_utc(person.counts_from)} on",
                counts_from=person.counts_from,
            )

    async def ask(
        self, tx: AdminTx, who: Principal, kind: Kind, person: Person, words: str, payload: Mapping[str, Any]
    ) -> Change:
        """Store a change that waits for consent; ``person`` is as they will be after it. Raises ``Abort``: 403 for an
        administrator whose consents do not count yet, 409 if another change of the person, or too many changes, wait
        already."""
        self.require_counting(who.person)
        await tx.drop_past_changes(self._now)
        waiting = [one for one in await tx.changes() if one.waits]
        if any(person.id == one.person or (kind is Kind.ADD and person.name == one.name) for one in waiting):
            raise refuse(Problem.CHANGE_WAITS, "it is about the same person; consent to it or refuse it first")
        if len(waiting) >= MOST_WAITING:
            raise refuse(Problem.CHANGE_WAITS, f"{MOST_WAITING} changes wait; consent to some or refuse them first")
        now, text = self._now, canonical_bytes(dict(payload)).decode()
        asked = Change(
            new_id(self._entropy), kind.value, person.id, person.name, person.role, words, who.person.id, now,
            now + CHANGE_SECONDS, text,
        )  # fmt: skip
        asked = replace(asked, digest=await self._digest(tx, asked))
        await tx.put_change(asked)
        return asked

    async def consented(self, tx: AdminTx, who: Principal, change_id: str, digest: bytes) -> Change:
        """Record the consent of ``who`` and return the change, which the caller carries out in the same transaction.
        Raises ``Abort``: 403 for the person who asked for it and for an administrator whose consents do not count yet,
        404, 409 if the changed person or the one who asked is no longer as then, and 412 if ``digest`` is not the
        change's."""
        change = await self._waiting(tx, change_id)
        if who.person.id == change.asked_by:
            raise refuse(Problem.OWN_CHANGE, "you asked for this change yourself")
        self.require_counting(who.person)
        if not hmac.compare_digest(change.digest, digest):
            raise refuse(Problem.CHANGED, "this is not the change that you have read; read it again")
        asker = await tx.person(change.asked_by)
        if asker is None or asker.disabled or asker.role != Role.ADMINISTRATOR or asker.counts_from > self._now:
            raise stale("the person who asked for it may no longer do so; refuse it")
        if not hmac.compare_digest(change.digest, await self._digest(tx, change)):
            raise stale(
                "the person's role or keys have changed since this change was asked for; refuse it, and ask again"
            )
        done = replace(change, consented_by=who.person.id, counts_from=await self._counts_from(tx))
        await tx.put_change(done)
        return done

    async def refused(self, tx: ConsentTx, change_id: str) -> Change:
        """Drop a waiting change and return it. Raises ``Abort`` (404)."""
        change = await self._waiting(tx, change_id)
        await tx.drop_change(change_id)
        return change

    async def note(self, tx: ConsentTx, person: Person, kind: Kind, words: str) -> Person:
        """Note a change that needed no consent, and return ``person`` as the caller has to store them. A change of an
        approver or administrator is shown to everybody, and their approvals and consents count only after the delay."""
        if not await self.needed(tx, person.role):
            return person
        now, counts = self._now, await self._counts_from(tx)
        noted = Change(
            new_id(self._entropy), kind.value, person.id, person.name, person.role, words, "", now, now,
            counts_from=counts,
        )  # fmt: skip
        await tx.drop_past_changes(now)
        await tx.put_change(noted)
        return replace(person, counts_from=max(person.counts_from, counts))

    async def _waiting(self, tx: ConsentTx, change_id: str) -> Change:
        change = await tx.change(change_id)
        if change is None or not change.waits or change.expires <= self._now:
            raise not_found("waiting change")
        return change

    async def _digest(self, tx: AdminTx, change: Change) -> bytes:
        """The digest over what will be done, who asked for it, and the person as they are now."""
        person = await tx.person(change.person)
        body: dict[str, Any] = {
            "id": change.id,
            "kind": change.kind,
            "person": change.person,
            "name": change.name,
            "role": change.role,
            "words": change.words,
            "asked_by": change.asked_by,
            "asked": str(change.asked),
            "expires": str(change.expires),
            "payload": json.loads(change.payload),
            "ways_in": "" if person is None else b64url(await ways_in(tx, person)),
        }
        return hashlib.sha256(LABEL + canonical_bytes(body)).digest()


def stale(why: str) -> Abort:
    """The refusal of a consent to a change that no longer applies."""
    return refuse(Problem.CHANGE_STALE, why)
