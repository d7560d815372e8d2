"""The admin service as an aiohttp application."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from aiohttp import web

from services.admin.api.calls import ADMIN, Admin
from services.admin.api.openapi import about
from services.admin.api.restored import close_restored
from services.admin.api.routing import endpoint
from services.admin.base.config import AdminConfig
from services.admin.base.fair_threads import FairThreads
from services.admin.handlers.openid import RETURN_PATH
from services.admin.handlers.routes import ROUTES
from services.admin.learning.carrying import Runs
from services.admin.learning.reading import RunReader
from services.admin.learning.spent import Spent
from services.admin.pages.views.table import add_pages
from services.admin.people.consent import Consent, Rule
from services.admin.people.empowering import Empowering
from services.admin.people.openid import OpenIdClient
from services.admin.people.passkeys import Passkeys
from services.admin.people.passwords import Passwords
from services.admin.people.people import People, first_people
from services.admin.people.sign_in import SignIn
from services.admin.questions.events import Events, YieldWatch
from services.admin.questions.fleet import FleetWatch
from services.admin.questions.followed_log import FollowedLog
from services.admin.questions.log import Log
from services.admin.questions.planning import Planner
from services.admin.questions.publishing import Publishing
from services.admin.questions.questions import Questions
from services.admin.questions.releases import Releases
from services.admin.questions.rounds import Rounds
from services.admin.questions.shared import Shared
from services.admin.storage import audit
from services.admin.storage.records import Act
from services.admin.storage.store import AdminStore
from tacit.adapters.network.http import HttpTransport
from tacit.adapters.network.origins import require_secure_url
from tacit.adapters.network.tls import ClientTls
from tacit.errors import DecodeError, UsageError
from tacit.models.forms import FORMS
from tacit.models.parties import Parties
from tacit.models.secure_aggregation.form import SecureAggregation
from tacit.operations.pace import Pace
from tacit.operations.results import CollectorAccess
from tacit.service.app import HEALTH_PROBLEMS, Handler, ServiceEnv, add_driver, ask_time, make_app
from tacit.service.base.hsm import HsmKey
from tacit.service.base.keys import read_signing_key
from tacit.service.base.log import REQUEST, RequestId
from tacit.service.base.marks import watermark_of
from tacit.service.base.secret_files import read_secret
from tacit.service.base.vouched import EarlierClock, LaterClock
from tacit.service.documents.openapi import add_described
from tacit.service.http.callers import Callers
from tacit.service.http.live_tokens import ShownToken
from tacit.service.stores import add_store
from tacit.signing import Signer
from tacit.tlog.canonical import parse_json, validate

NAME = "admin"
MOST_ANSWER = 1 << 18
"""The largest answer, in bytes, that is accepted from the sign-in provider."""
MOST_CONNECTIONS = 8
RETRY_SECONDS = LOOK_SECONDS = 5.0
COMPUTED_OF_ONE, COMPUTED_TOGETHER = 6, 64
"""How many comparisons, checks and tables may wait for the one thread that computes them: per person, and in all."""
REQUEST_ID = "X-Request-Id"
ID: web.RequestKey[RequestId | None] = web.RequestKey("request_id", RequestId)


def create_app(config: AdminConfig, deps: ServiceEnv) -> web.Application:
    """Make the admin service that ``config`` describes. Raises ``UsageError`` for an unsafe or unreadable setting."""
    require_secure_url(config.log.url, insecure_http=config.insecure_http)
    app = make_app(
        NAME, deps, max_body=config.max_body, callers=Callers(NAME, config.listen, {}), middlewares=[_remember_id]
    )
    store = AdminStore(config.database_url(NAME), watermark_of(config, NAME, deps.clock, deps.recovery))
    token = ShownToken(None if config.collector is None else config.collector.token)
    app[ADMIN] = admin = make_admin(config, deps, store, token)
    app[HEALTH_PROBLEMS].append(token.trouble)

    async def storage(_app: web.Application) -> AsyncIterator[None]:
        await store.open()
        try:
            admin.followed_log.open()
            # store the configured consent rule
            async with admin.store.transaction() as tx:
                if words := await admin.consent.settle(tx):
                    await audit.record(tx, Act("", "consent.rule", "", admin.now, "operator", "done", words))
            await close_restored(admin, store.closed_until)
            await _let_in_the_first(admin)
            await admin.sign_in.open()
            yield
        finally:
            if admin.openid is not None:
                await admin.openid.close()
            await admin.shared.close()
            await admin.spent.close()
            await admin.followed_log.close()
            admin.passwords.close()
            admin.computing.close()
            await store.close()

    app.cleanup_ctx.append(storage)
    add_store(app, lambda: store.durable)
    add_driver(app, admin.publishing, RETRY_SECONDS, "publishing what was signed")
    admin.runs.wake = add_driver(app, admin.runs, LOOK_SECONDS, "carrying training runs")
    watch = YieldWatch(store, admin.events, admin.log, admin.collector, deps.clock)
    add_driver(app, watch, LOOK_SECONDS, "watching yields")
    ask_time(app, "the log", f"{config.log.url}/checkpoint")
    if config.fleet is not None:
        add_driver(app, FleetWatch(config.fleet, admin.events), LOOK_SECONDS, "watching the fleet's counts")
    app.on_shutdown.append(_end_streams)
    for route in ROUTES:
        app.router.add_route(route.method, route.path, endpoint(route))
    add_described(app, ROUTES, about(app[ADMIN].sign_in.cookie), None)
    add_pages(app)
    app.on_response_prepare.append(_show_id)
    return app


def make_admin(config: AdminConfig, deps: ServiceEnv, store: AdminStore, token: ShownToken) -> Admin:
    """Make everything that handlers use, over ``store``. ``token``: the bearer token for the collector. Raises
    ``UsageError``."""
    # a clock that is ahead must not end a wait for a second person early, nor one that was behind when it began
    waiting, begins = EarlierClock(deps.clock, deps.vouched), LaterClock(deps.clock, deps.vouched)
    consent = Consent(Rule(config.persons, config.approver_delay_seconds), waiting, deps.entropy, begins)
    people, events = People(deps.entropy), Events()
    questions = Questions(read_parties(config.parties), config.policy, consent, deps.clock, deps.entropy)
    log, followed = Log(config, deps), FollowedLog(config, deps)
    passwords = Passwords(deps.entropy)
    computing = FairThreads("computing", deps.entropy, at_a_time=1, each=COMPUTED_OF_ONE, together=COMPUTED_TOGETHER)
    collector = _collector(config, token)
    releases = None if collector is None else Releases(deps.transport, collector)
    rounds, key = Rounds(log, releases, deps.clock), analyst_key(config)
    runs = Runs(store, followed, deps.transport, collector, key, deps.clock, events.tell)
    return Admin(
        config=config,
        deps=deps,
        store=store,
        passkeys=Passkeys(config.passkeys, config.public_url or "", waiting, deps.entropy),
        openid=make_openid(config, deps),
        sign_in=SignIn(store, config.sign_in, deps.clock, waiting, deps.entropy, passwords, secure=config.secure),
        passwords=passwords,
        computing=computing,
        people=people,
        consent=consent,
        empowering=Empowering(people, consent, waiting, deps.entropy),
        questions=questions,
        publishing=Publishing(
            store, questions, rounds, log, config.policy, config.epoch_seconds, deps.clock, key, computing, events.tell,
            followed.grew, Pace(config.check_in_seconds), runs.lacks, followed.fresh,
        ),
        log=log,
        followed_log=followed,
        shared=Shared("log", deps.clock, deps.entropy),
        rounds=rounds,
        collector=collector,
        releases=releases,
        events=events,
        planner=Planner(config.policy, computing),
        runs=runs,
        run_reader=RunReader(store, releases, computing),
        spent=Spent(computing),
    )  # fmt: skip


def _collector(config: AdminConfig, token: ShownToken) -> CollectorAccess | None:
    """The access to the organisation's collector, if there is one. Raises ``UsageError`` for an unsafe URL."""
    if config.collector is None:
        return None
    require_secure_url(config.collector.url, insecure_http=config.insecure_http)
    return CollectorAccess(config.collector.url, config.log.url, token.text)


