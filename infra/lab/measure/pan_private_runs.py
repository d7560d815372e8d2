"""Measures counts over devices that watched an event for T steps: encrypted state by the product, and ``Stepwise``.

A run of encrypted state goes from the first state through T updates to an answer that the server's key opens
(``tacit.panprivate``, one server). States of many steps take long, so only ``kept`` of the n devices go through all T
updates, and each of their final states gives n / kept answers: every answer draws its randomness anew, independently of
how the state came about. Randomness is the operating system's. ``Stepwise`` is drawn from its distribution: for each
device, the number of ones among its steps.

Devices are independent, so the square of a sum's standard error is the expected sum of the devices' squared errors. The
n squared errors estimate it better than a few errors of whole sums would.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from decimal import Decimal
from multiprocessing import get_context

import numpy as np

from infra.lab.devices.pool import end_with_parent
from infra.lab.measure.pan_private import Moments, Stepwise, flipped_bit, local_stderr, lower_bound
from infra.lab.measure.runs import MAX_WORKERS
from tacit.adapters.system import OsEntropy
from tacit.methods.base.design import SampleDesign
from tacit.methods.estimators.registry import estimator_of
from tacit.methods.rr import Rr
from tacit.panprivate.elgamal import PrivateKey
from tacit.panprivate.single_server import NonZero
from tacit.panprivate.stored import OneServer
from tacit.uniform import uniform_below

FURTHEST = 5.0
"""Standard errors from the expectation at which a point is off."""
FALSE_ALARM = 3e-6
"""Probability that one of a point's four normal figures is further away by chance."""
CHUNK = 5_000
"""Devices that one process simulates at a time."""
UPDATES = 6_000
"""Approximate number of state updates for one chunk."""
LEAST_KEPT = 2


@dataclass(frozen=True)
class Errors:
    """Errors of independent devices: that of the sum of their estimates, and the sum of their squared errors."""

    total: float = 0.0
    squares: float = 0.0
    kept: int = 0

    def __add__(self, other: Errors) -> Errors:
        return Errors(self.total + other.total, self.squares + other.squares, self.kept + other.kept)

    @property
    def stderr(self) -> float:
        """Measured standard error of the sum of the estimates: the root of the summed squares, as devices are
        independent."""
        return math.sqrt(self.squares)


