"""Rules on the privacy claim: every party recomputes it (P16, P17, P17b)."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from tacit.dp.claim import TOLERANCE, UNBOUNDED, Claim, covers, stated_epsilon
from tacit.errors import Refusal
from tacit.methods.base.statistics import STATISTICS
from tacit.methods.registry import methods_of
from tacit.models.form import Cap
from tacit.models.forms import form_of
from tacit.recipe.claims import claim_of
from tacit.recipe.context import Context
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.recipe.privacy import epsilon_of
from tacit.rules.detail import Bound, Detail, at_least, exactly

_SEARCHED = 1 << 14
"""Largest batch up to which a refusal searches for what would pass: computing a claim at half of it takes some
milliseconds."""


def _compute_claim(recipe: Recipe, policy: Policy, n: int | None = None) -> Claim:
    if recipe.batch.min_batch_size > policy.max_batch_size:
        raise Refusal("claim-not-computable", f"the claim is not computed for B over {policy.max_batch_size}")
    return claim_of(recipe, n)


def claim_parameters(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """The claim is stated for this recipe: ``privacy.n`` is B and ``privacy.epsilon0`` the randomizer's, or
    ``unbounded`` (P17)."""
    privacy = recipe.privacy
    if privacy.n != recipe.batch.min_batch_size:
        size = recipe.batch.min_batch_size
        return Detail(f"the claim is at n = {privacy.n}; it must be at B = {size}", exactly(privacy__n=size))
    if epsilon_of(privacy.epsilon0) != recipe.epsilon0:
        own = recipe.randomizer.epsilon0 or UNBOUNDED
        words = f"the claim has epsilon0 {privacy.epsilon0}, the randomizer {own}; claim {own}"
        return Detail(words, exactly(privacy__epsilon0=own))
    return None


def delta_cap(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """``privacy.delta`` is above 0 and at most the policy's ``max_delta``."""
    if 0 < recipe.delta <= Decimal(policy.max_delta):
        return None
    words = f"delta {recipe.privacy.delta} must be above 0 and at most {policy.max_delta}"
    return Detail(words, {"privacy.delta": Bound(above=0, at_most=policy.max_delta)})


