"""Server optimisers: how the mean of the clipped updates changes the model.

A step uses only additions, multiplications, divisions and square roots of single numbers, which IEEE 754 rounds the
same everywhere; so whoever has the releases of a run computes the same models, bit for bit.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from tacit.learning.architectures import Reals


class Optimiser(ABC):
    """A server optimiser with its state. The parameters stay in single precision, as in model files."""

    @abstractmethod
    def step(self, parameters: NDArray[np.float32], mean_update: Reals) -> NDArray[np.float32]:
        """The next model. ``mean_update`` has the shape of the parameters; its state changes too."""


class FedAvg(Optimiser):
    """Adds ``learning_rate`` times the mean update (H. B. McMahan et al., Communication-Efficient Learning of Deep
    Networks from Decentralized Data, 2017); ``momentum`` in [0, 1) of the updates before is kept."""

    def __init__(self, learning_rate: float = 1.0, momentum: float = 0.0) -> None:
        self._rate = _positive("learning_rate", learning_rate)
        self._momentum = _share("momentum", momentum)
        self._velocity: NDArray[np.float64] | None = None

    def step(self, parameters: NDArray[np.float32], mean_update: Reals) -> NDArray[np.float32]:
        update = _like(parameters, mean_update)
        self._velocity = update if self._velocity is None else self._momentum * self._velocity + update
        return (parameters.astype(np.float64) + self._rate * self._velocity).astype(np.float32)


class FedAdam(Optimiser):
    """FedAdam (S. Reddi et al., Adaptive Federated Optimization, 2021, algorithm 2): without corrections of the first
    steps; ``tau`` is what is added to the root of the second moment, which begins at ``tau`` squared."""

    def __init__(self, learning_rate: float = 0.1, beta1: float = 0.9, beta2: float = 0.99, tau: float = 1e-3) -> None:
        self._rate, self._tau = _positive("learning_rate", learning_rate), _positive("tau", tau)
        self._beta1, self._beta2 = _share("beta1", beta1), _share("beta2", beta2)
        self._first: Reals | float = 0.0
        self._second: Reals | float = self._tau * self._tau

    def step(self, parameters: NDArray[np.float32], mean_update: Reals) -> NDArray[np.float32]:
        update = _like(parameters, mean_update)
        self._first = self._beta1 * self._first + (1 - self._beta1) * update
        self._second = self._beta2 * self._second + (1 - self._beta2) * (update * update)
        change = self._rate * self._first / (np.sqrt(self._second) + self._tau)
        return (parameters.astype(np.float64) + change).astype(np.float32)


def _like(parameters: NDArray[np.float32], mean_update: Reals) -> NDArray[np.float64]:
    if mean_update.shape != parameters.shape:
        raise ValueError(f"an update of shape {mean_update.shape} does not fit a model of shape {parameters.shape}")
    return mean_update.astype(np.float64)


def _positive(name: str, number: float) -> float:
    if not 0 < number < math.inf:
        raise ValueError(f"{name} must be above 0 and finite")
    return float(number)


def _share(name: str, number: float) -> float:
    if not 0 <= number < 1:
        raise ValueError(f"{name} must be at least 0 and below 1")
    return float(number)
