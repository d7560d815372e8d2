"""Where a training run is: the model of every round, and what is published next.

All of it follows from the plan, the log and the releases, bit for bit, so a run can be taken up by anybody who has the
three. The mean update of a round is what its release says (``tacit.operations.learning.releases``), times the clip of
that round.

A round without a release in time may be passed over: the next one then trains the same model again. Which of the two
happened is read from the model that the next round's recipe names.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.errors import DecodeError, UsageError
from tacit.learning import model_file
from tacit.learning.clipping import Clip, next_clip, share_unshortened
from tacit.learning.first_model import first_model
from tacit.learning.optimisers import FedAdam, FedAvg, Optimiser
from tacit.learning.plan import FedAdamPlan, FedAvgPlan, Plan
from tacit.learning.projection import projection_of
from tacit.operations.learning.plans import unplaced_series
from tacit.operations.learning.releases import released_mean
from tacit.operations.series_rounds import Asked
from tacit.recipe.asking import asked_until
from tacit.recipe.model import Recipe
from tacit.recipe.quantity import exact
from tacit.recipe.series import Series, SeriesClaim
from tacit.recipe.training import RoundModel, read_round_model
from tacit.time_format import format_utc

_PLANS: Final = 16
"""Of so many plans the claims are kept, each of which takes a second or two to find."""


@dataclass(frozen=True, slots=True)
class Trained:
    """A published round: its index, the file of its model, the length to which updates are clipped, and how many took
    part (None: no release yet)."""

    index: int
    model: bytes
    clip: Clip
    contributions: int | None


@dataclass(frozen=True, slots=True)
class Run:
    """Where a run is. ``rounds``: the published ones in their order; ``model``: the file of the model that follows from
    all releases, the next round's, or the result after the last; ``clip``: that of the next round; ``following``: the
    index of the next round, None after the last; ``waits_for``: the published round whose release is missing, or
    None. ``before``: what the rounds before the newest led to."""

    rounds: tuple[Trained, ...]
    model: bytes
    clip: Clip
    following: int | None
    waits_for: int | None
    before: Before = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class NextRound:
    """What is published next: the recipe first, then the file, which is taken because a recipe names it."""

    model: bytes
    recipe: Recipe


@dataclass(slots=True)
class _State:
    """The model, what the server optimiser remembers, and the clip."""

    parameters: NDArray[np.float32]
    optimiser: Optimiser
    clip: Clip

    def after(self, plan: Plan, mean: NDArray[np.float64], model: str) -> _State:
        """The state after a release whose ``mean`` vector was found with the file named ``model``; this one stays."""
        optimiser, (update, clip) = copy.deepcopy(self.optimiser), learn(plan, mean, self.clip, model)
        with np.errstate(over="ignore", invalid="ignore"):
            parameters = optimiser.step(self.parameters, update)
        if not np.isfinite(parameters).all():
            raise UsageError("the releases lead to a model with numbers that are not finite; begin a new series: give "
                             "the plan lower learning rates and another name")  # fmt: skip
        return _State(parameters, optimiser, clip)


@dataclass(frozen=True, slots=True)
class Before:
    """What the first rounds of a run led to, which need not be found again: their ``hashes``, the rounds without their
    models, and the two states of which the next round trains one."""

    hashes: tuple[str, ...]
    trained: tuple[Trained, ...]
    states: tuple[_State, _State]

    def leads_to(self, recipes: Sequence[Recipe]) -> bool:
        """Whether ``recipes`` begin with its rounds, in order, and have at least one more."""
        known = len(self.hashes)
        return len(recipes) > known and tuple(one.hash_text for one in recipes[:known]) == self.hashes


def run_of(
    plan: Plan, series: Series, rounds: Sequence[Asked], initial: bytes | None = None, before: Before | None = None
) -> Run:
    """Where the run of ``plan`` is in ``series`` after its published ``rounds``, in the order of their indices; a round
    may be missing. ``initial``: the first model's file, where only the application knows the model. ``before``: of the
    same plan, where it leads to ``rounds``: the releases of its own are not needed, and their models left empty. Raises
    ``UsageError`` for a series of another plan, for a round that trains another model than follows from the releases
    before it, where releases lead to no finite model, and as ``released_mean`` and ``first_model``."""
    _require_of_plan(plan, series)
    before = before or _nothing(plan, initial)
    found, states = list(before.trained), before.states
    stepped, state = states
    last = found[-1].index if found else -1
    for recipe, documents in rounds[len(found) :]:
        states = stepped, state
        mismatch = series.mismatch(recipe)
        if recipe.series is None or mismatch is not None:
            raise UsageError(f"{recipe.name} is not a round of series {series.name}: {mismatch}")
        if recipe.series.index <= last:
            raise UsageError(f"{recipe.name} is not after round {last}")
        index = recipe.series.index
        state, model = _begun(plan, recipe, states)
        mean, contributions = released_mean(recipe, documents)
        stepped = state if mean is None else state.after(plan, mean, model)
        found.append(Trained(index, model_file.encode(state.parameters), state.clip, contributions))
        last = index
    waits = last if found and found[-1].contributions is None else None
    following = last + 1 if last + 1 < series.rounds else None
    known = len(before.hashes)
    hashes = (*before.hashes, *(recipe.hash_text for recipe, _ in rounds[known:-1]))
    before = Before(hashes, (*before.trained, *(replace(one, model=b"") for one in found[known:-1])), states)
    return Run(tuple(found), model_file.encode(stepped.parameters), stepped.clip, following, waits, before)


def _nothing(plan: Plan, initial: bytes | None) -> Before:
    """What no round led to: the first model."""
    state = _State(first_model(plan.training.architecture, plan.seed, initial), optimiser_of(plan), plan.clip)
    return Before((), (), (state, state))


def next_round(plan: Plan, series: Series, run: Run, now: float, *, is_passed_over: bool = False) -> NextRound | None:
    """The round to publish at ``now`` (POSIX seconds): the next one about which devices can still decide. None where
    the run is over, or waits for a release; ``is_passed_over``: do not wait for it. Raises ``UsageError`` where it is
    too late for all that are left."""
    if run.following is None or (run.waits_for is not None and not is_passed_over):
        return None
    for index in range(run.following, series.rounds):
        interval = plan.interval(series.interval.start, index)
        if now < asked_until(interval):
            stated = RoundModel(bytes=len(run.model), clip=run.clip, model=model_file.name_of(run.model))
            return NextRound(run.model, series.round(index, interval, stated.text()))
    until = format_utc(asked_until(plan.interval(series.interval.start, series.rounds - 1)))
    raise UsageError(f"the last round of {series.name} was to be published before {until}; to begin a new series, "
                     "give the plan another name")  # fmt: skip


def optimiser_of(plan: Plan) -> Optimiser:
    """The server optimiser of the plan, before the first round."""
    server = plan.server
    rate = float(exact(server.learning_rate))
    if isinstance(server, FedAvgPlan):
        return FedAvg(rate, float(server.momentum or 0))
    return _adam(server, rate)


def _adam(server: FedAdamPlan, rate: float) -> FedAdam:
    return FedAdam(rate, float(server.beta1), float(server.beta2), float(exact(server.tau)))


def _require_of_plan(plan: Plan, series: Series) -> None:
    probe = series.probe
    stated = {
        "name": (plan.name, series.name),
        "rounds": (plan.rounds, series.rounds),
        "question": (plan.question, probe.question),
        "rate": (plan.rate, probe.rate),
        "min_batch_size": (plan.min_batch_size, probe.batch.min_batch_size),
        "round_seconds": (plan.period, series.round_seconds),
        "delta": (plan.delta, Decimal(series.claim.delta)),
    }
    differing = [name for name, (own, other) in stated.items() if own != other]
    if not differing and _claim_of(plan) != series.claim:
        differing = ["epsilon"]
    if differing or series.donation is not None:
        what = ", ".join(differing) or "donation"
        raise UsageError(f"series {series.name} is not of this plan: {what} differ; give a changed plan another name")


@lru_cache(_PLANS)
def _claim_of(plan: Plan) -> SeriesClaim:
    """What the series of the plan claims, wherever it is placed."""
    return unplaced_series(plan).claim


def _begun(plan: Plan, recipe: Recipe, states: Sequence[_State]) -> tuple[_State, str]:
    """The first of ``states`` whose model the round trains, and that model's name."""
    try:
        stated = read_round_model(recipe.question.round_input or "", plan.training)
    except DecodeError as error:
        raise UsageError(f"{recipe.name}: {error}") from error
    for state in states:
        if model_file.is_named(model_file.encode(state.parameters), stated.model):
            if stated.clip != state.clip:
                raise UsageError(f"{recipe.name} clips at {stated.clip}; from the plan follows {state.clip}")
            return state, stated.model
    raise UsageError(f"{recipe.name} trains another model than follows from the plan and the releases before it")


def learn(plan: Plan, mean: NDArray[np.float64], clip: Clip, model: str) -> tuple[NDArray[np.float64], Clip]:
    """The mean update, and the next round's clip, from the ``mean`` of the vectors that devices sent in the round with
    this clip and the model file of this name."""
    training = plan.training
    sent, projected = mean[: training.sent], projection_of(training, model)
    update = (sent if projected is None else projected.estimate(sent)) * float(exact(clip))
    if plan.adaptive is None or training.quantile is None:
        return update, clip
    return update, next_clip(plan.adaptive, clip, share_unshortened(training.quantile, float(mean[-1])))
