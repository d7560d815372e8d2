"""Converts the members of a survey to fields of a form, and back.

A field is named by its member's path (``encoder.low``), so that an error in a member is shown beside its field. Lists
have one item per line or commas between items, and attributes are ``name=value``. An empty field leaves its member out.
"""

from __future__ import annotations

import calendar
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, get_args

from tacit.lines import lines_of
from tacit.methods.base.statistics import StatisticName
from tacit.methods.registry import METHODS
from tacit.models.forms import FORMS
from tacit.recipe.writing.survey import MECHANISMS, MISSING, Close, Dap, Proven, Survey, Through
from tacit.recipe.writing.survey_table import FIELD_AT, SurveyField, Value

_WHOLE: Final = re.compile(r"-?[0-9]{1,18}")
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d")
KINDS: Final = (
    "boolean", "categories", "buckets", "strings", "prefixes", "number", "vector", "occurrences", "attributes", "cells",
)  # fmt: skip


def _whole(said: str) -> Any:
    """An integer; other text is kept, and the survey then refuses it with its own message."""
    return int(said) if _WHOLE.fullmatch(said) else said


def _amount(said: str) -> Any:
    return said.replace(",", ".")


def _read_time(said: str) -> Any:
    """POSIX seconds, from a number or from a time in UTC."""
    if not _MOMENT.fullmatch(said):
        return _whole(said)
    try:
        return calendar.timegm(time.strptime(said.replace("T", " "), "%Y-%m-%d %H:%M"))
    except ValueError:
        return said


def _list(said: str) -> Any:
    return [one.strip() for one in re.split(r"\n" if "\n" in said else r",", said) if one.strip()]


def _quantities(said: str) -> Any:
    return [_whole(one) for one in re.split(r"[\s,;]+", said) if one]


def _pairs(said: str) -> Any:
    return dict(_pair(one) for one in _list(said))


def _values(said: str) -> Any:
    """Attributes with their values, one attribute to a line: ``locale=de|fr``."""
    return {name: [one.strip() for one in value.split("|")] for name, value in map(_pair, lines_of(said)) if name}


def _pair(said: str) -> tuple[str, str]:
    name, _, value = said.partition("=")
    return name.strip(), value.strip()


_READ: Final[Mapping[Value, Callable[[str], Any]]] = {
    Value.WHOLE: _whole,
    Value.MOMENT: _read_time,
    Value.QUANTITY: _whole,
    Value.AMOUNT: _amount,
    Value.FLOAT: _amount,
    Value.LABELS: _list,
    Value.QUANTITIES: _quantities,
    Value.WHOLES: _quantities,
    Value.PAIRS: _pairs,
    Value.VALUES: _values,
}
"""How a field's text becomes the document's value; the text itself for types that are not here."""


@dataclass(frozen=True, slots=True)
class Group:
    """Fields that belong together. ``usual``: in words, what applies if none of them is changed. A group without it
    holds the fields that every question needs, and is always open."""

    title: str
    fields: tuple[SurveyField, ...]
    usual: str = ""


def _group(title: str, usual: str, *paths: str) -> Group:
    return Group(title, tuple(FIELD_AT[path] for path in paths), usual)