def claim_mechanism(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """The named mechanism is the one from which the claim follows (docs/privacy.md)."""
    try:
        wanted = _compute_claim(recipe, policy).mechanism
    except Refusal as refusal:
        return refusal.detail
    if recipe.privacy.mechanism == wanted:
        return None
    words = f"these parameters give {wanted}, the claim says {recipe.privacy.mechanism}; claim {wanted}"
    return Detail(words, exactly(privacy__mechanism=wanted))


def claim_understated(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """No claimed epsilon is below the one recomputed from the parameters (docs/privacy.md)."""
    try:
        computed = _compute_claim(recipe, policy)
    except Refusal as refusal:
        return refusal.detail
    epsilon = recipe.privacy.epsilon
    least = {name: stated_epsilon(true) for name, true in computed.items() if not covers(epsilon[name], true)}
    if not least:
        return None
    adversary, enough = next(iter(least.items()))
    words = f"{adversary}: epsilon {epsilon[adversary]} is claimed, the parameters give {enough}"
    needed = {f"privacy.epsilon.{name}": Bound(at_least=value) for name, value in least.items()}
    return Detail(f"{words}; claim at least that", needed)


NO_LOCAL_GUARANTEE = "policy accepts nothing without a local guarantee"
"""The refusal by a policy without ``allow_unbounded_local``, for people who cannot change it."""


def claim_cap(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """Claims (a), (b) and (d) are at most the policy's ``max_epsilon_aggregator``,
    ``max_epsilon_aggregator_with_relay`` where set, and ``max_epsilon_local``; ``unbounded`` passes only where the
    policy has ``allow_unbounded_local``, and for adversaries against whom the model itself guarantees nothing
    (docs/privacy.md)."""
    epsilon, form = recipe.privacy.epsilon, form_of(recipe.model)
    unbounded = [one.name for one in form.adversaries if not one.unprotected and epsilon[one.name] == UNBOUNDED]
    if unbounded and not policy.allow_unbounded_local:
        return _without_local_guarantee(recipe, policy, unbounded)
    over = [(one, cap) for one in form.capped() if (cap := policy.cap(one.cap)) is not None]
    over = [(one, cap) for one, cap in over if _is_over(epsilon[one.name], cap)]
    if not over:
        return None
    adversary, cap = over[0]
    lower = "lower epsilon0" if adversary.cap is Cap.LOCAL else _knobs(recipe)
    words = f"{adversary.name}: epsilon {epsilon[adversary.name]} is over the cap of {cap}; {lower}"
    needed = {f"privacy.epsilon.{one.name}": Bound(at_most=most) for one, most in over}
    return Detail(f"{words} until it is at most that", needed)


def _without_local_guarantee(recipe: Recipe, policy: Policy, unbounded: Sequence[str]) -> str:
    """The refusal of a recipe whose claims against the adversaries ``unbounded`` bound nothing, with the randomizers
    that have a local guarantee for its question."""
    words = f"{' and '.join(unbounded)}: epsilon is {UNBOUNDED}, and {NO_LOCAL_GUARANTEE}"
    kind, form, most = STATISTICS[recipe.question.statistic], form_of(recipe.model), policy.max_epsilon_local
    local = [one.NAME for one in methods_of(kind) if one.IS_LOCAL and form.answers_by(one)]
    local = [name for name in local if name in policy.randomizers]
    if not local:
        return f"{words}, which no randomizer has for a {kind.name}"
    passing = f"randomizer {' or '.join(local)} with epsilon0 of at most {most} passes"
    needed = {"randomizer.name": Bound(one_of=tuple(local)), "randomizer.epsilon0": Bound(at_most=most)}
    return Detail(f"{words}; {passing}", needed)


def _is_over(claimed: str, cap: str) -> bool:
    return claimed != UNBOUNDED and Decimal(claimed) > Decimal(cap)


def claim_half_batch(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """Half of a batch may come from dishonest devices: claim (a) recomputed at B/2 is at most the policy's
    ``max_epsilon_half_batch``, claim (b) at most ``max_epsilon_half_batch_with_relay`` where set (P17)."""
    half = recipe.batch.min_batch_size // 2
    try:
        claim = _compute_claim(recipe, policy, half)
    except Refusal as refusal:
        return f"at B/2 = {half}: {refusal.detail}"
    for epsilon, cap in _half_batch(recipe, claim, policy):
        if epsilon > cap * (1 + TOLERANCE):
            size = _fitting_batch(recipe, policy)
            fitting = f"B of at least {size} passes" if size is not None else _knobs(recipe)
            words = f"at B/2 = {half} epsilon is {epsilon:.6f}, over the cap of {cap:g}; {fitting}"
            return words if size is None else Detail(words, at_least("batch.min_batch_size", size))
    return None


def _half_batch(recipe: Recipe, claim: Claim, policy: Policy) -> list[tuple[float, float]]:
    """The epsilons at B/2 that the policy caps, with their caps."""
    capped = ((claim[one.name], policy.cap_at_half(one.cap)) for one in form_of(recipe.model).capped())
    return [(epsilon, float(cap)) for epsilon, cap in capped if cap is not None]


def _fitting_batch(recipe: Recipe, policy: Policy) -> int | None:
    """A batch size, at most 2 % above the least one, whose half keeps the caps; None where there is none up to
    ``_SEARCHED``, because a refusal must not cost a device seconds."""

    def passes(size: int) -> bool:
        try:
            claim = claim_of(recipe, size // 2)
        except Refusal:
            return False
        return all(epsilon <= cap * (1 + TOLERANCE) for epsilon, cap in _half_batch(recipe, claim, policy))

    low, high = recipe.batch.min_batch_size, recipe.batch.min_batch_size
    while not passes(high):
        low, high = high, 2 * high
        if high > min(_SEARCHED, policy.max_batch_size):
            return None
    while high - low > max(1, low // 50):
        middle = (low + high) // 2
        low, high = (low, middle) if passes(middle) else (middle, high)
    return high


def _knobs(recipe: Recipe) -> str:
    """The members to change for a smaller claim."""
    noise = "raise flips" if recipe.randomizer.epsilon0 is None else "lower epsilon0"
    return f"{noise} or raise B"
