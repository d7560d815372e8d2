"""The public HTTP resources of the recipe server: log, bundle, recipes, model files, results."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

from aiohttp import web

from recipe_server.model_files import ModelFiles
from recipe_server.result_pages import PAGE_RESULTS, ResultPage
from recipe_server.results import MAX_RESULT
from recipe_server.service import LIST_LIMIT, RecipeService
from tacit import media_types
from tacit.codec import unb64url
from tacit.errors import Abort, DecodeError
from tacit.service.app import SERVICE_ENV, read_body, require_no_doubt
from tacit.service.http.callers import CALLERS
from tacit.service.http.problems import status_abort
from tacit.tlog.leaves import MAX_ENTRY_SIZE
from tacit.tlog.tiles import Tile

RECIPES = web.AppKey("recipe_service", RecipeService)
MODELS = web.AppKey("models", ModelFiles)
MAX_AGE = web.AppKey("max_age", int)

FOR_EVER = "public, max-age=31536000, immutable"
NOTE = "text/plain; charset=utf-8"
_MAX_NUMBER = 19


async def get_checkpoint(request: web.Request) -> web.Response:
    """GET /checkpoint: the signed note (C2SP tlog-tiles)."""
    return _answer(request, await request.app[RECIPES].checkpoint(), NOTE)


async def get_tile(request: web.Request) -> web.Response:
    """GET /tile/<L>/<N>[.p/<W>] and /tile/entries/<N>[.p/<W>] (C2SP tlog-tiles): immutable; 404 beyond the present
    tree."""
    try:
        tile = Tile.parse(request.path.removeprefix("/"))
    except DecodeError as error:
        raise web.HTTPNotFound from error
    content = await request.app[RECIPES].tile(tile)
    return _immutable(content, media_types.OCTET_STREAM)


async def get_bundle(request: web.Request) -> web.Response:
    """GET /v1/bundle: the checkpoint, and the digests of the pages with the live entries."""
    return _answer(request, await request.app[RECIPES].head(), media_types.JSON)


async def get_page(request: web.Request) -> web.Response:
    """GET /v1/bundle/{digest}: live entries with their proofs; immutable, and dropped a few trees later."""
    try:
        digest = unb64url(request.match_info["digest"], length=32, what="digest")
    except DecodeError as error:
        raise web.HTTPNotFound from error
    return _immutable(request.app[RECIPES].page(digest), media_types.JSON)


async def get_key_sets(request: web.Request) -> web.Response:
    """GET /v1/key-sets: the checkpoint, and the gateways' live key sets with their proofs, for relays."""
    return _answer(request, await request.app[RECIPES].key_sets(), media_types.JSON)


async def get_hashes(request: web.Request) -> web.Response:
    """GET /v1/hashes/{size}/{block}: the hashes in that block for a consistency proof from a tree of that size;
    immutable."""
    size, block = (_whole(request.match_info[name]) for name in ("size", "block"))
    return _immutable(await request.app[RECIPES].hashes(size, block), media_types.JSON)


def _immutable(content: bytes | None, content_type: str) -> web.Response:
    if content is None:
        raise web.HTTPNotFound
    return web.Response(body=content, headers={"Content-Type": content_type, "Cache-Control": FOR_EVER})


async def post_leaf(request: web.Request) -> web.Response:
    """POST /v1/leaves: 201 {"index"}; 200 if the log already held these bytes; 422 with the rule for a refusal; 503
    while the clock is in doubt, as what is refused then is refused for good."""
    require_no_doubt(request.app[SERVICE_ENV])
    published = await request.app[RECIPES].publish_leaf(await read_body(request, MAX_ENTRY_SIZE, media_types.JSON))
    return web.json_response({"index": published.index}, status=201 if published.added else 200)


