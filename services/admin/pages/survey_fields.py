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

from services.admin.pages.survey_labels import LABELS
from tacit.methods.registry import METHODS
from tacit.methods.statistics import StatisticName
from tacit.models.forms import FORMS
from tacit.recipe.survey import MECHANISMS, MISSING, Survey

_WHOLE: Final = re.compile(r"-?[0-9]{1,18}")
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d")
KINDS: Final = ("boolean", "categories", "buckets", "strings", "number", "vector", "occurrences", "attributes", "cells")


def _text(said: str) -> Any:
    return said


def _whole(said: str) -> Any:
    """An integer; other text is kept, and the survey then refuses it with its own message."""
    return int(said) if _WHOLE.fullmatch(said) else said


def _amount(said: str) -> Any:
    return said.replace(",", ".")


def _moment(said: str) -> Any:
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
    return {name: [one.strip() for one in value.split("|")] for name, value in map(_pair, said.splitlines()) if name}


def _pair(said: str) -> tuple[str, str]:
    name, _, value = said.partition("=")
    return name.strip(), value.strip()


@dataclass(frozen=True, slots=True)
class Field:
    """One member: how it is read, which choices there are (empty: free text), which encoders have it (empty: it belongs
    to no encoder), and whether the field has several lines."""

    path: str
    read: Callable[[str], Any] = _text
    choices: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    lines: bool = False

    @property
    def label(self) -> str:
        """The label that people read."""
        return LABELS[self.path][0]

    @property
    def hint(self) -> str:
        """The hint below the field, in one line."""
        return LABELS[self.path][1]

    @property
    def numeric(self) -> bool:
        """Whether a numeric keypad is enough to fill the field."""
        return self.read in {_whole, _amount}


@dataclass(frozen=True, slots=True)
class Group:
    """Fields that belong together. ``usual``: in words, what applies if none of them is changed. A group without it
    holds the fields that every question needs, and is always open."""

    title: str
    fields: tuple[Field, ...]
    usual: str = ""


_RANGED: Final = ("number", "vector")
GROUPS: Final = (
    Group(
        "The question",
        (
            Field("text", lines=True),
            Field("metric"),
            Field("encoder.kind", choices=KINDS),
            Field("encoder.categories", _list, kinds=("categories",), lines=True),
            Field("encoder.edges", _quantities, kinds=("buckets",)),
            Field("statistic", choices=get_args(StatisticName), kinds=("number", "occurrences")),
            Field("encoder.low", _whole, kinds=_RANGED),
            Field("encoder.high", _whole, kinds=_RANGED),
            Field("encoder.unit", _whole, kinds=_RANGED),
            Field("encoder.length", _whole, kinds=("strings", "vector")),
            Field("encoder.alphabet", kinds=("strings",)),
            Field("encoder.norm", _whole, kinds=("vector",)),
            Field("encoder.start", _moment, kinds=("occurrences",)),
            Field("encoder.step_seconds", _whole, kinds=("occurrences",)),
            Field("encoder.steps", _whole, kinds=("occurrences",)),
            Field("encoder.most", _whole, kinds=("occurrences",)),
            Field("encoder.attributes", _values, kinds=("attributes",), lines=True),
            Field("encoder.cells", _whole, kinds=("cells",)),
            Field("population", _whole),
            Field("epsilon", _amount),
        ),
    ),
    Group(
        "Name and answers",
        (
            Field("name"),
            Field("missing", choices=MISSING),
            Field("encoder.missing", kinds=("categories", "buckets", "attributes")),
            Field("encoder.other", kinds=("categories", "buckets")),
        ),
        usual="Named after the metric. Devices without a value are counted separately if answers are categories.",
    ),
    Group(
        "Who takes part",
        (Field("rate", _amount), Field("min_batch_size", _whole), Field("criteria", _pairs)),
        usual="Any device, with probability 0.5. Released once there are 80 % of the expected contributions.",
    ),
    Group(
        "How privately",
        (
            Field("randomizer", choices=tuple(METHODS)),
            Field("delta", _amount),
            Field("accuracy", _amount),
            Field("account"),
            Field("model", choices=tuple(FORMS)),
            Field("mechanism", choices=MECHANISMS),
            Field("max_epsilon0", _amount),
            Field("aggregator_flips", _whole),
        ),
        usual="The most accurate allowed way to ask, at δ 0.000001, with two servers, charged to “default”.",
    ),
    Group(
        "When",
        (
            Field("start", _moment),
            Field("duration", _whole),
            Field("close", choices=("interval_end", "at_B")),
            Field("time_precision", _whole),
            Field("epoch", _whole),
            Field("slot", _whole),
        ),
        usual="In the next epoch, until it ends. Report times are rounded down to the minute.",
    ),
    Group(
        "Hiding who answers",
        (
            Field("importance.default"),
            Field("importance.default_rate", _amount),
            Field("importance.non_default_share", _amount),
            Field("importance.devices", _whole),
            Field("dummies", _amount),
            Field("dummy_epsilon", _amount),
        ),
        usual="Every device is asked at the same rate, and none sends a dummy.",
    ),
)
USUAL: Final = {
    "encoder.kind": "boolean",
    "rate": "0.5",
    "epsilon": "1",
    "delta": "0.000001",
    "model": "secure-aggregation",
    "close": "interval_end",
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
        value = field.read(said)
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
    return {field.path: _said(flat[field.path], field) for field in FIELDS if field.path in flat}


def _said(value: Any, field: Field) -> str:
    if isinstance(value, dict):
        several = (f"{name}={'|'.join(one) if isinstance(one, list) else one}" for name, one in value.items())
        return ("\n" if field.lines else ", ").join(several)
    if isinstance(value, list):
        # fields for labels have several lines, because a label may hold a comma
        return ("\n" if field.lines else ", ").join(map(str, value))
    return str(value)