@dataclass(frozen=True)
class Compared:
    """The three ways at one number of steps, for ``devices``, half of which have an event."""

    steps: int
    epsilon0: Decimal
    devices: int
    stepwise: Errors
    ours: Errors

    @property
    def lower_bound(self) -> float:
        """The least standard error of any information-theoretic algorithm."""
        return lower_bound(float(self.epsilon0), self.steps, self.devices)

    @property
    def stepwise_expected(self) -> float:
        """The standard error that ``Stepwise`` should have, half of the devices having an event."""
        return Stepwise(self.epsilon0, self.steps).stderr(self.devices)

    @property
    def local(self) -> float:
        """The standard error of local differential privacy without pan-privacy, which ours should match."""
        return local_stderr(float(self.epsilon0), self.devices)

    @property
    def ours_z(self) -> tuple[float, float]:
        """How far our error is above 0, and our measured variance above that of ``local``, in standard errors."""
        one = flipped_bit(float(self.epsilon0))
        return _z(self.ours, [(self.devices, one)])

    @property
    def stepwise_z(self) -> tuple[float, float]:
        """The same two distances for ``Stepwise``, against its own expectations."""
        machine = Stepwise(self.epsilon0, self.steps)
        return _z(self.stepwise, [(self.devices // 2, machine.moments(event)) for event in (0, 1)])

    @property
    def holds(self) -> bool:
        """Whether all of these are at most ``FURTHEST`` standard errors from their expectations."""
        return all(abs(z) <= FURTHEST for z in (*self.ours_z, *self.stepwise_z))

    @property
    def sampling_error(self) -> float:
        """The standard error of ``ours.stderr`` itself, to first order (delta method)."""
        variance = self.devices * flipped_bit(float(self.epsilon0)).of_square
        return math.sqrt(variance) / (2 * self.ours.stderr)

    @property
    def stepwise_sampling_error(self) -> float:
        """The standard error of ``stepwise.stderr`` itself, to first order (delta method)."""
        machine = Stepwise(self.epsilon0, self.steps)
        variance = self.devices / 2 * (machine.moments(0).of_square + machine.moments(1).of_square)
        return math.sqrt(variance) / (2 * self.stepwise.stderr)


def _z(found: Errors, groups: Sequence[tuple[int, Moments]]) -> tuple[float, float]:
    variance = math.fsum(count * one.second for count, one in groups)
    deviation = math.sqrt(math.fsum(count * one.of_square for count, one in groups))
    return found.total / math.sqrt(variance), (found.squares - variance) / deviation


def kept_devices(steps: int, devices: int) -> int:
    """Return how many of a chunk's devices keep a state of their own: an even number, or all of them if T is small."""
    return min(devices, max(LEAST_KEPT, UPDATES // steps // 2 * 2))


def encrypted(steps: int, epsilon0: Decimal, devices: int) -> Errors:
    """Measure our count over ``devices`` (an even number), every other one of which has an event at a random step."""
    entropy, key = OsEntropy(), PrivateKey.generate(OsEntropy())
    machine = NonZero(key.public_key())
    stored, kept = OneServer(machine), kept_devices(steps, devices)
    states = []
    for device in range(kept):
        happens = uniform_below(steps, entropy) if device % 2 else steps
        state = stored.initial(entropy)
        for step in range(steps):
            state = stored.step(int(step == happens), state, entropy)
        states.append(state)
    errors = []
    for device in range(devices):
        (answer,) = machine.answer(stored.cells(states[device % kept]), epsilon0, entropy)
        (value,) = estimator_of(Rr(epsilon0)).estimate([key.open_bit(answer.encode())], 1, SampleDesign(1.0)).values
        errors.append(value - device % 2)
    return Errors(math.fsum(errors), math.fsum(error * error for error in errors), kept)


def stepwise(steps: int, epsilon0: Decimal, devices: int) -> Errors:
    """Measure the count of ``Stepwise`` over ``devices``, each of which is drawn."""
    machine, generator = Stepwise(epsilon0, steps), np.random.default_rng()
    events = np.arange(devices) % 2
    ones = generator.binomial(steps - events, machine.quiet) + generator.binomial(events, 0.5)
    errors = [machine.estimate(one) - event for one, event in zip(ones.tolist(), events.tolist(), strict=True)]
    return Errors(math.fsum(errors), math.fsum(error * error for error in errors), devices)


def compare(asked: Sequence[int], epsilon0: Decimal, devices: int, progress: Callable[[float], None]) -> list[Compared]:
    """Compare the three ways at each number of steps, in several processes. ``progress`` is called with the share
    done."""
    sizes = [min(CHUNK, devices - begin) for begin in range(0, devices, CHUNK)]
    costs = {steps: 1 + kept_devices(steps, CHUNK) * steps / CHUNK for steps in asked}
    whole, done = devices * sum(costs.values()), 0.0
    ours = dict.fromkeys(asked, Errors())
    with ProcessPoolExecutor(
        min(MAX_WORKERS, os.cpu_count() or 1), get_context("spawn"), initializer=end_with_parent
    ) as pool:
        waiting = {
            pool.submit(encrypted, steps, epsilon0, size): (steps, size)
            for steps in sorted(asked, reverse=True)
            for size in sizes
        }
        try:
            for future in as_completed(waiting):
                steps, size = waiting[future]
                ours[steps] += future.result()
                done += size * costs[steps] / whole
                progress(done)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return [Compared(one, epsilon0, devices, stepwise(one, epsilon0, devices), ours[one]) for one in asked]
