"""Compares the results of an experiment's runs with what is expected."""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.lab.measure.experiments import Experiment
from tacit.adapters.disk.files import replacing

FURTHEST = 5.0
"""A point is off if it is more than this many standard errors from its expectation; see ``false_alarm``."""


@dataclass(frozen=True)
class Measured:
    """The squared errors of an experiment's runs."""

    experiment: Experiment
    errors: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The measured expected squared error."""
        return statistics.fmean(self.errors)

    @property
    def stderr(self) -> float:
        """The standard error of ``mean``, estimated from the runs."""
        return statistics.stdev(self.errors) / math.sqrt(len(self.errors))

    @property
    def z(self) -> float:
        """How far ``mean`` lies above its expectation, in theoretical standard errors (those estimated from few runs
        would make large z common)."""
        return (self.mean - self.experiment.expected) / self.experiment.deviation(len(self.errors))

    @property
    def holds(self) -> bool:
        """Whether ``mean`` is at most ``FURTHEST`` standard errors from its expectation."""
        return abs(self.z) <= FURTHEST

    def document(self) -> dict[str, Any]:
        """Plain JSON values: one row of ``measured.csv``."""
        one, point = self.experiment, self.experiment.point
        return {
            "panel": one.panel,
            "population": point.population,
            "cells": point.cells,
            "gamma": point.gamma,
            "tasks": point.tasks,
            "messages": point.messages,
            "model": one.model,
            "runs": len(self.errors),
            "sigma": one.sigma,
            "sigma_achieved": one.sigma_achieved,
            "scale": one.shares.scale,
            "flips": one.shares.flips,
            "curve": one.curve,
            "expected": one.expected,
            "measured": self.mean,
            "stderr": self.stderr,
            "z": self.z,
        }


def false_alarm(found: Sequence[Measured]) -> float:
    """Return an upper bound on the probability that some point is off by chance. The mean over R runs of the squared
    errors of K independent normal cells is gamma distributed with shape K R / 2, or a smaller shape if counts add to
    the variance."""
    from scipy.stats import gamma

    total = 0.0
    for one in found:
        shape = (one.experiment.expected / one.experiment.deviation(len(one.errors))) ** 2
        reach = FURTHEST * math.sqrt(shape)
        total += float(gamma.sf(shape + reach, shape) + gamma.cdf(shape - reach, shape))
    return min(1.0, total)


def write_csv(found: Sequence[Measured], path: Path) -> Path:
    """Write ``measured.csv`` with a row per point; returns ``path``."""
    rows = [one.document() for one in found]
    with replacing(path) as draft, draft.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows({name: "" if value is None else value for name, value in row.items()} for row in rows)
    return path
