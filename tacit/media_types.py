"""Media types, apart from the code that reads what they name: who only forwards needs no parser."""

from __future__ import annotations

OCTET_STREAM = "application/octet-stream"
JSON = "application/json"
PROBLEM_JSON = "application/problem+json"  # RFC 9457

OHTTP_KEYS = "application/ohttp-keys"  # RFC 9458 section 3
OHTTP_REQ = "message/ohttp-req"  # RFC 9458 section 4
OHTTP_RES = "message/ohttp-res"
OHTTP_REQ_FRAME = "application/vnd.tacit.ohttp-req-frame"  # tacit.frames: ours, between a relay and its own gateway
OHTTP_RES_FRAME = "application/vnd.tacit.ohttp-res-frame"

PRIVATE_TOKEN_REQUEST = "application/private-token-request"  # RFC 9578 section 6  # noqa: S105
PRIVATE_TOKEN_RESPONSE = "application/private-token-response"  # noqa: S105
ISSUER_DIRECTORY = "application/private-token-issuer-directory"  # RFC 9578 section 4

_DAP = "application/ppm-dap"


def dap(message: str) -> str:
    """Media type of one DAP message, for example ``dap("upload-req")`` (DAP-18 section 10.1)."""
    return f"{_DAP};message={message}"
