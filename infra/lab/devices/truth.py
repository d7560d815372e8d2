"""The true totals over all devices of a fleet, which a release estimates.

Only a simulation can know them. Numbers are added up as the devices have them, before the recipe's encoder rounds and
clips: that makes an estimate differ from the truth, as noise and sampling do, and would not show if the truth were
rounded and clipped too. Devices without an answer count as the randomizer says (``missing_adds``).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from infra.lab.devices import events
from infra.lab.devices.population import Data
from tacit.methods.base.method import Answer
from tacit.methods.base.statistics import STATISTICS
from tacit.recipe.encoder import encoder_of
from tacit.recipe.encoder_specs import Number, Occurrences, Range, Vector
from tacit.recipe.model import Question


def totals(
    question: Question,
    answers: Sequence[Answer | None],
    missing_adds: Sequence[float] = (),
    numbers: Data | None = None,
) -> list[float]:
    """Return one total per label of ``question``: the devices with that answer, or the sum of their numbers or of each
    entry of their vectors, in the question's own units. A device without an answer adds ``missing_adds``. ``numbers``:
    a row per device, exact; without them the answers are added up, rounded and clipped."""
    held = [answer is not None for answer in answers]
    missing = len(answers) - sum(held)
    if numbers is None:
        found = _known(question, [answer for answer in answers if answer is not None])
    else:
        found = [float(total) for total in _finite(question, numbers[held]).sum(axis=0)]
    return added(found, [adds * missing for adds in missing_adds])


def _finite(question: Question, numbers: Data) -> Data:
    """Return the numbers with infinite ones replaced by the ends of the range."""
    spec = question.encoder
    if not isinstance(spec, Range):
        return numbers
    return np.where(np.isinf(numbers), np.clip(numbers, float(spec.least), float(spec.most)), numbers)


def _known(question: Question, answers: Sequence[Answer]) -> list[float]:
    spec, labels = question.encoder, encoder_of(question).labels
    if isinstance(spec, Occurrences):
        return events.totals(question, spec, [answer for answer in answers if isinstance(answer, tuple)])
    if isinstance(spec, Vector):
        rows = np.asarray(answers, dtype=np.float64).reshape(len(answers), len(labels))
        return [float(entry) for entry in float(spec.step) * rows.sum(axis=0) + float(spec.least * len(answers))]
    if isinstance(spec, Number) and not STATISTICS[question.statistic].is_one_hot:
        steps = float(np.sum(np.asarray(answers, dtype=np.float64)))
        return [float(spec.least * len(answers) + Fraction(spec.step) * Fraction(steps))]
    if not STATISTICS[question.statistic].is_one_hot:
        return [float(np.count_nonzero(np.asarray(answers)))]
    return [float(count) for count in np.bincount(np.asarray(answers, dtype=np.int64), minlength=len(labels))]


def added(one: Sequence[float], other: Sequence[float]) -> list[float]:
    """Add the totals of two groups of devices; if one group has none, return the other's."""
    return [left + right for left, right in zip(one, other, strict=True)] if one and other else [*(one or other)]
