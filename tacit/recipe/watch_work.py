"""What watching an event costs a device, in group operations rather than in time.

The unit is a multiplication of a group element by a scalar, which is most of the work of an update: two for every
ciphertext of the state. The cost is public, and no event changes it.
"""

from __future__ import annotations

from tacit.extension_points import PAN_PRIVACY
from tacit.methods.base.statistics import STATISTICS
from tacit.models.forms import form_of
from tacit.recipe.encoder_specs import Occurrences
from tacit.recipe.model import Recipe

_PER_CIPHERTEXT = 2
_AT_THE_END = 1
"""The update that is written when a step has ended."""


def most_of(recipe: Recipe) -> int:
    """Most occurrences of the event that count on one device."""
    asked = recipe.question.encoder
    return asked.most if isinstance(asked, Occurrences) else 1


def update_work(recipe: Recipe) -> int:
    """Multiplications of one update of the recipe's state: 2 for a count of one server and 2 (k + 1) for its other
    statistics, 8 for a count of two servers and 16 k for their histogram. 0 for a recipe that watches nothing."""
    spec, form = recipe.question.encoder, form_of(recipe.model)
    if not isinstance(spec, Occurrences) or not form.watched:
        return 0
    statistic = STATISTICS[recipe.question.statistic]
    is_count = statistic.counts_devices and statistic.is_scalar
    if form.proves:
        ciphertexts: int = PAN_PRIVACY["ciphertexts-of-cell"]
        return _PER_CIPHERTEXT * ciphertexts * (1 if is_count else 2 * spec.most)
    return _PER_CIPHERTEXT * (1 if is_count else spec.most + 1)


def work_per_second(recipe: Recipe) -> int:
    """Multiplications for each second of a step, rounded up: one update in every second, the one that is written at the
    end of the step, and one for each of the ``most`` events that may come in it."""
    spec = recipe.question.encoder
    if not isinstance(spec, Occurrences):
        return 0
    updates = spec.step_seconds + _AT_THE_END + spec.most
    return -(-update_work(recipe) * updates // spec.step_seconds)


def seconds_for(recipe: Recipe, limit: int) -> int | None:
    """The shortest step in seconds with which the recipe takes at most ``limit`` a second; None where there is none."""
    spec, update = recipe.question.encoder, update_work(recipe)
    if not isinstance(spec, Occurrences) or update >= limit:
        return None
    return max(1, -(-update * (_AT_THE_END + spec.most) // (limit - update)))
