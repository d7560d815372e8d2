"""Serving an application: sockets, TLS, the ready line and the graceful stop."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import resource
import signal
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from aiohttp import web

from tacit.adapters.network.origins import is_loopback
from tacit.adapters.network.tls import listener_context
from tacit.errors import UsageError
from tacit.lines import lines_of
from tacit.service.app import METRICS, SERVICE_NAME, STOPPING
from tacit.service.base.config import Limits, Listen, ServiceConfig
from tacit.service.base.memory import return_large_blocks
from tacit.service.fast_routes import serving
from tacit.service.http.admission import Admission
from tacit.service.http.application import Application
from tacit.service.http.listener import TlsListener, listening_sockets
from tacit.service.http.server import Server
from tacit.service.metric_names import PATH
from tacit.service.metrics_listener import metrics_site, watch_certificates
from tacit.service.operated import let_operate

PROC = Path("/proc")
LISTENING = "0A"
LONGEST_COMMAND = 120

GRACE_SECONDS = 10.0
BACKLOG = 1024


@dataclass(frozen=True, slots=True)
class Ready:
    """A service that answers on ``url`` in process ``pid``."""

    service: str
    url: str
    pid: int
    metrics: str | None = None
    """The URL of its metrics; None without metrics."""

    def line(self) -> str:
        """The READY line: one JSON object."""
        line = {"service": self.service, "url": self.url, "pid": self.pid}
        return json.dumps(line if self.metrics is None else {**line, "metrics": self.metrics})


@dataclass(frozen=True, slots=True)
class Site:
    """An application, where it listens, and where its metrics are read. ``drain_seconds``: how long it still accepts
    requests after it was told to stop, while readiness reports that it stops."""

    app: web.Application
    listen: Listen
    metrics: Listen | None = None
    drain_seconds: float = 0.0
    levels: Path | None = None
    """The file in which levels shown by the metrics are kept beyond the end of the process."""

    @classmethod
    def of(cls, app: web.Application, config: ServiceConfig) -> Site:
        """The site of a service, with its certificates watched and its operators' API enabled. Raises
        ``UsageError``."""
        let_operate(app, config.operator_token)
        watch_certificates(app, config.listen.tls_cert, config.client_cert)
        if not config.metrics_of_database:
            app[METRICS].only_own()
        port = 0 if config.metrics is None else config.metrics.port
        levels = config.state_dir / f"metrics-{port}.json" if port else None
        return cls(app, config.listen, config.metrics, config.drain_seconds, levels)


def print_ready(ready: Ready) -> None:
    """Write the READY line to stdout."""
    sys.stdout.write(ready.line() + "\n")
    sys.stdout.flush()


def server_tls(listen: Listen) -> ssl.SSLContext | None:
    """The listener's TLS context, None for plain HTTP. Raises ``UsageError`` for bad files."""
    if listen.tls_cert is None and listen.tls_key is None and listen.client_ca is None:
        return None
    if listen.tls_cert is None or listen.tls_key is None:
        raise UsageError("listen: tls_cert and tls_key must be set together, and client_ca needs both")
    return listener_context(listen.tls_cert, listen.tls_key, listen.client_ca)


class _Application(web.AppRunner):
    """Starts and stops an application, which has no listener of aiohttp. When it stops, ``end`` ends its connections
    after those are told that listen for it, and before what handlers need is closed."""

    __slots__ = ("_end",)

    def __init__(self, app: web.Application, end: Callable[[], Awaitable[None]]) -> None:
        super().__init__(app, access_log=None)
        self._end = end

    async def shutdown(self) -> None:
        """aiohttp: the application is to stop."""
        await super().shutdown()
        await self._end()


