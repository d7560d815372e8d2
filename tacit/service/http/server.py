"""The server that makes a listener's connections, and what a request's connection says of its sender."""

from __future__ import annotations

import asyncio

from tacit.service.http.admission import Admission, source_of
from tacit.service.http.application import Application
from tacit.service.http.connection import Connection
from tacit.service.http.fast_route import Asking, Serving

SWEEP_SECONDS = 1.0


class Server:
    """Makes the connections of one listener."""

    def __init__(self, admission: Admission, serving: Serving, application: Application) -> None:
        self.admission = admission
        self.serving = serving
        self.application = application
        self.connections: set[Connection] = set()
        self._loop = asyncio.get_running_loop()
        self._sweeping: asyncio.TimerHandle | None = None

    def __call__(self) -> Connection:
        """Make the protocol for a new connection."""
        if self._sweeping is None:
            self._sweeping = self._loop.call_later(SWEEP_SECONDS, self._sweep)
        return Connection(self.admission, self.serving, self.application, self.connections)

    def close_idle(self) -> None:
        """Take no further requests."""
        for connection in list(self.connections):
            connection.close_idle()

    async def finish(self, seconds: float) -> None:
        """End all connections, once what is being answered is answered, or after ``seconds``."""
        await asyncio.gather(*(connection.finish(seconds) for connection in list(self.connections)))

    def _sweep(self) -> None:
        self._sweeping = None
        self.admission.sweep(self._loop.time())
        # no timer while nobody is connected: an idle service sleeps
        if len(self.admission):
            self._sweeping = self._loop.call_later(SWEEP_SECONDS, self._sweep)


def vouch(request: Asking) -> None:
    """Record that the sender of the request proved who it is."""
    connection = connection_of(request)
    if connection is not None:
        connection.vouch()


def source_of_request(request: Asking) -> str:
    """The source that a request came from (``tacit.service.http.admission``)."""
    connection = connection_of(request)
    source = None if connection is None else connection.source
    return source_of(request.remote or "") if source is None else source


def connection_of(request: Asking) -> Connection | None:
    """The connection of a request, where a service's server made it."""
    protocol = request.protocol
    return protocol if isinstance(protocol, Connection) else None
