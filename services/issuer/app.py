"""The issuer as an aiohttp application."""

from __future__ import annotations

from collections.abc import AsyncIterator

from aiohttp import web

from services.issuer.config import IssuerConfig
from services.issuer.drivers import CountDriver, DirectoryDriver, KeyDriver
from services.issuer.handlers import (
    ATTESTER_DIGEST,
    ISSUER,
    MAX_REQUEST,
    OPERATOR_DIGEST,
    get_directory,
    get_issuance,
    post_token_request,
)
from services.issuer.service import Issuer
from tacit.adapters.http import AiohttpTransport, ClientTls
from tacit.adapters.origins import require_secure_url
from tacit.errors import UsageError
from tacit.service.app import DEPS, Deps, add_driver, make_app, refuse_expect
from tacit.service.auth import token_digest
from tacit.service.config import read_secret
from tacit.tokens.directory import WELL_KNOWN_PATH


def create_app(config: IssuerConfig, deps: Deps) -> web.Application:
    """The application; its store opens with it. Raises ``UsageError`` for an unsafe or unreadable setting."""
    if config.attester_credential is None and config.listen.client_ca is None:
        raise UsageError("attester_credential or listen.client_ca is needed: an issuer serves its attester only")
    require_secure_url(config.recipe_server_url, insecure_http=config.insecure_http)
    app = make_app("issuer", deps, max_body=MAX_REQUEST)
    app[ISSUER] = issuer = Issuer(config, deps)
    credential = config.attester_credential
    app[ATTESTER_DIGEST] = None if credential is None else token_digest(read_secret(credential))
    app.router.add_get(WELL_KNOWN_PATH, get_directory)
    app.router.add_post("/token-request", post_token_request, expect_handler=refuse_expect)
    if config.operator_token is not None:
        app[OPERATOR_DIGEST] = token_digest(read_secret(config.operator_token))
        app.router.add_get("/v1/issuance", get_issuance)
    app.cleanup_ctx.append(_running)
    for driver in (KeyDriver(issuer), DirectoryDriver(issuer), CountDriver(issuer)):
        add_driver(app, driver, config.idle_seconds)
    return app


def make_transport(config: IssuerConfig) -> AiohttpTransport:
    """The transport for ``Deps`` of an issuer that runs on its own."""
    return AiohttpTransport(tls=ClientTls(config.peer_ca), insecure_http=config.insecure_http)


async def _running(app: web.Application) -> AsyncIterator[None]:
    """Open the store; with background work on, no request is taken before the first keys exist."""
    issuer = app[ISSUER]
    await issuer.open()
    while app[DEPS].background and await issuer.make_epoch():
        pass
    yield
    await issuer.close()
