"""Sign-in by OpenID Connect: with a real provider's process, and with one that lies."""

from __future__ import annotations

import asyncio
import hmac
import json
import math
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from aiohttp import ClientSession, web
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from joserfc import jwt
from joserfc.jwk import RSAKey

from infra.base.free_ports import free_ports
from infra.cli import run
from services.admin.base.config import AdminConfig
from services.admin.people.flow import FLOW_COOKIE, INVITATION_SECONDS
from services.admin.people.openid import KEPT_SECONDS, LOOK_SECONDS
from tacit.codec import b64url
from tacit.errors import UsageError
from tacit.service.base.secret_files import write_secret
from tests.http.admin_stage import Stage, key_of, prepared
from tests.http.openid_provider import CLIENT, RETURN, OwnProvider, Visitor, admitting, providing

ADMINISTRATOR: dict[str, Any] = {"role": "administrator"}


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with prepared(tmp_path) as running:
        yield running


@pytest.fixture
async def provider(stage: Stage) -> AsyncIterator[OwnProvider]:
    async with providing(stage.clock) as found:
        yield found


@pytest.fixture
async def url(stage: Stage, provider: OwnProvider) -> AsyncIterator[str]:
    async with admitting(stage, provider.issuer, timeout_seconds=2) as found:
        await stage.start(public_url=found, openid={"issuer": provider.issuer, "client_id": CLIENT})
        yield found


async def person(stage: Stage, role: str) -> str:
    _, page = await stage.call("GET", "/v1/people", status=200, **ADMINISTRATOR)
    return next(str(one["id"]) for one in page["people"] if one["role"] == role)


async def invited(stage: Stage, role: str) -> str:
    who = await person(stage, role)
    _, made = await stage.call("POST", f"/v1/people/{who}/invitation", {}, status=201, **ADMINISTRATOR)
    return str(made["invitation"])


async def acts(stage: Stage) -> list[tuple[str, str, str]]:
    """Who did what, and what came of it."""
    _, page = await stage.call("GET", "/v1/audit?limit=200", status=200, **ADMINISTRATOR)
    return [(one["who"], one["what"], one["outcome"]) for one in page["acts"]]


@pytest.fixture
def real_provider() -> Iterator[str]:
    """A provider in a process of its own, whose people say who they are."""
    (port,) = free_ports(1)
    line = [sys.executable, "-m", "oidc_provider_mock", "--port", str(port), "--require-nonce", "true"]
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


async def answering(url: str) -> None:
    """Wait until somebody answers there."""
    deadline = time.monotonic() + 60
    async with ClientSession() as session:
        while time.monotonic() < deadline:
            try:
                async with session.get(url):
                    return
            except OSError:
                await asyncio.sleep(0.1)
    raise TimeoutError


async def granted(url: str, subject: str) -> dict[str, str]:
    """Sign in at the real provider as ``subject``: what it sends the browser back with."""
    async with ClientSession() as session, session.post(url, data={"sub": subject}, allow_redirects=False) as answer:
        assert answer.status == 302, await answer.text()
        where = urlsplit(answer.headers["Location"])
    assert where.path == RETURN
    return {name: values[0] for name, values in parse_qs(where.query).items()}


async def test_people_of_a_real_provider_come_in_by_an_invitation_and_then_by_their_account(
    stage: Stage, real_provider: str, tmp_path: Path
) -> None:
    await answering(f"{real_provider}/.well-known/openid-configuration")
    await stage.clock.advance(time.time() - stage.clock.now())
    write_secret(tmp_path / "client.secret", b"any secret\n")
    async with admitting(stage, real_provider, client_secret=tmp_path / "client.secret") as url:
        await stage.start(public_url=url, openid={"issuer": real_provider, "client_id": CLIENT})
        text = await invited(stage, "analyst")
        async with Visitor(url) as alice, Visitor(url) as mallory:
            away = await mallory.depart()
            assert await mallory.get(RETURN, **await granted(away, "mallory")) == 403
            assert "belongs to nobody here" in mallory.page
            away = await alice.depart(text, "/questions")
            assert await alice.get(RETURN, **await granted(away, "alice")) == 200
            assert alice.onward == "/questions"
            assert await alice.get("/questions") == 200
            assert "analyst-1" in alice.page
            assert await mallory.get(RETURN, **await granted(await mallory.depart(text), "mallory")) == 403
            assert "invitation is not valid" in mallory.page
            assert await mallory.get("/questions") == 303
        async with Visitor(url) as later:
            assert await later.get(RETURN, **await granted(await later.depart(), "alice")) == 200
            assert await later.get("/") == 200
            assert await later.post("/sign-out") == 303
            assert await later.get("/") == 303
    told = await acts(stage)
    assert ("analyst-1", "person.bind", "done") in told
    assert told.count(("analyst-1", "session.return", "done")) == 2
    assert told.count(("", "session.return", "unbound-account")) == 1


