"""The issuer's HTTP resources: directory (public), token requests (attester only), counts (operator only)."""

from __future__ import annotations

from http import HTTPStatus

from aiohttp import web

from services.issuer.service import Issuer, make_refusal
from tacit import media_types
from tacit.errors import Abort
from tacit.service.app import read_body
from tacit.service.http.callers import CALLERS
from tacit.service.http.paging import page_of, page_response

ISSUER = web.AppKey("issuer", Issuer)

MAX_REQUEST = 1024


async def get_directory(request: web.Request) -> web.Response:
    """GET /.well-known/private-token-issuer-directory (RFC 9578 section 4)."""
    document, max_age = request.app[ISSUER].directory()
    return web.Response(
        body=document,
        headers={
            "Content-Type": media_types.ISSUER_DIRECTORY,
            "Cache-Control": f"public, max-age={max_age}",
        },
    )


async def post_token_request(request: web.Request) -> web.Response:
    """POST /token-request (RFC 9578 section 6.1), with the attester's credential. Errors: 401, 415, 422."""
    request.app[CALLERS].require(request, "attester")
    try:
        body = await read_body(request, MAX_REQUEST, media_types.PRIVATE_TOKEN_REQUEST)
    except Abort as abort:
        if (
            abort.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        ):  # the same answer as for any other wrong length (RFC 9578 section 6.2)
            raise make_refusal("the body is too long for a token request") from abort
        raise
    response = await request.app[ISSUER].sign(body)
    return web.Response(body=response, headers={"Content-Type": media_types.PRIVATE_TOKEN_RESPONSE})


async def get_issuance(request: web.Request) -> web.Response:
    """GET /v1/issuance?cursor=N&limit=N, with the operator's credential: a page of signatures by slot, the latest
    first; they are kept for ever (P15)."""
    request.app[CALLERS].require(request, "operator")
    counts, (after, limit) = await request.app[ISSUER].issuance(), page_of(request)
    latest = sorted(counts.items(), reverse=True)[after : after + limit + 1]
    slots = [{"epoch": epoch, "slot": slot, "issued": count} for (epoch, slot), count in latest]
    return page_response("slots", slots, after, limit)
