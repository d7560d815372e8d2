"""The analyzer as an aiohttp application: the one server of models with one server (P24)."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

from services.analyzer.chunks import Chunks
from services.analyzer.config import AnalyzerConfig
from services.analyzer.handlers import Handlers
from services.analyzer.releases import Releases
from services.analyzer.store import AnalyzerStore
from tacit.adapters.network.http import HttpTransport
from tacit.aggregator.credentials import held_keys
from tacit.aggregator.kernels import show_batch_kernels
from tacit.aggregator.live_keys import LiveHpkeKeys
from tacit.aggregator.log_follower import follow_log
from tacit.aggregator.metrics import add_aggregator_metrics
from tacit.aggregator.one_server.participant import ServerIdentity, ServerParticipant
from tacit.aggregator.one_server.uploads import Uploads
from tacit.aggregator.one_server.wiring import open_with, uploading_gateways
from tacit.aggregator.parties import PartyTable
from tacit.aggregator.yield_looks import YieldLooks
from tacit.errors import Refusal
from tacit.extension_points import STATE_KEYS
from tacit.models.forms import form_of
from tacit.models.interfaces.server import ServerSide
from tacit.models.one_server import ANALYZER
from tacit.models.parties import SHUFFLER
from tacit.models.servers import server_side
from tacit.roles.analyzer import AnalyzerParty
from tacit.service.app import HEALTH_PROBLEMS, ServiceEnv, add_driver, make_app
from tacit.service.base.keys import read_signing_key
from tacit.service.base.marks import watermark_of
from tacit.service.http.callers import Callers, gateway_tokens, tokens_of
from tacit.service.http.limits import ByteBudget
from tacit.service.operated import OPERATED
from tacit.service.stores import add_store

NAME = ANALYZER
STORE = web.AppKey("store", AnalyzerStore)
RELEASES = web.AppKey("releases", Releases)


def create_app(config: AnalyzerConfig, deps: ServiceEnv) -> web.Application:
    """Build the analyzer of ``config``, whose recipes are those of the log that name it. Raises ``UsageError`` for
    secrets that are missing or malformed, and for settings that contradict each other."""
    files = {"collector": config.collector_token, "operator": config.operator_token}
    if config.shuffler_token is not None or SHUFFLER in config.listen.client_names:
        files[SHUFFLER] = config.shuffler_token
    callers = Callers(NAME, config.listen, tokens_of(files) | gateway_tokens(config.gateway_tokens))
    gateways = uploading_gateways(config, callers, "released")
    app = make_app(NAME, deps, max_body=config.max_body, callers=callers)
    store = AnalyzerStore(config.database_url(NAME), watermark_of(config, NAME, deps.clock, deps.recovery))
    parties: PartyTable[AnalyzerParty] = PartyTable()
    uploads = Uploads(store, deps, config, NAME)
    releases = app[RELEASES] = Releases(store, parties, deps, config)
    app[STORE] = store

    open_with(app, store, uploads)
    budget = ByteBudget(config.max_in_flight, deps.entropy)
    handlers = Handlers(
        uploads,
        Chunks(store, deps, config),
        releases,
        YieldLooks(store, deps.clock, deps.entropy),
        store,
        parties,
        gateways,
        budget,
        max_body=config.max_body,
    )
    app.router.add_routes(handlers.routes(config.prefix))
    # read every key file that `config` names
    hpke_keys = LiveHpkeKeys(config.hpke_keys)
    state_keys = STATE_KEYS["read-state-keys"](config.state_keys) if config.state_keys else ()
    identity = ServerIdentity(NAME, config.operator, read_signing_key(config.signing_key), hpke_keys, state_keys)
    follow_log(app, store, parties, ServerParticipant(identity, _sides(callers)), config, deps)
    app[HEALTH_PROBLEMS].append(identity.hpke_keys.trouble)
    app[OPERATED].held = lambda: held_keys(identity.signing_key, identity.hpke_keys, identity.state_keys)
    app[HEALTH_PROBLEMS].append(lambda: store.doubtful)
    add_store(app, lambda: store.durable)
    add_aggregator_metrics(app, store)
    show_batch_kernels(app)
    add_driver(app, releases, config.idle_seconds, "releasing")
    return app


def _sides(callers: Callers) -> Callable[[str], ServerSide]:
    """The analyzer's side of a model; a model with a shuffler is refused where none has credentials here."""

    def side_of(model: str) -> ServerSide:
        side = server_side(model)
        if SHUFFLER in form_of(model).opts_in and not callers.guards(SHUFFLER):
            raise Refusal("model-unsupported", "this analyzer takes messages from no shuffler (shuffler_token)")
        return side

    return side_of


def make_transport(config: AnalyzerConfig) -> HttpTransport:
    """The transport for the ``ServiceEnv`` of an analyzer that runs as a process of its own."""
    return HttpTransport(tls=config.client_tls, insecure_http=config.insecure_http)