GROUPS: Final = (
    _group(
        "The question",
        "",
        "text", "metric", "encoder.kind", "encoder.categories", "encoder.edges", "statistic", "encoder.low",
        "encoder.high", "encoder.unit", "encoder.length", "encoder.alphabet", "encoder.levels", "encoder.candidates",
        "encoder.norm", "encoder.start",
        "encoder.step_seconds", "encoder.steps", "encoder.most", "encoder.attributes", "encoder.cells", "population",
        "epsilon",
    ),
    _group(
        "Name and answers",
        "Named after the metric. Devices without a value are counted separately if answers are categories.",
        "name", "missing", "encoder.missing", "encoder.other", "encoder.outside",
    ),
    _group(
        "Who takes part",
        "Any device, with probability 0.5. Released once there are 80 % of the expected contributions.",
        "rate", "min_batch_size", "criteria",
    ),
    _group(
        "How privately",
        "The most accurate allowed way to ask, at δ 0.000001, with two servers, charged to “default”.",
        "randomizer", "delta", "accuracy", "account", "model", "through", "mechanism", "max_epsilon0",
        "aggregator_flips", "proof", "dap_version",
    ),
    _group(
        "When",
        "In the next epoch, until it ends. Report times are rounded down to the minute.",
        "start", "duration", "close", "time_precision", "epoch", "slot",
    ),
    _group(
        "Hiding who answers",
        "Every device is asked at the same rate, and none sends a dummy.",
        "importance.default", "importance.default_rate", "importance.non_default_share", "importance.devices",
        "dummies", "dummy_epsilon",
    ),
)  # fmt: skip
CHOICES_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "encoder.kind": KINDS,
    "statistic": get_args(StatisticName),
    "missing": MISSING,
    "randomizer": tuple(METHODS),
    "model": tuple(FORMS),
    "mechanism": MECHANISMS,
    "close": get_args(Close),
    "through": get_args(Through),
    "dap_version": get_args(Dap),
    "proof": get_args(Proven),
}
"""The choices of each member that has some, by its path; other members take free text."""
USUAL: Final = {
    "encoder.kind": "boolean",
    "rate": "0.5",
    "epsilon": "1",
    "delta": "0.000001",
    "model": "secure-aggregation",
    "close": "interval_end",
    "through": "gateway",
    "dap_version": "dap-18",
    "proof": "range",
    "account": "default",
    "aggregator_flips": "0",
    "missing": "category",
}
"""The values that a new form is filled in with."""
_STATISTIC_OF_NUMBERS: Final = "mean"
FIELDS: Final = tuple(field for group in GROUPS for field in group.fields)


def body_of(form: Mapping[str, str]) -> dict[str, Any]:
    """The body of a survey, from the fields of a form. It is not checked yet. Fields that do not belong to the chosen
    encoder are left out; a question without a name is named after its metric, and numbers are averaged unless the form
    says otherwise."""
    kind = form.get("encoder.kind", "")
    body: dict[str, Any] = {}
    for field in FIELDS:
        said = form.get(field.path, "")
        if not said or (field.kinds and kind not in field.kinds):
            continue
        part, _, name = field.path.rpartition(".")
        value = _READ.get(field.value, str)(said)
        if part:
            body.setdefault(part, {})[name] = value
        else:
            body[name] = value
    if kind == "number":
        body.setdefault("statistic", _STATISTIC_OF_NUMBERS)
    if "name" not in body and (name := _name_of(str(body.get("metric", "")))):
        body["name"] = name
    return body


def _name_of(metric: str) -> str:
    """A short name made from a metric; empty if none of its characters can be used."""
    return re.sub("[^a-z0-9]+", "-", metric.lower()).strip("-")[:63].rstrip("-")


def fields_of(survey: Survey) -> dict[str, str]:
    """The form fields of a survey; the inverse of ``body_of``."""
    body = survey.model_dump(mode="json", exclude_none=True)
    flat = {name: value for name, value in body.items() if name not in {"encoder", "importance"}}
    for part in ("encoder", "importance"):
        flat |= {f"{part}.{name}": value for name, value in body.get(part, {}).items()}
    return {field.path: _format_value(flat[field.path], field) for field in FIELDS if field.path in flat}


def _format_value(value: Any, field: SurveyField) -> str:
    if isinstance(value, dict):
        several = (f"{name}={'|'.join(one) if isinstance(one, list) else one}" for name, one in value.items())
        return ("\n" if field.lines else ", ").join(several)
    if isinstance(value, list):
        # fields for labels have several lines, because a label may hold a comma
        return ("\n" if field.lines else ", ").join(map(str, value))
    return str(value)
