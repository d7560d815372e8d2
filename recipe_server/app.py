"""The recipe server's public application. It writes through ``RecipeService`` and nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from aiohttp import web

from recipe_server import handlers
from recipe_server.config import RecipeServerConfig
from recipe_server.handlers import COLLECTOR_DIGESTS, MAX_AGE, RECIPES
from recipe_server.results import MAX_RESULT
from recipe_server.service import RecipeService
from tacit.adapters.http import AiohttpTransport
from tacit.ports import Announcer
from tacit.service.app import Deps, make_app, refuse_expect
from tacit.service.auth import token_digest
from tacit.service.backends import make_announcer
from tacit.service.config import read_secret

NAME = "recipe_server"


def create_app(config: RecipeServerConfig, deps: Deps) -> web.Application:
    """The application; its store opens with it. Raises ``UsageError`` for an unreadable key or credential."""
    app = make_app(NAME, deps, max_body=MAX_RESULT)
    announcer = None
    if config.announcer is not None:
        announcer = make_announcer(config.announcer, NAME, deps.clock, deps.entropy, insecure=config.insecure_http)
        app.cleanup_ctx.append(_announcing(announcer))
    app[RECIPES] = RecipeService(config, deps.clock, announcer)
    credential = config.collector_token
    app[COLLECTOR_DIGESTS] = () if credential is None else (token_digest(read_secret(credential)),)
    app[MAX_AGE] = config.max_age
    router = app.router
    router.add_get("/checkpoint", handlers.get_checkpoint)
    router.add_get("/tile/{path:.+}", handlers.get_tile)
    router.add_get("/v1/bundle", handlers.get_bundle)
    router.add_get("/v1/bundle/{digest}", handlers.get_page)
    router.add_get("/v1/hashes/{size}/{block}", handlers.get_hashes)
    router.add_post("/v1/leaves", handlers.post_leaf, expect_handler=refuse_expect)
    router.add_get("/v1/recipes", handlers.get_recipes)
    router.add_get("/v1/recipes/{hash}", handlers.get_recipe)
    router.add_post("/v1/results", handlers.post_result, expect_handler=refuse_expect)
    router.add_get("/v1/results", handlers.get_results)
    router.add_get("/v1/results/{hash}", handlers.get_recipe_results)
    app.cleanup_ctx.append(_running)
    return app


def make_transport(config: RecipeServerConfig) -> AiohttpTransport:
    """The transport for ``Deps`` of a recipe server that runs on its own; it calls nobody."""
    return AiohttpTransport(insecure_http=config.insecure_http)


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
