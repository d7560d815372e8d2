"""Flower's strategies on the devices, coins and plan that ``tacit bench learning --peer FILE`` wrote.

Runs in an environment of its own (benchmarks/README.md), which needs no part of Tacit. Every participant of a round is
a ``NumPyClient`` that trains on its own examples; Flower turns parameters into messages, its strategies clip, average,
add noise and apply momentum. All runs in one process: no network, no Ray, no message queue.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import sys
import time
from typing import Any

import numpy as np
from flwr.client import NumPyClient
from flwr.common import FitIns, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvgM


class Learner(NumPyClient):
    """A device with its examples: steps of gradient descent on all of them, softmax regression."""

    def __init__(self, features: Any, labels: Any, steps: int, rate: float) -> None:
        self._features, self._labels, self._steps, self._rate = features, labels, steps, rate

    def fit(self, parameters: list[Any], config: dict[str, Any]) -> tuple[list[Any], int, dict[str, Any]]:
        """Train weights (inputs, classes) and biases from ``parameters``."""
        weights, biases = (one.copy() for one in parameters)
        for _ in range(self._steps):
            errors = chances(self._features, weights, biases)
            errors[np.arange(len(errors)), self._labels] -= 1
            errors /= len(errors)
            weights -= self._rate * (self._features.T @ errors)
            biases -= self._rate * errors.sum(axis=0)
        return [weights, biases], len(self._labels), {}


def chances(features: Any, weights: Any, biases: Any) -> Any:
    """The probability of each class, a row for each example."""
    logits = features @ weights + biases
    found = np.exp(logits - logits.max(axis=1, keepdims=True))
    return found / found.sum(axis=1, keepdims=True)


def trained(given: Any, multiplier: float) -> tuple[float, float]:
    """Accuracy on the test set after all rounds, and wall seconds a round; ``multiplier``: noise in clips."""
    inputs, classes = given["shape"]
    local_rate, server_rate, momentum = given["rates"]
    initial = given["initial"].astype(np.float32)
    parts = [initial[: inputs * classes].reshape(inputs, classes), initial[inputs * classes :]]
    parameters = ndarrays_to_parameters(parts)
    average = FedAvgM(initial_parameters=parameters, server_learning_rate=server_rate, server_momentum=momentum)
    strategy = DifferentialPrivacyServerSideFixedClipping(
        average, multiplier, float(given["clip"]), round(float(given["expected"]))
    )
    features, labels = given["train_features"].astype(np.float32), given["train_labels"]
    began, bounds = time.perf_counter(), np.concatenate(([0], given["sizes"].cumsum()))
    for number, (first, end) in enumerate(itertools.pairwise(bounds), start=1):
        strategy.current_round_params = parameters_to_ndarrays(parameters)
        results = []
        for held in given["held"][given["takers"][first:end]]:
            learner = Learner(features[held], labels[held], int(given["steps"]), local_rate)
            results.append((None, learner.to_client().fit(FitIns(parameters, {}))))
        parameters, _ = strategy.aggregate_fit(number, results, [])
    seconds = (time.perf_counter() - began) / len(given["sizes"])
    weights, biases = parameters_to_ndarrays(parameters)
    right = chances(given["test_features"], weights, biases).argmax(axis=1) == given["test_labels"]
    return float(right.mean()), seconds


def main() -> None:
    """Print a line for each training of either side."""
    parser = argparse.ArgumentParser(description="Flower beside Tacit on the same devices.")
    parser.add_argument("file", help="what tacit bench learning --peer wrote")
    with np.load(parser.parse_args().file, allow_pickle=False) as found:
        given = {name: found[name] for name in found.files}
    logging.getLogger("flwr").setLevel(logging.ERROR)
    rows = list(zip(given["names"], given["accuracies"], given["seconds"], strict=True))
    for name, multiplier in (("no privacy", 0.0), ("central DP, fixed clipping", float(given["sigma"]))):
        rows.append((f"Flower, {name}", *trained(given, multiplier)))
    for name, accuracy, seconds in rows:
        sys.stdout.write(f"{name:36}  accuracy {accuracy:.3f}  {1000 * seconds:8.1f} ms a round\n")


if __name__ == "__main__":
    main()
