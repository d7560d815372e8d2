"""Numbers of a question that need not be whole: the ends of a range, its unit, the edges of buckets.

A whole number is a JSON integer, any other number its decimal text, such as ``0.25``: at most nine digits before the
point, and one to nine after it, the last of which is not 0. So every number has exactly one encoding, and recipes of
whole numbers are encoded as if there were no others. Binary floats are never used: arithmetic is exact.
"""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, Final

from pydantic import PlainValidator, WithJsonSchema

from tacit.tlog.canonical import MAX_INTEGER

PLACES: Final = 9
"""Most digits after the point."""
_UNSIGNED = r"(0|[1-9][0-9]{0,8})\.[0-9]{0,8}[1-9]"
_FRACTION = re.compile(f"-?{_UNSIGNED}")
_WIDEST = 20
"""Characters of the longest text."""
_SPOKEN = re.compile(r"[+-]?[0-9]{1,16}(\.[0-9]{0,30})?")

Exact = int | Fraction
"""A number without rounding; whole ones are of type ``int``."""


def exact(quantity: int | str) -> Exact:
    """The number that a member of a recipe stands for: an integer, or a decimal text such as ``0.25``."""
    return quantity if isinstance(quantity, int) else Fraction(quantity)


def quantity(number: Exact) -> int | str:
    """``number`` as written in a recipe. ``ValueError`` where it has too many digits."""
    if isinstance(number, int) or number.denominator == 1:
        return _check(int(number))
    scaled = number * 10**PLACES
    if scaled.denominator != 1:
        raise ValueError(f"it has more than {PLACES} digits after the point")
    whole, places = divmod(abs(scaled.numerator), 10**PLACES)
    return _check(f"{'-' if number < 0 else ''}{whole}.{places:0{PLACES}}".rstrip("0"))


def parse_spoken(text: str) -> int | str:
    """Convert what a person writes, such as ``0.50``, into the form of a recipe. ``ValueError`` says what is wrong."""
    text = text.strip()
    if not _SPOKEN.fullmatch(text):
        raise ValueError(f"{text[:_WIDEST]!r} is not a number like 3 or 0.25")
    return quantity(Fraction(text))


def in_words(number: Exact) -> str:
    """``number`` with all its digits; a number that a recipe cannot hold is rounded."""
    try:
        return str(quantity(number))
    except ValueError:
        return f"{float(number):.10g}"


def _check(value: Any) -> int | str:
    if isinstance(value, int) and not isinstance(value, bool):
        if abs(value) > MAX_INTEGER:
            raise ValueError(f"a whole number must be from {-MAX_INTEGER} to {MAX_INTEGER}")
        return value
    if isinstance(value, str) and len(value) <= _WIDEST and _FRACTION.fullmatch(value):
        return value
    raise ValueError(
        f"must be a whole number, or a decimal text such as 0.25: up to {PLACES} digits before the point and from one "
        f"to {PLACES} after it, the last one not 0"
    )


def _positive(value: Any) -> int | str:
    if exact(_check(value)) <= 0:
        raise ValueError("must be above 0")
    return _check(value)


def _schema(least: int, pattern: str) -> WithJsonSchema:
    whole = {"type": "integer", "minimum": least, "maximum": MAX_INTEGER}
    return WithJsonSchema({"anyOf": [whole, {"type": "string", "pattern": f"^{pattern}$", "maxLength": _WIDEST}]})


Quantity = Annotated[int | str, PlainValidator(_check), _schema(-MAX_INTEGER, f"-?{_UNSIGNED}")]
PositiveQuantity = Annotated[int | str, PlainValidator(_positive), _schema(1, _UNSIGNED)]


def as_decimal(number: Exact) -> Decimal:
    """A member's number, for comparisons with decimals: both are exact."""
    return Decimal(number) if type(number) is int else Decimal(str(quantity(number)))
