"""What another framework needs to train the same model on the same devices (``benchmarks/flower_fedavg.py``): who holds
which examples, whose coin says yes in which round, the plan, and what this system's own training in memory gave."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from infra.lab.learning.bench import CENTRAL, NONE, OURS, PLAN, central_noise, own_noise, planned
from infra.lab.learning.population import Population, population
from infra.lab.learning.rounds import trained
from tacit.adapters.disk.files import replacing
from tacit.errors import FieldError
from tacit.learning.architectures import architecture_of
from tacit.learning.plan import FedAvgPlan, Plan
from tacit.recipe.quantity import exact
from tacit.recipe.training import Softmax


def written(path: Path, devices: int, epsilon: float, base: Plan = PLAN, seed: int = 0) -> dict[str, Any]:
    """Train ``base`` without privacy, with a trusted server and with noise shares, write all to ``path`` (.npz without
    pickles), and return accuracy and seconds a round by line. The coins are those of the line without privacy. Raises
    ``FieldError`` as ``planned``, and for another training than softmax regression and FedAvg on whole updates."""
    plan = planned(devices, epsilon, base)
    training, server = base.training, base.server
    if not isinstance(training.architecture, Softmax) or not isinstance(server, FedAvgPlan) or base.adaptive:
        raise FieldError("training", "must be of softmax regression with server fedavg and a fixed clip")
    if training.projection is not None:
        raise FieldError("training.projection", "must be absent")
    people, lines, central = population(devices, seed), {}, central_noise(plan)
    for name, noise in ((NONE, None), (CENTRAL, central), (OURS, own_noise(plan))):
        began = time.perf_counter()
        accuracy = trained(people, base, noise, seed)[-1].accuracy
        lines[name] = {"accuracy": accuracy, "seconds_per_round": (time.perf_counter() - began) / base.rounds}
    coins = coins_of(people, base, seed)
    with replacing(path) as draft:
        np.savez_compressed(
            draft,
            train_features=people.train.features, train_labels=people.train.labels, held=people.held,
            test_features=people.test.features, test_labels=people.test.labels,
            takers=np.concatenate(coins), sizes=[len(one) for one in coins],
            initial=architecture_of(training.architecture).initial(seed),
            shape=[training.architecture.inputs, training.architecture.classes], steps=training.steps,
            rates=[
                float(exact(training.learning_rate)), float(exact(server.learning_rate)), float(server.momentum or 0),
            ],
            clip=float(exact(base.clip)), sigma=central.sigma, expected=float(base.rate) * devices,
            names=list(lines), accuracies=[one["accuracy"] for one in lines.values()],
            seconds=[one["seconds_per_round"] for one in lines.values()],
        )  # fmt: skip
    return {"devices": devices, "epsilon": epsilon, "rounds": base.rounds, "lines": lines}


def coins_of(people: Population, plan: Plan, seed: int) -> list[NDArray[np.int64]]:
    """Who takes part in each round of ``trained`` without noise and with this seed."""
    random, rate = np.random.default_rng(seed), float(plan.rate)
    return [np.flatnonzero(random.random(len(people)) < rate) for _ in range(plan.rounds)]
