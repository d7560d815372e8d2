"""Checks the audit log in the database of a stopped admin service."""

from __future__ import annotations

from pathlib import Path

from services.admin.base.config import AdminConfig
from services.admin.storage.audit import PAGE, follows
from services.admin.storage.store import AdminStore
from tacit.client import AuditChain
from tacit.codec import b64url
from tacit.operations.audit_chain import Chain
from tacit.service.base.config_files import load_config


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
