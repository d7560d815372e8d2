"""Requests to the provider when somebody signs in by OpenID Connect (Core 1.0, Discovery 1.0; RFC 6749, 7636, 9207).

The provider's answers are bounded in size and time, and redirects are not followed. An ID token is accepted if it is
signed with a key that the provider publishes now and an asymmetric algorithm, is fresh, and was made by this issuer,
for this client and for this very sign-in. The access token that comes with it is neither used nor stored; no error
holds a token, a code or a secret.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import math
import re
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, urlencode

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import import_key
from joserfc.jws import extract_compact

from services.admin.base.config import OpenIdConfig
from services.admin.base.problems import Problem, away, refuse
from tacit import media_types
from tacit.adapters.network.http import HttpTransport
from tacit.adapters.network.origins import require_secure_url
from tacit.errors import Abort, UsageError
from tacit.ports import Clock, TransportError
from tacit.service.http.auth import unauthorized

PROVIDER: Final = "sign-in provider"
ALGORITHMS: Final = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
)
"""Signature algorithms of ID tokens that are accepted: only asymmetric ones, so that whoever can verify a token cannot
sign one."""
KEPT_SECONDS: Final = 3600
"""How many seconds the provider's published documents are used before they are read again."""
LOOK_SECONDS: Final = 10
"""The provider's keys are not read again within this many seconds, even if a token names an unknown key."""
LEEWAY: Final = 60
"""Seconds by which the provider's clock may differ from ours."""
OLDEST: Final = 600
"""The greatest age of an ID token, in seconds."""
MOST_KEYS: Final = 50
MOST_TOKEN: Final = 1 << 15
MOST_SUBJECT: Final = 255
WELL_KNOWN: Final = "/.well-known/openid-configuration"
_ENDPOINT: Final = r"""https?://[^\s"'<>\\#\x00-\x1f\x7f-\U0010ffff]{1,1000}"""
FORM: Final = "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True)
class Provider:
    """The endpoints in the provider's discovery document: ``authorization``, ``token`` and ``keys`` are URLs."""

    authorization: str
    token: str
    keys: str
    by_post: bool
    """Whether the token endpoint accepts the client's secret only in the body."""


@dataclass(frozen=True, slots=True)
class Proof:
    """The values that one sign-in is bound to. Only the browser that began it can return them."""

    state: str = field(repr=False)
    nonce: str = field(repr=False)
    verifier: str = field(repr=False)
    challenge: str = field(repr=False)


