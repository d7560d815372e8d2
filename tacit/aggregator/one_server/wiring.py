"""What the applications of every server without aggregators have in common: who may upload, and when storage opens."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web

from tacit.aggregator.one_server.config import OneServerConfig
from tacit.aggregator.one_server.uploads import Uploads
from tacit.aggregator.store import SqlStore
from tacit.errors import UsageError
from tacit.service.http.callers import Callers, gateway_roles


def uploading_gateways(config: OneServerConfig, callers: Callers, done: str) -> tuple[str, ...]:
    """The roles of the gateways that may upload. ``done``: what the server does with a sum in time ("released").
    Raises ``UsageError`` for a configuration with which nothing would ever come in, or out."""
    config.policy.require_aggregators()
    if config.void_seconds < config.release_grace:
        raise UsageError(f"void_seconds must not be shorter than release_grace: nothing would ever be {done}")
    gateways = tuple(role for role in gateway_roles(config.gateway_tokens) if callers.guards(role))
    if not gateways:
        raise UsageError("gateway_tokens, or listen.client_names for gateway, is needed: devices come through gateways")
    return gateways


def open_with(app: web.Application, store: SqlStore[Any], uploads: Uploads) -> None:
    """Open ``store`` when ``app`` starts; when it ends, count what ``uploads`` gathered and close the store."""

    async def storage(_app: web.Application) -> AsyncIterator[None]:
        await store.open()
        yield
        await uploads.close()
        await store.close()

    app.cleanup_ctx.append(storage)
