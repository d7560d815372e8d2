"""The templates, the filters that write numbers and times in them, and the headers of every page."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, InvalidOperation
from functools import cache
from typing import Any, Final

from aiohttp import web
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from services.admin.pages.assets import assets
from services.admin.pages.survey_labels import chosen, label_of, of_entry, plain, replace_members, shown_at
from tacit.errors import as_sentence
from tacit.methods.figures import MARGIN, delta_form, form_of, interval_of, margin, with_margin
from tacit.methods.figures import number as estimate
from tacit.methods.result import answers, by_label
from tacit.recipe.cautions import cautions
from tacit.time_format import format_utc

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
    """The environment of the templates. Every value is escaped, and an undefined name is an error."""
    jinja = Environment(
        loader=PackageLoader("services.admin.pages"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    jinja.filters |= {
        "when": time_element,
        "number": number,
        "figure": figure,
        "percent": percent,
        "stated": format_epsilon,
        "left": left,
        "lasting": lasting,
        "plain": plain,
        "short": short,
        "sentence": as_sentence,
        "label": label_of,
        "worded": replace_members,
        "shown_at": shown_at,
        "of_entry": of_entry,
        "marked": mark_code,
        "chosen": chosen,
        "form": form_of,
        "with_margin": with_margin,
        "margin": margin,
        "ends": ends,
        "delta": delta_form,
        "as_form": estimate,
        "cautions": cautions,
        "answers": answers,
        "by_label": by_label,
    }
    jinja.globals |= {"assets": {name: asset.path for name, asset in assets().items()}, "MARGIN": MARGIN}
    return jinja


def render(template: str, **values: Any) -> str:
    return environment().get_template(template).render(**values)


def response(text: str, status: int = 200, content_type: str = HTML) -> web.Response:
    """Answer ``text``, of a page or of a part of one, with the headers that every page has."""
    return web.Response(text=text, status=status, content_type=content_type, charset="utf-8", headers=HEADERS)


def time_element(seconds: float | None) -> Markup:
    """A POSIX time as a ``time`` element in UTC, which a script may show in the reader's time zone."""
    if seconds is None:
        return Markup("–")
    try:
        text = format_utc(seconds)
    except (ValueError, OverflowError, OSError):
        return Markup("{}").format(int(seconds))
    stamp = text.removesuffix(" UTC").replace(" ", "T") + "Z"
    return Markup('<time datetime="{}">{}</time>').format(stamp, text.removesuffix(" UTC")[:16] + " UTC")


def number(value: float | None) -> str:
    """A count with thousands separators."""
    return NONE if value is None else f"{value:,.0f}"


def figure(value: float | str | None) -> str:
    """A quantity of any size, with at most four significant digits up to 1,000."""
    if value is None:
        return NONE
    found = float(value)
    if not math.isfinite(found):
        return "∞"
    if found and (abs(found) >= 1e7 or abs(found) < 1e-3):
        mantissa, _, exponent = f"{found:.3g}".partition("e")
        return f"{mantissa}×10{exponent.lstrip('+').translate(_RAISED).replace('⁰', '', 1)}" if exponent else mantissa
    return f"{found:,.0f}" if abs(found) >= 1000 else f"{found:.4g}"


def percent(value: float) -> str:
    """A share in percent with two significant digits, or whole from 99.5 on."""
    return f"{value:.2g}" if abs(value) < 99.5 else f"{value:,.0f}"


_RAISED: Final = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def left(value: str) -> str:
    """What is left of an epsilon, rounded down to at most four digits after the point."""
    return format_epsilon(value, ROUND_FLOOR)


def format_epsilon(value: str, rounding: str = ROUND_CEILING) -> str:
    """An epsilon or a delta, rounded up to at most four digits after the point."""
    try:
        exact = Decimal(value)
    except InvalidOperation:
        return value
    if not exact:
        return "0"
    if not exact.is_finite() or exact < Decimal("0.001"):
        return value
    return f"{exact.quantize(Decimal('0.0001'), rounding).normalize():f}"


def lasting(seconds: float) -> str:
    """A length of time in whole units: the largest unit of which it has at least two."""
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length:,.0f} {unit}"
    return f"{seconds:,.0f} seconds"


def ends(bucket: Mapping[str, Any], document: Mapping[str, Any], form: str) -> str:
    """The 95 % interval of an answer of a released result, as text."""
    low, high = interval_of(bucket, document)
    return f"{estimate(low, form)} to {estimate(high, form)}"


def mark_code(text: str) -> Markup:
    """Mark the words between backticks up as code."""
    pieces = text.split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(one) if at % 2 else escape(one) for at, one in enumerate(pieces)
    )


def short(text: str, length: int = 10) -> str:
    """The first ``length`` characters of a hash."""
    return text if len(text) <= length else f"{text[:length]}…"
