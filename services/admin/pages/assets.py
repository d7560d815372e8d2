"""The style sheet and the scripts. They are read once, and their URLs contain their digests, so that browsers may
cache them forever."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from aiohttp import web

from tacit.codec import b64url

KEPT: Final = "public, max-age=31536000, immutable"
_TYPES: Final = {
    "style.css": "text/css",
    "forms.js": "text/javascript",
    "script.js": "text/javascript",
    "passkeys.js": "text/javascript",
    "mark.svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """A static file. ``path``: the path under which pages refer to it."""

    path: str
    body: bytes
    content_type: str


@cache
def assets() -> dict[str, Asset]:
    """Every static file by name, read once."""
    folder = files("services.admin.pages") / "static"
    return {name: _asset(name, (folder / name).read_bytes()) for name in _TYPES}


def _asset(name: str, body: bytes) -> Asset:
    return Asset(f"/assets/{b64url(hashlib.sha256(body).digest()[:12])}/{name}", body, _TYPES[name])


def add_assets(app: web.Application) -> None:
    for asset in assets().values():
        app.router.add_get(asset.path, _giving(asset))


def _giving(asset: Asset) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def give(_request: web.Request) -> web.Response:
        headers = {"Cache-Control": KEPT}
        return web.Response(body=asset.body, content_type=asset.content_type, charset="utf-8", headers=headers)

    return give
