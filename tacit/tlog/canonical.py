"""RFC 8785 JSON as the log uses it: exactly one encoding per document, integers and strings, no floats.

``parse_json`` refuses what JSON readers usually accept: duplicate members, floats, big integers, a byte-order mark;
``parse_canonical`` also refuses every encoding other than the canonical one. Errors are one line and name the member.
"""

from __future__ import annotations

import json
from typing import Any, TypeVar

import rfc8785
from pydantic import BaseModel, ValidationError

from tacit.errors import DecodeError
from tacit.fast_paths import CANONICAL
from tacit.validation_words import quote_value, reason_of

MAX_INTEGER = 2**53 - 1
"""Largest integer that RFC 8785 can carry."""

M = TypeVar("M", bound=BaseModel)


def canonical_bytes(value: Any) -> bytes:
    """JCS bytes of ``value`` (dictionaries, lists, strings, integers, booleans). Raises DecodeError."""
    try:
        CANONICAL.items += 1
        if (plain := _plainly(value)) is not None:
            return plain
        CANONICAL.fallbacks += 1
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeError, RecursionError) as error:
        raise DecodeError("the value has no canonical JSON form") from error


def _plainly(value: Any) -> bytes | None:
    """``value`` as Python's JSON encoder writes it, twenty times as fast, where that is the canonical form: it reads
    back as an equal value without a float or a large integer, and no character is beyond 16 bits (RFC 8785 sorts
    members by their UTF-16 form, which else is the order of code points)."""
    try:
        text = _ENCODE(value)
        if _sorts_alike(text) and _READ(text) == value:
            return text.encode()
    except (TypeError, ValueError, RecursionError):
        return None
    return None


def _read_plainly(data: bytes) -> Any:
    """The value of ``data`` where ``_plainly`` writes exactly ``data`` for it; None for all other bytes. A member that
    appears twice is read once, so that less would be written."""
    try:
        text = data.decode("utf-8")
        value = _READ(text)
        return value if _ENCODE(value) == text and _sorts_alike(text) else None
    except (ValueError, RecursionError):
        return None


def _sorts_alike(text: str) -> bool:
    return text.isascii() or len(text.encode("utf-16-le")) == 2 * len(text)


def _no_number(text: str) -> Any:
    raise ValueError("not a number of a canonical form written plainly")


def _small(text: str) -> int:
    number = int(text)
    return number if -MAX_INTEGER <= number <= MAX_INTEGER else _no_number(text)


_ENCODE = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode
_READ = json.JSONDecoder(parse_float=_no_number, parse_constant=_no_number, parse_int=_small).decode


def parse_json(data: bytes, what: str) -> Any:
    """JSON value of ``data``: UTF-8, no duplicate members, no floats. Raises DecodeError naming ``what``."""

    def pairs(members: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in members:
            if name in found:
                raise DecodeError(f"{what}: member {quote_value(name)} appears twice")
            found[name] = value
        return found

    def no_float(text: str) -> Any:
        raise DecodeError(f"{what}: {text[:20]} is a float; integers and decimal strings only")

    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=pairs, parse_float=no_float, parse_constant=no_float)
    except DecodeError:
        raise
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"{what}: not JSON in UTF-8") from error


def parse_canonical(data: bytes, what: str) -> dict[str, Any]:
    """JSON object whose canonical encoding is ``data`` itself. Raises DecodeError naming ``what``."""
    CANONICAL.items += 1
    value = _read_plainly(data)
    if isinstance(value, dict):
        return value
    CANONICAL.fallbacks += 1
    value = parse_json(data, what)
    if not isinstance(value, dict):
        raise DecodeError(f"{what}: not a JSON object")
    if canonical_bytes(value) != data:
        raise DecodeError(f"{what}: not in canonical form (RFC 8785)")
    return value


def validate(model: type[M], value: Any, what: str) -> M:
    """Validate ``value`` as a frozen model. Raises DecodeError with one line that names the first wrong member."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(quote_value(str(part)) for part in first["loc"]) or "document"
        raise DecodeError(f"{what}: {where}: {reason_of(first)}") from error
