"""The expected cost and accuracy of a recipe, before any device is asked: for noise shares the claim, expected error
and report size; how well importance sampling and dummies hide who sends; and how values are rounded."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tacit.dp.hidden_claim import dummies_cost, unfilled_cost
from tacit.extension_points import OUTLOOKS
from tacit.methods.base.statistics import COUNT, HISTOGRAM, MEAN, SUM
from tacit.methods.estimators.registry import estimator_of
from tacit.methods.figures import NORMAL_95
from tacit.models.forms import form_of
from tacit.recipe.claims import claim_of, count_cost_of, sample_of
from tacit.recipe.derive import design_of, randomizer_of, vdaf_of
from tacit.recipe.encoder_specs import Number
from tacit.recipe.model import Recipe
from tacit.recipe.rounding import coarse_words, rounding_words


@dataclass(frozen=True)
class SharesOutlook:
    """The outlook for noise shares. Errors are in units of the result, at the expected contributions:
    ``noise_stderr`` of each number, and ``sampling_stderr``, an upper bound on the sampling error; with importance
    sampling they are those of a number whose holders take part at the higher rate. ``epsilon``: the claim;
    ``epsilon_half``: claim (b) with half of B honest; ``one_device``: how far a dishonest device can move every total
    at once without failing its proof (of a vector whose length is proved: one of them), and ``one_vector`` how long a
    vector it can add (None for other sums); ``measurement_bits`` and ``leader_share_bytes``: the sizes of one device's
    measurement and of the leader's input share."""

    scale: int
    flips: int
    epsilon: Mapping[str, float | str]
    epsilon_half: float
    noise_stderr: float
    sampling_stderr: float
    one_device: float
    one_vector: float | None
    measurement_bits: int
    leader_share_bytes: int


@dataclass(frozen=True)
class Hiding:
    """The outlook for importance sampling and dummies. ``count_epsilon``: what the number of messages adds to claim (a)
    before sampling; ``unfilled_epsilon``: what that number alone reveals in a batch that may stay unfilled;
    ``dummies_epsilon``: what an observer who knows which other devices took part learns about whether a device sent
    (None in these three: it is not hidden); ``part_epsilon``: what the relay learns about an answer from whether its
    device sent."""

    count_epsilon: float | None
    unfilled_epsilon: float | None
    dummies_epsilon: float | None
    part_epsilon: float


@dataclass(frozen=True)
class Rounding:
    """How values are rounded, in words, and a warning if that is coarse for their range; None: nothing to report."""

    words: str | None
    coarse: str | None

    def document(self) -> dict[str, Any]:
        """As JSON: ``{rounding: ..., warnings: [...]}``, each only if it is set."""
        return {
            **({"rounding": self.words} if self.words else {}),
            **({"warnings": [self.coarse]} if self.coarse else {}),
        }


@dataclass(frozen=True)
class Outlook:
    """The outlook of a recipe: ``shares`` for noise shares in a sum, ``hiding`` for importance sampling and dummies;
    ``hidden``, in words, if its noise hides the answers; None for what does not apply. ``of_features``: those of
    features, such as ``watched`` if devices watch an event and ``ranked`` for frequent items, where they apply."""

    shares: SharesOutlook | None
    hiding: Hiding | None
    rounding: Rounding
    of_features: Mapping[str, Any] = field(default_factory=dict)
    hidden: str | None = None

    @property
    def warnings(self) -> list[str]:
        """What an analyst should know before the question is published and charged."""
        return [words for words in (self.rounding.coarse, self.hidden) if words]

    def document(self) -> dict[str, Any]:
        """As JSON: ``{outlook: {...}, hiding: {...}, watched: {...}, ranked: {...}, rounding: ..., warnings: [...]}``,
        each only if it is set."""
        return {
            **({"outlook": asdict(self.shares)} if self.shares else {}),
            **({"hiding": asdict(self.hiding)} if self.hiding else {}),
            **{name: asdict(found) for name, found in self.of_features.items()},
            **self.rounding.document(),
            **({"warnings": self.warnings} if self.warnings else {}),
        }


