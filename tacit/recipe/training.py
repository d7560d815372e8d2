"""What devices train, and how: the member ``training`` of the encoder ``update``, and the model of a round.

A round's model is a public file (``tacit.learning.model_file``). ``question.round_input`` of the round holds the
RFC 8785 form of ``{"bytes": n, "clip": c, "model": h}``: the file's length, the Euclidean length to which a device
clips its update, and the file's SHA-256, so that everybody trains the model that the log names.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from tacit.errors import DecodeError
from tacit.models.parties import Part
from tacit.recipe.fields import wrong
from tacit.recipe.member_types import Size
from tacit.recipe.quantity import PositiveQuantity, exact, in_words
from tacit.tlog.canonical import canonical_bytes, parse_canonical, validate
from tacit.tlog.fields import Hash

MAX_ENTRIES: Final = 1 << 20
"""Most entries of a model."""
MAX_CLASSES: Final = 4096
MAX_STEPS: Final = 10_000
"""Most local steps of one round."""
MAX_BATCH: Final = 1 << 16
MAX_LEARNING_RATE: Final = 1000
MAX_CLIP: Final = 1_000_000
FILE_HEADER: Final = 12
"""Bytes of a model file before its entries."""
FILE_ENTRY: Final = 4
"""Bytes of an entry of a model file."""
MODEL_PIECE: Final = 240 * 1024
"""Most bytes of a piece in which the recipe server hands a model file out: one answer through the relay."""
_WHAT = "round_input"


class Softmax(Part):
    """Softmax regression: one linear layer from ``inputs`` numbers to ``classes`` logits."""

    kind: Literal["softmax"]
    inputs: Size
    classes: Annotated[int, Field(ge=2, le=MAX_CLASSES)]

    @property
    def parameters(self) -> int:
        """Entries of the model: weights and biases."""
        return (self.inputs + 1) * self.classes


class TwoLayer(Part):
    """A network with one hidden layer of rectified linear units."""

    kind: Literal["two-layer"]
    inputs: Size
    hidden: Size
    classes: Annotated[int, Field(ge=2, le=MAX_CLASSES)]

    @property
    def parameters(self) -> int:
        """Entries of the model: weights and biases of both layers."""
        return (self.inputs + 1) * self.hidden + (self.hidden + 1) * self.classes


class External(Part):
    """A model that only an application knows (``client_agent.learning.learners``): a flat row of ``entries`` parameters
    in single precision. ``initial``: the SHA-256 of the model file with which the first round begins."""

    kind: Literal["external"]
    entries: Annotated[int, Field(ge=1, le=MAX_ENTRIES)]
    initial: Hash

    @property
    def parameters(self) -> int:
        """Number of entries of the trained model's parameter vector."""
        return self.entries


BuiltIn = Softmax | TwoLayer
"""Models that devices train of examples, without an application (``tacit.learning.architectures``)."""
ArchitectureSpec = Annotated[BuiltIn | External, Field(discriminator="kind")]


class Quantile(Part):
    """One more entry, ``weight`` or ``-weight``: whether the update was short enough not to be clipped, from which the
    next round's clip follows (G. Andrew et al., Differentially Private Learning with Adaptive Clipping, 2021)."""

    weight: PositiveQuantity


class Projection(Part):
    """A device sends ``entries`` numbers of which the update is estimated without bias, fewer than it has: a seeded
    random projection, another one for each model (``tacit.learning.projection``)."""

    entries: Size


class Training(Part):
    """``steps`` steps of stochastic gradient descent on a device's own examples, ``batch_size`` of them in each step
    (absent: all of them), from the round's model."""

    architecture: ArchitectureSpec
    steps: Annotated[int, Field(ge=1, le=MAX_STEPS)]
    batch_size: Annotated[int, Field(ge=1, le=MAX_BATCH)] | None = None
    learning_rate: PositiveQuantity
    projection: Projection | None = None
    quantile: Quantile | None = None

    def model_post_init(self, context: Any, /) -> None:
        """Refuse a model that no recipe can hold, a projection to no fewer entries than it has, and a learning rate
        above ``MAX_LEARNING_RATE``."""
        if max(self.parameters, self.length) > MAX_ENTRIES:
            raise wrong("architecture", f"has {self.parameters} entries, and a recipe can hold {MAX_ENTRIES}")
        if self.projection is not None and self.projection.entries >= self.parameters:
            raise wrong("projection.entries", f"must be below {self.parameters}, the entries of the update")
        if exact(self.learning_rate) > MAX_LEARNING_RATE:
            raise wrong("learning_rate", f"must be at most {MAX_LEARNING_RATE}")

    @property
    def parameters(self) -> int:
        """Number of entries of the trained model's parameter vector."""
        return self.architecture.parameters

    @property
    def sent(self) -> int:
        """Entries of the update as it is sent: those of the projection, or all."""
        return self.parameters if self.projection is None else self.projection.entries

    @property
    def length(self) -> int:
        """Entries of what a device sends: the update, then the quantile's entry where there is one."""
        return self.sent + (self.quantile is not None)

    @property
    def file_bytes(self) -> int:
        """Length of a model file of this architecture."""
        return FILE_HEADER + FILE_ENTRY * self.parameters


class RoundModel(Part):
    """The model of a round: its file's length and SHA-256, and the Euclidean length to which updates are clipped."""

    bytes: Annotated[int, Field(ge=FILE_HEADER + FILE_ENTRY, le=FILE_HEADER + FILE_ENTRY * MAX_ENTRIES)]
    clip: PositiveQuantity
    model: Hash

    def model_post_init(self, context: Any, /) -> None:
        """Refuse a clip above ``MAX_CLIP``."""
        if exact(self.clip) > MAX_CLIP:
            raise wrong("clip", f"must be at most {MAX_CLIP}")

    @property
    def pieces(self) -> int:
        """How many pieces of ``MODEL_PIECE`` bytes the file has, the last of which may be shorter."""
        return -(-self.bytes // MODEL_PIECE)

    @property
    def path(self) -> str:
        """The file's path at the recipe server, under which its pieces are numbered from 0."""
        return f"/v1/models/{self.model}"

    def text(self) -> str:
        """The round input that states it: canonical JSON."""
        return canonical_bytes(self.canonical()).decode()


def read_round_model(text: str, training: Training) -> RoundModel:
    """The model of a round input, strictly: canonical, and of the length of the training's models. Raises
    ``DecodeError``."""
    found = validate(RoundModel, parse_canonical(text.encode("utf-8", "replace"), _WHAT), _WHAT)
    if found.bytes != training.file_bytes:
        stated, needed = in_words(found.bytes), in_words(training.file_bytes)
        raise DecodeError(f"{_WHAT}: bytes: a model of this architecture has {needed}, not {stated}")
    return found
