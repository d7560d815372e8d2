"""Reverse proxies as they come, before services of ours: their usual configuration, and the lines that people add."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from infra.base.free_ports import free_ports

PATIENCE = 60.0
_NGINX = """
daemon off; master_process off; pid {folder}/pid; error_log stderr;
events {{ }}
http {{
    types {{ text/html html; }}
    default_type application/octet-stream;
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f;
    uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
    charset utf-8; charset_types *;
    gzip on; gzip_types *; gzip_proxied any; gzip_min_length 1;
    {servers}
}}
"""
_NGINX_SERVER = "server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://127.0.0.1:{upstream}; {more} }} }}"
_WEBSOCKET = """
    proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection "upgrade";
    proxy_set_header Host $host; proxy_set_header X-Real-IP $remote_addr;
    proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; proxy_set_header X-Forwarded-Proto $scheme;
"""
_HAPROXY = """
global
    maxconn 200
defaults
    mode http
    option forwardfor
    compression algo gzip
    compression type application/json text/html text/plain message/ohttp-res
    timeout connect 5s
    timeout client 50s
    timeout server 50s
"""
_HAPROXY_SERVER = """
listen at{port}
    bind 127.0.0.1:{port}
    server one 127.0.0.1:{upstream}
"""
_CADDY = """{{
    admin off
    auto_https off
    storage file_system {folder}/caddy
}}
"""
_CADDY_SERVER = """
http://127.0.0.1:{port} {{
    encode gzip
    reverse_proxy 127.0.0.1:{upstream}
}}
"""


@dataclass(frozen=True)
class Proxy:
    """A program that stands before servers, by its ``name`` and that of its Debian ``package``."""

    name: str
    package: str
    config: str
    server: str
    command: Callable[[str], Sequence[str]]
    more: str = ""

    @property
    def program(self) -> str | None:
        """Its path, or None where it is not installed."""
        return shutil.which(self.name, path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")


def _nginx(path: str) -> Sequence[str]:
    return ("-c", path)


def _caddy(path: str) -> Sequence[str]:
    return ("run", "--adapter", "caddyfile", "--config", path)


PROXIES = {
    "nginx": Proxy("nginx", "nginx-light", _NGINX, _NGINX_SERVER, _nginx),
    "nginx with its lines for WebSockets": Proxy("nginx", "nginx-light", _NGINX, _NGINX_SERVER, _nginx, _WEBSOCKET),
    "HAProxy": Proxy("haproxy", "haproxy", _HAPROXY, _HAPROXY_SERVER, lambda path: ("-db", "-f", path)),
    "Caddy": Proxy(
        "caddy", "caddy", _CADDY, _CADDY_SERVER, lambda path: ("run", "--adapter", "caddyfile", "--config", path)
    ),
}


@asynccontextmanager
async def before(kind: str, folder: Path, *urls: str) -> AsyncIterator[list[str]]:
    """The URLs under which the proxy ``kind`` shows the servers at ``urls`` while the block runs."""
    proxy = PROXIES[kind]
    ports, path = free_ports(len(urls)), folder / f"{proxy.name}.conf"
    servers = "".join(
        proxy.server.format(port=port, upstream=url.rstrip("/").rpartition(":")[2], more=proxy.more)
        for port, url in zip(ports, urls, strict=True)
    )
    text = proxy.config.format(folder=folder, servers=servers)
    path.write_text(text if "{servers}" in proxy.config else text + servers)
    with (folder / f"{proxy.name}.log").open("wb") as log:
        process = subprocess.Popen(  # noqa: ASYNC220 - it does not wait
            [str(proxy.program), *proxy.command(str(path))],
            stdout=log,
            stderr=log,
            env={"HOME": str(folder), "PATH": "/usr/bin:/bin"},
        )
        try:
            for port in ports:
                await _listens(port, process, folder / f"{proxy.name}.log")
            yield [f"http://127.0.0.1:{port}" for port in ports]
        finally:
            process.kill()
            process.wait()


async def _listens(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            assert process.poll() is None, await asyncio.to_thread(log.read_text)
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return
            await asyncio.sleep(0.05)
