"""The expected cost and accuracy of a recipe whose devices watch an event: bytes on the device, errors, and claim."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tacit.methods.base.statistics import STATISTICS
from tacit.methods.estimators.registry import estimator_of
from tacit.models.forms import form_of
from tacit.panprivate.elgamal import ciphertext_size
from tacit.panprivate.embedding import elements_for
from tacit.recipe.claims import claim_of
from tacit.recipe.derive import design_of, randomizer_of
from tacit.recipe.encoder_specs import Occurrences
from tacit.recipe.model import Recipe
from tacit.vdaf.count_vec import Prio3CountVec


@dataclass(frozen=True)
class WatchedOutlook:
    """The outlook of a recipe whose devices watch an event. ``state_bytes``: bytes of ciphertext that every device
    keeps; ``report_bytes``: bytes that it sends; ``stderr``: the standard error of each number of the result (devices,
    or occurrences for a mean) at the expected contributions, including sampling, if the event happened on half of the
    devices; ``epsilon``: the claim."""

    state_bytes: int
    report_bytes: int
    stderr: float
    epsilon: Mapping[str, float | str]


def watched_outlook(recipe: Recipe) -> WatchedOutlook | None:
    """The outlook of ``recipe``; None if no event is watched. Raises ``Refusal`` if it cannot be computed."""
    spec = recipe.question.encoder
    if not isinstance(spec, Occurrences) or not form_of(recipe.model).watched:
        return None
    kept, sent = _ciphertexts(recipe, spec)
    return WatchedOutlook(
        kept * ciphertext_size(), sent * ciphertext_size(), _stderr(recipe, spec), claim_of(recipe).stated()
    )


def _ciphertexts(recipe: Recipe, spec: Occurrences) -> tuple[int, int]:
    """How many ciphertexts a device keeps, and how many it sends. With one server there is one for each number; with
    two servers they hold the cells' shares, in two ladders of k cells, of which k + 1 are sent."""
    is_count, cells = recipe.question.statistic == "count", recipe.randomizer.categories
    if not form_of(recipe.model).proves:
        return (1, 1) if is_count else (spec.most + 1, cells)
    each = elements_for(Prio3CountVec.LEADER_CELL_SIZE) + elements_for(Prio3CountVec.HELPER_CELL_SIZE)
    return (each, each) if is_count else (2 * spec.most * each, cells * each)


def _stderr(recipe: Recipe, spec: Occurrences) -> float:
    method, design = randomizer_of(recipe), design_of(recipe)
    population = round(recipe.batch.expected_contributions / design.sends(design.rate))
    if STATISTICS[recipe.question.statistic].is_ratio:
        return float(estimator_of(method).expected_stderrs([spec.most / 2], population, design)[0])
    half = population / 2
    truth = [half] if method.cells == 1 else [half, *([half / spec.most] * spec.most)]
    return float(estimator_of(method).expected_stderrs(truth, population, design)[0])
