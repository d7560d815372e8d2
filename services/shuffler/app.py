"""The shuffler as an aiohttp application: an organisation of its own between devices and the servers that open what
they send (P25)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from aiohttp import web

from services.shuffler.config import ShufflerConfig
from services.shuffler.forwarding import Forwarding
from services.shuffler.store import ShufflerStore
from services.shuffler.yield_reporter import YieldReporter
from tacit.adapters.network.http import HttpTransport
from tacit.aggregator.credentials import held_keys
from tacit.aggregator.kernels import show_batch_kernels
from tacit.aggregator.live_keys import LiveHpkeKeys
from tacit.aggregator.log_follower import follow_log
from tacit.aggregator.metrics import add_aggregator_metrics
from tacit.aggregator.one_server.handlers import ReportHandlers
from tacit.aggregator.one_server.participant import ServerIdentity, ServerParticipant
from tacit.aggregator.one_server.uploads import Uploads
from tacit.aggregator.one_server.wiring import open_with, uploading_gateways
from tacit.aggregator.parties import PartyTable
from tacit.errors import Refusal, UsageError
from tacit.models.forms import form_of
from tacit.models.interfaces.server import ServerSide
from tacit.models.parties import SHUFFLER
from tacit.models.servers import shuffler_side
from tacit.roles.analyzer import AnalyzerParty
from tacit.service.app import HEALTH_PROBLEMS, ServiceEnv, add_driver, make_app
from tacit.service.base.keys import read_signing_key
from tacit.service.base.marks import watermark_of
from tacit.service.http.callers import Callers, gateway_tokens, tokens_of
from tacit.service.http.limits import ByteBudget
from tacit.service.http.live_tokens import ShownToken
from tacit.service.operated import OPERATED
from tacit.service.stores import add_store
from tacit.task.onward import ToAnalyzer, ToLeader

NAME = SHUFFLER
STORE = web.AppKey("store", ShufflerStore)
FORWARDING = web.AppKey("forwarding", Forwarding)
YIELD_REPORTER = web.AppKey("yield_reporter", YieldReporter)


def create_app(config: ShufflerConfig, deps: ServiceEnv) -> web.Application:
    """Build the shuffler of ``config``, whose recipes are those of the log that name it. Raises ``UsageError`` for
    secrets that are missing or malformed, and for settings that contradict each other."""
    files = {"operator": config.operator_token}
    callers = Callers(NAME, config.listen, tokens_of(files) | gateway_tokens(config.gateway_tokens))
    gateways = uploading_gateways(config, callers, "forwarded")
    app = make_app(NAME, deps, max_body=config.max_body, callers=callers)
    store = ShufflerStore(config.database_url(NAME), watermark_of(config, NAME, deps.clock, deps.recovery))
    parties: PartyTable[AnalyzerParty] = PartyTable()
    uploads, tokens = Uploads(store, deps, config, NAME), _shown_tokens(config)
    forwarding = app[FORWARDING] = Forwarding(store, parties, deps, config, tokens)
    yield_reporter = app[YIELD_REPORTER] = YieldReporter(store, parties, deps, tokens)
    app[STORE] = store

    open_with(app, store, uploads)
    budget = ByteBudget(config.max_in_flight, deps.entropy)
    handlers = Handlers(uploads, store, parties, gateways, budget, max_body=config.max_body)
    handlers.forwarding = forwarding
    app.router.add_routes(handlers.routes(config.prefix))
    hpke_keys = LiveHpkeKeys(config.hpke_keys)
    identity = ServerIdentity(NAME, config.operator, read_signing_key(config.signing_key), hpke_keys)
    follow_log(app, store, parties, ServerParticipant(identity, _sides(tokens)), config, deps)
    app[HEALTH_PROBLEMS] += [hpke_keys.trouble, lambda: store.doubtful, *(token.trouble for token in tokens.values())]
    app[OPERATED].held = lambda: held_keys(identity.signing_key, hpke_keys, ())
    add_store(app, lambda: store.durable)
    add_aggregator_metrics(app, store)
    show_batch_kernels(app)
    add_driver(app, forwarding, config.idle_seconds, "forwarding messages")
    add_driver(app, yield_reporter, config.idle_seconds, "telling how far recipes are filled")
    return app


class Handlers(ReportHandlers):
    """The resources of ``ReportHandlers``, whose status says what ``forwarding`` has left to send."""

    forwarding: Forwarding

    async def _status(self, party: AnalyzerParty) -> dict[str, object]:
        return {**await super()._status(party), **await self.forwarding.waiting(party.task.task_id)}


def _shown_tokens(config: ShufflerConfig) -> dict[str, ShownToken]:
    """What is shown to receivers, by their role. Raises ``UsageError`` where nothing could be forwarded to anybody."""
    files = {ToAnalyzer.receiver: config.analyzer_token, ToLeader.receiver: config.leader_token}
    shown = {role: ShownToken(file) for role, file in files.items() if file is not None}
    if not shown:
        raise UsageError("analyzer_token or leader_token is needed: messages are forwarded under a credential")
    return shown


def _sides(tokens: Mapping[str, ShownToken]) -> Callable[[str], ServerSide]:
    """The shuffler's side of a model; one whose receiver would not let us in is refused."""

    def side_of(model: str) -> ServerSide:
        receiver = ToLeader.receiver if form_of(model).proves else ToAnalyzer.receiver
        if receiver not in tokens:
            raise Refusal("model-unsupported", f"this shuffler has no credential for a {receiver} ({receiver}_token)")
        return shuffler_side(model)

    return side_of


def make_transport(config: ShufflerConfig) -> HttpTransport:
    """The transport for the ``ServiceEnv`` of a shuffler that runs as a process of its own."""
    return HttpTransport(tls=config.client_tls, insecure_http=config.insecure_http, repeat_posts=True)
