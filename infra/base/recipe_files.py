"""Reads recipes in files, for commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tacit.errors import DecodeError, UsageError
from tacit.recipe.model import Recipe
from tacit.tlog.canonical import parse_json

Document = TypeVar("Document")


def read_recipe(data: bytes, name: str) -> Recipe:
    """Parse the recipe in a file's ``data``, canonical JSON or not; ``name`` is for errors. Raises ``UsageError``."""
    return read_body(data, name, Recipe.from_body)


def read_body(data: bytes, name: str, made: Callable[[Mapping[str, Any]], Document]) -> Document:
    """What ``made`` makes of the JSON object in a file's ``data``, canonical or not; ``name`` is for errors. Raises
    ``UsageError``."""
    try:
        body = parse_json(data, name)
        if not isinstance(body, dict):
            raise UsageError(f"{name}: not a JSON object")
        return made(body)
    except DecodeError as error:
        text = str(error)
        raise UsageError(text if text.startswith(name) else f"{name}: {text}") from error
