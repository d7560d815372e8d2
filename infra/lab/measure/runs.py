"""Runs experiments in worker processes."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import lru_cache
from multiprocessing import get_context

import numpy as np

from infra.lab.devices.decisions import noisy, participation
from infra.lab.devices.pool import end_with_parent
from infra.lab.devices.population import DrawnCategories
from infra.lab.measure.comparison import Measured
from infra.lab.measure.experiments import Experiment
from infra.lab.measure.pipeline import Pipeline
from tacit.methods.estimators.registry import estimator_of
from tacit.recipe.derive import sample_design

MAX_WORKERS = 8


def squared_error(experiment: Experiment) -> float:
    """Do one run: data, coins, noise shares, aggregation, release, estimate; returns the squared error over the
    measured cells. Raises what ``Pipeline`` raises."""
    population, shares = experiment.point.population, experiment.shares
    truth = np.asarray(experiment.probabilities)
    generator = np.random.default_rng()
    data = DrawnCategories(experiment.panel, experiment.probabilities).of(0, population, generator)
    joined = data[participation(experiment.sampling, data, os.urandom)]
    released = _pipeline(shares).released(noisy(shares, joined.tolist(), os.urandom), os.urandom)
    found = estimator_of(shares).estimate(released.values, released.report_count, sample_design(experiment.sampling))
    return float(np.square(np.asarray(found.values) / population - truth)[experiment.first :].sum())


_pipeline = lru_cache(maxsize=16)(Pipeline)


def measure(asked: Sequence[Experiment], runs: int, progress: Callable[[float], None]) -> list[Measured]:
    """Run every experiment ``runs`` times, in several processes. ``progress`` is called with the share of reports done.
    Raises what a run raises."""
    errors: dict[Experiment, list[float]] = {one: [] for one in asked}
    total = math.fsum(one.reports for one in asked) * runs
    done = 0.0
    with ProcessPoolExecutor(
        min(MAX_WORKERS, os.cpu_count() or 1), get_context("spawn"), initializer=end_with_parent
    ) as pool:
        waiting = {pool.submit(squared_error, one): one for one in asked for _ in range(runs)}
        try:
            for future in as_completed(waiting):
                one = waiting[future]
                errors[one].append(future.result())
                done += one.reports / total
                progress(done)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return [Measured(one, tuple(found)) for one, found in errors.items()]
