"""Documents that people write: read them from files, and report which member is wrong and why."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from tacit.errors import DecodeError, FieldError
from tacit.tlog.canonical import parse_json, shown

M = TypeVar("M", bound=BaseModel)
_OF_MEMBERS = "field"
"""Type of the errors that ``wrong`` makes."""
_WHOLE: Final = "must be a whole number"
_WORDS: Final = {
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float", "int_parsing_size"), _WHOLE),
    "string_type": "must be text",
    "bool_type": "must be true or false",
    "dict_type": "must be names with their values",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "model_type": "must be an object with members",
    "model_attributes_type": "must be an object with members",
    "literal_error": "must be {choices}",
    "too_short": "needs at least {min_length} values",
    "too_long": "takes at most {max_length} values",
    "string_too_short": "needs at least {min_length} characters",
    "string_too_long": "takes at most {max_length} characters",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "multiple_of": "must be a multiple of {multiple_of}",
}
"""The message for a person, by type of error."""
_PATTERNS: Final = {
    r"^[a-z0-9][a-z0-9-]{0,62}$": "takes 1 to 63 of a-z, 0-9 and '-', a letter or digit first",
    r"^[a-z0-9][a-z0-9-]{0,55}$": "takes 1 to 56 of a-z, 0-9 and '-', a letter or digit first",
    r"^[a-z][a-z0-9-]{0,31}$": "takes 1 to 32 of a-z, 0-9 and '-', a letter first",
    r"^[a-z][a-z0-9_-]{0,31}$": "takes 1 to 32 of a-z, 0-9, '_' and '-', a letter first",
    r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$": "takes 1 to 64 letters, digits, '.', '_' and '-', a letter or digit first",
    r"^[A-Za-z0-9][A-Za-z0-9.:_-]{0,252}$": "takes letters, digits, '.', ':', '_' and '-', a letter or digit first",
    r"^[0-9a-f]{64}$": "takes 64 digits of 0-9 and a-f",
    r"^[^\x00-\x1f\x7f]*$": "takes no control characters",
}
"""What the patterns of documents require, in words."""


def wrong(field: str, reason: str) -> PydanticCustomError:
    """The error of a model that finds its member ``field`` wrong when it checks several members together."""
    return PydanticCustomError(_OF_MEMBERS, "{field} {reason}", {"field": field, "reason": reason})


def filled(model: type[M], body: Mapping[str, Any], tagged: str = "") -> M:
    """Validate ``body`` as a frozen model. Raises FieldError for every wrong member; all members that one part lacks
    are one error. ``tagged``: the member that is a tagged union, whose tag is left out of paths."""
    try:
        return model.model_validate(body)
    except ValidationError as error:
        first, *others = _field_errors(error.errors(include_url=False, include_input=False), tagged)
        raise FieldError(first.field, first.reason, tuple(others)) from error


def parse_file(data: bytes, name: str) -> Any:
    """The value in a file that ends in .toml, or holds JSON otherwise; ``name`` is used in errors. Raises
    DecodeError."""
    if not name.endswith(".toml"):
        return parse_json(data, name)
    try:
        return tomllib.loads(data.decode())
    except RecursionError as error:
        raise DecodeError(f"{name}: nested too deeply") from error
    except ValueError as error:
        raise DecodeError(f"{name}: {error}") from error


def _field_errors(errors: Sequence[ErrorDetails], tagged: str) -> list[FieldError]:
    """One for each member, in the order of the document."""
    found: dict[str, FieldError] = {}
    for one in errors:
        told = _field_error(one, errors, tagged)
        found.setdefault(told.field, told)
    return list(found.values())


def _field_error(one: ErrorDetails, errors: Sequence[ErrorDetails], tagged: str) -> FieldError:
    path = _path(one, tagged)
    if one["type"] == "missing":
        part = path[:-1]
        lacking = [_path(other, tagged) for other in errors if other["type"] == "missing"]
        return FieldError(
            ".".join(part), f"needs {', '.join(f'`{_joined(where)}`' for where in lacking if where[:-1] == part)} too"
        )
    if one["type"] == _OF_MEMBERS:
        stated = one["ctx"]
        return FieldError(_joined((*path, stated["field"])), stated["reason"])
    if one["type"].startswith("union_tag"):
        return FieldError(_joined((*path, "kind")), f"must be one of {one['ctx'].get('expected_tags', 'its kinds')}")
    return FieldError(_joined(path), _reason(one, tagged))


def _path(error: ErrorDetails, tagged: str) -> tuple[str, ...]:
    """The path of a member in the document, without the tags of unions."""
    path = tuple(str(part) for part in error["loc"] if part != "[key]")
    return path[:1] + path[2:] if path[:1] == (tagged,) else path


def _reason(error: ErrorDetails, tagged: str) -> str:
    kind, stated = error["type"], error.get("ctx", {})
    if kind == "string_pattern_mismatch":
        return _PATTERNS.get(stated["pattern"], "has characters that are not allowed here")
    if kind == "extra_forbidden":
        loc = error["loc"]
        return f"does not belong to `{loc[1]}`" if loc[0] == tagged and len(loc) > 1 else "is not known"
    if kind in _WORDS:
        choices = str(stated.get("expected", "")).replace("'", "`")
        return _WORDS[kind].format(**stated, choices=choices)
    words = error["msg"].removeprefix("Value error, ").removeprefix("Input ").replace("\n", " ")
    return words[:1].lower() + words[1:]


def _joined(path: Sequence[str]) -> str:
    return ".".join(map(shown, path)) or "document"
