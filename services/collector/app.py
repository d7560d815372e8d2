"""The collector as an aiohttp application."""

from __future__ import annotations

from collections.abc import AsyncIterator

from aiohttp import web

from services.collector.batch_yield import BatchYields
from services.collector.config import CollectorConfig
from services.collector.drivers import PublishDriver
from services.collector.handlers import ADMIN, OPERATOR, Handlers
from services.collector.metrics import add_collector_metrics
from services.collector.recipes import Recipes
from services.collector.releases import Releases
from services.collector.retrying import CollectionJobs
from services.collector.service import Collector
from services.collector.store import CollectorStore
from tacit.adapters.network.http import HttpTransport
from tacit.adapters.network.origins import require_secure_url
from tacit.aggregator.credentials import report_keys
from tacit.aggregator.live_keys import LiveHpkeKeys
from tacit.service.announcements import wake_on_announcements
from tacit.service.app import HEALTH_PROBLEMS, ServiceEnv, add_driver, make_app
from tacit.service.http.callers import Callers, tokens_of
from tacit.service.http.live_tokens import ShownToken
from tacit.service.operated import OPERATED
from tacit.service.stores import add_store

NAME = "collector"
COLLECTOR = web.AppKey("collector", Collector)
RECIPES = web.AppKey("recipes", Recipes)


def create_app(config: CollectorConfig, deps: ServiceEnv) -> web.Application:
    """Build the collector of ``config``. Raises ``UsageError`` for an unsafe or unreadable setting."""
    require_secure_url(config.log.url, insecure_http=config.insecure_http)
    if config.publish is not None:
        require_secure_url(config.publish.url, insecure_http=config.insecure_http)
    config.policy.require_aggregators()
    keys = LiveHpkeKeys(config.hpke_keys)
    callers = Callers(NAME, config.listen, tokens_of({OPERATOR: config.operator_token, ADMIN: config.admin_token}))
    app = make_app(NAME, deps, max_body=config.max_body, callers=callers)
    store = CollectorStore(config.database_url(NAME))
    recipes = Recipes(store, keys, config, deps)
    at_leader, at_analyzer = ShownToken(config.leader_token), ShownToken(config.analyzer_token)
    collector = Collector(store, recipes, config, deps, at_leader, at_analyzer)
    batch_yields = BatchYields(recipes, deps.transport, at_leader, at_analyzer)
    app[COLLECTOR], app[RECIPES] = collector, recipes
    retrying = CollectionJobs(store, lambda: collector.wake)
    app[OPERATED].held = lambda: report_keys(keys)
    app[OPERATED].jobs.append(retrying)

    async def storage(_app: web.Application) -> AsyncIterator[None]:
        await store.open()
        await recipes.load()
        yield
        await collector.close()
        await store.close()

    app.cleanup_ctx.append(storage)
    app[HEALTH_PROBLEMS] += [keys.trouble, at_leader.trouble, at_analyzer.trouble]
    add_store(app, lambda: store.durable)
    add_collector_metrics(app, store)
    handlers = Handlers(collector, Releases(store), recipes, batch_yields, retrying, max_body=config.max_body)
    app.router.add_routes(handlers.routes())
    look = add_driver(app, recipes, config.log.poll_seconds, "following the log")
    wake_on_announcements(app, config.announcer, look, insecure=config.insecure_http)
    collector.wake = handlers.wake = add_driver(app, collector, config.idle_seconds, "collecting")
    if config.publish is not None:
        token = ShownToken(config.publish.token)
        app[HEALTH_PROBLEMS].append(token.trouble)
        publish = PublishDriver(store, config.publish, token, deps)
        add_driver(app, publish, config.idle_seconds, "publishing results")
    return app


def make_transport(config: CollectorConfig) -> HttpTransport:
    """The transport for the ``ServiceEnv`` of a collector that runs as a process of its own."""
    return HttpTransport(tls=config.client_tls, insecure_http=config.insecure_http, repeat_posts=True)
