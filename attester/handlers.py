"""The attester's HTTP resources: challenges and token requests (public), issuance counts (operator only)."""

from __future__ import annotations

from dataclasses import asdict

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from attester.service import Attester, unsignable
from tacit import media_types
from tacit.codec import b64url, unb64url
from tacit.errors import DecodeError
from tacit.service.app import read_body
from tacit.service.http.callers import CALLERS
from tacit.service.http.paging import page_of, page_response
from tacit.tokens.attestation import CHALLENGE_SIZE, Evidence

ATTESTER = web.AppKey("attester", Attester)

MAX_REQUEST = 32768


class _Strict(BaseModel):
    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)


class EvidenceBody(_Strict):
    """Evidence as JSON; ``blob`` is base64url."""

    fmt: str = Field(max_length=64)
    blob: str = Field(repr=False)


class TokenRequestBody(_Strict):
    """Body of POST /v1/token-requests; ``challenge`` and ``token_request`` are base64url."""

    evidence: EvidenceBody
    challenge: str = Field(repr=False)
    token_request: str = Field(repr=False)


async def post_challenge(request: web.Request) -> web.Response:
    """POST /v1/challenge -> {"challenge": base64url of 32 bytes}."""
    challenge = request.app[ATTESTER].challenge()
    return web.json_response({"challenge": b64url(challenge)})


async def post_token_request(request: web.Request) -> web.Response:
    """POST /v1/token-requests -> the issuer's token response (256 bytes), or a problem document."""
    raw = await read_body(request, MAX_REQUEST, media_types.JSON)
    try:
        body = TokenRequestBody.model_validate_json(raw)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"][:2]) or "body"
        raise DecodeError(f"token request: {where} is missing or malformed") from error
    response = await request.app[ATTESTER].request_token(
        Evidence(body.evidence.fmt, unb64url(body.evidence.blob, what="evidence")),
        unb64url(body.challenge, length=CHALLENGE_SIZE, what="challenge"),
        _token_request(body.token_request),
    )
    return web.Response(body=response, headers={"Content-Type": media_types.PRIVATE_TOKEN_RESPONSE})


def _token_request(text: str) -> bytes:
    try:
        return unb64url(text, what="token_request")
    except DecodeError as error:
        raise unsignable(str(error)) from error


async def get_issuance(request: web.Request) -> web.Response:
    """GET /v1/issuance?cursor=N&limit=N, with the operator's credential: a page of counts by slot, the latest first;
    they are kept for ever (P15)."""
    request.app[CALLERS].require(request, "operator")
    counts, (after, limit) = await request.app[ATTESTER].issuance(), page_of(request)
    latest = sorted(counts.items(), reverse=True)[after : after + limit + 1]
    slots = [{"epoch": epoch, "slot": slot, **asdict(count)} for (epoch, slot), count in latest]
    return page_response("slots", slots, after, limit)
