"""Bearer tokens (P7), compared in constant time. ``tacit.service.http.callers`` decides who may call what.

A service keeps only the SHA-256 digest of a bearer token in memory; the token itself stays in its 0600 file.
"""

from __future__ import annotations

import hashlib
import hmac

from tacit.errors import Abort
from tacit.service.http.fast_route import Asking
from tacit.service.http.server import vouch

UNAUTHORIZED = "urn:tacit:problem:unauthorized"


def token_digest(token: str | bytes) -> bytes:
    """SHA-256 of a bearer token, for ``require_bearer``; surrounding white space (a newline) is removed."""
    raw = token.encode() if isinstance(token, str) else token
    return hashlib.sha256(raw.strip()).digest()


def unauthorized() -> Abort:
    """The answer (401) to a caller without permission; the same for every cause."""
    return Abort(
        UNAUTHORIZED,
        "",
        status=401,
        title="Credentials are missing or wrong.",
        headers={"WWW-Authenticate": "Bearer"},
    )


def require_bearer(request: Asking, *digests: bytes) -> int:
    """The position in ``digests`` of the token that the request carries. Raises ``Abort`` (401), the same for every
    cause."""
    # two fields would be joined by some proxies and cut by others: both are refused
    values = request.headers.getall("Authorization", [])
    scheme, _, presented = values[0].partition(" ") if len(values) == 1 else ("", "", "")
    actual = token_digest(presented.encode("utf-8", "surrogateescape"))
    # every digest is compared, so the time tells nothing of the position of the right one
    matches = [index for index, digest in enumerate(digests) if hmac.compare_digest(actual, digest)]
    if scheme.lower() != "bearer" or not presented or not matches:
        raise unauthorized()
    vouch(request)
    return matches[0]