async def test_only_who_was_invited_binds_and_one_account_is_one_person(
    stage: Stage, provider: OwnProvider, url: str
) -> None:
    late = await invited(stage, "viewer")
    await stage.clock.advance(INVITATION_SECONDS)
    async with Visitor(url) as visitor:
        assert await visitor.sign_in(provider, late) == 403
        first = await invited(stage, "viewer")
        second = await invited(stage, "viewer")
        assert await visitor.sign_in(provider, first) == 403
        assert await visitor.sign_in(provider, second) == 200
        assert await visitor.sign_in(provider, await invited(stage, "approver")) == 409
        assert "bound to another person" in visitor.page
        assert await visitor.get("/") == 200
        who = await person(stage, "viewer")
        _, shown = await stage.call("DELETE", f"/v1/people/{who}/identity", status=200, **ADMINISTRATOR)
        assert shown["has_identity"] is False
        assert await visitor.get("/") == 303
        assert await visitor.sign_in(provider) == 403
        assert await visitor.sign_in(provider, await invited(stage, "viewer")) == 200
        await stage.call("PATCH", f"/v1/people/{who}", {"disabled": True}, status=200, **ADMINISTRATOR)
        assert await visitor.get("/") == 303
        assert await visitor.sign_in(provider) == 403
    assert await stage.refused("POST", f"/v1/people/{who}/invitation", {}, role="analyst") == (403, "problem:forbidden")


