"""``GET /metrics`` on a separate listener, never on one that devices use: on loopback, or behind client certificates.
The operators' API is on the same listener, for callers that also show the operator's token."""

from __future__ import annotations

from pathlib import Path

from aiohttp import web
from cryptography import x509
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from tacit.adapters.network.origins import is_loopback
from tacit.errors import UsageError
from tacit.service.app import METRICS, SERVICE_ENV, SERVICE_NAME, make_app
from tacit.service.base.config import Listen
from tacit.service.http.callers import CALLERS, Callers
from tacit.service.http.live_tokens import Accepted
from tacit.service.metric_names import PATH
from tacit.service.metrics import Reading
from tacit.service.operated import OPERATED
from tacit.service.operator_api import ROLE, add_operator_api

READER = "metrics"
"""The role in ``client_names`` of the listener that may read where certificates are asked for."""


def metrics_site(app: web.Application, listen: Listen, *, insecure_http: bool = False) -> web.Application:
    """The application that serves the metrics of ``app``, and of nothing else in the process, and its operator's API
    where there is an operator. The operator's certificate must have one of the names for ``operator``, or, where there
    are none, for metrics.

    Raises ``UsageError`` for a listener off loopback that everybody could read.
    """
    names, tokens = listen.client_names, {READER: None, **_operator(app)}
    if ROLE in tokens and listen.client_ca is not None:
        names = {ROLE: names.get(READER, ()), **names}
    asking = listen.model_copy(update={"client_names": names})
    callers = Callers(f"{app[SERVICE_NAME]}'s metrics", asking, tokens)
    if not callers.guards(READER) and not is_loopback(listen.host) and not insecure_http:
        raise UsageError("metrics: off loopback, set tls_cert, tls_key, client_ca and client_names for metrics")
    site = make_app(f"{app[SERVICE_NAME]}-metrics", app[SERVICE_ENV], callers=callers)

    async def page(request: web.Request) -> web.Response:
        if request.app[CALLERS].guards(READER):
            request.app[CALLERS].require(request, READER)
        return web.Response(body=await app[METRICS].page(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    site.router.add_get(PATH, page)
    if ROLE in tokens:
        add_operator_api(site, app)
    return site


def _operator(app: web.Application) -> dict[str, Accepted | None]:
    tokens = app[OPERATED].tokens
    return {} if tokens is None else {ROLE: tokens}


def watch_certificates(app: web.Application, listening: Path | None, calling: Path | None) -> None:
    """Show when the certificates of ``app`` end; the files are read again each time, as they may have been replaced."""
    files = {use: path for use, path in (("listen", listening), ("client", calling)) if path is not None}

    async def ends() -> Reading:
        return {(use,): certificate_end(path) for use, path in files.items()}

    if files:
        app[METRICS].add("tacit_certificate_expiry_timestamp_seconds", ends)


def certificate_end(path: Path) -> float:
    """The POSIX second in which the first certificate in a PEM file, which is the service's own, expires. Raises
    ``OSError`` or ``ValueError``."""
    return x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc.timestamp()
