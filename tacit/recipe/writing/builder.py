"""Builds a complete recipe from a survey: the local epsilon or the noise shares, the VDAF and the claim follow from it.

The result of ``propose`` passes the rules under the default policy wherever the target can be met.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

from tacit.dp.claim import RELATION, UNBOUNDED
from tacit.errors import FieldError, Refusal, UsageError
from tacit.methods.base.method import plain
from tacit.models.form import Cap
from tacit.models.forms import form_of
from tacit.models.parties import SHUFFLER, Parties
from tacit.recipe.claims import claim_of
from tacit.recipe.derive import mode_of_close, shape_of
from tacit.recipe.encoder import BooleanEncoder, encoder_of
from tacit.recipe.encoder_specs import Boolean, Buckets, Categories, Vector
from tacit.recipe.model import Question, Recipe
from tacit.recipe.writing.privacy_target import PrivacyTarget
from tacit.recipe.writing.sampling_plan import SamplingPlan
from tacit.recipe.writing.survey import AUTO, Survey
from tacit.version import DAP_18

MAX_EPSILON0: Final = Decimal(8)
PRECISION_SECONDS: Final = 60


def propose(survey: Survey, parties: Parties) -> Recipe:
    """Make the recipe that asks the survey's ``population`` with the largest epsilon0, up to ``max_epsilon0``, whose
    claim against an aggregator with the relay (no sampling counted) stays within ``epsilon``.

    Where only the sum hides a device (always for sums, means and vector sums), it has the least noise with which that
    claim holds although only half of B is honest; ``aggregator_flips`` of each aggregator are added to that.

    With importance sampling the target is the claim against one aggregator instead: no noise reduces what the rates
    reveal to the relay. ``max_epsilon0`` then limits the claim against everybody. ``dummies`` is an expected number, or
    the fewest that hide, to ``dummy_epsilon``, whether a device sent, from an observer who knows the others.
    ``importance.devices`` is the number that a census in the log attests at least; without it nothing hides how many
    messages of a batch that does not fill come from one device alone.

    Where devices watch an event (local pan-privacy) and two servers count, the target is the first one. With one
    server, which sees single reports, it is the claim against that server: epsilon0, or for a mean the noise of one
    device; ``parties`` are those of the survey's model, and a shuffler among them before leader and helper is named
    only where the survey asks for it.

    Raises FieldError for a member that is missing or does not fit, UsageError where the numbers give no recipe.
    """
    _check(survey, parties)
    question = survey.question()
    plan = plan_of(survey)
    batch_size = plan.batch_size() if survey.min_batch_size is None else survey.min_batch_size
    body = {
        "version": 1,
        "name": survey.given("name"),
        "question": question.canonical(),
        "model": survey.model,
        "sampling": plan.body(),
        **_when_and_whom(survey, parties, plan.expected_contributions(batch_size), batch_size),
        "parties": _asked_parties(survey, parties),
    }
    if survey.dap_version != DAP_18.name:
        body["dap_version"] = survey.dap_version
    if survey.aggregator_flips:
        body["aggregator_noise"] = {"flips": survey.aggregator_flips}
    target = PrivacyTarget(
        survey.method.NAME, shape_of(question), survey.epsilon, survey.delta, survey.max_epsilon0 or MAX_EPSILON0,
        proves_norm=survey.proof == "norm",
    )  # fmt: skip
    claimed = functools.partial(with_claim, delta=survey.delta, account=survey.account)
    if survey.form.watched or survey.importance is None:
        members = target.members(survey.form, plan, batch_size)
    else:
        members = target.searched(plan, body, claimed)
    return claimed({**body, **members})


def _check(survey: Survey, parties: Parties) -> None:
    if not isinstance(parties, survey.form.parties):
        roles = ", ".join(survey.form.parties.model_fields)
        raise FieldError("model", f"{survey.model} needs other parties than these: {roles}")
    if survey.proof == "norm" and not (survey.kind.is_vector and survey.form.proves):
        raise FieldError("proof", "must be range: only the vectors of a vector-sum have a norm")


def _asked_parties(survey: Survey, parties: Parties) -> dict[str, Any]:
    """Those of ``parties`` that the survey asks for: a shuffler before the leader only where reports are to pass it."""
    body, mixed = parties.model_dump(mode="json"), survey.form.is_mixed(parties)
    if survey.through == SHUFFLER and not mixed:
        raise FieldError("through", "needs a shuffler, and these parties name none")
    if mixed and survey.through != SHUFFLER:
        del body[SHUFFLER]
    return body


def _when_and_whom(survey: Survey, parties: Parties, expected: int, batch_size: int) -> dict[str, Any]:
    """The members ``batch``, ``interval``, ``audience`` and ``token``."""
    start, duration = survey.given("start"), survey.given("duration")
    return {
        "batch": {
            "min_batch_size": batch_size,
            "mode": mode_of_close(survey.close),
            "close": survey.close,
            "time_precision": survey.time_precision or math.gcd(PRECISION_SECONDS, start, duration),
            "expected_contributions": expected,
        },
        "interval": {"start": start, "duration": duration},
        "audience": {"population": "all", **({"criteria": survey.criteria} if survey.criteria else {})},
        "token": {"issuer": parties.issuer.name, "epoch": survey.given("epoch"), "slot": survey.given("slot")},
    }


def plan_of(survey: Survey) -> SamplingPlan:
    """The sampling plan of the survey. Raises FieldError, and UsageError where no number of dummies suffices."""
    importance, dummies = survey.importance, None if survey.dummies == AUTO else survey.dummies
    plan = SamplingPlan(survey.given("population"), survey.rate, dummies=dummies)
    if importance is not None:
        plan = replace(
            plan,
            default=_default_answer(survey.question(), importance.default),
            default_rate=importance.default_rate,
            others=importance.non_default_share,
            attested=importance.devices,
        )
    if survey.dummies == AUTO:
        plan = plan.with_dummies_for(survey.dummy_epsilon or Decimal(1), survey.delta, survey.min_batch_size)
    return plan


def _default_answer(question: Question, text: str) -> int:
    """The encoded answer for a text: a category or bucket by its label, yes or no, or a number. Raises FieldError."""
    encoder, field = encoder_of(question), "importance.default"
    if isinstance(question.encoder, Categories | Buckets):
        if text in encoder.labels:
            return encoder.labels.index(text)
        raise FieldError(field, f"{text!r} is not an answer; choose one of {', '.join(encoder.labels)}")
    if isinstance(question.encoder, Vector):
        raise FieldError(field, "a vector has no default answer")
    if isinstance(question.encoder, Boolean):
        encoder = BooleanEncoder()  # without the answer that is stated for everything else
    answer = encoder.encode(text)
    if not isinstance(answer, int):
        raise FieldError(field, f"{text!r} is not an answer to a {question.statistic}")
    return answer


def with_claim(body: dict[str, Any], *, delta: Decimal, account: str = "default") -> Recipe:
    """The recipe of ``body`` (without ``privacy``) with the claim that follows from its parameters, rounded up."""
    epsilon0 = body["randomizer"].get("epsilon0", UNBOUNDED)
    form = form_of(body["model"])
    privacy = {
        "delta": plain(delta),
        "relation": RELATION,
        "mechanism": "none",
        "n": body["batch"]["min_batch_size"],
        "epsilon0": epsilon0,
        "account": account,
        "epsilon": form.unclaimed(),
    }
    try:
        claim = claim_of(Recipe.from_body({**body, "privacy": privacy}))
    except (Refusal, ValueError) as error:
        raise UsageError(str(error)) from error
    stated = claim.rounded_up()
    if "importance" not in body["sampling"] and epsilon0 != UNBOUNDED:
        stated |= {row.name: epsilon0 for row in form.capped(Cap.LOCAL)}
    return Recipe.from_body({**body, "privacy": {**privacy, "mechanism": claim.mechanism, "epsilon": stated}})
