"""A Flower client as a learner: an object with the methods of ``flwr``'s ``NumPyClient``, which is not imported.

Of what ``fit`` gives, the number of examples only tells whether there are any, and the metrics are dropped: nothing
but the trained parameters counts, and every device counts alike.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from client_agent.data.sources import READ_SECONDS
from tacit.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ALL_EXAMPLES: Final = 0
"""The batch size of a round whose steps take all examples, for a configuration of Flower cannot leave it open."""


class FlowerClient(Protocol):
    """The methods of a ``NumPyClient`` that are used."""

    def get_parameters(self, config: dict[str, Any]) -> list[NDArray[Any]]:
        """The client's own parameters; used for their shapes."""
        ...

    def fit(
        self, parameters: list[NDArray[Any]], config: dict[str, Any]
    ) -> tuple[list[NDArray[Any]], int, Mapping[str, Any]]:
        """The trained parameters, the number of examples, and metrics."""
        ...


class FlowerLearner:
    """Trains rounds about ``metric`` with ``client``, one at a time. ``shapes``: those of its parameters (None: it is
    asked for them now). ``fit`` is given ``steps``, ``batch_size`` (0: all examples) and ``learning_rate``."""

    def __init__(self, metric: str, client: FlowerClient, shapes: Sequence[Sequence[int]] | None = None) -> None:
        self._metric, self._client = metric, client
        own_shapes = [one.shape for one in client.get_parameters({})] if shapes is None else shapes
        self._shapes = [tuple(int(length) for length in shape) for shape in own_shapes]
        self._turn = threading.Lock()

    def train(
        self, metric: str, parameters: NDArray[np.float32], steps: int, batch_size: int | None, learning_rate: float
    ) -> NDArray[np.floating] | None:
        """As ``Learner``. Raises ``UsageError`` for a model of other shapes, and while the client does not end."""
        from tacit.learning.first_model import flat, split_into_shapes

        if metric != self._metric:
            return None
        try:
            arrays = split_into_shapes(parameters, self._shapes)
        except ValueError as error:
            raise UsageError(f"the Flower client has another model: {error}") from error
        size = ALL_EXAMPLES if batch_size is None else batch_size
        trained, examples = self._fit(arrays, {"steps": steps, "batch_size": size, "learning_rate": learning_rate})
        if examples <= 0:
            return None
        if [getattr(one, "shape", None) for one in trained] != self._shapes:
            raise UsageError("the Flower client's fit gave arrays of other shapes")
        return flat(trained)

    def _fit(self, arrays: list[Any], config: dict[str, Any]) -> tuple[list[NDArray[Any]], int]:
        if not self._turn.acquire(timeout=READ_SECONDS):
            raise UsageError("the Flower client still trains for another round")
        try:
            result = self._client.fit(arrays, config)
        finally:
            self._turn.release()
        if not isinstance(result, tuple) or len(result) != 3:
            raise UsageError("the Flower client's fit gave no parameters, number of examples and metrics")
        return list(result[0]), int(result[1])
