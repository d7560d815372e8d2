"""What the operator of a stopped admin service's host does in its database: checks the audit log, and admits an
administrator when nobody is left to consent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from services.admin.base.config import AdminConfig
from services.admin.people.consent import Consent, Rule
from services.admin.people.empowering import require_unknown
from services.admin.people.people import People, new_id
from services.admin.storage import audit
from services.admin.storage.audit import PAGE, follows
from services.admin.storage.records import Act, ApiKey, Person
from services.admin.storage.store import AdminStore
from tacit.adapters.databases.recovery import Recovery
from tacit.client import AuditChain
from tacit.codec import b64url
from tacit.errors import Abort, UsageError
from tacit.operations.audit_chain import Chain
from tacit.ports import Clock, Entropy
from tacit.service.base.config_files import load_config
from tacit.service.base.marks import watermark_of
from tacit.service.documents.admin_people import Kind, Role

ACT = "person.recover"


async def stored_chain(config: Path, holds: str | None) -> AuditChain:
    """Recompute the chain in the database of a stopped service, and look for the hash ``holds`` in it, unless that is
    None. Raises ``UsageError``."""
    loaded = load_config(config, AdminConfig)
    store = AdminStore(loaded.database_url("admin"))
    chain, found = Chain(), False
    await store.open()
    try:
        while chain.broken is None:
            async with store.read() as tx:
                rows = list(await tx.acts(chain.rows, PAGE))
            if not rows:
                break
            chain = follows(chain, rows)
            found = found or any(b64url(row.hash) == holds for row in rows if row.number <= chain.rows)
    finally:
        await store.close()
    kept = None if holds is None else found
    return AuditChain(rows=chain.rows, newest=b64url(chain.newest), broken=chain.broken, holds=kept)


async def let_in(config: Path, name: str, key_sha256: str, clock: Clock, entropy: Entropy) -> Person:
    """Make ``name``, new or known, an administrator who can sign in only with the key of this SHA-256 (hexadecimal);
    all other ways to sign in stop working. The act is in the audit log and on the overview, and counts after the
    rule's delay. Raises ``UsageError``."""
    loaded = load_config(config, AdminConfig)
    store = AdminStore(loaded.database_url("admin"), watermark_of(loaded, "admin", clock, Recovery.REFUSE))
    consent, people = Consent(Rule(loaded.persons, loaded.approver_delay_seconds), clock, entropy), People(entropy)
    now, words = int(clock.now()), f"let in by the operator of the host, with the key of SHA-256 {key_sha256}"
    await store.open()
    try:
        async with store.transaction() as tx:
            await consent.settle(tx)
            await require_unknown(tx, key_sha256)
            person = await tx.person_named(name) or await people.add(tx, name, Role.ADMINISTRATOR, "", now)
            await tx.drop_ways_in(person.id)
            person = replace(person, role=Role.ADMINISTRATOR.value, disabled=False, password="", identity=None)
            person = await consent.note(tx, person, Kind.OPERATOR, words)
            await tx.put_person(person)
            await tx.add_key(ApiKey(new_id(entropy), person.id, "recovery", now, None, bytes.fromhex(key_sha256)))
            await audit.record(tx, Act("", ACT, person.id, now, "operator", "done", f"{name}: {words}"))
    except Abort as problem:
        raise UsageError(problem.words) from problem
    finally:
        await store.close()
    return person