class OpenIdClient:
    """This service as the client of one provider. ``secret``: empty for a client that has none; ``redirect``: the URL
    of this service to which the provider sends browsers back."""

    def __init__(
        self,
        config: OpenIdConfig,
        secret: str,
        redirect: str,
        transport: HttpTransport,
        clock: Clock,
        *,
        insecure: bool,
    ) -> None:
        self._config = config
        self._secret = secret
        self._redirect = redirect
        self._transport = transport
        self._clock = clock
        self._insecure = insecure
        self._provider: Provider | None = None
        self._provider_at = self._keys_at = -math.inf
        self._keys: list[dict[str, Any]] = []
        self._reading = asyncio.Lock()
        self._failed = 0

    @property
    def issuer(self) -> str:
        """The URL of the provider, as configured."""
        return self._config.issuer

    async def close(self) -> None:
        await self._transport.close()

    async def authorization_url(self, proof: Proof) -> str:
        """The provider's URL at which a browser signs in. Raises ``Abort`` (502, 503)."""
        provider = await self._discover()
        asked = {
            "response_type": "code",
            "client_id": self._config.client_id,
            "redirect_uri": self._redirect,
            "scope": " ".join(self._config.scopes),
            "state": proof.state,
            "nonce": proof.nonce,
            "code_challenge": proof.challenge,
            "code_challenge_method": "S256",
        }
        if self._config.max_age_seconds is not None:
            asked["max_age"] = str(self._config.max_age_seconds)
        return f"{provider.authorization}{'&' if '?' in provider.authorization else '?'}{urlencode(asked)}"

    async def subject(self, code: str, proof: Proof) -> str:
        """Exchange ``code`` for an ID token, and return its subject: the account that signed in. Raises ``Abort``: 401
        for a token that is not accepted, 403 if the provider does not accept the code, 502 and 503 if it gives no
        token."""
        return await self._verify(await self._exchange(await self._discover(), code, proof), proof)

    async def _exchange(self, provider: Provider, code: str, proof: Proof) -> str:
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect,
            "code_verifier": proof.verifier,
        }
        headers = {"Content-Type": FORM, "Accept": media_types.JSON}
        if self._secret and not provider.by_post:
            pair = f"{quote(self._config.client_id, safe='')}:{quote(self._secret, safe='')}"
            headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        else:
            fields["client_id"] = self._config.client_id
            if self._secret:
                fields["client_secret"] = self._secret
        status, document = await self._send("POST", provider.token, headers, urlencode(fields).encode())
        if 400 <= status < 500:
            raise refuse(Problem.PROVIDER_REFUSED, f"it does not accept the code{_word(document)}; sign in again")
        token = document.get("id_token") if status == 200 else None
        if not isinstance(token, str) or not 0 < len(token) <= MOST_TOKEN:
            raise odd("it gives no ID token")
        return token

    async def _verify(self, token: str, proof: Proof) -> str:
        claims = await self._signed_claims(token)
        registry = jwt.JWTClaimsRegistry(
            now=int(self._clock.now()),
            leeway=LEEWAY,
            iss={"essential": True, "value": self._config.issuer},
            aud={"essential": True, "value": self._config.client_id},
            exp={"essential": True},
            iat={"essential": True},
            sub={"essential": True},
            nonce={"essential": True},
        )
        try:
            registry.validate(claims)
        except JoseError as error:
            raise unauthorized() from error
        # check what the claims registry does not: that the token is for this sign-in, for no other client, and fresh
        now, party, nonce = self._clock.now(), claims.get("azp"), claims["nonce"]
        alone = claims["aud"] in (self._config.client_id, [self._config.client_id])
        if (party is not None or not alone) and party != self._config.client_id:
            raise unauthorized()
        if not isinstance(nonce, str) or not nonce.isascii() or not hmac.compare_digest(nonce, proof.nonce):
            raise unauthorized()
        if not claims["iat"] >= now - OLDEST:  # written with "not", so that NaN is refused, too
            raise unauthorized()
        if (longest := self._config.max_age_seconds) is not None:
            signed_in = claims.get("auth_time")
            if not isinstance(signed_in, int) or signed_in < now - longest - LEEWAY:
                raise unauthorized()
        subject = claims["sub"]
        if not isinstance(subject, str) or not 0 < len(subject) <= MOST_SUBJECT or not subject.isprintable():
            raise unauthorized()
        return subject

    async def _signed_claims(self, token: str) -> dict[str, Any]:
        """Verify the token's signature and return its claims. If no known key fits, the provider's keys are read
        again."""
        try:
            header = extract_compact(token.encode()).headers()
        except (JoseError, ValueError) as error:
            raise unauthorized() from error
        kid = header.get("kid")
        if header.get("alg") not in ALGORITHMS or not isinstance(kid, str | None):
            raise unauthorized()
        for again in (False, True):
            for key in await self._read_keys(anew=again):
                if kid is None or key.get("kid") == kid:
                    claims = _claims(token, key)
                    if claims is not None:
                        return claims
        raise unauthorized()

    async def _read_keys(self, *, anew: bool) -> list[dict[str, Any]]:
        """The provider's public keys. ``anew``: read them again, unless that was done less than ``LOOK_SECONDS`` ago,
        whatever was found. What cannot be read is read again by the next sign-in. Raises ``Abort`` (502, 503)."""
        provider = await self._discover()
        async with self._alone():
            age = self._clock.now() - self._keys_at
            if age < (LOOK_SECONDS if anew else KEPT_SECONDS):
                return self._keys
            status, document = await self._send("GET", provider.keys, {"Accept": media_types.JSON})
            keys = document.get("keys") if status == 200 else None
            if not isinstance(keys, list) or len(keys) > MOST_KEYS:
                raise odd("its published keys cannot be read")
            self._keys = [one for one in keys if isinstance(one, dict) and _signs(one)]
            self._keys_at = self._clock.now()
            return self._keys

    async def _discover(self) -> Provider:
        async with self._alone():
            now = self._clock.now()
            if self._provider is not None and now - self._provider_at < KEPT_SECONDS:
                return self._provider
            url = self._config.issuer.rstrip("/") + WELL_KNOWN
            status, document = await self._send("GET", url, {"Accept": media_types.JSON})
            if status != 200 or document.get("issuer") != self._config.issuer:
                raise odd("its discovery document does not name the configured issuer")
            ways = document.get("code_challenge_methods_supported")
            if isinstance(ways, list) and "S256" not in ways:
                raise odd("it does not support PKCE with S256")
            names = ("authorization_endpoint", "token_endpoint", "jwks_uri")
            authorization, token, keys = (self._endpoint(document.get(name)) for name in names)
            auth = document.get("token_endpoint_auth_methods_supported")
            by_post = isinstance(auth, list) and "client_secret_basic" not in auth
            self._provider, self._provider_at = Provider(authorization, token, keys, by_post), now
            return self._provider

    @contextlib.asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """Let one request at a time read what the provider publishes. Those that waited share its outcome, including a
        failure, so that many requests wait no longer than one. Raises ``Abort`` (503) after such a failure."""
        before = self._failed
        async with self._reading:
            if self._failed != before:
                raise away(PROVIDER, "it did not answer other requests at the same time")
            try:
                yield
            except Abort:
                self._failed += 1
                raise

    def _endpoint(self, url: object) -> str:
        unusable = odd("its discovery document names an endpoint that cannot be used")
        if not isinstance(url, str) or not re.fullmatch(_ENDPOINT, url):
            raise unusable
        try:
            require_secure_url(url, insecure_http=self._insecure)
        except UsageError as error:
            raise unusable from error
        return url

    async def _send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes = b""
    ) -> tuple[int, dict[str, Any]]:
        """Send a request, and return the status and the JSON object of the answer (empty if the body is not a JSON
        object). Raises ``Abort`` (502, 503)."""
        try:
            answer = await self._transport.request(method, url, headers=headers, body=body)
        except TransportError as error:
            raise away(PROVIDER, "it cannot be reached, or its answer is too slow or too large") from error
        if answer.status >= 500:
            raise away(PROVIDER, "it answers with an error of its own")
        if answer.status >= 300 and answer.status < 400:
            raise odd("it answers with a redirect, which is not followed")
        try:
            document = json.loads(answer.body)
        except (ValueError, RecursionError):
            document = {}
        return answer.status, document if isinstance(document, dict) else {}


def odd(why: str) -> Abort:
    """The refusal for an answer of the provider that cannot be used."""
    return refuse(Problem.PEER_ANSWER, f"the {PROVIDER}: {why}", peer=PROVIDER)


def _word(document: Mapping[str, Any]) -> str:
    """The provider's error code in brackets, if it has the form of an OAuth error code."""
    word = document.get("error")
    return f" ({word})" if isinstance(word, str) and word.isidentifier() and len(word) <= 40 else ""


def _signs(key: Mapping[str, Any]) -> bool:
    """Whether a published key may verify ID tokens."""
    public = key.get("kty") in {"RSA", "EC", "OKP"} and "d" not in key
    return public and key.get("use", "sig") == "sig" and isinstance(key.get("kid"), str | None)


def _claims(token: str, key: Mapping[str, Any]) -> dict[str, Any] | None:
    try:
        return jwt.decode(token, import_key(dict(key)), ALGORITHMS).claims
    except (JoseError, ValueError, TypeError, KeyError):
        return None
