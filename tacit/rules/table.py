"""The rule table: every check that a party makes of a recipe, by name.

Client, leader, helper, recipe server and the command line all run this one table, each under its own policy and with
what it knows. A rule's name is stable: it appears in refusals, problem documents, journals and tests.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from tacit.errors import Refusal
from tacit.extension_points import FEATURE_RULES
from tacit.recipe.context import Check, Context, Stage
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.rules import audience, budget, design, log, parties, privacy, sampling, series


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: its name, the stage from which it applies, and its function."""

    name: str
    stage: Stage
    check: Check


def _of_feature(*names: str) -> list[Rule]:
    """The rules of a feature that stand at this place of the table; none without the feature. They are loaded with it,
    and one that is missing beside others ends the import: no party may find itself without it."""
    return [Rule(name, Stage.DRAFT, FEATURE_RULES[name]) for name in names] if FEATURE_RULES else []


UNSUPPORTED = "model-unsupported"

RULES = (
    Rule(UNSUPPORTED, Stage.DRAFT, design.model_supported),
    Rule("recipe-signature", Stage.PUBLISH, log.recipe_signature),
    Rule("recipe-in-log", Stage.LOGGED, log.recipe_in_log),
    Rule("analyst-unknown", Stage.DRAFT, parties.analyst_known),
    Rule("issuer-unknown", Stage.DRAFT, parties.issuer_known),
    Rule("gateway-unknown", Stage.DRAFT, parties.gateway_known),
    Rule("aggregator-unknown", Stage.DRAFT, parties.aggregators_known),
    Rule("operators-equal", Stage.DRAFT, parties.operators_equal),
    Rule("url-invalid", Stage.DRAFT, parties.urls),
    Rule("hpke-key-invalid", Stage.DRAFT, parties.hpke_keys),
    Rule("signing-key-invalid", Stage.DRAFT, parties.signing_keys_valid),
    Rule("signing-key-shared", Stage.DRAFT, parties.signing_keys),
    *_of_feature("state-key-invalid"),
    Rule("audience-not-allowed", Stage.DRAFT, audience.population_allowed),
    Rule("audience-attribute", Stage.DRAFT, audience.attributes_allowed),
    Rule("audience-rate", Stage.DRAFT, audience.rate_capped),
    Rule("census-form", Stage.DRAFT, audience.census_form),
    Rule("audience-floor", Stage.PUBLISH, audience.floor_attested),
    *_of_feature(
        "watch-question",
        "watch-randomizer",
        "watch-form",
        "watch-period",
        "watch-work",
        "decryption-bound",
    ),
    Rule("randomizer-not-allowed", Stage.DRAFT, design.randomizer_allowed),
    Rule("randomizer-parameters", Stage.DRAFT, design.randomizer_parameters),
    Rule("rejection-too-likely", Stage.DRAFT, design.rejection_capped),
    Rule("randomizer-vdaf-mismatch", Stage.DRAFT, design.randomizer_vdaf),
    Rule("encoder-mismatch", Stage.DRAFT, design.encoder_randomizer),
    Rule("norm-unproved", Stage.DRAFT, design.norm_proved),
    Rule("vdaf-parameters", Stage.DRAFT, design.vdaf_parameters),
    Rule("result-size", Stage.DRAFT, design.result_size),
    Rule("sampling-rate", Stage.DRAFT, sampling.sampling_rate),
    Rule("sampling-cap", Stage.DRAFT, sampling.sampling_cap),
    Rule("sampling-one-claimed", Stage.DRAFT, sampling.sampling_one),
    Rule("importance-not-supported", Stage.DRAFT, sampling.importance_supported),
    Rule("importance-count-leak", Stage.DRAFT, sampling.importance_count),
    Rule("importance-devices", Stage.DRAFT, sampling.importance_devices),
    Rule("importance-late", Stage.DRAFT, sampling.importance_in_time),
    Rule("importance-attested", Stage.PUBLISH, audience.devices_attested),
    Rule("dummies-invalid", Stage.DRAFT, sampling.dummies_valid),
    Rule("population-cap", Stage.DRAFT, sampling.population_cap),
    Rule("batch-floor", Stage.DRAFT, design.batch_floor),
    Rule("batch-too-large", Stage.DRAFT, design.batch_ceiling),
    Rule("batch-mode", Stage.DRAFT, design.batch_mode),
    Rule("contributions-below-batch", Stage.DRAFT, design.batch_contributions),
    Rule("contributions-over-population", Stage.DRAFT, design.contributions_bounded),
    Rule("interval-unaligned", Stage.DRAFT, design.interval_aligned),
    Rule("interval-over", Stage.DRAFT, design.interval_over),
    Rule("interval-too-long", Stage.DRAFT, design.interval_long),
    Rule("interval-outside-epoch", Stage.DRAFT, design.interval_epoch),
    Rule("claim-parameters", Stage.DRAFT, privacy.claim_parameters),
    Rule("delta-cap", Stage.DRAFT, privacy.delta_cap),
    Rule("claim-mechanism", Stage.DRAFT, privacy.claim_mechanism),
    Rule("claim-understated", Stage.DRAFT, privacy.claim_understated),
    Rule("claim-cap", Stage.DRAFT, privacy.claim_cap),
    Rule("claim-half-batch", Stage.DRAFT, privacy.claim_half_batch),
    Rule("series-missing", Stage.PUBLISH, series.series_missing),
    Rule("series-ended", Stage.DRAFT, series.series_ended),
    Rule("series-round", Stage.DRAFT, series.series_round),
    Rule("series-mismatch", Stage.DRAFT, series.series_mismatch),
    Rule("series-donation", Stage.DRAFT, series.series_donation),
    Rule("round-candidates", Stage.DRAFT, series.round_candidates),
    Rule("round-model", Stage.DRAFT, series.round_model),
    Rule("series-claim", Stage.DRAFT, series.series_claim),
    Rule("account-unknown", Stage.DRAFT, budget.account_known),
    Rule("account-analyst", Stage.DRAFT, budget.account_chargeable),
    Rule("issuer-mismatch", Stage.DRAFT, parties.issuer_matches),
    Rule("slot-key-missing", Stage.PUBLISH, parties.slot_key),
    Rule("slot-taken", Stage.PUBLISH, parties.slot_taken),
    Rule("budget-spent", Stage.PUBLISH, budget.budget_left),
    Rule("opt-in-missing", Stage.ACTIVE, log.opt_in_missing),
    Rule("opt-in-mismatch", Stage.ACTIVE, log.opt_in_mismatch),
)


def check(recipe: Recipe, policy: Policy, context: Context, *, only: Collection[str] | None = None) -> list[Refusal]:
    """Return every refusal of the recipe, in the order of the table; empty: it is accepted. ``only`` names the rules to
    apply (default: all of the context's stage)."""
    found = ((rule.name, detail) for rule, detail in verdicts(recipe, policy, context, only=only))
    return [Refusal(name, detail) for name, detail in found if detail is not None]


def verdicts(
    recipe: Recipe, policy: Policy, context: Context, *, only: Collection[str] | None = None
) -> Iterator[tuple[Rule, str | None]]:
    """Yield each rule that ``check`` applies, in the order of the table, and its refusal's text where it refuses."""
    for rule in RULES:
        if context.stage < rule.stage or (only is not None and rule.name not in only):
            continue
        detail = rule.check(recipe, policy, context)
        yield rule, detail
        if detail is not None and rule.name == UNSUPPORTED:
            return  # no other rule can be applied to a recipe whose form is unknown


def require(recipe: Recipe, policy: Policy, context: Context, *, only: Collection[str] | None = None) -> None:
    """Raise the first refusal of ``check``, if there is one."""
    refusals = check(recipe, policy, context, only=only)
    if refusals:
        raise refusals[0]
