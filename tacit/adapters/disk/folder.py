"""A log's resources in a folder, under the same paths as over HTTP: reading a copy of a log, and making one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from tacit.errors import UsageError
from tacit.ports import HttpResponse, Transport, TransportError


class FolderTransport:
    """A ``Transport`` whose GET reads ``{folder}{path and query of the URL}``; 404 where there is no such file."""

    def __init__(self, folder: Path) -> None:
        """Raises ``UsageError`` where there is no such folder."""
        if not folder.is_dir():
            raise UsageError(f"{folder}: no such folder")
        self._folder = folder.resolve()

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> HttpResponse:
        """The file at the URL's path. Raises ``TransportError`` where it cannot be read, and for other methods."""
        del headers, body
        if method != "GET":
            raise TransportError("a folder can only be read")
        path = _below(self._folder, url)
        try:
            data = await asyncio.to_thread(path.read_bytes)
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return HttpResponse(404, {}, b"")
        except OSError as error:
            raise TransportError(f"{path.name}: {error.strerror or 'cannot be read'}") from error
        return HttpResponse(200, {}, data)


class SavingTransport:
    """A transport that also saves the bodies of successful GET answers below a folder."""

    def __init__(self, transport: Transport, folder: Path) -> None:
        self._transport = transport
        self._folder = folder.resolve()

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> HttpResponse:
        """The other transport's answer, saved first. Raises ``UsageError`` where the folder cannot be written."""
        answer = await self._transport.request(method, url, headers=headers, body=body)
        if method == "GET" and answer.status == 200:
            path = _below(self._folder, url)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                await asyncio.to_thread(path.write_bytes, answer.body)
            except OSError as error:
                raise UsageError(f"{path}: {error.strerror or 'cannot be written'}") from error
        return answer


def _below(folder: Path, url: str) -> Path:
    parts = urlsplit(url)
    query = f"?{parts.query}" if parts.query else ""
    path = (folder / f"{parts.path.lstrip('/')}{query}").resolve()
    if not path.is_relative_to(folder):
        raise TransportError("the path leads out of the folder")
    return path
