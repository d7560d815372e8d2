"""From the plan of a training run to its series, and what a person who decides about it has to know beforehand.

The series is that of ``tacit series new --total-epsilon``, made by the same functions. Where there is none, the refusal
says which plan would have one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from decimal import ROUND_UP, Context, Decimal
from typing import Any, Final

from tacit.dp.noisy_length import EXCESS
from tacit.dp.repeated.shares import share_for_rounds
from tacit.errors import FieldError, UsageError
from tacit.learning.plan import Plan
from tacit.learning.projection import relative_error
from tacit.methods.estimators.flips import FlipsEstimator
from tacit.methods.flips import Flips
from tacit.models.parties import Parties
from tacit.ohttp import REQUEST_CLASSES
from tacit.operations.design_rounds import OF_NUMBERS, nobody
from tacit.operations.learning.stacks import fitting_stack
from tacit.recipe.derive import randomizer_of, shape_of, vdaf_of
from tacit.recipe.model import TokenSlot
from tacit.recipe.policy import Policy
from tacit.recipe.quantity import exact
from tacit.recipe.series import Series
from tacit.recipe.writing.builder import PRECISION_SECONDS, propose
from tacit.recipe.writing.series_builder import Shape, propose_series
from tacit.recipe.writing.survey import Survey
from tacit.rules import series_table
from tacit.rules.design import ENVELOPE
from tacit.vdaf.registry import prio3_named

ONE_ROUND: Final = Decimal(16)
"""Claim (b) of the recipe from which a series is made, before its rounds get the noise that the total needs: so much
that this recipe needs hardly any noise, and exists whenever its series does."""
_MOST_SHARE: Final = REQUEST_CLASSES[-1] - ENVELOPE
_MOST_TIMES: Final = 64
_HALVINGS: Final = 3
_ROUNDED: Final = Context(prec=3, rounding=ROUND_UP)


@dataclass(frozen=True, slots=True)
class Forecast:
    """What is known before a run. ``epsilon``: the claim of all rounds at ``delta``, by adversary. Of each round:
    ``contributions`` expected; ``noise_entry`` and ``noise_length``: the standard deviation of the noise of each entry
    of the mean update, and the Euclidean length of that noise, in units of the model; ``signal_entry``: the size of an
    entry, as it is sent, of an update as long as the clip, all entries being alike, and ``signal_units`` the same in
    steps of ``unit``; ``signal_to_noise``: clip over ``noise_length``; ``projection_error``: the expected length of the
    error that a projection adds, beside that of the mean update; ``influence_clips``: the length, in clips, of the
    vector that one dishonest device can add to the sum. ``contribution_bytes``: the leader's share;
    ``model_bytes``: the model file that every device fetches in every round; ``seconds``: length of the run;
    ``refusals``: (rule, reason) of a device with the given policy. ``stack``: flags of a ``tacit up`` whose parties
    accept the plan; empty: there is none, for the reason ``no_stack``."""

    epsilon: dict[str, str]
    delta: str
    rounds: int
    seconds: int
    contributions: float
    min_batch_size: int
    parameters: int
    sent: int
    clip: float
    noise_entry: float
    noise_length: float
    signal_entry: float
    signal_units: float
    signal_to_noise: float
    projection_error: float
    influence_clips: float
    contribution_bytes: int
    model_bytes: int
    refusals: tuple[tuple[str, str], ...]
    stack: tuple[str, ...]
    no_stack: str

    def document(self) -> dict[str, Any]:
        """The members, as JSON documents state them."""
        return {**asdict(self), "refusals": [{"rule": rule, "detail": detail} for rule, detail in self.refusals]}


def planned_series(plan: Plan, parties: Parties, start: int, token: TokenSlot, per_epoch: int = 1) -> Series:
    """The series of the plan, whose rounds begin at ``start`` (POSIX seconds), spend ``per_epoch`` slots of each epoch
    of tokens from ``token`` on, and have time for a release after each. Raises ``FieldError`` where no noise keeps the
    total or a contribution is too large, and ``UsageError``."""
    _require_share(plan)
    survey = Survey.from_body(
        {
            "name": plan.name, "text": plan.text, "metric": plan.metric, "encoder": plan.encoder,
            "statistic": "vector-sum", "randomizer": Flips.NAME, "proof": plan.proof, "population": plan.devices,
            "rate": plan.rate, "min_batch_size": plan.min_batch_size, "epsilon": ONE_ROUND, "delta": plan.delta,
            "start": start, "duration": plan.round_seconds, "epoch": token.epoch, "slot": token.slot,
            "time_precision": math.gcd(PRECISION_SECONDS, start, plan.round_seconds, plan.period),
        }
    )  # fmt: skip
    shape = Shape(plan.rounds, None, start, plan.period, per_epoch)
    series = propose_series(
        propose(survey, parties), shape, min_batch_size=plan.min_batch_size, total_epsilon=plan.epsilon
    )
    _require_small(series)
    return series


def unplaced_series(plan: Plan) -> Series:
    """The series of the plan before it has parties and a time, for its numbers. Raises as ``planned_series``."""
    return planned_series(plan, nobody(), 0, TokenSlot(issuer="nobody", epoch=0, slot=0))


def forecast(plan: Plan, policy: Policy | None = None) -> Forecast:
    """What is known of the plan before it has parties and a time; ``policy``: that of a device (default: the usual
    one). Raises as ``planned_series``."""
    series = unplaced_series(plan)
    method = flips_of(series)
    training, reports, clip = plan.training, float(plan.expected_contributions), float(exact(plan.clip))
    noise = clip * float(exact(plan.unit)) * math.sqrt(method.flips / reports) / (2 * method.scale)
    signal, length = clip / math.sqrt(training.sent), noise * math.sqrt(training.parameters)
    found = series_table.check(series, policy or Policy(), 0.0)
    return Forecast(
        dict(series.claim.epsilon.root), series.claim.delta, series.rounds, plan.seconds, reports,
        plan.min_batch_size, training.parameters, training.sent, clip, noise, length, signal,
        signal / clip / float(exact(plan.unit)), clip / length, relative_error(training),
        FlipsEstimator(method).one_vector, vdaf_of(series.probe).leader_share_size, training.file_bytes,
        tuple((one.rule, one.detail) for one in found if one.rule in OF_NUMBERS), *fitting_stack(plan, series),
    )  # fmt: skip


def _require_share(plan: Plan) -> None:
    """Refuse a plan for which no noise share keeps the total, with what would have one."""
    shape = shape_of(plan.question)
    members = {"scale": 1, "flips": 1, "maximum": plan.encoder.maximum, "categories": plan.encoder.length}
    step = replace(Flips.of(shape, members).noise_step, excess=EXCESS if plan.proof == "norm" else 0.0)

    def keeps(epsilon: Decimal, batch_size: int) -> bool:
        try:
            share_for_rounds(step, batch_size, plan.rounds, float(epsilon), float(plan.delta), float(plan.rate))
        except ValueError:
            return False
        return True

    if keeps(plan.epsilon, plan.min_batch_size):
        return
    ways = []
    times = _least(lambda factor: keeps(plan.epsilon, math.ceil(plan.min_batch_size * factor)))
    if times is not None:
        batch_size = math.ceil(plan.min_batch_size * times)
        devices = max(plan.devices, math.ceil(batch_size / plan.rate))
        ways.append(f"a min_batch_size of {batch_size:,} among {devices:,} devices")
    times = _least(lambda factor: keeps(_ROUNDED.multiply(plan.epsilon, factor), plan.min_batch_size))
    if times is not None:
        ways.append(f"an epsilon of {_ROUNDED.multiply(plan.epsilon, times)}")
    advice = f"{' or '.join(ways)} would do" if ways else "take a larger unit, fewer rounds or many more devices"
    raise FieldError("epsilon", f"no noise share keeps {plan.epsilon} over {plan.rounds} rounds; {advice}")


def _least(fits: Callable[[Decimal], bool]) -> Decimal | None:
    """A factor above 1 that ``fits``, at most a tenth larger than one that does not; None where none up to
    ``_MOST_TIMES`` does."""
    low, high = Decimal(1), Decimal(2)
    while not fits(high):
        low, high = high, 2 * high
        if high > _MOST_TIMES:
            return None
    for _ in range(_HALVINGS):
        middle = (low * high).sqrt()
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def _require_small(series: Series) -> None:
    """Refuse contributions that are larger than the largest upload, with the number of entries that would fit."""
    probe = series.probe
    size = vdaf_of(probe).leader_share_size
    if size <= _MOST_SHARE:
        return
    method, fits, fails = flips_of(series), 0, probe.randomizer.categories
    while fails - fits > 1:
        middle = (fits + fails) // 2
        is_small = _share_size(replace(method, cells=middle)) <= _MOST_SHARE
        fits, fails = (middle, fails) if is_small else (fits, middle)
    raise FieldError(
        "training.architecture",
        f"sends {probe.randomizer.categories:,} entries, and its contributions have {size:,} bytes; {fits:,} entries "
        f"would fit into the {_MOST_SHARE:,} of the largest, as by a `projection` to them",
    )


def flips_of(series: Series) -> Flips:
    """The noise shares of the series' rounds. Raises ``UsageError`` where there are none."""
    method = randomizer_of(series.probe)
    if not isinstance(method, Flips):
        raise UsageError(f"series {series.name} has no noise shares")
    return method


def _share_size(method: Flips) -> int:
    """Bytes of a contribution's share for the leader."""
    proof = method.proof
    return prio3_named(proof.name, proof.length, proof.chunk_length, **proof.bounds).leader_share_size
