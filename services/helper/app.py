"""The Helper as an aiohttp application."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

from aiohttp import web

from services.helper.config import HelperConfig
from services.helper.handlers import Handlers
from services.helper.service import Helper
from services.helper.store import HelperStore
from tacit.adapters.network.http import HttpTransport
from tacit.aggregator.credentials import held_keys, read_credentials
from tacit.aggregator.http import name_task
from tacit.aggregator.kernels import show_aggregator_kernels
from tacit.aggregator.keys import HpkeKey, read_peer_tokens
from tacit.aggregator.log_follower import follow_log
from tacit.aggregator.metrics import add_aggregator_metrics
from tacit.aggregator.participant import AggregatorParticipant
from tacit.aggregator.parties import PARTIES, Parties
from tacit.messages import Role
from tacit.roles.crypto import OPENSSL, JobCrypto
from tacit.service.app import HEALTH_PROBLEMS, ServiceEnv, make_app
from tacit.service.base.marks import watermark_of
from tacit.service.http.callers import Callers
from tacit.service.http.limits import ByteBudget
from tacit.service.http.live_tokens import AcceptedTokens
from tacit.service.operated import OPERATED
from tacit.service.stores import add_store
from tacit.version import DAP_18, DapVersion

NAME = "helper"
STORE = web.AppKey("store", HelperStore)


@dataclass(frozen=True)
class Parts:
    """The parts of a Helper process, apart from the source of its tasks."""

    name: str
    store: HelperStore
    callers: Callers
    hpke_keys: Sequence[HpkeKey] = field(repr=False)
    crypto: JobCrypto = OPENSSL
    prefix: str = ""
    max_job: int = 4096
    max_body: int = 16 << 20
    max_in_flight: int = 256 << 20
    version: DapVersion = DAP_18


def create_app(config: HelperConfig, deps: ServiceEnv) -> web.Application:
    """Build the Helper of ``config``, whose tasks come from the log's recipes. Raises ``UsageError`` for secrets that
    are missing or malformed."""
    credentials = read_credentials(config, Role.HELPER)
    leader = AcceptedTokens(config.peer_file, read_peer_tokens)
    parts = Parts(
        name=NAME,
        store=HelperStore(config.database_url(NAME), watermark_of(config, NAME, deps.clock, deps.recovery)),
        callers=Callers(NAME, config.listen, {**credentials.tokens, "leader": leader}),
        hpke_keys=credentials.hpke_keys,
        crypto=config.job_crypto(),
        prefix=config.prefix,
        max_job=config.max_job,
        max_body=config.max_body,
        max_in_flight=config.max_in_flight,
    )

    def follow(app: web.Application) -> None:
        store = app[STORE]
        follow_log(app, store, app[PARTIES], AggregatorParticipant(credentials.identity), config, deps)
        app[HEALTH_PROBLEMS].append(credentials.hpke_keys.trouble)

    app = assemble(parts, deps, follow)
    identity = credentials.identity
    app[OPERATED].held = lambda: held_keys(identity.signing_key, identity.hpke_keys, identity.state_keys)
    return app


def assemble(parts: Parts, deps: ServiceEnv, add_tasks: Callable[[web.Application], None]) -> web.Application:
    """Build a Helper process. Once the database is open, ``add_tasks`` fills ``app[PARTIES]`` and ``app[STORE]`` with
    its tasks."""
    app = make_app(parts.name, deps, max_body=parts.max_body, middlewares=[name_task], callers=parts.callers)
    store, parties = parts.store, Parties()
    budget = ByteBudget(parts.max_in_flight, deps.entropy)
    helper = Helper(store, deps, parts.max_job, budget, parts.crypto)

    async def storage(_app: web.Application) -> AsyncIterator[None]:
        await store.open()
        yield
        await store.close()

    app.cleanup_ctx.append(storage)
    app[PARTIES], app[STORE] = parties, store
    handlers = Handlers(helper, parties, parts.hpke_keys, max_body=parts.max_body, budget=budget)
    app.router.add_routes(handlers.routes(parts.prefix, parts.version))
    add_tasks(app)
    app[HEALTH_PROBLEMS].append(lambda: store.doubtful)
    add_store(app, lambda: store.durable)
    add_aggregator_metrics(app, store)
    show_aggregator_kernels(app)
    return app


def make_transport(config: HelperConfig) -> HttpTransport:
    """The transport for the ``ServiceEnv`` of a helper that runs as a process of its own."""
    return HttpTransport(tls=config.client_tls, insecure_http=config.insecure_http)
