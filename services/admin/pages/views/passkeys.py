"""The page of the signed-in person's own passkeys."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web

from services.admin.pages.page_requests import Visit
from tacit.errors import Abort, DecodeError


async def listed(visit: Visit) -> web.StreamResponse:
    """The registered passkeys, and the form for one more."""
    return await _page(visit)


async def add(visit: Visit) -> web.StreamResponse:
    """Register a passkey with an invitation."""
    form = visit.form
    body = {name: form.get(name, "") for name in ("invitation", "label")}
    try:
        await visit.act("passkey.add", {**body, "credential": answer_of(form.get("passkey", "")) or {}})
    except Abort as problem:
        if problem.status in {401, 404}:
            raise
        return await _page(visit, problem)
    raise web.HTTPSeeOther("/passkeys")


def answer_of(text: str) -> dict[str, Any] | None:
    """Parse a passkey's answer, which a script wrote into a form; None if there is none. Raises ``DecodeError``."""
    if not text:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DecodeError("the passkey's answer cannot be read") from error
    return found if isinstance(found, dict) else None


async def _page(visit: Visit, problem: Abort | None = None) -> web.Response:
    visit.admin.passkeys.require_on()
    async with visit.admin.store.read() as tx:
        found = await tx.passkeys(visit.who.person.id)
    return visit.show(
        "passkeys.html", status=200 if problem is None else problem.status, problem=problem, found=found,
        mode=visit.admin.passkeys.mode,
    )  # fmt: skip
