"""The page of the signed-in person's own passkeys."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web

from services.admin.pages.page_requests import PageRequest
from tacit.errors import Abort, DecodeError


async def list_passkeys(page_request: PageRequest) -> web.StreamResponse:
    """The registered passkeys, and the form for one more."""
    return await _page(page_request)


async def add(page_request: PageRequest) -> web.StreamResponse:
    """Register a passkey with an invitation; a refusal is shown on the same page."""
    form = page_request.form
    body = {name: form.get(name, "") for name in ("invitation", "label")}
    try:
        await page_request.act("passkey.add", {**body, "credential": answer_of(form.get("passkey", "")) or {}})
    except Abort as problem:
        if problem.status in {401, 404}:
            raise
        return await _page(page_request, problem)
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


async def _page(page_request: PageRequest, problem: Abort | None = None) -> web.Response:
    page_request.admin.passkeys.require_on()
    async with page_request.admin.store.read() as tx:
        found = await tx.passkeys(page_request.who.person.id)
    return page_request.show(
        "passkeys.html", status=200 if problem is None else problem.status, problem=problem, found=found,
        mode=page_request.admin.passkeys.mode,
    )  # fmt: skip
