"""Describes who is behind a result: asked, expected and counted contributions, and which devices it covers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tacit.methods.base.statistics import STATISTICS
from tacit.methods.figures import has_population, number, with_margin
from tacit.recipe.cautions import devices

WHOSE = {"recipe": "as the recipe states", "analyst": "as you state"}


def response_lines(document: Mapping[str, Any]) -> list[str]:
    """Return sentences on asked, expected and counted contributions, on the number of devices behind them, and on what
    each interval covers."""
    response = document.get("response", {})
    mean = STATISTICS[document["statistic"]].is_ratio
    lines = [
        *_asked(document),
        *_answered(response),
        f"an estimate is the {'mean' if mean else 'total'} of the devices that answered, and its interval is for these",
    ]
    if has_population(document):
        lines.append("the interval for all devices asked holds whatever the silent ones would have answered")
    elif response.get("asked") is None:
        lines.append("nothing is said about devices that stayed silent, which may have other answers")
    return lines


def _asked(document: Mapping[str, Any]) -> list[str]:
    response, counted = document.get("response", {}), f"{document['report_count']:,} contributions counted"
    asked, expected = response.get("asked"), response.get("expected", {})
    if asked is None:
        hint = "; how many devices were asked is not known (--asked N states it)" if response else ""
        return [f"{counted}{hint}"]
    words = f"asked {devices(asked)} devices, {WHOSE.get(asked['by'], asked['by'])}"
    if "contributions" not in expected:
        return [f"{words} · {counted}"]
    return [f"{words} · {expected['contributions']:,.0f} contributions expected · {counted}, {expected['share']:.1%}"]


def exact_text(document: Mapping[str, Any]) -> str:
    """Return the number of asked devices and a space if it is known exactly, otherwise an empty text."""
    asked = document["response"]["asked"]
    return f"{asked['most']:,} " if asked["least"] == asked["most"] else ""


def _answered(response: Mapping[str, Any]) -> list[str]:
    answered = response.get("answered")
    if answered is None:
        return []
    estimate, error = answered["estimate"], answered["stderr"]
    told = with_margin(estimate, error, ",.0f") if error else number(estimate, ",.0f")
    return [f"sent by a sample of {told} devices that answered"]
