"""Configuration files: JSON or TOML, read into a model that refuses what it does not know."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError, ValidationInfo

from tacit.adapters.disk.files import read_bounded
from tacit.errors import UsageError
from tacit.validation_words import quote_value, reason_of

LARGEST = (1 << 63) - 1
MOST_OF_NAME, MOST_OF_PATH = 255, 2048
"""Most bytes of a file name and of a path."""
MOST_BYTES = 4 << 20
"""Most bytes of a configuration file."""
_BASE = "base"


def _against_base(path: Path, info: ValidationInfo) -> Path:
    if "\0" in str(path):
        raise ValueError("must not contain a NUL character")
    if len(os.fsencode(path)) > MOST_OF_PATH or any(len(os.fsencode(part)) > MOST_OF_NAME for part in path.parts):
        raise ValueError("is too long to be a path")
    base = (info.context or {}).get(_BASE)
    try:
        return path if base is None else Path(base) / path.expanduser()
    except RuntimeError as error:
        raise ValueError("names a home folder that does not exist") from error


ConfigPath = Annotated[Path, AfterValidator(_against_base)]
"""A path in a configuration file; relative ones are taken from the file's folder."""


class Frozen(BaseModel):
    """Base of every configuration model: immutable, refuses unknown keys and non-finite numbers, and keeps values out
    of error texts."""

    model_config = ConfigDict(
        defer_build=True, frozen=True, extra="forbid", hide_input_in_errors=True, allow_inf_nan=False
    )


Config = TypeVar("Config", bound=BaseModel)


def load_config(path: Path, model: type[Config]) -> Config:
    """Read a ``.toml`` file, or else JSON, into ``model``. Raises ``UsageError`` with one line that names the field."""
    try:
        data = _parse(path, read_bounded(path, MOST_BYTES).decode("utf-8"))
        _require_storable(data)
    except RecursionError as error:
        raise UsageError(f"{path}: not a valid configuration file: nested too deeply") from error
    except ValueError as error:
        line = " ".join(str(error).split())
        raise UsageError(f"{path}: not a valid configuration file: {line}") from error
    return parse_config(data, model, base=path.absolute().parent, where=str(path))


def parse_config(data: object, model: type[Config], *, base: Path | None = None, where: str = "config") -> Config:
    """Validate already parsed ``data``; relative paths are taken from ``base``. Raises ``UsageError``."""
    try:
        return model.model_validate(data, context={_BASE: base})
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        field = ".".join(quote_value(str(part)) for part in first["loc"]) or "file"
        raise UsageError(f"{where}: {field}: {reason_of(first)}") from error


def _parse(path: Path, text: str) -> Any:
    if path.suffix == ".toml":
        import tomllib

        return tomllib.loads(text)
    return json.loads(text, object_pairs_hook=_once_each, parse_constant=_no_number)


def _once_each(members: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(members)
    if len(document) < len(members):
        names = [name for name, _ in members]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{quote_value(twice)} appears twice")
    return document


def _require_storable(value: Any) -> None:
    """Raise ``ValueError`` for integers and texts that neither a database nor a file name can hold."""
    if isinstance(value, dict):
        for name, one in value.items():
            _require_storable(name)
            _require_storable(one)
    elif isinstance(value, list):
        for one in value:
            _require_storable(one)
    elif isinstance(value, int) and not -LARGEST <= value <= LARGEST:
        raise ValueError("a number must fit into 63 bits")
    elif isinstance(value, str) and any("\ud800" <= char <= "\udfff" for char in value):
        raise ValueError("a text is not valid Unicode")


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is not a number")