@pytest.mark.false_alarm(0, "the client draws names of requests and pauses; nothing depends on them", runs=3)
async def test_an_administrator_invites_on_the_command_line(
    stage: Stage, provider: OwnProvider, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key, file = tmp_path / "administrator.key", tmp_path / "viewer.invitation"
    write_secret(key, key_of("administrator").encode())
    where = ["--url", url, "--key-file", str(key)]
    line = ["admin", "people", "invite", "viewer-1", "--out", str(file), *where]
    assert await asyncio.to_thread(run, line) == 0
    text = file.read_text().strip()
    assert file.stat().st_mode & 0o777 == 0o600
    assert await asyncio.to_thread(run, line) == 1  # what is there is not replaced
    async with Visitor(url) as visitor:
        assert await visitor.sign_in(provider, text) == 200
        assert await asyncio.to_thread(run, ["admin", "people", "unbind", "viewer-1", *where]) == 0
        assert await visitor.sign_in(provider) == 403
    said = capsys.readouterr()
    assert text not in said.out + said.err


async def test_an_answer_counts_once_in_the_browser_that_waits_for_it(
    stage: Stage, provider: OwnProvider, url: str
) -> None:
    async with Visitor(url) as visitor, Visitor(url) as another:
        away = await visitor.depart(await invited(stage, "viewer"))
        back = provider.granted(away)
        assert await another.get(RETURN, **back) == 403  # whoever has the code and the state alone
        await another.depart()
        assert await another.get(RETURN, **back) == 403
        assert await visitor.get(RETURN, code=back["code"], state="other") == 403
        assert await visitor.get(RETURN, **back, iss="https://elsewhere.example") == 403
        assert provider.asked.count("token") == 0
        (cookie,) = [one.value for one in visitor.session.cookie_jar if one.key == FLOW_COOKIE]
        assert await visitor.get(RETURN, **back) == 200
        assert await visitor.get(RETURN, **back) == 403
        visitor.session.cookie_jar.update_cookies({FLOW_COOKIE: cookie})  # as a thief of the cookie has it
        again = provider.granted(away)
        assert await visitor.get(RETURN, **again) == 403
        assert "was not expected" in visitor.page

        away = await another.depart()
        await stage.clock.advance(600)
        assert await another.get(RETURN, **provider.granted(away)) == 403
        back = provider.granted(await another.depart())
        assert await another.get(RETURN, error="access_denied", state=back["state"]) == 403
        assert "access_denied" in another.page
        assert await another.get(RETURN) == 422
        assert await another.post("/sign-in/openid", csrf="of-another-origin") == 403


def hs256(provider: OwnProvider) -> Callable[[dict[str, Any]], str]:
    """The public key as a secret."""
    own: Any = provider.keys[0]
    public = own.as_pem(private=False)
    header = b64url(json.dumps({"alg": "HS256", "kid": provider.keys[0].kid}).encode())

    def sign(claims: dict[str, Any]) -> str:
        signed = f"{header}.{b64url(json.dumps(claims).encode())}"
        return f"{signed}.{b64url(hmac.digest(public, signed.encode(), 'sha256'))}"

    return sign


def critical(provider: OwnProvider) -> Callable[[dict[str, Any]], str]:
    """Rightly signed, with a header that must be understood and is not."""
    header = b64url(json.dumps({"alg": "RS256", "kid": provider.keys[0].kid, "crit": ["x"], "x": 1}).encode())
    private: Any = provider.keys[0].private_key

    def sign(claims: dict[str, Any]) -> str:
        signed = f"{header}.{b64url(json.dumps(claims).encode())}"
        return f"{signed}.{b64url(private.sign(signed.encode(), PKCS1v15(), SHA256()))}"

    return sign


def unsigned(claims: dict[str, Any]) -> str:
    return ".".join([*(b64url(json.dumps(part).encode()) for part in ({"alg": "none"}, claims)), ""])


async def test_a_token_that_is_not_fresh_ours_and_the_providers_opens_nothing(
    stage: Stage, provider: OwnProvider, url: str
) -> None:
    text, now = await invited(stage, "viewer"), int(stage.clock.now())
    stranger = RSAKey.generate_key(2048, {"kid": str(provider.keys[0].kid)})
    unknown = RSAKey.generate_key(2048, {"kid": "unknown"})
    lies: list[dict[str, Any]] = [
        {"iss": "https://elsewhere.example"}, {"iss": f"{provider.issuer}/"}, {"iss": None}, {"aud": "another"},
        {"aud": [CLIENT, "another"]}, {"aud": None}, {"azp": "another"}, {"nonce": "another"}, {"nonce": None},
        {"nonce": "\u00e9"}, {"iat": math.nan}, {"exp": math.nan},
        {"exp": now - 61}, {"exp": None}, {"exp": "soon"}, {"iat": now + 3600}, {"iat": now - 3600},
        {"nbf": now + 3600}, {"sub": None}, {"sub": ""}, {"sub": 7}, {"sub": "x" * 256},
    ]  # fmt: skip
    signers = [
        unsigned, hs256(provider), lambda _: "no.token.at-all", lambda _: "x" * (1 << 16),
        lambda claims: jwt.encode({"alg": "RS256", "kid": stranger.kid}, claims, stranger),
        lambda claims: jwt.encode({"alg": "RS256", "kid": "unknown"}, claims, unknown),
        critical(provider),
    ]  # fmt: skip
    async with Visitor(url) as visitor:
        for lie in lies:
            provider.claims = lie
            assert await visitor.sign_in(provider, text) == 401, lie
        provider.claims = {}
        for signer in signers:
            provider.signer = signer
            assert await visitor.sign_in(provider, text) in {401, 502}, signer
        provider.signer = None
        assert await visitor.get("/") == 303
        assert await visitor.sign_in(provider, text) == 200
    assert ("viewer-1", "person.bind", "done") in await acts(stage)


async def test_keys_are_rotated_and_those_that_are_published_no_more_open_nothing(
    stage: Stage, provider: OwnProvider, url: str
) -> None:
    async with Visitor(url) as visitor:
        assert await visitor.sign_in(provider, await invited(stage, "viewer")) == 200
        old = provider.keys[0]
        await stage.clock.advance(LOOK_SECONDS)
        provider.rotate()
        assert await visitor.sign_in(provider) == 200
        assert provider.asked.count("keys") == 2
        provider.signer = lambda claims: jwt.encode({"alg": "RS256", "kid": old.kid}, claims, old)
        for _ in range(3):
            assert await visitor.sign_in(provider) == 401
        assert provider.asked.count("keys") == 2  # tokens cannot make us ask again and again
        provider.signer, provider.published = None, [{"kty": "oct", "k": "c2VjcmV0"}, {"kty": "RSA"}, {"kty": 1}]
        await stage.clock.advance(KEPT_SECONDS)
        assert await visitor.sign_in(provider) == 401
        assert provider.asked.count("keys") == 3, "where no key is usable, too"
        for status in (404, 429, 203):
            provider.keys_status = status
            await stage.clock.advance(LOOK_SECONDS)
            assert await visitor.sign_in(provider) == 502
            assert "its published keys cannot be read" in visitor.page
        provider.keys_status = 200
        assert await visitor.sign_in(provider) == 401


async def test_a_provider_that_is_away_slow_huge_or_strange_leaves_nothing_half_done(
    stage: Stage, provider: OwnProvider, url: str
) -> None:
    text = await invited(stage, "viewer")
    answers: list[tuple[Callable[[], web.StreamResponse], int]] = [
        (lambda: web.Response(status=500), 503),
        (lambda: web.Response(status=302, headers={"Location": "http://127.0.0.1:1/"}), 502),
        (lambda: web.Response(body=b"x" * (1 << 20)), 503),
        (lambda: web.Response(text="[" * 10_000), 502),
        (lambda: web.json_response({"id_token": 7}), 502),
        (lambda: web.json_response({"error": "invalid_client", "error_description": "<script>"}, status=401), 403),
    ]
    async with Visitor(url) as visitor:
        for answer, status in answers:
            provider.token_answer = answer
            assert await visitor.sign_in(provider, text) == status
            assert "<script>" not in visitor.page
        provider.token_answer = None
        provider.slow = 30.0
        assert await visitor.sign_in(provider, text) == 503
        assert "cannot be reached, or its answer is too slow" in visitor.page
        provider.slow = 0.0
        assert await visitor.sign_in(provider, text) == 200

        for wrong in (
            {"issuer": "https://elsewhere.example"}, {"token_endpoint": "http://elsewhere.example/token"},
            {"authorization_endpoint": "javascript:alert(1)"}, {"jwks_uri": None},
            {"code_challenge_methods_supported": ["plain"]}, {"x": "x" * (1 << 19)},
        ):  # fmt: skip
            await stage.clock.advance(KEPT_SECONDS)
            provider.discovery = wrong
            assert await visitor.get("/sign-in") == 200
            assert await visitor.post("/sign-in/openid", next="/") in {502, 503}, wrong
            assert "sign-in provider" in visitor.page
        assert await visitor.post("/sign-in", name="nobody", password="x" * 12) == 401  # others still sign in


async def test_another_account_for_the_same_person_ends_what_the_first_one_opened(
    stage: Stage, provider: OwnProvider, url: str
) -> None:
    async with Visitor(url) as thief, Visitor(url) as owner:
        assert await thief.sign_in(provider, await invited(stage, "viewer")) == 200
        assert await thief.get("/") == 200
        provider.subject = "subject-2"
        assert await owner.sign_in(provider, await invited(stage, "viewer")) == 200
        assert await thief.get("/") == 303
        assert await owner.get("/") == 200
        assert await owner.sign_in(provider, await invited(stage, "viewer")) == 200
        provider.subject = "subject-1"
        assert await thief.sign_in(provider) == 403


async def test_many_at_a_time_wait_for_a_silent_provider_as_long_as_one(
    stage: Stage, provider: OwnProvider, url: str
) -> None:
    provider.silent = True
    async with ClientSession() as session:

        async def asked(_number: int) -> int:
            async with session.post(f"{url}/v1/session/openid", json={}) as answer:
                return answer.status

        assert await asyncio.gather(*map(asked, range(12))) == [503] * 12
        assert provider.asked.count("discovery") == 1
        provider.silent = False
        assert await asked(0) == 200, "and whoever comes later asks again"


async def test_nothing_secret_is_told(
    stage: Stage, provider: OwnProvider, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = tmp_path / "client.secret"
    write_secret(secret, b"client-secret-text\n")
    async with admitting(stage, provider.issuer, client_secret=secret) as url:
        await stage.start(
            public_url=url, openid={"issuer": provider.issuer, "client_id": CLIENT, "client_secret": secret}
        )
        text = await invited(stage, "viewer")
        async with Visitor(url) as visitor:
            back = provider.granted(await visitor.depart(text))
            provider.token_answer = lambda: web.json_response({"error": "invalid_client"}, status=401)
            assert await visitor.get(RETURN, **back) == 403
            provider.token_answer = None
            back = provider.granted(await visitor.depart(text))
            assert await visitor.get(RETURN, **back) == 200
            config = repr(stage.admin.config) + repr(stage.admin) + json.dumps(await acts(stage))
    said = capsys.readouterr()
    for hidden in ("client-secret-text", text, back["code"], back["state"], "secret-access", "eyJ"):
        assert hidden not in said.out + said.err + config
    stored = (tmp_path / "admin.sqlite3").read_bytes()
    for hidden in (text, provider.subject, "client-secret-text"):
        assert hidden.encode() not in stored


async def test_what_is_not_configured_is_not_there(stage: Stage) -> None:
    await stage.start()
    assert await stage.refused("POST", "/v1/session/openid", {}, role=None) == (404, "problem:not-found")
    assert await stage.refused("POST", "/v1/session/openid/return", {"state": "x"}, role=None) == (
        404,
        "problem:not-found",
    )
    _, page = await stage.call("GET", "/sign-in", role=None, status=200)
    assert b"Go to the provider" not in page
    wanted = {"issuer": "https://login.example", "client_id": CLIENT}
    for changes, word in (
        ({"openid": wanted}, "openid needs public_url"),
        ({"openid": {**wanted, "scopes": ["email"]}, "public_url": "https://a.example"}, "must include openid"),
        ({"openid": {**wanted, "issuer": "http://login.example"}, "public_url": "https://a.example"}, "plain http"),
        ({"openid": wanted, "public_url": "https://a.example/path"}, "public_url"),
    ):
        with pytest.raises((UsageError, ValueError), match=re.escape(word)):
            await stage.start(**changes)
    assert AdminConfig.model_fields["openid"].default is None
