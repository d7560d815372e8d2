"""The recipe server's public application. It writes only through ``RecipeService``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence

from aiohttp import web

from recipe_server import handlers
from recipe_server.config import RecipeServerConfig
from recipe_server.handlers import MAX_AGE, MODELS, RECIPES
from recipe_server.metrics import LedgerGauge, add_log_metrics
from recipe_server.model_files import FORGET_SECONDS, ModelFiles
from recipe_server.results import MAX_RESULT
from recipe_server.service import RecipeService
from recipe_server.store import RecipeStore
from recipe_server.witnessing import ANSWER_SECONDS, WitnessDriver, drivers_of
from tacit.adapters.databases.recovery import Recovery
from tacit.adapters.network.http import HttpTransport
from tacit.adapters.network.origins import require_secure_url
from tacit.announcer import Announcer
from tacit.errors import UsageError
from tacit.service.app import HEALTH_PROBLEMS, SERVICE_ENV, ServiceEnv, add_driver, make_app
from tacit.service.base.backends import make_announcer
from tacit.service.base.marks import watermark_of
from tacit.service.base.vouched import ASK_SECONDS, VouchedTime
from tacit.service.http.callers import Callers, tokens_of
from tacit.service.operated import OPERATED, HeldKey
from tacit.service.stores import add_store

NAME = "recipe_server"
WITNESS_IDLE_SECONDS = 1.0
FORGOTTEN = (
    "a log that has lost entries cannot go on, because every reader who saw them refuses it: put its newest database "
    "back, or begin a new one with a new log_key"
)


def create_app(config: RecipeServerConfig, deps: ServiceEnv) -> web.Application:
    """Build the application; its store opens with it. Raises ``UsageError`` for an unreadable key or credential."""
    callers = Callers(NAME, config.listen, tokens_of({"collector": config.collector_token}))
    app = make_app(NAME, deps, max_body=MAX_RESULT, callers=callers)
    announcer = None
    if config.announcer is not None:
        announcer = make_announcer(config.announcer, NAME, deps.clock, deps.entropy, insecure=config.insecure_http)
        app.cleanup_ctx.append(_announcing(announcer))
    if deps.recovery is Recovery.ACCEPT:
        raise UsageError(FORGOTTEN)
    store = RecipeStore(config.database_url(NAME), watermark_of(config, NAME, deps.clock, deps.recovery))
    app[RECIPES] = RecipeService(config, deps.clock, store, announcer)
    app[MODELS] = ModelFiles(config, deps, store)
    app[MAX_AGE] = config.max_age
    app[OPERATED].held = lambda: [HeldKey("log", app[RECIPES].note_key.encode())]
    router = app.router
    router.add_get("/checkpoint", handlers.get_checkpoint)
    router.add_get("/tile/{path:.+}", handlers.get_tile)
    router.add_get("/v1/bundle", handlers.get_bundle)
    router.add_get("/v1/bundle/{digest}", handlers.get_page)
    router.add_get("/v1/key-sets", handlers.get_key_sets)
    router.add_get("/v1/hashes/{size}/{block}", handlers.get_hashes)
    router.add_post("/v1/leaves", handlers.post_leaf)
    router.add_get("/v1/recipes", handlers.get_recipes)
    router.add_get("/v1/recipes/{hash}", handlers.get_recipe)
    router.add_put("/v1/models/{hash}", handlers.put_model)
    router.add_get("/v1/models/{hash}/{number}", handlers.get_piece)
    router.add_post("/v1/results", handlers.post_result)
    router.add_get("/v1/results", handlers.get_results)
    router.add_get("/v1/results/{hash}", handlers.get_recipe_results)
    app.cleanup_ctx.append(_running)
    add_store(app, lambda: app[RECIPES].durable)
    add_driver(app, app[MODELS], FORGET_SECONDS, "deleting the model files of rounds that are over")
    add_driver(app, LeafTime(app[RECIPES], deps.vouched), ASK_SECONDS, "comparing the clock with the newest directory")
    _show_log(app, config, store, _add_witness_drivers(app, config))
    return app


def _show_log(
    app: web.Application, config: RecipeServerConfig, store: RecipeStore, witnesses: Sequence[WitnessDriver]
) -> None:
    """Add the metrics of the log and of its privacy accounts."""
    ledger = LedgerGauge(store, config.policy, app[SERVICE_ENV].clock)

    async def closing(_app: web.Application) -> AsyncIterator[None]:
        yield
        await ledger.close()

    app.cleanup_ctx.append(closing)
    add_log_metrics(app, app[RECIPES], app[MODELS], ledger, witnesses)


def _add_witness_drivers(app: web.Application, config: RecipeServerConfig) -> list[WitnessDriver]:
    """One driver per witness, which wakes as soon as the log grows."""
    service, deps = app[RECIPES], app[SERVICE_ENV]
    for witness in config.witnesses:
        require_secure_url(witness.url, insecure_http=config.insecure_http)
    demanded = 0 if config.policy.witnesses is None else config.policy.witnesses.k
    count = len(config.witnesses)
    quorum = config.witness_quorum or min(max(demanded, count // 2 + 1), count)
    wakes = []
    drivers = drivers_of(config.witnesses, quorum, service, deps, config.cosign_seconds)
    for driver in drivers:
        wakes.append(add_driver(app, driver, WITNESS_IDLE_SECONDS, f"asking witness {driver.name}"))
        app[HEALTH_PROBLEMS].append(driver.trouble)

    def grown() -> None:
        for wake in wakes:
            wake.set()

    service.grown = grown
    return drivers


class LeafTime:
    """A driver: what the newest directory says of the time, for a log that has no witness to ask."""

    def __init__(self, service: RecipeService, vouched: VouchedTime) -> None:
        self._service = service
        self._vouched = vouched

    async def step(self) -> int:
        """Look once. Always returns 0."""
        newest = await self._service.newest_leaf()
        if newest is not None:
            self._vouched.hear_least("the log's newest directory", *newest)
        return 0


def make_transport(config: RecipeServerConfig) -> HttpTransport:
    """The transport for the ``ServiceEnv`` of a recipe server that runs as a process of its own, with which it calls
    its witnesses."""
    return HttpTransport(timeout=ANSWER_SECONDS, tls=config.client_tls, insecure_http=config.insecure_http)


def _announcing(announcer: Announcer) -> Callable[[web.Application], AsyncIterator[None]]:
    async def running(_app: web.Application) -> AsyncIterator[None]:
        await announcer.open()
        yield
        await announcer.close()

    return running


async def _running(app: web.Application) -> AsyncIterator[None]:
    service = app[RECIPES]
    await service.open()
    yield
    await service.close()
