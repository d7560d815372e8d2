"""Models in plain NumPy, for one device and for many at once.

Parameters lie in one row: for every layer its weights (a row for each input) and then its biases. Every function takes
further dimensions in front, a device each: parameters ``(..., entries)``, features ``(..., examples, inputs)``, labels
``(..., examples)`` and weights ``(..., examples)``. Losses are cross-entropies in nats, averaged by the weights of the
examples (absent: all alike), whose sum must be above 0. Numbers have the precision of the parameters.
"""

from __future__ import annotations

import abc
import hashlib
import math

import numpy as np
from numpy.typing import NDArray

from tacit.errors import UsageError
from tacit.recipe.training import ArchitectureSpec, BuiltIn, External, Softmax, TwoLayer

Reals = NDArray[np.floating]
"""Numbers in single or double precision."""
Labels = NDArray[np.integer]
_LABEL = b"tacit model v1"


class Architecture(abc.ABC):
    """A family of models with the same number of parameters. ``inputs`` numbers go in, ``classes`` logits come out."""

    def __init__(self, spec: BuiltIn) -> None:
        self.inputs, self.classes, self.parameters = spec.inputs, spec.classes, spec.parameters
        self.width = self.classes
        """Numbers that are computed for one example on the way."""

    @abc.abstractmethod
    def initial(self, seed: int) -> NDArray[np.float32]:
        """The model that a run begins with; the same for the same seed (0 or more)."""

    @abc.abstractmethod
    def logits(self, parameters: Reals, features: Reals) -> Reals:
        """The outputs for each example, ``(..., examples, classes)``."""

    @abc.abstractmethod
    def gradient(self, parameters: Reals, features: Reals, labels: Labels, weights: Reals | None = None) -> Reals:
        """The gradient of ``loss``, of the shape of the parameters: one for each device."""

    @abc.abstractmethod
    def layers(self, parameters: Reals) -> dict[str, Reals]:
        """Weights ``(inputs, outputs)`` and biases of each layer of one model, by name."""

    def loss(self, parameters: Reals, features: Reals, labels: Labels, weights: Reals | None = None) -> Reals:
        """The mean cross-entropy, one number for each device."""
        shifted = _shift(self.logits(parameters, features))
        chosen = np.take_along_axis(shifted, labels[..., np.newaxis], axis=-1)[..., 0]
        each = np.log(np.exp(shifted).sum(axis=-1)) - chosen
        found: Reals = (each * _shares(labels, weights)).sum(axis=-1)
        return found

    def accuracy(self, parameters: Reals, features: Reals, labels: Labels) -> float:
        """The share of examples, of all devices, whose largest logit is that of their label."""
        return float((self.logits(parameters, features).argmax(axis=-1) == labels).mean())

    def _residuals(self, logits: Reals, labels: Labels, weights: Reals | None) -> Reals:
        """The loss's gradient by the logits."""
        likelihood = np.exp(_shift(logits))
        likelihood /= likelihood.sum(axis=-1, keepdims=True)
        likelihood -= np.arange(self.classes) == labels[..., np.newaxis]
        shares = _shares(labels, weights).astype(logits.dtype)
        found: Reals = likelihood * shares[..., np.newaxis]
        return found


class SoftmaxRegression(Architecture):
    """One linear layer; begins with zeros, for its loss is convex."""

    def initial(self, seed: int) -> NDArray[np.float32]:
        return np.zeros(self.parameters, dtype=np.float32)

    def layers(self, parameters: Reals) -> dict[str, Reals]:
        weights, biases = _layer(parameters, 0, self.inputs, self.classes)
        return {"weights": weights, "biases": biases}

    def logits(self, parameters: Reals, features: Reals) -> Reals:
        return _affine(features, *_layer(parameters, 0, self.inputs, self.classes))

    def gradient(self, parameters: Reals, features: Reals, labels: Labels, weights: Reals | None = None) -> Reals:
        residuals = self._residuals(self.logits(parameters, features), labels, weights)
        return _join(_layer_gradient(features, residuals))


