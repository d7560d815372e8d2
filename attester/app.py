"""The attester as an aiohttp application."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from aiohttp import web

from attester.config import AttesterConfig
from attester.handlers import (
    ATTESTER,
    MAX_REQUEST,
    get_issuance,
    post_challenge,
    post_token_request,
)
from attester.service import Attester, HousekeepingDriver
from attester.software_root import RevocationList, SoftwareRootVerifier, load_roots, spki_hash
from attester.store import AttesterStore
from attester.verification import AttestationVerifier
from tacit.adapters.network.http import HttpTransport
from tacit.adapters.network.origins import require_secure_url
from tacit.errors import UsageError
from tacit.service.app import (
    CLOCK_BOUND,
    HEALTH_PROBLEMS,
    METRICS,
    ServiceEnv,
    add_driver,
    ask_time,
    make_app,
)
from tacit.service.base.marks import watermark_of
from tacit.service.base.secret_files import read_secret, write_secret
from tacit.service.http.callers import Callers, tokens_of
from tacit.service.metric_names import TOKENS, Rule, Shown
from tacit.service.operated import OPERATED, HeldKey
from tacit.service.stores import add_store
from tacit.tokens.directory import WELL_KNOWN_PATH

SECRET_SIZE = 32

NAME = "attester"


REFUSED = Shown(
    "tacit_attestations_refused_total",
    "counter",
    ("cause",),
    Rule.COARSE,
    "token requests of devices that were not attested",
    by=("attester",),
)


def create_app(
    config: AttesterConfig, deps: ServiceEnv, verifiers: Sequence[AttestationVerifier] = ()
) -> web.Application:
    """Build the application; its store opens with it. ``verifiers`` adds evidence formats beside ``software-root``.

    Raises ``UsageError`` for an unsafe setting and for roots, revocations or secrets that cannot be read.
    """
    if config.issuer_credential is None and config.client_cert is None:
        raise UsageError("issuer_credential or client_cert is needed: the issuer serves only its attester")
    require_secure_url(config.issuer_url, insecure_http=config.insecure_http)
    callers = Callers(NAME, config.listen, tokens_of({"operator": config.operator_token}))
    app = make_app(NAME, deps, max_body=MAX_REQUEST, callers=callers)
    revoked = RevocationList(config.revocations)
    secret = _attester_secret(config, deps)
    roots = load_roots(config.software_roots)
    app[OPERATED].held = lambda: [
        HeldKey("device root", spki_hash(root).hex(), int(root.not_valid_after_utc.timestamp())) for root in roots
    ]
    own = SoftwareRootVerifier(roots, revoked, secret)
    store = AttesterStore(config.database_url(NAME), watermark_of(config, NAME, deps.clock, deps.recovery))
    app[ATTESTER] = attester = Attester(config, deps, store, [own, *verifiers], secret)
    app[HEALTH_PROBLEMS].append(attester.credential.trouble)
    app.router.add_post("/v1/challenge", post_challenge)
    app.router.add_post("/v1/token-requests", post_token_request)
    if config.operator_token is not None:
        app.router.add_get("/v1/issuance", get_issuance)
    app.cleanup_ctx.append(_running)
    add_store(app, lambda: store.durable)
    app[METRICS].declare(TOKENS, REFUSED)
    app[METRICS].add("tacit_tokens_total", attester.answered_by_epoch)
    app[METRICS].add("tacit_attestations_refused_total", attester.refused_by_cause)
    app[CLOCK_BOUND] = True
    add_driver(app, HousekeepingDriver(attester, revoked), config.idle_seconds, "forgetting and reading revocations")
    ask_time(app, "the issuer", config.issuer_url + WELL_KNOWN_PATH)
    return app


def make_transport(config: AttesterConfig) -> HttpTransport:
    """The transport for the ``ServiceEnv`` of an attester that runs as a process of its own."""
    return HttpTransport(tls=config.client_tls, insecure_http=config.insecure_http)


def _attester_secret(config: AttesterConfig, deps: ServiceEnv) -> bytes:
    """The secret (32 bytes) that keys the HMACs of device ids and of challenges. It is made at the first start, kept in
    a file of its own, and is the same for every process of one attester."""
    if config.storage == "memory":
        return deps.entropy(SECRET_SIZE)
    path = config.state_dir / "stable-id.key"
    if not path.exists():
        write_secret(path, deps.entropy(SECRET_SIZE))
    return read_secret(path)


async def _running(app: web.Application) -> AsyncIterator[None]:
    await app[ATTESTER].open()
    yield
    await app[ATTESTER].close()
