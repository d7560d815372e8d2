"""A sign-in provider of one's own on loopback, which answers as a test says; and a browser without a script before an
admin service that trusts it."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from aiohttp import ClientSession, CookieJar, web
from joserfc import jwt
from joserfc.jwk import Key, KeySet, RSAKey

from infra.base.free_ports import free_ports
from infra.lab.kit.entropy import SeededEntropy
from services.admin.app import create_app
from tacit.codec import b64url
from tacit.ports import Clock
from tacit.service.app import ServiceEnv
from tacit.service.base.config import Listen
from tacit.service.run import started
from tests.http.admin_stage import Stage

CLIENT = "tacit-admin"
FORM = "application/x-www-form-urlencoded"
RETURN = "/sign-in/openid/return"


@dataclass
class OwnProvider:
    """Honest, until a test changes what it does. ``claims`` and ``discovery`` are laid over what it would say;
    ``signer`` makes a token of claims; ``slow``: seconds before the token endpoint answers;
    ``silent``: whether its discovery document does not come."""

    clock: Clock
    port: int = 0
    subject: str = "subject-1"
    keys: list[Key] = field(default_factory=list)
    published: list[dict[str, Any]] | None = None
    keys_status: int = 200
    claims: dict[str, Any] = field(default_factory=dict)
    discovery: dict[str, Any] = field(default_factory=dict)
    signer: Callable[[dict[str, Any]], str] | None = None
    token_answer: Callable[[], web.StreamResponse] | None = None
    slow: float = 0.0
    silent: bool = False
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def rotate(self) -> None:
        """Another key signs from now on, and the old one is published no more."""
        self.keys = [RSAKey.generate_key(2048, {"kid": f"key-{len(self.asked)}-{id(object())}"})]

    def granted(self, url: str) -> dict[str, str]:
        """What the browser comes back with from the authorization endpoint."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        assert (query["response_type"], query["client_id"], query["code_challenge_method"]) == ("code", CLIENT, "S256")
        code = f"code-{len(self.codes)}"
        self.codes[code] = query
        return {"code": code, "state": query["state"]}

    def token_of(self, asked: dict[str, str]) -> str:
        now = int(self.clock.now())
        said = {
            "iss": self.issuer, "sub": self.subject, "aud": CLIENT, "iat": now, "exp": now + 300,
            "nonce": asked["nonce"], **self.claims,
        }  # fmt: skip
        said = {name: value for name, value in said.items() if value is not None}
        if self.signer is not None:
            return self.signer(said)
        return jwt.encode({"alg": "RS256", "kid": self.keys[0].kid}, said, self.keys[0])

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/.well-known/openid-configuration", self._discovery)
        app.router.add_get("/keys", self._keys)
        app.router.add_post("/token", self._token)
        app.router.add_get("/authorize", self._authorize)
        return app

    async def _authorize(self, request: web.Request) -> web.Response:
        """Signs whoever comes in, and sends them back."""
        back = self.granted(str(request.url))
        raise web.HTTPFound(f"{request.query['redirect_uri']}?{urlencode(back)}")

    async def _discovery(self, _request: web.Request) -> web.Response:
        self.asked.append("discovery")
        if self.silent:
            await asyncio.sleep(30)
        said = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
        }
        return web.json_response(said | self.discovery)

    async def _keys(self, _request: web.Request) -> web.Response:
        self.asked.append("keys")
        own = [one.as_dict(private=False) for one in KeySet(self.keys).keys]
        return web.json_response({"keys": own if self.published is None else self.published}, status=self.keys_status)

    async def _token(self, request: web.Request) -> web.StreamResponse:
        self.asked.append("token")
        if self.slow:
            await asyncio.sleep(self.slow)
        if self.token_answer is not None:
            return self.token_answer()
        form = await request.post()
        asked = self.codes.pop(str(form.get("code")), None)
        challenge = b64url(hashlib.sha256(str(form.get("code_verifier")).encode()).digest())
        if asked is None or challenge != asked["code_challenge"] or form["redirect_uri"] != asked["redirect_uri"]:
            return web.json_response({"error": "invalid_grant"}, status=400)
        return web.json_response({"access_token": "secret-access", "id_token": self.token_of(asked)})


@asynccontextmanager
async def providing(clock: Clock) -> AsyncIterator[OwnProvider]:
    """The provider while the block runs."""
    provider = OwnProvider(clock)
    provider.rotate()
    runner = web.AppRunner(provider.app(), shutdown_timeout=0.1)
    await runner.setup()
    (provider.port,) = free_ports(1)
    await web.TCPSite(runner, "127.0.0.1", provider.port).start()
    try:
        yield provider
    finally:
        await runner.cleanup()


@asynccontextmanager
async def admitting(stage: Stage, issuer: str, **openid: Any) -> AsyncIterator[str]:
    """The stage's admin service on a real port, with sign-in at ``issuer``; its URL."""
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    wanted = {"issuer": issuer, "client_id": CLIENT, "name": "Example's account", **openid}
    config = stage.config(public_url=url, openid=wanted)
    deps = ServiceEnv(stage.clock, SeededEntropy(port), stage.network, background=False)
    async with started(create_app(config, deps), Listen(port=port), grace_seconds=2):
        yield url


class Visitor:
    """A browser without a script, which keeps cookies and follows nothing by itself."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.session = ClientSession(cookie_jar=CookieJar(unsafe=True))
        self.page = ""

    async def __aenter__(self) -> Visitor:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.session.close()

    async def get(self, path: str, **query: str) -> int:
        async with self.session.get(self.url + path, params=query, allow_redirects=False) as answer:
            self.page = await answer.text()
            return answer.status

    async def post(self, path: str, **fields: str) -> int:
        found = re.search(r'name="csrf" value="([^"]*)"', self.page)
        data = {"csrf": found[1] if found else "", **fields}
        async with self.session.post(self.url + path, data=data, allow_redirects=False) as answer:
            self.page = await answer.text()
            return answer.status

    @property
    def onward(self) -> str:
        """Where the page leads by itself."""
        found = re.search(r'http-equiv="refresh" content="0; url=([^"]*)"', self.page)
        assert found is not None, self.page
        return unescape(found[1])

    async def depart(self, invitation: str = "", target: str = "/") -> str:
        """Where the provider's page is."""
        assert await self.get("/sign-in", next=target) == 200
        assert await self.post("/sign-in/openid", invitation=invitation, next=target) == 200, self.page
        return self.onward

    async def sign_in(self, provider: OwnProvider, invitation: str = "", target: str = "/") -> int:
        """Sign in: leave for the provider, and come back with its answer."""
        return await self.get(RETURN, **provider.granted(await self.depart(invitation, target)))
