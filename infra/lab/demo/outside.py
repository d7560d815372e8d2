"""A device whose value lies outside the answers of the demo's question: what it does tells nobody so (P27).

Were it silent, or were it not charged, then whoever knows all other devices would read its value off the number of
contributions, whatever epsilon is. So the journal of such a device, staged beside the data, is compared with those of
the others that were asked the same. Then device code is run with a value outside and with an ordinary one on the same
random bytes, many times: whether anything is sent must agree every time.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO

from client_agent.answering import draw_answer
from client_agent.journal import State
from infra.lab.demo.fleet import Device
from infra.lab.demo.results.result import StagedRefusal
from infra.lab.demo.staging import Recipes
from tacit.errors import Refusal
from tacit.ports import Entropy
from tacit.recipe.charges import cost_of
from tacit.recipe.encoder import encoder_of

TRIES = 1000
BYTES = 1 << 15
"""More random bytes than one device draws."""


async def told_by_a_value_outside(
    drilled: Sequence[Device], recipes: Recipes, outside: str, inside: str, entropy: Entropy
) -> StagedRefusal:
    """Compare the last of ``drilled``, whose value is none of the answers of the drill, with the others, and then the
    values ``outside`` and ``inside`` for the main recipe. Raises ``Refusal`` where they differ."""
    entries = [await device.entry(recipes.drill.hash) for device in drilled]
    done = {None if entry is None else (entry.charged_epsilon, entry.state) for entry in entries}
    if done != {(f"{cost_of(recipes.drill).epsilon:f}", State.SENT)}:
        raise Refusal("demo-staged", "a device whose value lies outside the answers is charged or sends otherwise")
    recipe = recipes.main
    encoder = encoder_of(recipe.question)
    answers = encoder.encode(outside), encoder.encode(inside)
    sent = 0
    for _ in range(TRIES):
        stream = entropy(BYTES)
        one, other = (draw_answer(recipe, answer, BytesIO(stream).read)[0] is not None for answer in answers)
        if one is not other:
            raise Refusal("demo-staged", "a device takes part or not by its value")
        sent += one
    reason = (
        f"a staged device with such a value was charged and sent a report like the {len(drilled) - 1} others; on the "
        f"same {TRIES:,} random draws one with the value {outside} sends {sent} times, as one with {inside} does"
    )
    return StagedRefusal("a value outside the answers, told by who takes part", "every device", reason)
