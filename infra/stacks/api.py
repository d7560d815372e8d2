"""Reads a stack's log, and recipes in files, for commands."""

from __future__ import annotations

from infra.stacks.layout import Layout
from tacit.errors import DecodeError, UsageError
from tacit.logview.live import LiveLog
from tacit.operations import services
from tacit.ports import Transport
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.tlog.canonical import parse_json
from tacit.tlog.checkpoint import NoteKey


async def verified_log(transport: Transport, layout: Layout, policy: Policy) -> LiveLog:
    """Return the stack's log as of now, with checkpoint, inclusion and signatures checked. Raises ``Refusal``."""
    return await services.verified_log(transport, layout.urls["recipe_server"], NoteKey.decode(layout.log_key), policy)


async def whole_log(transport: Transport, layout: Layout, policy: Policy) -> LiveLog:
    """Return the stack's log with every leaf since its beginning. Raises ``Refusal`` or ``TransportError``."""
    return await services.whole_log(transport, layout.urls["recipe_server"], NoteKey.decode(layout.log_key), policy)


def read_recipe(data: bytes, name: str) -> Recipe:
    """Parse the recipe in a file's ``data``, canonical JSON or not; ``name`` is for errors. Raises ``UsageError``."""
    try:
        body = parse_json(data, name)
        if not isinstance(body, dict):
            raise UsageError(f"{name}: not a JSON object")
        return Recipe.from_body(body)
    except DecodeError as error:
        text = str(error)
        raise UsageError(text if text.startswith(name) else f"{name}: {text}") from error
