"""Reads a stack's log, for commands."""

from __future__ import annotations

from infra.stacks.layout import Layout
from tacit.logview.live import LiveLog
from tacit.operations import services
from tacit.ports import Transport
from tacit.recipe.policy import Policy
from tacit.tlog.checkpoint import NoteKey


async def verified_log(transport: Transport, layout: Layout, policy: Policy) -> LiveLog:
    """Return the stack's log as of now, with checkpoint, inclusion and signatures checked. Raises ``Refusal``."""
    return await services.verified_log(transport, layout.urls["recipe_server"], NoteKey.decode(layout.log_key), policy)


async def whole_log(transport: Transport, layout: Layout, policy: Policy) -> LiveLog:
    """Return the stack's log with every leaf since its beginning. Raises ``Refusal`` or ``TransportError``."""
    return await services.whole_log(transport, layout.urls["recipe_server"], NoteKey.decode(layout.log_key), policy)
