"""A configuration with every key, as ``tacit serve`` reads it: TOML with the description of each key, or JSON.

A required key holds ``<KEY>`` until somebody fills it in; every other key has its default. A line that begins with
``#`` and a space is a comment; one that begins with ``#`` alone is a key without a default: remove the sign to give it
a value.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from infra.tools.documents.words import FROM_FOLDER, prose, type_in_words

_OFF = "#"
_WIDTH = 118
_HEAD = "A key with <...> is required. Every other key has its default; a key behind a # has none."

Schema = Mapping[str, Any]
Place = Literal["itself", "array", "by name"]


@dataclass(frozen=True)
class Member:
    """A key: its ``name``, its schema, and whether it is required."""

    name: str
    schema: Schema
    required: bool

    @property
    def default(self) -> Any:
        """The key's value when it is absent."""
        return self.schema.get("default", {})

    @property
    def is_off(self) -> bool:
        """Whether the key is neither required nor has a default."""
        return not self.required and self.default is None


@dataclass(frozen=True)
class Example:
    """Examples of the configuration that ``schema`` (of ``infra.tools.documents.schemas``) describes."""

    schema: Schema

    def json(self) -> dict[str, Any]:
        """Every key of the configuration with its default, or with ``<KEY>`` if it is required."""
        return self._object(self.schema)

    def toml(self) -> str:
        """The same as TOML, each key below its description, and commented out if it has no default."""
        return "\n".join([f"# {_HEAD}", *self._lines((), self.schema, "")])

    def _object(self, schema: Schema) -> dict[str, Any]:
        return {member.name: self._value(member) for member in _members(schema)}

    def _value(self, member: Member) -> Any:
        part = self._part(member.schema)
        if part is not None and not member.is_off:
            return self._object(part)
        if not member.required:
            return member.default
        if member.schema.get("type") == "array":
            return [self._value(Member(member.name, member.schema["items"], required=True))]
        return member.schema.get("const", f"<{member.name}>")

    def _part(self, schema: Schema) -> Schema | None:
        """The schema of the object that a member holds; of the first kind if several are allowed."""
        if "$ref" in schema:
            found: Schema = self.schema["$defs"][schema["$ref"].rpartition("/")[2]]
            return found if "properties" in found else None
        kinds = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
        return next((part for part in map(self._part, kinds) if part is not None), None)

    def _within(self, member: Member) -> tuple[Place, Schema] | None:
        """The schema of the objects in a member, and how they lie in it: the member itself, in an array, or by name.
        None if it holds no object."""
        part = self._part(member.schema)
        if part is not None:
            return "itself", part
        if member.schema.get("type") == "array":
            each = self._part(member.schema.get("items", {}))
            return None if each is None else ("array", each)
        for one in (member.schema, *member.schema.get("anyOf", ())):
            values = [*one.get("patternProperties", {}).values(), one.get("additionalProperties")]
            found = next((self._part(value) for value in values if isinstance(value, dict)), None)
            if found is not None:
                return "by name", found
        return None

    def _lines(self, path: tuple[str, ...], schema: Schema, sign: str) -> Iterator[str]:
        """The lines of an object's members, each of them prefixed with ``sign``; members that need no table come
        first."""
        tables: list[tuple[Member, Place, Schema]] = []
        for member in _members(schema):
            within = self._within(member)
            if within is not None:
                tables.append((member, *within))
                continue
            value = f"<{member.name}>" if member.is_off else self._value(member)
            yield from _words(member, type_in_words(member.schema))
            yield f"{sign or (_OFF if member.is_off else '')}{member.name} = {_toml(value)}"
        for member, place, part in tables:
            yield from _words(member, "")
            off = sign or ("" if member.required or (place == "itself" and not member.is_off) else _OFF)
            below = (*path, member.name, *(['"<name>"'] if place == "by name" else []))
            yield off + ("[[{}]]" if place == "array" else "[{}]").format(".".join(below))
            yield from self._lines(below, part, off)


def _members(schema: Schema) -> list[Member]:
    required = schema.get("required", ())
    return [Member(name, content, name in required) for name, content in schema["properties"].items()]


def _words(member: Member, kind: str) -> Iterator[str]:
    yield ""
    kind = kind.removesuffix(" or null").replace("\\|", "|").replace(FROM_FOLDER, "")
    said = f"{prose(member.schema)} ({'required: ' if member.required else ''}{kind})" if kind else prose(member.schema)
    yield from textwrap.wrap(said, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_long_words=False)


def _toml(value: Any) -> str:
    """A value in one line of TOML; an object is written as empty."""
    return f"[{', '.join(map(_toml, value))}]" if isinstance(value, list) else json.dumps(value, ensure_ascii=False)
