"""The overview's buttons with which a second administrator consents to a change or refuses it."""

from __future__ import annotations

from aiohttp import web

from services.admin.pages.visits import Visit


async def consent(visit: Visit) -> web.StreamResponse:
    """Consent to the change that the page showed."""
    await visit.act("change.consent", {"digest": visit.form.get("digest", "")})
    raise web.HTTPSeeOther("/")


async def refuse(visit: Visit) -> web.StreamResponse:
    """Refuse the change, so that it is not made."""
    await visit.act("change.refuse", {})
    raise web.HTTPSeeOther("/")
