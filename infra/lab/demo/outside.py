"""A device whose value lies outside the answers of the demo's question: what it does tells nobody so (P27).

Were it silent, or were it not charged, then whoever knows all other devices would read its value off the number of
contributions, whatever epsilon is. So its own journal is looked at, and then device code is run for it and for a device
with an ordinary value on the same random bytes, many times: whether anything is sent must agree every time.
"""

from __future__ import annotations

from io import BytesIO

from client_agent.answering import drawn
from infra.lab.demo.fleet import Device
from infra.lab.demo.result import StagedRefusal
from tacit.errors import Refusal
from tacit.ports import Entropy
from tacit.recipe.charges import cost_of
from tacit.recipe.encoder import encoder_of
from tacit.recipe.model import Recipe

TRIES = 1000
BYTES = 4096
"""More random bytes than one device draws."""


async def told_by_a_value_outside(
    device: Device, recipe: Recipe, outside: str, inside: str, entropy: Entropy
) -> StagedRefusal:
    """Compare a device with the value ``outside`` with one that has ``inside``. Raises ``Refusal`` where they
    differ."""
    entry = await device.entry(recipe.hash)
    if entry is None or entry.charged_epsilon != f"{cost_of(recipe).epsilon:f}":
        raise Refusal("demo-staged", "a device whose value lies outside the answers is not charged")
    encoder = encoder_of(recipe.question)
    answers = encoder.encode(outside), encoder.encode(inside)
    sent = 0
    for _ in range(TRIES):
        stream = entropy(BYTES)
        one, other = (drawn(recipe, answer, BytesIO(stream).read)[0] is not None for answer in answers)
        if one is not other:
            raise Refusal("demo-staged", "a device takes part or not by its value")
        sent += one
    reason = (
        f"the device with the value {outside} tossed the same coin and was charged {entry.charged_epsilon} "
        f"({entry.state.value}); on the same {TRIES:,} random draws it sends {sent} times, as one with {inside} does"
    )
    return StagedRefusal("a value outside the answers, told by who takes part", "every device", reason)
