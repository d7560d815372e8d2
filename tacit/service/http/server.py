"""The server that makes a listener's connections, and what a request's connection says of its sender."""

from __future__ import annotations

import asyncio

from aiohttp import web

from tacit.service.http.admission import Admission, source_of
from tacit.service.http.connection import Connection
from tacit.service.http.fast_reader import Asking, Serving

SWEEP_SECONDS = 1.0


class Server(web.Server):
    """Makes the connections of one listener."""

    def __init__(
        self, plain: web.Server, admission: Admission, serving: Serving | None = None, **options: object
    ) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(plain.request_handler, request_factory=plain.request_factory, loop=loop, **options)  # type: ignore[arg-type]
        self.admission = admission
        self.serving = serving
        self._sweeping: asyncio.TimerHandle | None = None

    def __call__(self) -> web.RequestHandler:
        """Make the protocol for a new connection."""
        if self._sweeping is None:
            self._sweeping = self._loop.call_later(SWEEP_SECONDS, self._sweep)
        return Connection(self, self.admission, self.serving, self._loop, **self._kwargs)

    def _sweep(self) -> None:
        self._sweeping = None
        self.admission.sweep(self._loop.time())
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
