"""URLs as origins, and the transport rule P7: TLS on every leg, plain HTTP only on loopback or when asked
for.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from tacit.errors import UsageError

_DEFAULT_PORTS = {"http": 80, "https": 443}


def is_loopback(host: str) -> bool:
    """True for ``localhost`` and the literal loopback addresses; no name is resolved."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def origin_of(url: str) -> str:
    """``scheme://host:port`` of ``url``, lower case, the port always written. Raises ``UsageError``."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise UsageError("not a URL: its port must be a number up to 65535 and its address must be valid") from error
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname or parts.username is not None:
        raise UsageError("a URL must be http:// or https:// with a host and without credentials")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}:{port or _DEFAULT_PORTS[parts.scheme]}"


def require_secure_url(url: str, *, insecure_http: bool = False) -> str:
    """The origin of ``url``. Raises ``UsageError`` for plain HTTP to another machine unless ``insecure_http``."""
    origin = origin_of(url)
    host = urlsplit(origin).hostname or ""
    if origin.startswith("http://") and not insecure_http and not is_loopback(host):
        raise UsageError("plain http:// is allowed on loopback only; use https:// or set insecure_http = true")
    return origin
