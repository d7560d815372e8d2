"""What the devices of a fleet know, all together: the totals that a release estimates.

Only a simulation can know them. They are of the answers as the recipe's encoder rounds and clips them, and devices
without an answer stand in them as the randomizer says (``missing_adds``), so that an estimate differs from them by
noise and sampling alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tacit.methods.types import Answer
from tacit.recipe.encoder import encoder_of
from tacit.recipe.model import Number, Question, Vector


def totals(question: Question, answers: Sequence[Answer | None], missing_adds: Sequence[float] = ()) -> list[float]:
    """One total per label of ``question``: devices with that answer, or the sum of their numbers, or of each entry of
    their vectors, in the question's own units. A device without an answer stands for ``missing_adds``."""
    known = [answer for answer in answers if answer is not None]
    missing = len(answers) - len(known)
    return added(_known(question, known), [adds * missing for adds in missing_adds])


def _known(question: Question, answers: Sequence[Answer]) -> list[float]:
    spec, labels = question.encoder, encoder_of(question).labels
    if isinstance(spec, Vector):
        rows = np.asarray(answers, dtype=np.float64).reshape(len(answers), len(labels))
        return [float(entry) for entry in rows.sum(axis=0) + spec.low * len(answers)]
    if isinstance(spec, Number):
        steps = float(np.sum(np.asarray(answers, dtype=np.float64)))
        return [spec.low * len(answers) + (spec.unit or 1) * steps]
    if question.statistic == "count":
        return [float(np.count_nonzero(np.asarray(answers)))]
    return [float(count) for count in np.bincount(np.asarray(answers, dtype=np.int64), minlength=len(labels))]


def added(one: Sequence[float], other: Sequence[float]) -> list[float]:
    """Totals of two groups of devices together; of a group that has none, the other's."""
    return [left + right for left, right in zip(one, other, strict=True)] if one and other else [*(one or other)]
