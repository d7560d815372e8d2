"""The draws of the succinct histogram: public bytes, and whether the device accepts what follows from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tacit.methods.base.affine import PUBLIC_SIZE
from tacit.methods.base.draws import ONE, hex_threshold
from tacit.methods.randomisers.base import Draws, Randomiser
from tacit.methods.succinct_histogram.histogram import PaperHistogram
from tacit.ports import Entropy


@dataclass(frozen=True)
class SuccinctHistogramRandomiser(Randomiser[PaperHistogram]):
    """Draws public bytes, and the bit that says whether the server is to count what follows from them."""

    DRAWS = Draws(
        "u = 16 bytes; d < the threshold of u and the item (docs/device.md): 1; else 0",
        "u = 16 bytes; d < the threshold of u without an item: 1; else 0",
    )

    def randomise(self, item: int | None, entropy: Entropy, /) -> list[int]:
        """The 16 public bytes as an integer, and the bit. ``ValueError`` for an item that does not have ``bits``
        bits."""
        public = entropy(PUBLIC_SIZE)
        return [int.from_bytes(public, "big"), int(self.method.one_bit.accept(public, item, entropy))]

    def dummy(self, entropy: Entropy, /) -> list[int]:
        """The report of a device without an item."""
        return self.randomise(None, entropy)

    def thresholds(self) -> dict[str, Any]:
        """The threshold of a device without an item, below which a draw accepts."""
        return {"accept_threshold": hex_threshold(int(self.method.one_bit.probability(bytes(PUBLIC_SIZE), None) * ONE))}