class Runner:
    """Starts and stops an application and its listeners; ``server`` makes their connections. Writes no access log."""

    def __init__(
        self, app: web.Application, *, grace_seconds: float = GRACE_SECONDS, limits: Limits | None = None
    ) -> None:
        self.app = app
        self.server: Server | None = None
        self.addresses: list[tuple[str, int]] = []
        """Of the listeners: host and port."""
        self._limits = limits or Limits()
        self._grace_seconds = grace_seconds
        self._application = _Application(app, self._finish)
        self._listeners: list[asyncio.AbstractServer | TlsListener] = []

    async def setup(self) -> None:
        """Start the application. Raises what its start raises; ``cleanup`` is needed then, too."""
        await self._application.setup()
        inner = self._application.server
        if inner is None:
            raise TypeError("the application has not started")
        admission = Admission(self._limits, _connections(self._limits))
        self.server = Server(admission, serving(self.app), Application(inner))

    async def listen(self, sockets: Sequence[socket.socket], tls: ssl.SSLContext | None = None) -> None:
        """Accept connections at sockets that listen already, which are closed in the end."""
        if self.server is None:
            raise TypeError("the application has not started")
        if tls is not None:
            self._listeners.append(TlsListener(self.server, sockets, tls))
        else:
            loop = asyncio.get_running_loop()
            for one in sockets:
                self._listeners.append(await loop.create_server(self.server, sock=one, backlog=BACKLOG))
        self.addresses += [one.getsockname()[:2] for one in sockets]

    async def cleanup(self) -> None:
        """Stop accepting, finish what is in flight, and close what the application has opened."""
        for listener in self._listeners:
            listener.close()
        await asyncio.sleep(0)  # what has come before is begun
        if self.server is not None:
            self.server.close_idle()
        await self._application.cleanup()
        self.server = None

    async def _finish(self) -> None:
        if self.server is not None:
            await self.server.finish(self._grace_seconds)