def make_openid(config: AdminConfig, deps: ServiceEnv) -> OpenIdClient | None:
    """Make the client of the sign-in provider, with its own transport; None if no provider is configured. Raises
    ``UsageError``."""
    wanted = config.openid
    if wanted is None or config.public_url is None:
        return None
    insecure = config.insecure_http
    require_secure_url(wanted.issuer, insecure_http=insecure)
    if urlsplit(wanted.issuer).query or urlsplit(wanted.issuer).fragment:
        raise UsageError("openid.issuer must be a URL without query and fragment")
    require_secure_url(config.public_url, insecure_http=insecure)
    redirect = f"{config.public_url.rstrip('/')}{RETURN_PATH}"
    secret = (
        "" if wanted.client_secret is None else read_secret(wanted.client_secret).decode("ascii", "replace").strip()
    )
    transport = HttpTransport(
        timeout=wanted.timeout_seconds, connect_timeout=wanted.timeout_seconds, max_response=MOST_ANSWER,
        connections=MOST_CONNECTIONS, tls=ClientTls(wanted.ca), insecure_http=insecure,
    )  # fmt: skip
    return OpenIdClient(wanted, secret, redirect, transport, deps.clock, insecure=insecure)


def analyst_key(config: AdminConfig) -> Signer | None:
    """The key that signs recipes, from a file or in a PKCS#11 token; None if this service does not hold it. Raises
    ``UsageError``."""
    if config.analyst_token is not None:
        return HsmKey(config.analyst_token)
    return None if config.analyst_key is None else read_signing_key(config.analyst_key)


