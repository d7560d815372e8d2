"""Documents that people fill: read from their files, and, where a member is wrong, which one and why."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from tacit.errors import DecodeError, FieldError
from tacit.tlog.canonical import parse_json, shown

M = TypeVar("M", bound=BaseModel)
_OF_MEMBERS = "field"
"""Kind of the errors that ``wrong`` makes."""


def wrong(field: str, reason: str) -> PydanticCustomError:
    """The error of a model that found its member ``field`` wrong when it looked at several together."""
    return PydanticCustomError(_OF_MEMBERS, "{field} {reason}", {"field": field, "reason": reason})


def filled(model: type[M], body: Mapping[str, Any], tagged: str = "") -> M:
    """``body`` as a frozen model. Raises FieldError, one line, for the first wrong member, or for all that one part
    lacks. ``tagged``: the member whose kind is told by a word in it, which stands in no path."""
    try:
        return model.model_validate(body)
    except ValidationError as error:
        raise _field_error(error.errors(include_url=False, include_input=False), tagged) from error


def parse_file(data: bytes, name: str) -> Any:
    """The value in a file that ends in .toml or else holds JSON; ``name`` is used in errors. Raises DecodeError."""
    if not name.endswith(".toml"):
        return parse_json(data, name)
    try:
        return tomllib.loads(data.decode())
    except RecursionError as error:
        raise DecodeError(f"{name}: nested too deeply") from error
    except ValueError as error:
        raise DecodeError(f"{name}: {error}") from error


def _field_error(errors: Sequence[ErrorDetails], tagged: str) -> FieldError:
    first = errors[0]
    path = _path(first, tagged)
    if first["type"] == "missing":
        part = path[:-1]
        lacking = [where for one in errors if one["type"] == "missing" and (where := _path(one, tagged))[:-1] == part]
        return FieldError(".".join(part), f"needs {', '.join(f'`{_joined(where)}`' for where in lacking)} too")
    if first["type"] == _OF_MEMBERS:
        stated = first["ctx"]
        return FieldError(_joined((*path, stated["field"])), stated["reason"])
    if first["type"].startswith("union_tag"):
        return FieldError(_joined((*path, "kind")), f"must be one of {first['ctx'].get('expected_tags', 'its kinds')}")
    return FieldError(_joined(path), _reason(first, tagged))


def _path(error: ErrorDetails, tagged: str) -> tuple[str, ...]:
    """Where a member stands in the document, without the words by which kinds of parts are told."""
    path = tuple(str(part) for part in error["loc"] if part != "[key]")
    return path[:1] + path[2:] if path[:1] == (tagged,) else path


def _reason(error: ErrorDetails, tagged: str) -> str:
    kind, words = error["type"], error["msg"].removeprefix("Value error, ").removeprefix("Input ").replace("\n", " ")
    if kind == "literal_error":
        return f"must be {error['ctx']['expected']}"
    if kind == "too_short":
        return f"needs at least {error['ctx']['min_length']} values"
    if kind == "string_pattern_mismatch":
        return f"must match {error['ctx']['pattern']}"
    if kind == "extra_forbidden":
        loc = error["loc"]
        return f"does not belong to `{loc[1]}`" if loc[0] == tagged and len(loc) > 1 else "is not known"
    return words[:1].lower() + words[1:]


def _joined(path: Sequence[str]) -> str:
    return ".".join(map(shown, path)) or "document"