def _connections(limits: Limits) -> int:
    """The most connections: half of the descriptors; the other half is for files and our own connections."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return limits.connections if descriptors < 0 else max(1, min(limits.connections, descriptors // 2))


@contextlib.asynccontextmanager
async def started(
    app: web.Application,
    listen: Listen,
    *,
    metrics: Listen | None = None,
    levels: Path | None = None,
    insecure_http: bool = False,
    grace_seconds: float = GRACE_SECONDS,
) -> AsyncIterator[Ready]:
    """Run ``app`` while the block runs, and its metrics on a separate listener, whose levels are kept in the file
    ``levels``. On exit: stop accepting, finish what is in flight within ``grace_seconds``, clean up; the metrics end
    last. Raises ``UsageError`` for plain HTTP off loopback (P7) or an address that cannot be bound."""
    async with contextlib.AsyncExitStack() as stack:
        page = None
        if metrics is not None:
            places = [metrics, metrics.model_copy(update={"port": 0})] if listen.reuse_port else [metrics]
            page = await _metrics_page(stack, app, places, insecure_http=insecure_http, grace_seconds=grace_seconds)
            if len(places) > 1 and urlsplit(page).port != metrics.port:
                app[METRICS].only_own()
            elif levels is not None:
                app[METRICS].keep(levels)
        origin = _listening(app, listen, insecure_http=insecure_http, grace_seconds=grace_seconds)
        yield Ready(app[SERVICE_NAME], await stack.enter_async_context(origin), os.getpid(), page)


async def _metrics_page(
    stack: contextlib.AsyncExitStack,
    app: web.Application,
    places: Sequence[Listen],
    *,
    insecure_http: bool,
    grace_seconds: float,
) -> str:
    """Serve the metrics of ``app`` at the first of ``places`` that is free, until ``stack`` ends; processes that share
    a configuration and an address cannot share this one. Returns the URL. Raises ``UsageError`` where none is free."""
    *before, last = places
    for place in before:
        with contextlib.suppress(UsageError):
            return await _metrics_page(stack, app, [place], insecure_http=insecure_http, grace_seconds=grace_seconds)
    site = metrics_site(app, last, insecure_http=insecure_http)
    origin = _listening(site, last, insecure_http=insecure_http, grace_seconds=grace_seconds)
    return await stack.enter_async_context(origin) + PATH


@contextlib.asynccontextmanager
async def _listening(
    app: web.Application, listen: Listen, *, insecure_http: bool, grace_seconds: float
) -> AsyncIterator[str]:
    """Run ``app`` on one listener and yield its URL. Raises ``UsageError`` as ``started`` does."""
    tls = server_tls(listen)
    if tls is None and not insecure_http and not is_loopback(listen.host):
        raise UsageError(
            f"listen: plain HTTP on {listen.host} refused; set tls_cert and tls_key or insecure_http = true"
        )
    runner = Runner(app, grace_seconds=grace_seconds, limits=listen.limits)
    try:
        await runner.setup()
        try:
            sockets = await listening_sockets(listen.host, listen.port, backlog=BACKLOG, reuse_port=listen.reuse_port)
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            why = f"in use by {holder_of(listen.port)}" if taken else error.strerror
            raise UsageError(f"listen: cannot bind {listen.host}:{listen.port}: {why}") from error
        await runner.listen(sockets, tls)
        host = f"[{listen.host}]" if ":" in listen.host else listen.host
        port = runner.addresses[0][1]
        yield f"{'https' if tls else 'http'}://{host}:{port}"
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
    await serve_all([Site(app, listen)], ready=ready, insecure_http=insecure_http, grace_seconds=grace_seconds)


async def serve_all(
    sites: Sequence[Site],
    *,
    ready: Callable[[Ready], None] = print_ready,
    insecure_http: bool = False,
    grace_seconds: float = GRACE_SECONDS,
) -> None:
    """Serve several applications in one process until SIGTERM or SIGINT; stop them in reverse order.

    After the first signal, each reports that it is not ready, and still answers for its ``drain_seconds``, unless a
    second signal comes.
    """
    return_large_blocks()
    stop, again = asyncio.Event(), asyncio.Event()
    with _stop_signals(stop, again):
        async with contextlib.AsyncExitStack() as stack:
            for site in sites:
                serving = started(
                    site.app,
                    site.listen,
                    metrics=site.metrics,
                    levels=site.levels,
                    insecure_http=insecure_http,
                    grace_seconds=grace_seconds,
                )
                ready(await stack.enter_async_context(serving))
            await stop.wait()
            for site in sites:
                site.app[STOPPING].set()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(again.wait(), max(site.drain_seconds for site in sites))


@contextlib.contextmanager
def _stop_signals(stop: asyncio.Event, again: asyncio.Event) -> Iterator[None]:
    """Set ``stop`` at the first signal, ``again`` at the next."""

    def told() -> None:
        (again if stop.is_set() else stop).set()

    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)
    for number in signals:
        loop.add_signal_handler(number, told)
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


def holder_of(port: int, proc: Path = PROC) -> str:
    """The process that listens on the TCP ``port``: its id and command; or that it cannot be seen."""
    sockets = {f"socket:[{inode}]" for inode in _inodes_listening(port, proc)}
    for pid in _pids(proc):
        with contextlib.suppress(OSError):
            for descriptor in (proc / str(pid) / "fd").iterdir():
                with contextlib.suppress(OSError):
                    if os.readlink(descriptor) in sockets:
                        return f"pid {pid} ({_command(proc / str(pid))})"
    return f"a process that cannot be seen from here (as root: ss -ltnp 'sport = :{port}')"


def _inodes_listening(port: int, proc: Path) -> Iterator[str]:
    """Inodes of the sockets that listen on ``port``."""
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in lines_of((proc / "net" / name).read_text("ascii"))[1:]:
                row = line.split()
                if len(row) > 9 and row[3] == LISTENING and int(row[1].rpartition(":")[2], 16) == port:
                    yield row[9]


def _pids(proc: Path) -> list[int]:
    return sorted(int(path.name) for path in proc.iterdir() if path.name.isdigit()) if proc.is_dir() else []


def _command(process: Path) -> str:
    try:
        words = (process / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    except OSError:
        return "ended meanwhile"
    text = " ".join(word.decode("utf-8", "replace") for word in words)
    printable = "".join(char if char.isprintable() else " " for char in text)
    return printable if len(printable) <= LONGEST_COMMAND else f"{printable[:LONGEST_COMMAND]} ..."
