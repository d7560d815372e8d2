"""What stages of one service have around it: a log that shows what it is given, and an observer that remembers."""

from __future__ import annotations

from dataclasses import dataclass, field

from aiohttp import web

from infra.lab.kit.bundles import paged, signed_bundle
from tacit.ports import Clock
from tacit.signing import SigningKey
from tacit.time_format import date_field
from tacit.tlog.leaves import SignedLeaf
from tacit.tlog.log import MemoryTree


class Remembering:
    """An observer that remembers what services say that they saw."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, object]] = []

    def saw(self, party: str, what: object) -> None:
        self.notes.append((party, what))


@dataclass
class ShownLog:
    """The public side of a log that ``key`` signs, and that may grow."""

    key: SigningKey
    tree: MemoryTree = field(default_factory=MemoryTree)
    clock: Clock | None = None
    """The log's own clock; None: this machine's."""

    def add(self, *leaves: SignedLeaf) -> None:
        for leaf in leaves:
            self.tree.append(leaf.encode())

    async def show(self, request: web.Request) -> web.Response:
        found = paged(self.tree, signed_bundle(self.tree, 0, self.key), request.path)
        return web.Response(status=404) if found is None else web.Response(body=found)

    async def checkpoint(self, _request: web.Request) -> web.Response:
        return web.Response()

    async def date(self, _request: web.Request, response: web.StreamResponse) -> None:
        if self.clock is not None:
            response.headers["Date"] = date_field(int(self.clock.now()))

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/v1/{path:.+}", self.show)
        app.router.add_get("/checkpoint", self.checkpoint)
        app.on_response_prepare.append(self.date)
        return app
