"""The issuer as an aiohttp application."""

from __future__ import annotations

from collections.abc import AsyncIterator

from aiohttp import web

from services.issuer.config import IssuerConfig
from services.issuer.handlers import (
    ISSUER,
    MAX_REQUEST,
    get_directory,
    get_issuance,
    post_token_request,
)
from services.issuer.service import CountDriver, DirectoryDriver, Issuer, KeyDriver
from services.issuer.store import IssuerStore
from tacit.adapters.network.http import HttpTransport
from tacit.adapters.network.origins import require_secure_url
from tacit.errors import UsageError
from tacit.service.app import (
    CLOCK_BOUND,
    HEALTH_PROBLEMS,
    METRICS,
    SERVICE_ENV,
    ServiceEnv,
    add_driver,
    ask_time,
    make_app,
)
from tacit.service.base.marks import watermark_of
from tacit.service.http.callers import Callers, tokens_of
from tacit.service.metric_names import KEY_METRICS, TOKENS
from tacit.service.metrics import number_of
from tacit.service.operated import OPERATED
from tacit.service.stores import add_store
from tacit.tokens.directory import WELL_KNOWN_PATH

NAME = "issuer"


def create_app(config: IssuerConfig, deps: ServiceEnv) -> web.Application:
    """Build the application; its store opens with it. Raises ``UsageError`` for an unsafe or unreadable setting."""
    require_secure_url(config.recipe_server_url, insecure_http=config.insecure_http)
    files = {"attester": config.attester_credential, "operator": config.operator_token}
    callers = Callers(NAME, config.listen, {"attester": None} | tokens_of(files), local=frozenset({"attester"}))
    if not callers.guards("attester"):
        raise UsageError("attester_credential or listen.client_ca is needed: an issuer serves only its attester")
    app = make_app(NAME, deps, max_body=MAX_REQUEST, callers=callers)
    store = IssuerStore(config.database_url(NAME), watermark_of(config, NAME, deps.clock, deps.recovery))
    app[ISSUER] = issuer = Issuer(config, deps, store)
    app.router.add_get(WELL_KNOWN_PATH, get_directory)
    app.router.add_post("/token-request", post_token_request)
    if config.operator_token is not None:
        app.router.add_get("/v1/issuance", get_issuance)
    app.cleanup_ctx.append(_running)
    add_store(app, lambda: store.durable)
    app[OPERATED].held = issuer.held_keys
    app[METRICS].declare(TOKENS, *KEY_METRICS)
    app[METRICS].add("tacit_tokens_total", issuer.issued_by_epoch)
    app[METRICS].add("tacit_keys_end_timestamp_seconds", number_of(lambda: issuer.keys_end))
    app[METRICS].add("tacit_keys_period_seconds", number_of(lambda: config.epoch_seconds))
    app[CLOCK_BOUND] = True
    app[HEALTH_PROBLEMS].append(issuer.trouble)
    add_driver(app, KeyDriver(issuer), config.idle_seconds, "making keys")
    add_driver(app, DirectoryDriver(issuer), config.idle_seconds, "publishing directories of keys")
    add_driver(app, CountDriver(issuer), config.idle_seconds, "logging counts")
    ask_time(app, "the log", f"{config.recipe_server_url}/checkpoint")
    return app


def make_transport(config: IssuerConfig) -> HttpTransport:
    """The transport for the ``ServiceEnv`` of an issuer that runs as a process of its own."""
    return HttpTransport(tls=config.client_tls, insecure_http=config.insecure_http)


async def _running(app: web.Application) -> AsyncIterator[None]:
    """Open the store. With background work on, no request is taken before the first keys exist."""
    issuer = app[ISSUER]
    await issuer.open()
    while app[SERVICE_ENV].background and await issuer.make_epoch():
        pass
    yield
    await issuer.close()
