"""Where a training run is, as a JSON document: its published rounds with their contributions, from log and releases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tacit.logview.live import LiveSeries
from tacit.recipe.model import Recipe
from tacit.recipe.quantity import exact
from tacit.recipe.training import read_round_model
from tacit.recipe.writing.series_builder import population_of


@dataclass(frozen=True, slots=True)
class Row:
    """A round of a run. ``contributions``: how many took part, None where nothing is released; ``loss`` (nats) and
    ``accuracy`` of the model after it, None without examples to try it on; ``passed_over``: why there is no release;
    ``waits``: whether it may still come."""

    index: int
    recipe: Recipe
    log_index: int
    contributions: int | None
    loss: float | None = None
    accuracy: float | None = None
    passed_over: str = ""
    waits: bool = False

    def document(self) -> dict[str, Any]:
        """The members that the round has in the run's document."""
        return {
            "round": self.index,
            "contributions": self.contributions,
            "loss": self.loss,
            "accuracy": self.accuracy,
            "recipe_hash": self.recipe.hash_text,
            "log_index": self.log_index,
        }


def run_document(series: LiveSeries, rows: Sequence[Row], model: str | None) -> dict[str, Any]:
    """A run as JSON. ``model``: the hash of the newest model, if it is known. ``central_accuracy`` is null, as only a
    simulation knows it."""
    own, last = series.series, max((row.recipe.interval.end for row in rows), default=series.series.interval.start)
    accuracies = [row.accuracy for row in rows if row.accuracy is not None]
    return {
        "series": {"name": own.name, "hash": own.hash_text, "log_index": series.index, "rounds": own.rounds},
        "devices": population_of(own.probe),
        "rounds": [row.document() for row in rows],
        "accuracy": accuracies[-1] if accuracies else None,
        "central_accuracy": None,
        "private": True,
        "epsilon": dict(own.claim.epsilon.root),
        "delta": own.claim.delta,
        "clip": _clip(rows),
        "model": model,
        "seconds": last - own.interval.start,
    }


def _clip(rows: Sequence[Row]) -> float | None:
    """The clip that the newest round states; None before the first."""
    if not rows:
        return None
    question = rows[-1].recipe.question
    training = getattr(question.encoder, "training", None)
    return None if training is None else float(exact(read_round_model(question.round_input or "", training).clip))
