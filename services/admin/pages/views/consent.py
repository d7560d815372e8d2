"""A second administrator's consent to a change, or refusal of it, from the overview."""

from __future__ import annotations

from aiohttp import web

from services.admin.pages.visits import Visit


async def consent(visit: Visit) -> web.StreamResponse:
    """Consent to the change as the page showed it."""
    await visit.act("change.consent", {"digest": visit.form.get("digest", "")})
    raise web.HTTPSeeOther("/")


async def refuse(visit: Visit) -> web.StreamResponse:
    """Refuse the change."""
    await visit.act("change.refuse", {})
    raise web.HTTPSeeOther("/")
