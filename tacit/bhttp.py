"""Binary HTTP (RFC 9292): requests and responses, known and indeterminate length.

Strict in both directions: control data and fields follow the rules of HTTP (names are lower-case tokens, no
pseudo-fields, values without CR, LF, NUL or surrounding white space), padding is zero, and a message that
ends inside a section is refused. A section that is missing as a whole, with all that would follow it, counts
as empty (section 3.8); the examples of RFC 9458 leave out even the header section in this way.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from tacit.codec import Reader
from tacit.errors import DecodeError

Fields = tuple[tuple[str, str], ...]

_WHAT = "binary HTTP message"
_KNOWN_REQUEST, _KNOWN_RESPONSE, _INDETERMINATE_REQUEST, _INDETERMINATE_RESPONSE = range(4)

_SECTIONS = 5
"""Parts of a request up to the end of its header section: method, scheme, authority, path, fields."""
_REMEMBERED, _REMEMBERED_SIZE = 1024, 512

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FIELD_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+")
_FIELD_VALUE = re.compile(r"(?:[!-~\x80-\xff](?:[\t -~\x80-\xff]*[!-~\x80-\xff])?)?")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_VISIBLE = re.compile(r"[!-~]*")


@dataclass(frozen=True, slots=True)
class Request:
    """A request. Field values are text in which each character stands for one byte (ISO 8859-1)."""

    method: str
    scheme: str
    authority: str
    path: str
    fields: Fields = ()
    content: bytes = field(default=b"", repr=False)
    trailers: Fields = ()


@dataclass(frozen=True, slots=True)
class Response:
    """A final response (200 to 599) after any number of informational ones ``(status, fields)``."""

    status: int
    fields: Fields = ()
    content: bytes = field(default=b"", repr=False)
    trailers: Fields = ()
    informational: tuple[tuple[int, Fields], ...] = ()


def field_value(fields: Fields, name: str) -> str | None:
    """The only value of field ``name`` (lower case), or None. Raises ``DecodeError`` if it occurs twice."""
    values = [value for key, value in fields if key == name]
    if len(values) > 1:
        raise DecodeError(f"the field {name} occurs more than once")
    return values[0] if values else None


def encode_request(request: Request, *, indeterminate: bool = False) -> bytes:
    """Bytes of ``request``. Raises ``ValueError`` for a request that HTTP does not allow."""
    control = (request.method, request.scheme, request.authority, request.path)
    _check_control_data(*control)
    head = b"".join(_opaque(part.encode("ascii")) for part in control)
    framing = _INDETERMINATE_REQUEST if indeterminate else _KNOWN_REQUEST
    return _varint(framing) + head + _encode_body(request, indeterminate)


def encode_response(response: Response, *, indeterminate: bool = False) -> bytes:
    """Bytes of ``response``. Raises ``ValueError`` for a response that HTTP does not allow."""
    parts = [_varint(_INDETERMINATE_RESPONSE if indeterminate else _KNOWN_RESPONSE)]
    for status, fields in response.informational:
        if not 100 <= status <= 199:
            raise ValueError("an informational status must be from 100 to 199")
        parts += [_varint(status), _encode_fields(fields, indeterminate)]
    if not 200 <= response.status <= 599:
        raise ValueError("a final status must be from 200 to 599")
    parts += [_varint(response.status), _encode_body(response, indeterminate)]
    return b"".join(parts)


def decode_request(data: bytes) -> Request:
    """Strict inverse of ``encode_request`` for either framing and any zero padding. Raises ``DecodeError``.

    Requests of one kind have identical bytes of control data and fields, so their decoded form is cached.
    """
    end = _end_of_fields(data)
    if not end:
        return read_request(data)
    method, scheme, authority, path, fields = _known_head(data[:end])
    reader = Reader(data, _WHAT, end)
    content = _read_content(reader, indeterminate=False)
    return Request(method, scheme, authority, path, fields, content, _read_end(reader, indeterminate=False))


def read_request(data: bytes) -> Request:
    """``decode_request`` without the cache."""
    reader = Reader(data, _WHAT)
    indeterminate, control, fields = _read_head(reader)
    content = _read_content(reader, indeterminate)
    return Request(*control, fields, content, _read_end(reader, indeterminate))


def _end_of_fields(data: bytes) -> int:
    """Where the header section of a request of known length ends; 0 for other messages, for long ones and for those
    that end before."""
    if data[:1] != b"\x00":
        return 0
    at = 1
    for _ in range(_SECTIONS):
        if at + 1 >= len(data):
            return 0
        size = data[at]
        if size < 0x40:
            at += 1 + size
        elif size < 0x80:
            at += 2 + ((size & 0x3F) << 8 | data[at + 1])
        else:
            return 0
    return at if at <= min(len(data), _REMEMBERED_SIZE) else 0


@lru_cache(maxsize=_REMEMBERED)
def _known_head(head: bytes) -> tuple[str, str, str, str, Fields]:
    _, control, fields = _read_head(Reader(head, _WHAT))
    return *control, fields


def _read_head(reader: Reader) -> tuple[bool, tuple[str, str, str, str], Fields]:
    """Whether the length is indeterminate; method, scheme, authority and path; the fields."""
    framing = reader.varint()
    if framing not in (_KNOWN_REQUEST, _INDETERMINATE_REQUEST):
        raise DecodeError("the binary HTTP message is not a request")
    indeterminate = framing == _INDETERMINATE_REQUEST
    control = (_read_ascii(reader), _read_ascii(reader), _read_ascii(reader), _read_ascii(reader))
    fields = _read_fields(reader, indeterminate)
    try:
        _check_control_data(*control)
    except ValueError as error:
        raise DecodeError(str(error)) from error
    return indeterminate, control, fields


def decode_response(data: bytes) -> Response:
    """Strict inverse of ``encode_response`` for either framing and any zero padding. Raises ``DecodeError``."""
    reader = Reader(data, _WHAT)
    framing = reader.varint()
    if framing not in (_KNOWN_RESPONSE, _INDETERMINATE_RESPONSE):
        raise DecodeError("the binary HTTP message is not a response")
    indeterminate = framing == _INDETERMINATE_RESPONSE
    informational: list[tuple[int, Fields]] = []
    status = reader.varint()
    while 100 <= status <= 199:
        informational.append((status, _read_fields(reader, indeterminate, may_be_missing=False)))
        status = reader.varint()
    if not 200 <= status <= 599:
        raise DecodeError("the binary HTTP response has an invalid status")
    fields, content = _read_fields(reader, indeterminate), _read_content(reader, indeterminate)
    return Response(status, fields, content, _read_end(reader, indeterminate), tuple(informational))


def pad_to(encoded: bytes, size: int) -> bytes:
    """``encoded`` with zero bytes up to ``size`` bytes (section 3.8). ``ValueError`` if it is longer."""
    if len(encoded) > size:
        raise ValueError(f"a message of {len(encoded)} bytes cannot be padded to {size}")
    return encoded.ljust(size, b"\x00")


def _check_control_data(method: str, scheme: str, authority: str, path: str) -> None:
    if not _TOKEN.fullmatch(method):
        raise ValueError("the method is not a token")
    if not _SCHEME.fullmatch(scheme):
        raise ValueError("the scheme is malformed")
    if not _VISIBLE.fullmatch(authority) or not _VISIBLE.fullmatch(path):
        raise ValueError("authority and path must hold visible ASCII characters only")
    if not path.startswith("/") and path not in ("", "*"):
        raise ValueError("the path must begin with a slash")


def _check_field(name: str, value: str) -> None:
    if not _FIELD_NAME.fullmatch(name):
        raise ValueError("a field name must be a lower-case token")
    if not _FIELD_VALUE.fullmatch(value):
        raise ValueError("a field value holds characters that HTTP forbids")


def _encode_body(message: Request | Response, indeterminate: bool) -> bytes:
    content = _opaque(message.content)
    if indeterminate:
        content = (content if message.content else b"") + _varint(0)
    header = _encode_fields(message.fields, indeterminate)
    return header + content + _encode_fields(message.trailers, indeterminate)


def _encode_fields(fields: Fields, indeterminate: bool) -> bytes:
    for name, value in fields:
        _check_field(name, value)
    lines = b"".join(_opaque(n.encode("ascii")) + _opaque(v.encode("latin-1")) for n, v in fields)
    return lines + _varint(0) if indeterminate else _opaque(lines)


def _read_end(reader: Reader, indeterminate: bool) -> Fields:
    """Read the trailers; only padding may follow."""
    left = reader.rest()
    if left == bytes(len(left)):  # an empty section, or no section at all
        return ()
    reader = Reader(left, _WHAT)
    trailers = _read_fields(reader, indeterminate)
    padding = reader.rest()
    if padding != bytes(len(padding)):
        raise DecodeError("the padding of the binary HTTP message is not zero")
    return trailers


def _read_content(reader: Reader, indeterminate: bool) -> bytes:
    if not reader.remaining:
        return b""
    if not indeterminate:
        return _read_opaque(reader)
    chunks: list[bytes] = []
    while chunk := _read_opaque(reader):
        chunks.append(chunk)
    return b"".join(chunks)


def _read_fields(reader: Reader, indeterminate: bool, *, may_be_missing: bool = True) -> Fields:
    if may_be_missing and not reader.remaining:
        return ()
    lines: list[tuple[str, str]] = []
    if indeterminate:
        while length := reader.varint():
            lines.append(_read_field_line(reader, length))
        return tuple(lines)
    section = Reader(_read_opaque(reader), _WHAT)
    while section.remaining:
        lines.append(_read_field_line(section, section.varint()))
    return tuple(lines)


def _read_field_line(reader: Reader, name_length: int) -> tuple[str, str]:
    name = reader.raw(name_length).decode("latin-1")
    value = _read_opaque(reader).decode("latin-1")
    try:
        _check_field(name, value)
    except ValueError as error:
        raise DecodeError(str(error)) from error
    return name, value


def _read_ascii(reader: Reader) -> str:
    try:
        return _read_opaque(reader).decode("ascii")
    except UnicodeDecodeError as error:
        raise DecodeError("the control data of the binary HTTP request is not ASCII") from error


def _opaque(data: bytes) -> bytes:
    return _varint(len(data)) + data


def _read_opaque(reader: Reader) -> bytes:
    return reader.raw(reader.varint())


def _varint(value: int) -> bytes:
    """The shortest variable-length integer (RFC 9000 section 16)."""
    for exponent in range(4):
        size = 1 << exponent
        if value < 1 << (8 * size - 2):
            return (value | exponent << (8 * size - 2)).to_bytes(size, "big")
    raise ValueError("the number does not fit a variable-length integer")
