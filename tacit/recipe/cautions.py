"""Cautions for readers of a released result: what they must know before using it. They are shown wherever the result
is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tacit.methods.base.statistics import STATISTICS


def cautions(document: Mapping[str, Any]) -> list[str]:
    """Describe what is wrong with a result document, or what it cannot say: one sentence each, without a full stop."""
    return [words for words in (_unexpected(document), _bias_caution(document)) if words is not None]


def _bias_caution(document: Mapping[str, Any]) -> str | None:
    """The caution that devices without a value are included in the estimates, where they cannot be told from others."""
    if not document.get("missing", {}).get("biases"):
        return None
    rest = "the result does not show how many there are, so it gives no numbers for all devices that were asked"
    if STATISTICS[document["statistic"]].is_ratio:
        return f"devices without a value are in the mean, each with {missing_share(document)}; {rest}"
    each = f"each adds {missing_share(document)} to an estimate"
    return f"devices without a value cannot be told from others, and {each}; {rest}"


def missing_share(document: Mapping[str, Any]) -> str:
    """What each device without a value adds to an estimate."""
    adds = sorted({round(one, 4) for one in document["missing"]["adds"]})
    return f"{adds[0]:g}" if len(adds) == 1 else f"{adds[0]:g} to {adds[-1]:g}"


def _unexpected(document: Mapping[str, Any]) -> str | None:
    """The caution that the number of contributions is wrong, where chance does not explain it."""
    response = document.get("response", {})
    verdict = response.get("verdict")
    if verdict not in {"fewer", "more"}:
        return None
    asked, expected = response["asked"], response["expected"]
    full = f"the {expected['low']:,} to {expected['high']:,} that chance allows if all had answered"
    often = f"(except in {expected['false_alarm']:g} of cases)"
    found = f"{response['counted']:,} contributions from {devices(asked)} devices, not {full} {often}"
    if verdict == "more":
        return f"{found}: more devices were asked than the recipe states, so no numbers are given for all of them"
    lost = f", about {1 - expected['share']:.0%} of the devices," if "share" in expected else ""
    return f"{found}: some{lost} stayed silent, and their answers may differ from the others'"


def devices(asked: Mapping[str, Any]) -> str:
    """The number of asked devices, or the range in which it lies."""
    least, most = asked["least"], asked["most"]
    return f"{most:,}" if least == most else f"{least:,} to {most:,}"
