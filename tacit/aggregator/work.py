"""Names of work that follow from its content."""

from __future__ import annotations

import hashlib
from urllib.parse import urljoin

from tacit.codec import b64url
from tacit.version import DapVersion


def resource_id(kind: bytes, task_id: bytes, body: bytes, generation: int = 0) -> bytes:
    """The 16-byte id of the resource that a POST of ``body`` creates: the same body, the same resource."""
    digest = hashlib.sha256(b"tacit resource " + kind + b"\0" + task_id + generation.to_bytes(4, "big"))
    digest.update(hashlib.sha256(body).digest())
    return digest.digest()[:16]


def creation(version: DapVersion, collection: str, chosen: bytes) -> tuple[str, str]:
    """Method and URL of the request that creates a resource under ``collection``: either its owner names it (POST), or
    we do (PUT), with the id ``chosen``, under which we keep it in either case."""
    return ("PUT", f"{collection}/{b64url(chosen)}") if version.creates_by_put else ("POST", collection)


def resource_url(collection: str, location: str) -> str:
    """The URL of a resource created under ``collection``, from its Location header; empty for a Location elsewhere,
    because our credentials must not be sent to any other place."""
    url = urljoin(collection, location)
    return url if url.startswith(collection + "/") else ""