async def get_recipes(request: web.Request) -> web.Response:
    """GET /v1/recipes?after=INDEX&limit=N: summaries with state; ``next`` is the ``after`` of the next page or null."""
    after, limit = _number(request, "after", -1), min(LIST_LIMIT, _number(request, "limit", LIST_LIMIT))
    page = await request.app[RECIPES].recipes(after, limit)
    following = page[-1]["index"] if page and len(page) == limit else None
    return _json(request, {"recipes": page, "next": following})


async def get_recipe(request: web.Request) -> web.Response:
    """GET /v1/recipes/{hash}: summary, body, leaf, opt-ins and task id; 404 if the log does not hold the recipe."""
    document = await request.app[RECIPES].recipe(_hash(request))
    if document is None:
        raise web.HTTPNotFound
    return _json(request, document)


async def put_model(request: web.Request) -> web.Response:
    """PUT /v1/models/{hash}: the whole file; 201, or 200 if it is stored already. It is read only if a live round names
    its hash and length."""
    files, model, length = request.app[MODELS], _hash(request, "hash of a model"), request.content_length
    if length is None:
        raise status_abort(HTTPStatus.LENGTH_REQUIRED, "send the file's length in Content-Length")
    await files.require(model, length)
    added = await files.put(model, await read_body(request, length, media_types.OCTET_STREAM))
    return web.json_response({"stored": True}, status=201 if added else 200)


async def get_piece(request: web.Request) -> web.Response:
    """GET /v1/models/{hash}/{number}: a piece of a model file; immutable."""
    model, number = _hash(request, "hash of a model"), _whole(request.match_info["number"])
    return _immutable(await request.app[MODELS].piece(model, number), media_types.OCTET_STREAM)


async def post_result(request: web.Request) -> web.Response:
    """POST /v1/results, with the collector's credential: 201, or 200 for the same bytes again."""
    request.app[CALLERS].require(request, "collector")
    added = await request.app[RECIPES].publish_result(await read_body(request, MAX_RESULT, media_types.JSON))
    return web.json_response({"published": True}, status=201 if added else 200)


async def get_results(request: web.Request) -> web.Response:
    """GET /v1/results?after=NUMBER&limit=N: released results in the order of publication; ``next`` is the ``after`` of
    the next page or null. A page that another one follows is immutable."""
    page = await _result_page(request, None)
    return _immutable(page.body, media_types.JSON) if page.full else _answer(request, page.body, media_types.JSON)


async def get_recipe_results(request: web.Request) -> web.Response:
    """GET /v1/results/{hash}?after=NUMBER&limit=N: those of one recipe; 404 while there is none."""
    page = await _result_page(request, _hash(request))
    if page.empty and "after" not in request.query:
        raise web.HTTPNotFound
    return _immutable(page.body, media_types.JSON) if page.full else _answer(request, page.body, media_types.JSON)


async def _result_page(request: web.Request, recipe_hash: bytes | None) -> ResultPage:
    limit = max(1, _number(request, "limit", PAGE_RESULTS))
    return await request.app[RECIPES].results(recipe_hash, _number(request, "after", -1), limit)


def _number(request: web.Request, name: str, default: int) -> int:
    text = request.query.get(name)
    if text is None:
        return default
    if not _is_whole(text):
        raise Abort("about:blank", f"{name} must be a number", status=400, title="Bad Request")
    return int(text)


def _whole(text: str) -> int:
    if not _is_whole(text):
        raise web.HTTPNotFound
    return int(text)


def _is_whole(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MAX_NUMBER


def _hash(request: web.Request, what: str = "recipe hash") -> bytes:
    try:
        return unb64url(request.match_info["hash"], length=32, what=what)
    except DecodeError as error:
        raise web.HTTPNotFound from error


def _answer(request: web.Request, body: bytes, content_type: str) -> web.Response:
    caching = f"public, max-age={request.app[MAX_AGE]}"
    return web.Response(body=body, headers={"Content-Type": content_type, "Cache-Control": caching})


def _json(request: web.Request, body: dict[str, Any]) -> web.Response:
    return _answer(request, json.dumps(body, separators=(",", ":")).encode(), media_types.JSON)
