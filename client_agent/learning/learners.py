"""Models that only the application knows: how an agent asks the application within which it runs to train one.

The application sees the public model of a round and gives the trained one; clipping, noise, coin and sending are the
agent's. Whether an application has a learner is configuration, like ``learning``: it decides which rounds the device
refuses and whose files it fetches, and says nothing of its data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from client_agent.data.sources import Learner
from tacit.errors import UsageError
from tacit.recipe.quantity import exact
from tacit.recipe.training import Training

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Learner", "update_by"]


def update_by(learner: Learner | None, metric: str, training: Training, file: bytes) -> NDArray[np.float64] | None:
    """Trained minus given parameters of the model in ``file``, or None if the application has nothing to train with.
    Raises ``UsageError`` for anything that is no model of the same shape, and for whatever the application raises."""
    import numpy as np

    from tacit.learning import model_file

    if learner is None:
        raise UsageError("the application trains no models")
    start = model_file.decode(file)
    rate = float(exact(training.learning_rate))
    try:
        trained = learner.train(metric, start.copy(), training.steps, training.batch_size, rate)
    except UsageError:
        raise
    except Exception as error:  # of the application: its words may tell of its data
        raise UsageError(f"the application's training failed: {type(error).__name__}") from error
    if trained is None:
        return None
    if not isinstance(trained, np.ndarray) or trained.shape != start.shape or trained.dtype.kind != "f":
        raise UsageError(f"the application's training gave no array of {start.size} floating-point numbers")
    with np.errstate(over="ignore"):
        if not np.isfinite(trained.astype(np.float32)).all():
            raise UsageError("a trained parameter is not a finite number in single precision")
    return trained.astype(np.float64) - start