def read_parties(path: Path) -> Mapping[str, Parties]:
    """Read the parties of recipes, by model, from a JSON file: either ``{model: parties}``, or only the parties of
    secure aggregation, as ``tacit recipe new --parties`` reads them. Raises ``UsageError``."""
    try:
        found = parse_json(path.read_bytes(), str(path))
        if isinstance(found, dict) and "analyst" in found:
            found = {SecureAggregation.name: found}
        if not isinstance(found, dict) or not set(found) <= set(FORMS):
            raise UsageError(f"{path}: must hold the parties by model: {', '.join(FORMS)}")
        return {model: validate(FORMS[model].parties, body, f"{path}: {model}") for model, body in found.items()}
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or 'cannot be read'}") from error
    except DecodeError as error:
        raise UsageError(str(error)) from error


def make_transport(config: AdminConfig) -> HttpTransport:
    """Make the transport of an admin service that runs in a process of its own."""
    return HttpTransport(tls=config.client_tls, insecure_http=config.insecure_http, repeat_posts=True)


async def _let_in_the_first(admin: Admin) -> None:
    """If the store has no people yet, add those in the file of first people."""
    if admin.config.people is None:
        return
    async with admin.store.transaction() as tx:
        if await tx.people(0, 1):
            return
        for person, key in first_people(admin.config.people, admin.now, admin.deps.entropy):
            await tx.add_person(person)
            await tx.add_key(key)


async def _end_streams(app: web.Application) -> None:
    app[ADMIN].events.end()


@web.middleware
async def _remember_id(request: web.Request, handler: Handler) -> web.StreamResponse:
    request[ID] = REQUEST.get()
    return await handler(request)


async def _show_id(request: web.Request, response: web.StreamResponse) -> None:
    """Add the request's id to the response, so that people can quote it; the request's log lines have it too."""
    if (request_id := request.get(ID)) is not None:
        response.headers[REQUEST_ID] = request_id.text()
