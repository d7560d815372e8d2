"""The members of a survey as fields of a form, there and back.

A field is called as the member's path (``encoder.low``), so that what is wrong with a member is shown beside its field.
Lists stand one to a line or with commas, attributes as ``name=value``; an empty field is a member that is left out.
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
from tacit.models.forms.registry import FORMS
from tacit.recipe.survey import MECHANISMS, Survey

_WHOLE: Final = re.compile(r"-?[0-9]{1,18}")
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d")
KINDS: Final = ("boolean", "categories", "buckets", "number", "vector", "occurrences", "attributes", "cells")


def _text(said: str) -> Any:
    return said


def _whole(said: str) -> Any:
    """An integer, or what was said, which the survey will refuse with its own words."""
    return int(said) if _WHOLE.fullmatch(said) else said


def _amount(said: str) -> Any:
    return said.replace(",", ".")


def _moment(said: str) -> Any:
    """POSIX seconds, also from a time in UTC."""
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
    """One member: how it is read, what may be chosen (empty: anything), of which encoders it is (empty: of none), and
    whether it has several lines."""

    path: str
    read: Callable[[str], Any] = _text
    choices: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    lines: bool = False

    @property
    def label(self) -> str:
        """For a person."""
        return LABELS[self.path][0]

    @property
    def hint(self) -> str:
        """What it says, in a line."""
        return LABELS[self.path][1]

    @property
    def numeric(self) -> bool:
        """Whether a keypad of digits will do."""
        return self.read in {_whole, _amount}


@dataclass(frozen=True, slots=True)
class Group:
    """Fields that belong together. ``more``: whether most questions leave them all out."""

    title: str
    fields: tuple[Field, ...]
    more: bool = False


_RANGED: Final = ("number", "vector")
GROUPS: Final = (
    Group(
        "What is asked",
        (
            Field("name"),
            Field("text", lines=True),
            Field("metric"),
            Field("encoder.kind", choices=KINDS),
            Field("encoder.categories", _list, kinds=("categories",), lines=True),
            Field("encoder.edges", _quantities, kinds=("buckets",)),
            Field("encoder.low", _whole, kinds=_RANGED),
            Field("encoder.high", _whole, kinds=_RANGED),
            Field("encoder.unit", _whole, kinds=_RANGED),
            Field("encoder.length", _whole, kinds=("vector",)),
            Field("encoder.norm", _whole, kinds=("vector",)),
            Field("encoder.start", _moment, kinds=("occurrences",)),
            Field("encoder.step_seconds", _whole, kinds=("occurrences",)),
            Field("encoder.steps", _whole, kinds=("occurrences",)),
            Field("encoder.most", _whole, kinds=("occurrences",)),
            Field("encoder.attributes", _values, kinds=("attributes",), lines=True),
            Field("encoder.cells", _whole, kinds=("cells",)),
            Field("encoder.other", kinds=("categories", "buckets")),
            Field("encoder.missing", kinds=("categories", "buckets", "attributes")),
            Field("statistic", choices=get_args(StatisticName)),
        ),
    ),
    Group(
        "Whom",
        (
            Field("population", _whole),
            Field("rate", _amount),
            Field("min_batch_size", _whole),
            Field("criteria", _pairs),
        ),
    ),
    Group(
        "How privately",
        (
            Field("epsilon", _amount),
            Field("delta", _amount),
            Field("accuracy", _amount),
            Field("account"),
            Field("model", choices=tuple(FORMS)),
            Field("mechanism", choices=MECHANISMS),
            Field("randomizer", choices=tuple(METHODS)),
            Field("max_epsilon0", _amount),
            Field("aggregator_flips", _whole),
        ),
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
        more=True,
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
        more=True,
    ),
)
FIELDS: Final = tuple(field for group in GROUPS for field in group.fields)


def body_of(form: Mapping[str, str]) -> dict[str, Any]:
    """The document that the fields of a form make: the body of a survey, not checked yet. Fields of another encoder
    than the chosen one are left out."""
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
    return body


def fields_of(survey: Survey) -> dict[str, str]:
    """Inverse of ``body_of``: what the fields say of a survey."""
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
        # a label may hold a comma: then, as always for labels, one to a line
        return ("\n" if field.lines else ", ").join(map(str, value))
    return str(value)
