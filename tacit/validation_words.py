"""What is wrong with a member of a document, in words: the reasons of the library that validates documents speak of its
own types, which nobody who writes a document knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_WHOLE: Final = "must be a whole number"
_WORDS: Final = {
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float", "int_parsing_size"), _WHOLE),
    "string_type": "must be text",
    "bool_type": "must be true or false",
    "dict_type": "must be names with their values",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "model_type": "must be an object with members",
    "dataclass_type": "must be an object with members",
    "mapping_type": "must be names with their values",
    "model_attributes_type": "must be an object with members",
    **dict.fromkeys(("set_type", "frozen_set_type", "iterable_type"), "must be a list"),
    "bool_parsing": "must be true or false",
    **dict.fromkeys(("float_type", "float_parsing", "decimal_type", "decimal_parsing"), "must be a number"),
    "finite_number": "must be a finite number",
    "path_type": "must be a path",
    "is_instance_of": "is of the wrong type",
    "missing": "is missing",
    "extra_forbidden": "is not known",
    **dict.fromkeys(("literal_error", "enum"), "must be {choices}"),
    "union_tag_invalid": "must be of a kind that is known: {expected_tags}",
    "union_tag_not_found": "does not say of which kind it is",
    "too_short": "needs at least {min_length} {min_values}",
    "too_long": "takes at most {max_length} {max_values}",
    "string_too_short": "needs at least {min_length} {min_characters}",
    "string_too_long": "takes at most {max_length} {max_characters}",
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


def reason_of(error: Mapping[str, Any]) -> str:
    """The reason of an entry of ``ValidationError.errors``, as what follows the member's name. The entry may lack its
    context; then its limits are not told."""
    kind, stated = error["type"], error.get("ctx", {})
    if kind == "string_pattern_mismatch":
        return _PATTERNS.get(stated.get("pattern", ""), "has characters that are not allowed here")
    if kind in _WORDS:
        try:
            return _WORDS[kind].format(**stated, **_agreeing(stated))
        except KeyError:
            pass
    words = str(error["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ").removeprefix("Input ")
    words = " ".join(words.split())
    return words if words[1:2].isupper() else words[:1].lower() + words[1:]


def _agreeing(stated: Mapping[str, Any]) -> dict[str, str]:
    """Nouns that agree with the numbers before them, and the choices of a member."""
    found = {"choices": str(stated.get("expected", "")).replace("'", "`")}
    for end in ("min", "max"):
        several = "" if stated.get(f"{end}_length") == 1 else "s"
        found |= {f"{end}_values": f"value{several}", f"{end}_characters": f"character{several}"}
    return found


def quote_value(name: str) -> str:
    """A member's name, or a value, in a form suitable for a one-line message."""
    return "".join(char if char.isprintable() else "?" for char in name[:64])
