"""Documents that people write: read them from files, and report which member is wrong and why."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from tacit.errors import DecodeError, FieldError
from tacit.tlog.canonical import parse_json
from tacit.validation_words import quote_value, reason_of

M = TypeVar("M", bound=BaseModel)
_OF_MEMBERS = "field"
"""Type of the errors that ``wrong`` makes."""


def wrong(field: str, reason: str) -> PydanticCustomError:
    """The error of a model that finds its member ``field`` wrong when it checks several members together."""
    return PydanticCustomError(_OF_MEMBERS, "{field} {reason}", {"field": field, "reason": reason})


def parse_fields(model: type[M], body: Mapping[str, Any], tagged: str = "") -> M:
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
            ".".join(part),
            f"needs {', '.join(f'`{_join_path(where)}`' for where in lacking if where[:-1] == part)} too",
        )
    if one["type"] == _OF_MEMBERS:
        stated = one["ctx"]
        return FieldError(_join_path((*path, stated["field"])), stated["reason"])
    if one["type"].startswith("union_tag"):
        return FieldError(_join_path((*path, "kind")), f"must be one of {one['ctx'].get('expected_tags', 'its kinds')}")
    return FieldError(_join_path(path), _reason(one, tagged))


def _path(error: ErrorDetails, tagged: str) -> tuple[str, ...]:
    """The path of a member in the document, without the tags of unions."""
    path = tuple(str(part) for part in error["loc"] if part != "[key]")
    return path[:1] + path[2:] if path[:1] == (tagged,) else path


def _reason(error: ErrorDetails, tagged: str) -> str:
    loc = error["loc"]
    if error["type"] == "extra_forbidden" and loc[0] == tagged and len(loc) > 1:
        return f"does not belong to `{loc[1]}`"
    return reason_of(error)


def _join_path(path: Sequence[str]) -> str:
    return ".".join(map(quote_value, path)) or "document"
