"""Media types, separate from the code that reads the bodies, so that a forwarder needs no parser."""

from __future__ import annotations

import re
from functools import lru_cache

OCTET_STREAM = "application/octet-stream"
JSON = "application/json"
CSV = "text/csv"  # RFC 4180
PARQUET = "application/vnd.apache.parquet"
EVENT_STREAM = "text/event-stream"  # WHATWG HTML section 9.2
PROBLEM_JSON = "application/problem+json"  # RFC 9457

OHTTP_KEYS = "application/ohttp-keys"  # RFC 9458 section 3
OHTTP_REQ = "message/ohttp-req"  # RFC 9458 section 4
OHTTP_RES = "message/ohttp-res"
OHTTP_REQ_FRAME = (
    "application/vnd.tacit.ohttp-req-frame"  # tacit.message_frames: ours, between a relay and its own gateway
)
OHTTP_RES_FRAME = "application/vnd.tacit.ohttp-res-frame"
UPLOAD_REQ_FRAME = "application/vnd.tacit.upload-req-frame"  # the same between a gateway and a leader that knows it
UPLOAD_RES_FRAME = "application/vnd.tacit.upload-res-frame"

PRIVATE_TOKEN_REQUEST = "application/private-token-request"  # RFC 9578 section 6  # noqa: S105
PRIVATE_TOKEN_RESPONSE = "application/private-token-response"  # noqa: S105
ISSUER_DIRECTORY = "application/private-token-issuer-directory"  # RFC 9578 section 4

ONE_SERVER_REPORT = "application/tacit-one-server-report"  # tacit.messages.one_server
MESSAGE_CHUNK = "application/tacit-message-chunk"  # tacit.messages.chunk

_DAP = "application/ppm-dap"
_DAP_VERSION = "18"

_WORD = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_TYPE = re.compile(rf"{_WORD}/{_WORD}")
_PARAMETER = re.compile(rf'[ \t]*;[ \t]*(?:({_WORD})=({_WORD}|"(?:[^"\\]|\\.)*"))?')
_ESCAPED = re.compile(r"\\(.)")
_LONGEST = 256


def dap(message: str) -> str:
    """Media type of one DAP message, for example ``dap("upload-req")`` (DAP-18 section 10.1)."""
    return f"{_DAP};message={message}"


@lru_cache(maxsize=256)
def is_a(value: str, expected: str) -> bool:
    """Whether a Content-Type ``value`` says ``expected``, one of the media types of this module.

    Compared according to RFC 9110 section 8.3.1: type and parameter names in any case, values as tokens or quoted
    strings, white space around semicolons. Every parameter of ``expected`` must be present with its value; others are
    ignored (RFC 2045 section 1), such as ``charset`` with JSON (RFC 8259 section 11), except for the ``version`` of a
    DAP message (DAP-18 section 10.1), which must be ours.
    """
    found, wanted = parse_media_type(value), parse_media_type(expected)
    if found is None or wanted is None or found[0] != wanted[0]:
        return False
    parameters = found[1]
    if found[0] == _DAP and parameters.get("version", _DAP_VERSION) != _DAP_VERSION:
        return False
    return all(parameters.get(name) == text for name, text in wanted[1].items())


def parse_media_type(value: str) -> tuple[str, dict[str, str]] | None:
    """Type in lower case, and parameters by lower-case name; ``None`` for text that is not a media type, or repeats a
    parameter."""
    value = value.strip(" \t")
    head = _TYPE.match(value)
    if head is None or len(value) > _LONGEST:
        return None
    parameters: dict[str, str] = {}
    at = head.end()
    while at < len(value):
        part = _PARAMETER.match(value, at)
        if part is None or (part[1] or "").lower() in parameters:
            return None
        if part[1] is not None:
            quoted = part[2].startswith('"')
            parameters[part[1].lower()] = _ESCAPED.sub(r"\1", part[2][1:-1]) if quoted else part[2]
        at = part.end()
    return head[0].lower(), parameters
