"""Streams over TLS: what is left of one when its reader goes."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import ssl
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from tacit.adapters.network.http_stream import Streams
from tacit.adapters.network.tls import ClientTls
from tests.certificates import Authority

STREAM = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n"


@contextlib.contextmanager
def silent_server(context: ssl.SSLContext) -> Iterator[str]:
    """The URL of a server that begins an answer, reads nothing more, and never says goodbye."""
    gone = threading.Event()

    def answer(listening: socket.socket) -> None:
        link, _ = listening.accept()
        with context.wrap_socket(link, server_side=True) as secure:
            secure.recv(4096)
            secure.sendall(STREAM)
            gone.wait()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=answer, args=(listening,))
        thread.start()
        try:
            yield f"https://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            gone.set()
            thread.join()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "authority")


def test_a_stream_over_tls_leaves_no_socket_to_a_peer_that_does_not_say_goodbye(authority: Authority) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*authority.issue("server"))

    async def first_of(url: str) -> bytes:
        async with Streams(ClientTls(ca=authority.certificate)).get(url, {}) as stream:
            async for chunk in stream.chunks():
                return chunk
        return b""

    with silent_server(context) as url, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert asyncio.run(first_of(url)) == b"first"
        gc.collect()
    assert [str(one.message) for one in caught] == []