class TwoLayerNetwork(Architecture):
    """A hidden layer of rectified linear units; begins with He's weights for it and Glorot's for the outputs, both
    normal, and without biases."""

    def __init__(self, spec: TwoLayer) -> None:
        super().__init__(spec)
        self.hidden = spec.hidden
        self.width = self.hidden + self.classes
        self._second = (spec.inputs + 1) * spec.hidden

    def initial(self, seed: int) -> NDArray[np.float32]:
        count = self.inputs * self.hidden
        random = _uniform(seed, count + self.hidden * self.classes)
        first = random[:count] * math.sqrt(6 / self.inputs)
        second = random[count:] * math.sqrt(6 / (self.hidden + self.classes))
        whole = np.concatenate([first, np.zeros(self.hidden), second, np.zeros(self.classes)])
        return whole.astype(np.float32)

    def layers(self, parameters: Reals) -> dict[str, Reals]:
        hidden, hidden_biases = _layer(parameters, 0, self.inputs, self.hidden)
        weights, biases = _layer(parameters, self._second, self.hidden, self.classes)
        return {"hidden_weights": hidden, "hidden_biases": hidden_biases, "weights": weights, "biases": biases}

    def logits(self, parameters: Reals, features: Reals) -> Reals:
        return self._outputs(parameters, self._hidden(parameters, features))

    def gradient(self, parameters: Reals, features: Reals, labels: Labels, weights: Reals | None = None) -> Reals:
        hidden = self._hidden(parameters, features)
        residuals = self._residuals(self._outputs(parameters, hidden), labels, weights)
        outgoing, _ = _layer(parameters, self._second, self.hidden, self.classes)
        below = (residuals @ outgoing.swapaxes(-1, -2)) * (hidden > 0)
        return _join(_layer_gradient(features, below) + _layer_gradient(hidden, residuals))

    def _hidden(self, parameters: Reals, features: Reals) -> Reals:
        found: Reals = np.maximum(_affine(features, *_layer(parameters, 0, self.inputs, self.hidden)), 0)
        return found

    def _outputs(self, parameters: Reals, hidden: Reals) -> Reals:
        return _affine(hidden, *_layer(parameters, self._second, self.hidden, self.classes))


def architecture_of(spec: ArchitectureSpec) -> Architecture:
    """The models of a recipe's architecture. Raises ``UsageError`` for one that only an application knows."""
    if isinstance(spec, External):
        raise UsageError("only the application that trains an external model can compute with it")
    return SoftmaxRegression(spec) if isinstance(spec, Softmax) else TwoLayerNetwork(spec)


def _layer(parameters: Reals, start: int, inputs: int, outputs: int) -> tuple[Reals, Reals]:
    """Weights ``(..., inputs, outputs)`` and biases ``(..., outputs)`` of the layer that begins at ``start``."""
    end = start + inputs * outputs
    weights = parameters[..., start:end].reshape(*parameters.shape[:-1], inputs, outputs)
    return weights, parameters[..., end : end + outputs]


def _uniform(seed: int, count: int) -> NDArray[np.float64]:
    """Numbers between -1 and 1 from the 32-bit words of SHAKE128, the same with every version of NumPy."""
    stream = hashlib.shake_128(_LABEL + seed.to_bytes(4, "big")).digest(4 * count)
    return (np.frombuffer(stream, "<u4").astype(np.float64) + 0.5) / 2**31 - 1


def _affine(inputs: Reals, weights: Reals, biases: Reals) -> Reals:
    found: Reals = inputs @ weights + biases[..., np.newaxis, :]
    return found


def _layer_gradient(inputs: Reals, outgoing: Reals) -> tuple[Reals, Reals]:
    """The gradient by a layer's weights and biases, where ``outgoing`` is that by its outputs."""
    return inputs.swapaxes(-1, -2) @ outgoing, outgoing.sum(axis=-2)


def _join(parts: tuple[Reals, ...]) -> Reals:
    """Weights and biases in one row for each device."""
    weights, biases = parts[0::2], parts[1::2]
    front = biases[0].shape[:-1]
    rows = [row for pair in zip(weights, biases, strict=True) for row in (pair[0].reshape(*front, -1), pair[1])]
    found: Reals = np.concatenate(rows, axis=-1)
    return found


def _shift(logits: Reals) -> Reals:
    """Logits whose largest is 0, so that no exponential overflows."""
    found: Reals = logits - logits.max(axis=-1, keepdims=True)
    return found


def _shares(labels: Labels, weights: Reals | None) -> Reals:
    """How much each example counts; they add up to 1 for each device."""
    if weights is None:
        return np.full(labels.shape, 1 / labels.shape[-1])
    found: Reals = weights / weights.sum(axis=-1, keepdims=True)
    return found
