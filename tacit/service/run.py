"""Serving an application: sockets, TLS, the ready line and the graceful stop."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import signal
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass

from aiohttp import web

from tacit.adapters.origins import is_loopback
from tacit.adapters.tls import listener_context
from tacit.errors import UsageError
from tacit.service.admission import Admission
from tacit.service.app import SERVICE_NAME
from tacit.service.config import Limits, Listen
from tacit.service.connection import Server
from tacit.service.listener import TlsSite
from tacit.service.log import quiet_http_logger

GRACE_SECONDS = 10.0
BACKLOG = 1024


@dataclass(frozen=True, slots=True)
class Ready:
    """A service that answers on ``url`` in process ``pid``."""

    service: str
    url: str
    pid: int

    def line(self) -> str:
        """The READY line: one JSON object."""
        return json.dumps({"service": self.service, "url": self.url, "pid": self.pid})


def print_ready(ready: Ready) -> None:
    """Write the READY line to stdout."""
    sys.stdout.write(ready.line() + "\n")
    sys.stdout.flush()


def server_tls(listen: Listen) -> ssl.SSLContext | None:
    """The listener's TLS context, None for plain HTTP. Raises ``UsageError`` for bad files."""
    if listen.tls_cert is None and listen.tls_key is None and listen.client_ca is None:
        return None
    if listen.tls_cert is None or listen.tls_key is None:
        raise UsageError("listen: tls_cert and tls_key go together, and client_ca needs both")
    return listener_context(listen.tls_cert, listen.tls_key, listen.client_ca)


class Runner(web.AppRunner):
    """Starts and stops an application; ``server`` makes its connections. Writes no access log."""

    __slots__ = ("_limits",)

    def __init__(
        self, app: web.Application, *, grace_seconds: float = GRACE_SECONDS, limits: Limits | None = None
    ) -> None:
        self._limits = limits or Limits()
        super().__init__(
            app,
            access_log=None,
            logger=quiet_http_logger(),
            shutdown_timeout=grace_seconds,
            keepalive_timeout=self._limits.idle_seconds,
        )

    async def _make_server(self) -> web.Server:
        plain = await super()._make_server()
        return Server(plain, Admission(self._limits, _connections(self._limits)), **self._kwargs)


def _connections(limits: Limits) -> int:
    """How many connections there may be: the other half of the descriptors is for files and our own connections."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return limits.connections if descriptors < 0 else max(1, min(limits.connections, descriptors // 2))


def _site(runner: Runner, listen: Listen, tls: ssl.SSLContext | None) -> web.BaseSite:
    host, port, shared = listen.host, listen.port, listen.reuse_port
    if tls is not None:
        return TlsSite(runner, host, port, tls=tls, backlog=BACKLOG, reuse_port=shared)
    return web.TCPSite(runner, host, port, backlog=BACKLOG, reuse_port=shared or None)


@contextlib.asynccontextmanager
async def started(
    app: web.Application, listen: Listen, *, insecure_http: bool = False, grace_seconds: float = GRACE_SECONDS
) -> AsyncIterator[Ready]:
    """Run ``app`` while the block runs. On exit: stop accepting, finish what is in flight within
    ``grace_seconds``, clean up. Raises ``UsageError`` for plain HTTP off loopback (P7) or an address that
    cannot be bound.
    """
    tls = server_tls(listen)
    if tls is None and not insecure_http and not is_loopback(listen.host):
        raise UsageError(
            f"listen: plain HTTP on {listen.host} refused; set tls_cert and tls_key or insecure_http = true"
        )
    runner = Runner(app, grace_seconds=grace_seconds, limits=listen.limits)
    try:
        await runner.setup()
        site = _site(runner, listen, tls)
        try:
            await site.start()
        except OSError as error:
            raise UsageError(f"listen: cannot bind {listen.host}:{listen.port}: {error.strerror}") from error
        host = f"[{listen.host}]" if ":" in listen.host else listen.host
        port = runner.addresses[0][1]
        yield Ready(app[SERVICE_NAME], f"{'https' if tls else 'http'}://{host}:{port}", os.getpid())
    finally:
        await runner.cleanup()


async def serve(
    app: web.Application,
    listen: Listen,
    *,
    ready: Callable[[Ready], None] = print_ready,
    insecure_http: bool = False,
    grace_seconds: float = GRACE_SECONDS,
) -> None:
    """Serve until SIGTERM or SIGINT. ``ready`` is called once the socket listens."""
    await serve_all([(app, listen)], ready=ready, insecure_http=insecure_http, grace_seconds=grace_seconds)


async def serve_all(
    apps: Sequence[tuple[web.Application, Listen]],
    *,
    ready: Callable[[Ready], None] = print_ready,
    insecure_http: bool = False,
    grace_seconds: float = GRACE_SECONDS,
) -> None:
    """Serve several applications in one process until SIGTERM or SIGINT; stops them in reverse order."""
    stop = asyncio.Event()
    with _stop_signals(stop):
        async with contextlib.AsyncExitStack() as stack:
            for app, listen in apps:
                site = started(app, listen, insecure_http=insecure_http, grace_seconds=grace_seconds)
                ready(await stack.enter_async_context(site))
            await stop.wait()


@contextlib.contextmanager
def _stop_signals(stop: asyncio.Event) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)
    for number in signals:
        loop.add_signal_handler(number, stop.set)
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)