def outlook(recipe: Recipe) -> Outlook:
    """Compute the outlook of ``recipe``. Raises ``Refusal`` if it cannot be computed."""
    found = {name: outlook_of(recipe) for name, outlook_of in OUTLOOKS.items()}
    of_features = {name: one for name, one in found.items() if one is not None}
    shares, hidden = (None, None) if of_features else (_shares(recipe), hidden_words(recipe))
    return Outlook(shares, _hiding(recipe), rounding_of(recipe), of_features, hidden)


def hidden_words(recipe: Recipe) -> str | None:
    """A warning where the margin of an answer (1.96 standard errors) exceeds an even share of the devices, so that the
    intervals of most answers will contain 0; it says how many answers the noise would leave visible. Computed from the
    recipe alone, for counts and histograms: where one answer has nearly all devices, that one shows nevertheless. For a
    sum or a mean, where the margin exceeds a quarter of the range in which the answer can lie."""
    method, design = randomizer_of(recipe), design_of(recipe)
    devices = recipe.batch.expected_contributions / max(design.sends(design.rate), 1e-9)
    spec = recipe.question.encoder
    if isinstance(spec, Number) and recipe.question.statistic in (SUM.name, MEAN.name):
        each = 1.0 if recipe.question.statistic == MEAN.name else devices
        low, high = each * float(spec.least), each * float(spec.most)
        margin = NORMAL_95 * max(estimator_of(method).expected_stderrs([(low + high) / 2], round(devices), design))
        if margin <= (high - low) / 4:
            return None
        return (
            f"the noise hides the answer: it lies between {low:,.6g} and {high:,.6g}, and the margin is ±{margin:,.3g} "
            "(95 %); ask more devices, or a narrower range"
        )
    if recipe.question.statistic not in (COUNT.name, HISTOGRAM.name):
        return None
    answers = max(2, method.cells)
    share = devices / answers
    margin = NORMAL_95 * max(estimator_of(method).expected_stderrs([share] * method.cells, round(devices), design))
    if margin <= share:
        return None
    visible = int(devices / margin)
    advice = f"ask for at most {visible} answers, or ask" if visible >= 2 else "ask"
    return (
        f"the noise hides most answers: an even share of {answers} answers is {share:,.0f} devices each, and the "
        f"margin is ±{margin:,.0f} (95 %); {advice} more devices"
    )


def rounding_of(recipe: Recipe) -> Rounding:
    """How ``recipe``'s devices round values, with a warning if that is coarse for their range."""
    return Rounding(rounding_words(recipe.question), coarse_words(recipe))


def _hiding(recipe: Recipe) -> Hiding | None:
    sampling = recipe.sampling
    if sampling.importance is None and sampling.dummies is None:
        return None
    reports, sample = randomizer_of(recipe), sample_of(recipe)
    n, delta = sample.batch, float(recipe.delta)
    return Hiding(
        count_epsilon=_finite(count_cost_of(recipe)),
        unfilled_epsilon=_finite(unfilled_cost(reports, sample, n=n, delta=delta)),
        dummies_epsilon=_finite(dummies_cost(reports, sample, n=n, delta=delta)),
        part_epsilon=sample.sending_rates(reports).part_epsilon(),
    )


def _finite(epsilon: float) -> float | None:
    return epsilon if math.isfinite(epsilon) else None


def _shares(recipe: Recipe) -> SharesOutlook | None:
    method, design = randomizer_of(recipe), design_of(recipe)
    share, errors = method.noise_share, estimator_of(method).sum_errors(recipe.batch.expected_contributions, design)
    influence = estimator_of(method).influence
    if share is None or errors is None or influence is None:
        return None
    vdaf = vdaf_of(recipe)
    half = max(1, recipe.batch.min_batch_size // 2)
    return SharesOutlook(
        scale=share.scale,
        flips=share.flips,
        epsilon=claim_of(recipe).stated(),
        epsilon_half=claim_of(recipe, half)[form_of(recipe.model).charged_with_relay],
        noise_stderr=errors.noise,
        sampling_stderr=errors.sampling,
        one_device=influence.each,
        one_vector=influence.length,
        measurement_bits=method.cells * method.largest.bit_length(),
        leader_share_bytes=(vdaf.flp.MEAS_LEN + vdaf.flp.PROOF_LEN * vdaf.PROOFS) * vdaf.field.ENCODED_SIZE,
    )
