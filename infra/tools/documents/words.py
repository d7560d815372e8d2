"""A JSON Schema in words, and tables of Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

MADE = "Generated from the code by `tacit schemas`; a test compares."
FROM_FOLDER = ", from the file's own folder"
_BASE64_OF_32 = "{42}[AEIMQUYcgkosw048]"


def prose(schema: Mapping[str, Any]) -> str:
    """The description in a schema as Markdown; empty if it has none."""
    return str(schema.get("description", "")).replace("``", "`")


def value(default: Any) -> str:
    """A default as Markdown code, or a reference to the rows below if it is an object."""
    if isinstance(default, dict):
        return "as below"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def type_in_words(content: Mapping[str, Any]) -> str:
    """The type that a schema describes in words with its limits; of a reference, the name of the schema that it
    names."""
    if "$ref" in content:
        return str(content["$ref"]).rpartition("/")[2]
    for several in ("anyOf", "oneOf"):
        if several in content:
            return " or ".join(dict.fromkeys(type_in_words(one) for one in content[several]))
    if "const" in content:
        return f"`{content['const']}`"
    if "enum" in content and "type" in content:
        return "one of " + ", ".join(f"`{one}`" for one in content["enum"])
    kind = content.get("type", "any value")
    if kind == "array":
        return _array(content)
    if kind == "object":
        values = [*content.get("patternProperties", {}).values(), content.get("additionalProperties")]
        named = next((one for one in values if isinstance(one, dict)), None)
        return "object" if named is None else f"object: name to {type_in_words(named)}"
    return _text(content) if kind == "string" else f"{kind}{_range(content, 'minimum', 'maximum')}"


def _array(content: Mapping[str, Any]) -> str:
    items = type_in_words(content["items"]) if "items" in content else "values"
    return f"array{_range(content, 'minItems', 'maxItems')} of {items}"


def _text(content: Mapping[str, Any]) -> str:
    pattern = content.get("pattern", "")
    if content.get("contentEncoding") == "base64url":
        return "base64url of 32 bytes" if _BASE64_OF_32 in pattern else "base64url"
    if pattern.endswith("[1-9]$"):
        return "fraction"
    if pattern.startswith("^(0|[1-9]"):
        return "decimal"
    if content.get("format") == "path":
        return f"path{FROM_FOLDER}"
    length = _range(content, "minLength", "maxLength")
    return f"text{length}" + (f" `{pattern}`".replace("|", "\\|") if pattern else "")


def _range(content: Mapping[str, Any], low: str, high: str) -> str:
    least, most = content.get(low, content.get("exclusiveMinimum")), content.get(high)
    if most == 2**53 - 1:
        most = None
    if least is None and most is None:
        return ""
    above = "above " if low not in content and least is not None else ""
    if most is None:
        return f" (from {above}{least} on)".replace("from above", "above").replace(" on)", ")" if above else " on)")
    return f" (up to {most})" if least is None else f" (from {above}{least} to {most})".replace("from above", "above")


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A Markdown table. Cells are not escaped: they must hold no bare ``|`` and no line end."""
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def page(*parts: str) -> str:
    """Join ``parts`` into a page, with empty lines between them."""
    return "\n\n".join(parts) + "\n"
