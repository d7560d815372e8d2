"""Examples of what an interface takes and answers, made from the schemas that check it: so they cannot grow old."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

MOMENT: Final = 1_790_000_000
"""The POSIX time, in seconds, that all examples share."""
HASH: Final = "q0PwJ3m9sUqk5lX0nB3n4c8s2ZJm1t7y6vQdHrEoTgA"
"""A digest of 32 bytes in base64url."""
_BY_NAME: Final[dict[str, Any]] = {
    **dict.fromkeys(("at", "created", "changed", "start", "end", "ends", "expires", "next_attempt"), MOMENT),
    **dict.fromkeys(("hash", "recipe_hash", "root", "leaf_hash", "previous", "signing_key"), HASH),
    "id": "5f3c9a7e21d04b68",
    "next": "50",
    "detail": "",
    "version": "1.0.0",
}
"""What members of these names hold, where their schema allows it."""
_DEEPEST: Final = 8
_TYPES: Final[dict[str, Any]] = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}


def _fits(value: Any, schema: Mapping[str, Any]) -> bool:
    """Whether a member whose schema this is may be of the value's type."""
    return isinstance(value, _TYPES.get(schema.get("type", ""), ()))


class Examples:
    """``schemas``: of models by their names, as an OpenAPI document has them; ``known``: examples that are given, by
    the name of the model or of a member."""

    def __init__(self, schemas: Mapping[str, Any], known: Mapping[str, Any]) -> None:
        self._schemas = schemas
        self._known = known

    def of_model(self, name: str, *, request: bool = False) -> Any:
        """An example of the model: the given one, or one made from its schema. A ``request`` has the members that it
        needs, and those that are given."""
        return self._known[name] if name in self._known else self._of(self._schemas[name], "", request, 0)

    @staticmethod
    def problem(status: int) -> dict[str, Any]:
        """The problem document (RFC 9457) of a refusal with this status; for 422 it names the wrong member."""
        document: dict[str, Any] = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status}
        if status == HTTPStatus.UNPROCESSABLE_ENTITY:
            wrong = {"field": "epsilon", "reason": "takes a number above 0 such as 1 or '0.5', not 'much'"}
            document |= {"detail": f"{wrong['field']}: {wrong['reason']}", "field": wrong["field"], "fields": [wrong]}
        return document

    def _of(self, schema: Mapping[str, Any], name: str, request: bool, depth: int) -> Any:
        if "$ref" in schema:
            return self.of_model(schema["$ref"].rpartition("/")[2], request=request)
        if name in self._known and _fits(self._known[name], schema):
            return self._known[name]
        for word in ("const", "example"):
            if word in schema:
                return schema[word]
        for word in ("enum", "examples"):
            if word in schema:
                return schema[word][0]
        several = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
        if several:
            first = next((one for one in several if one.get("type") != "null"), several[0])
            return self._of(first, name, request, depth)
        return self._plain(schema, name, request, depth)

    def _plain(self, schema: Mapping[str, Any], name: str, request: bool, depth: int) -> Any:
        kind = schema.get("type")
        if kind == "object" or "properties" in schema:
            return self._members(schema, request, depth + 1)
        if kind == "array":
            return [self._of(schema.get("items", {}), name.removesuffix("s"), request, depth + 1)]
        given = _BY_NAME.get(name)
        if kind == "integer":
            least = int(schema.get("minimum", 1))
            return given if isinstance(given, int) else max(1, least)
        if kind == "string" and "{43}" in schema.get("pattern", ""):
            return HASH
        if kind == "string":
            text = given if isinstance(given, str) else name or "text"
            return text.ljust(int(schema.get("minLength", 0)), "x")[: int(schema.get("maxLength", 10**6))]
        return {"number": 0.5, "boolean": True}.get(str(kind))

    def _members(self, schema: Mapping[str, Any], request: bool, depth: int) -> dict[str, Any]:
        properties, needed = schema.get("properties", {}), schema.get("required", ())
        if not properties and isinstance(more := schema.get("additionalProperties"), dict) and depth < _DEEPEST:
            return {"name": self._of(more, "", request, depth)}
        return {
            name: self._of(one, name, request, depth)
            for name, one in properties.items()
            if name in needed or name in self._known or not (request or one.get("default", 0) is None)
        }
