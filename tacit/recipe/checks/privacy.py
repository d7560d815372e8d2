"""Rules on the privacy claim: every party recomputes it (P16, P17, P17b)."""

from __future__ import annotations

from decimal import Decimal

from tacit.dp.claim import Claim, stated_epsilon
from tacit.errors import Refusal
from tacit.recipe.claims import claim_of
from tacit.recipe.context import Context
from tacit.recipe.model import UNBOUNDED, Recipe, epsilon_of
from tacit.recipe.policy import Policy

ADVERSARIES = ("aggregator", "aggregator_with_relay", "both_aggregators", "both_aggregators_with_relay")

_TOLERANCE = 1e-9
"""Relative slack of comparisons between a decimal claim and a recomputed float."""


def _computed(recipe: Recipe, policy: Policy, n: int | None = None) -> Claim:
    if recipe.batch.min_batch_size > policy.max_batch_size:
        raise Refusal("claim-not-computable", f"the claim is not computed for B over {policy.max_batch_size}")
    return claim_of(recipe, n)


def claim_parameters(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """The claim speaks of this recipe: n is B and epsilon0 is the randomizer's (P17)."""
    privacy = recipe.privacy
    if privacy.n != recipe.batch.min_batch_size:
        return f"the claim is at n = {privacy.n}; it must be at B = {recipe.batch.min_batch_size}"
    if epsilon_of(privacy.epsilon0) != recipe.epsilon0:
        return f"the claim has epsilon0 {privacy.epsilon0}, the randomizer {recipe.randomizer.epsilon0 or UNBOUNDED}"
    return None


def delta_cap(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """Delta is above zero and at most the policy's."""
    if 0 < recipe.delta <= Decimal(policy.max_delta):
        return None
    return f"delta {recipe.privacy.delta} must be above 0 and at most {policy.max_delta}"


def claim_mechanism(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """The named mechanism is the one that gives the claim."""
    try:
        wanted = _computed(recipe, policy).mechanism
    except Refusal as refusal:
        return refusal.detail
    if recipe.privacy.mechanism == wanted:
        return None
    return f"these parameters give {wanted}, the claim says {recipe.privacy.mechanism}"


def claim_understated(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """No claimed epsilon is below the recomputed one."""
    try:
        computed = _computed(recipe, policy)
    except Refusal as refusal:
        return refusal.detail
    for adversary in ADVERSARIES:
        claimed, true = getattr(recipe.privacy.epsilon, adversary), getattr(computed, adversary)
        if float(epsilon_of(claimed)) < true * (1 - _TOLERANCE):
            return f"{adversary}: epsilon {claimed} is claimed, the parameters give {stated_epsilon(true)}"
    return None


def claim_cap(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """The policy's caps of (a), (b) where set, and (d); no local guarantee only where the policy says so."""
    epsilon = recipe.privacy.epsilon
    if (
        UNBOUNDED in (epsilon.both_aggregators, epsilon.both_aggregators_with_relay)
        and not policy.allow_unbounded_local
    ):
        return "unbounded against both aggregators together; only a policy with allow_unbounded_local accepts that"
    capped = (
        ("aggregator", epsilon.aggregator, policy.max_epsilon_aggregator),
        ("aggregator_with_relay", epsilon.aggregator_with_relay, policy.max_epsilon_aggregator_with_relay),
        ("both_aggregators_with_relay", epsilon.both_aggregators_with_relay, policy.max_epsilon_local),
    )
    for adversary, claimed, cap in capped:
        if cap is not None and claimed != UNBOUNDED and Decimal(claimed) > Decimal(cap):
            return f"{adversary}: epsilon {claimed} is over the cap of {cap}"
    return None


def claim_half_batch(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """Half of a batch may be bad devices: claim (a), and (b) where the policy caps it, at B/2 too (P17)."""
    half = recipe.batch.min_batch_size // 2
    try:
        claim = _computed(recipe, policy, half)
    except Refusal as refusal:
        return f"at B/2 = {half}: {refusal.detail}"
    for epsilon, cap in (
        (claim.aggregator, policy.max_epsilon_half_batch),
        (claim.aggregator_with_relay, policy.max_epsilon_half_batch_with_relay),
    ):
        if cap is not None and epsilon > float(cap) * (1 + _TOLERANCE):
            return f"at B/2 = {half} epsilon is {epsilon:.6f}, over the cap of {cap}"
    return None
