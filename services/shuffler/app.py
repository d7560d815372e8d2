"""The shuffler as an aiohttp application: an organisation of its own between devices and the analyzer (P25)."""

from __future__ import annotations

from aiohttp import web

from services.shuffler.config import ShufflerConfig
from services.shuffler.forwarding import Forwarding
from services.shuffler.store import ShufflerStore
from tacit.adapters.network.http import HttpTransport
from tacit.aggregator.credentials import held_keys
from tacit.aggregator.live_keys import LiveHpkeKeys
from tacit.aggregator.log_follower import follow_log
from tacit.aggregator.metrics import add_aggregator_metrics
from tacit.aggregator.one_server.handlers import ReportHandlers
from tacit.aggregator.one_server.seat import ServerIdentity, ServerSeat
from tacit.aggregator.one_server.uploads import Uploads
from tacit.aggregator.one_server.wiring import open_with, uploading_gateways
from tacit.aggregator.parties import PartyTable
from tacit.models.servers import shuffler_side
from tacit.models.shuffled.form import SHUFFLER
from tacit.roles.analyzer import AnalyzerParty
from tacit.service.app import TROUBLES, Deps, add_driver, add_store, make_app
from tacit.service.callers import Callers, gateway_tokens, tokens_of
from tacit.service.keys import read_signing_key
from tacit.service.limits import ByteBudget
from tacit.service.live_tokens import ShownToken
from tacit.service.operated import OPERATED

NAME = SHUFFLER
STORE = web.AppKey("store", ShufflerStore)
FORWARDING = web.AppKey("forwarding", Forwarding)


def create_app(config: ShufflerConfig, deps: Deps) -> web.Application:
    """Build the shuffler of ``config``, whose recipes are those of the log that name it. Raises ``UsageError`` for
    secrets that are missing or malformed, and for settings that contradict each other."""
    callers = _callers(config)
    gateways = uploading_gateways(config, callers, "forwarded")
    app = make_app(NAME, deps, max_body=config.max_body, callers=callers)
    store = ShufflerStore(config.database_url(NAME), config.watermark(NAME, deps.clock, deps.recovery))
    parties: PartyTable[AnalyzerParty] = PartyTable()
    uploads, token = Uploads(store, deps, config, NAME), ShownToken(config.analyzer_token)
    forwarding = app[FORWARDING] = Forwarding(store, parties, deps, config, token)
    app[STORE] = store

    open_with(app, store, uploads)
    budget = ByteBudget(config.max_in_flight, deps.entropy)
    handlers = ReportHandlers(uploads, store, parties, gateways, budget, max_body=config.max_body)
    app.router.add_routes(handlers.routes(config.prefix))
    hpke_keys = LiveHpkeKeys(config.hpke_keys)
    identity = ServerIdentity(NAME, config.operator, read_signing_key(config.signing_key), hpke_keys)
    follow_log(app, store, parties, ServerSeat(identity, shuffler_side), config, deps)
    app[TROUBLES] += [hpke_keys.trouble, token.trouble, lambda: store.doubtful]
    app[OPERATED].held = lambda: held_keys(identity.signing_key, hpke_keys, ())
    add_store(app, lambda: store.durable)
    add_aggregator_metrics(app, store)
    add_driver(app, forwarding, config.idle_seconds, "forwarding messages")
    return app


def _callers(config: ShufflerConfig) -> Callers:
    files = {"operator": config.operator_token}
    return Callers(NAME, config.listen, tokens_of(files) | gateway_tokens(config.gateway_tokens))


def make_transport(config: ShufflerConfig) -> HttpTransport:
    """The transport for the ``Deps`` of a shuffler that runs as a process of its own."""
    return HttpTransport(tls=config.client_tls, insecure_http=config.insecure_http, repeat_posts=True)
