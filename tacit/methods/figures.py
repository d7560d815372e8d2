"""How estimates are written for a person: in the terminal, on pages and in reports with as many digits as their error
leaves of them, and with the same margin everywhere: 1.96 standard errors, which is half of a 95 % interval."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from tacit.methods.base.statistics import STATISTICS
from tacit.methods.result import Zeros, answers

NORMAL_95: Final = 1.96
"""Standard errors to either side of an estimate, within which the truth is in 95 of 100 cases."""
MARGIN: Final = "± 1.96 s.e."
"""Column heading of the 95 % margins."""
MOST_PLACES: Final = 6
MOST_DRAWN: Final = 40
"""How many answers of a result are shown to a person at once, the largest ones; tables and files have all."""


def form_of_errors(stderrs: Iterable[float]) -> str:
    """The format of estimates with these standard errors: whole where the least error is 1 or more, otherwise with two
    digits of it, and ``MOST_PLACES`` places at the most."""
    least = min((error for error in stderrs if error > 0), default=1.0)
    return f",.{max(0, min(MOST_PLACES, 1 - math.floor(math.log10(least))))}f" if least < 1 else ",.0f"


def form_of(document: Mapping[str, Any]) -> str:
    """The format of a result's estimates: numbers of devices are whole, others as their errors say."""
    if STATISTICS[document["statistic"]].counts_devices:
        return ",.0f"
    return form_of_errors(row["stderr"] for row in answers(document))


def number(value: float, form: str) -> str:
    """A number as ``form`` writes it; what is rounded to nothing has no sign."""
    text = format(value, form)
    return text if any(digit in text for digit in "123456789") else text.removeprefix("-")


def margin(stderr: float, form: str) -> str:
    """Half of the 95 % interval of an estimate with this standard error."""
    return number(NORMAL_95 * stderr, form)


def with_margin(estimate: float, stderr: float, form: str) -> str:
    """An estimate with its margin, such as ``2,720 ± 327``."""
    return f"{number(estimate, form)} ± {margin(stderr, form)}"


def delta_form(value: float | str) -> str:
    """A delta as it is stated, without an exponent."""
    return f"{Decimal(str(value)):f}"


def interval(estimate: float, stderr: float) -> tuple[float, float]:
    """The lower and the upper end of the 95 % interval; neither is clipped."""
    return estimate - NORMAL_95 * stderr, estimate + NORMAL_95 * stderr


def interval_of(row: Mapping[str, Any], document: Mapping[str, Any]) -> tuple[float, float]:
    """The two ends of the 95 % interval of a result's answer; from 0 on for a 0 that may be a small count."""
    low, high = interval(row["estimate"], row["stderr"])
    return (max(0.0, low) if "zeros" in document and not row["estimate"] else low), high


def places_to_draw(document: Mapping[str, Any]) -> Sequence[int]:
    """The places in ``answers`` of those that are shown at once: all in their order, or of more than ``MOST_DRAWN``
    the largest, in falling order."""
    found = answers(document)
    places = range(len(found))
    if len(found) <= MOST_DRAWN:
        return places
    return sorted(places, key=lambda at: -float(found[at]["estimate"]))[:MOST_DRAWN]


def has_population(document: Mapping[str, Any]) -> bool:
    """Whether every row has an interval for all devices that were asked."""
    found = answers(document)
    return bool(found) and all("population_low" in row for row in found)


def share_texts(document: Mapping[str, Any]) -> list[str]:
    """Each row's share of the devices that answered, in per cent with its 95 % error; empty if not all have one."""
    found = answers(document)
    if not found or any("share" not in row for row in found):
        return []
    form = form_of_errors(100 * NORMAL_95 * row["share_stderr"] for row in found)
    return [f"{with_margin(100 * row['share'], 100 * row['share_stderr'], form)} %" for row in found]


def population_texts(document: Mapping[str, Any], form: str) -> list[str]:
    """Each row's interval for all devices that were asked, as text; empty if not all rows have one."""
    if not has_population(document):
        return []
    return [
        f"{number(row['population_low'], form)} to {number(row['population_high'], form)}" for row in answers(document)
    ]


def rest_words(document: Mapping[str, Any]) -> str | None:
    """The bound on the answers that a ranked result does not list, or what an estimate of 0 means where small counts
    are cut, in words; None for other results."""
    if "zeros" in document:
        return Zeros(document["zeros"]["below"], document["zeros"]["probability"]).sentence()
    if "ranked" not in document:
        return None
    rest, threshold = document["ranked"]["rest"], document["ranked"]["threshold"]
    words = (
        f"every other text of the domain is below {math.ceil(rest['below']):,}, with probability "
        f"{rest['probability']:.12g}; {outside_words(document)}"
    )
    rate = threshold["false_positive_rate"]
    if rate >= 1:
        return words
    listed = f"answers estimated at {math.ceil(threshold['estimate']):,} or more are listed"
    return f"{listed}; one that nobody gave is among them with probability {rate:.12g} at most; {words}"


def outside_words(document: Mapping[str, Any]) -> str:
    """How many devices have a text that the domain of a ranked result does not hold, in words."""
    outside = document["ranked"].get("outside")
    if outside is None:
        return "texts that do not fit it are neither counted nor listed"
    told = with_margin(max(0.0, outside["estimate"]), outside["stderr"], ",.0f")
    return f"texts that do not fit it are on {told} devices, and never listed"
