"""A log that may lie, and witnesses of it, reached without sockets."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from aiohttp import web

from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.network import InProcessTransport
from infra.lab.kit.recipes import NOW, RecipeKit
from services.witness.app import create_app
from services.witness.config import WitnessConfig
from services.witness.handlers import WITNESS
from tacit.adapters.databases.recovery import Recovery
from tacit.ports import HttpResponse
from tacit.service.app import ServiceEnv
from tacit.service.base.keys import write_signing_key
from tacit.signing import generate_signing_key
from tacit.tlog.checkpoint import Checkpoint, Note, NoteKey, NoteSignature, sign_checkpoint
from tacit.tlog.leaves import LeafType, SignedLeaf, sign_leaf
from tacit.tlog.log import MemoryTree
from tacit.tlog.merkle import prove_consistency
from tacit.tlog.tiles import TILE_WIDTH, Tile, encode_bundle, tile_bytes
from tacit.tlog.witnessing import AddCheckpoint

LOG_URL = "https://log.example"
WITNESS_URL = "https://witness.example"
KIT = RecipeKit()
ORIGIN = KIT.log_policy.origin


HOSTILE: tuple[Any, ...] = ([], {}, None, 1, "x" * 3000, [[[]]], True, "two words")
"""Values where a leaf should name or number something."""


def hostile_leaves() -> list[bytes]:
    """Entries that nobody can act on: leaves of every kind that hold nothing of their kind, and no leaves at all."""
    found = [
        sign_leaf(
            kind,
            {"recipe_hash": value, "issuer": value, "gateway": value, "token": value, "series": value, "epoch": 1},
            "analyst.example",
            KIT.keys["analyst"],
        ).encode()
        for kind in LeafType
        for value in HOSTILE
    ]
    return [*found, b"[" * 20_000, b"\xff", b""]


class LyingLog:
    """One key and as many trees as it likes: ``tree`` is the one whose tiles it serves."""

    def __init__(self, entries: Iterable[bytes | SignedLeaf] = ()) -> None:
        self.tree = MemoryTree()
        self.lines: tuple[NoteSignature, ...] = ()
        self.released: list[str] = []
        self.results_status = 200
        self.results_a_page = 100
        self.results_read: list[int] = []
        self.add(*entries)

    def add(self, *entries: bytes | SignedLeaf) -> None:
        for entry in entries:
            self.tree.append(entry if isinstance(entry, bytes) else entry.encode())

    def fork(self, size: int, *entries: bytes | SignedLeaf) -> LyingLog:
        return LyingLog([*self.tree.entries[:size], *entries])

    def note(self, size: int | None = None, key: str = "log", origin: str = ORIGIN) -> bytes:
        size = self.tree.size if size is None else size
        return sign_checkpoint(Checkpoint(origin, size, self.tree.root(size)), KIT.keys[key])

    def request(self, old: int, size: int | None = None) -> bytes:
        size = self.tree.size if size is None else size
        return AddCheckpoint(old, tuple(prove_consistency(self.tree.read, old, size)), self.note(size)).encode()

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/checkpoint", self._checkpoint)
        app.router.add_get("/tile/{path:.+}", self._tile)
        app.router.add_get("/v1/results", self._results)
        return app

    async def _checkpoint(self, _request: web.Request) -> web.Response:
        note = Note.decode(self.note())
        return web.Response(body=Note(note.text, (*note.signatures, *self.lines)).encode())

    async def _results(self, request: web.Request) -> web.Response:
        if self.results_status != 200:
            return web.Response(status=self.results_status)
        begin = int(request.query.get("after", "-1")) + 1
        self.results_read.append(begin)
        end = begin + self.results_a_page
        listed = [{"published_at": NOW, "result": {"recipe_hash": text}} for text in self.released[begin:end]]
        return web.json_response({"results": listed, "next": end - 1 if end < len(self.released) else None})

    async def _tile(self, request: web.Request) -> web.Response:
        tile = Tile.parse(request.path.removeprefix("/"))
        if not tile.exists_at(self.tree.size):
            raise web.HTTPNotFound
        if tile.level is not None:
            return web.Response(body=tile_bytes(tile, self.tree.read))
        start = tile.index * TILE_WIDTH
        return web.Response(body=encode_bundle(self.tree.entries[start : start + tile.width]))


class Stage:
    """Witnesses of one log, each on a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = SimClock(NOW)
        self.network = InProcessTransport()
        self.apps: dict[str, web.Application] = {}

    async def serve(self, log: LyingLog) -> None:
        await self.network.mount(LOG_URL, log.app())

    async def start(self, name: str = "witness", recovery: Recovery = Recovery.REFUSE, **changes: object) -> NoteKey:
        """Start a witness, or start it again on its folder."""
        folder = self.folder / name
        if not (folder / "signing.key").exists():
            write_signing_key(folder / "signing.key", generate_signing_key(SeededEntropy(name.encode())))
        config = WitnessConfig.model_validate(
            {
                "state_dir": folder,
                "name": f"{name}.example/w",
                "signing_key": folder / "signing.key",
                "logs": [{"key": KIT.log_policy.log_key.encode(), "url": LOG_URL}],
            }
            | changes
        )
        deps = ServiceEnv(self.clock, SeededEntropy(2), self.network, background=False, recovery=recovery)
        app = create_app(config, deps)
        await self.network.mount(url_of(name), app)
        self.apps[name] = app
        return app[WITNESS].key

    async def ask(self, body: bytes, name: str = "witness") -> HttpResponse:
        return await self.network.request("POST", f"{url_of(name)}/add-checkpoint", body=body)


def url_of(name: str) -> str:
    return WITNESS_URL.replace("witness", name, 1)
