"""Templates, how numbers and times are written in them, and the headers of every page."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from functools import cache
from typing import Any, Final

from aiohttp import web
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from services.admin.pages.assets import assets
from services.admin.pages.survey_labels import label_of
from tacit.moments import when

HTML: Final = "text/html"
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "Referrer-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
NONE: Final = "–"


@cache
def environment() -> Environment:
    """The templates. Every value is escaped, and a name that nobody gave is an error."""
    found = Environment(
        loader=PackageLoader("services.admin.pages"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    found.filters |= {
        "when": moment,
        "number": number,
        "figure": figure,
        "stated": stated,
        "lasting": lasting,
        "plain": plain,
        "short": short,
        "label": label_of,
    }
    found.globals |= {"assets": {name: asset.path for name, asset in assets().items()}}
    return found


def rendered(template: str, **values: Any) -> str:
    """The text of a template."""
    return environment().get_template(template).render(**values)


def response(text: str, status: int = 200, content_type: str = HTML) -> web.Response:
    """A page, or a part of one."""
    return web.Response(text=text, status=status, content_type=content_type, charset="utf-8", headers=HEADERS)


def moment(seconds: float | None) -> Markup:
    """A POSIX time as an element that a script may tell in the reader's own zone."""
    if seconds is None:
        return Markup("–")
    try:
        text = when(seconds)
    except (ValueError, OverflowError, OSError):
        return Markup("{}").format(int(seconds))
    stamp = text.removesuffix(" UTC").replace(" ", "T") + "Z"
    return Markup('<time datetime="{}">{}</time>').format(stamp, text.removesuffix(" UTC")[:16] + " UTC")


def number(value: float | None) -> str:
    """A count with separators."""
    return NONE if value is None else f"{value:,.0f}"


def figure(value: float | str | None) -> str:
    """A quantity of any size in at most four digits."""
    if value is None:
        return NONE
    found = float(value)
    if not math.isfinite(found):
        return "∞"
    if found and (abs(found) >= 1e7 or abs(found) < 1e-3):
        mantissa, _, exponent = f"{found:.3g}".partition("e")
        return f"{mantissa}×10{exponent.lstrip('+').translate(_RAISED).replace('⁰', '', 1)}" if exponent else mantissa
    return f"{found:,.0f}" if abs(found) >= 1000 else f"{found:.4g}"


_RAISED: Final = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def stated(value: str) -> str:
    """An epsilon or a delta in at most four digits after the point, never less than it is."""
    try:
        exact = Decimal(value)
    except InvalidOperation:
        return value
    if not exact.is_finite() or exact < Decimal("0.001"):
        return value
    return f"{exact.quantize(Decimal('0.0001'), ROUND_CEILING).normalize():f}"


def lasting(seconds: float) -> str:
    """A length of time in the largest unit of which it has two, or in days."""
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{figure(seconds / length)} {unit}"
    return f"{figure(seconds)} seconds"


def plain(text: str) -> str:
    """A word of the protocol for a person."""
    return text.replace("-", " ").replace("_", " ")


def short(text: str, length: int = 10) -> str:
    """The beginning of a hash."""
    return text if len(text) <= length else f"{text[:length]}…"
