"""Compares the ways to ask before a recipe exists: turns a survey into the planner's input, and reads its answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from tacit.accounting.alternatives import central, local, stated_way
from tacit.accounting.model_ways import WAYS
from tacit.accounting.planner import proposal
from tacit.accounting.requirements import MAX_EPSILON0, Alternative, Requirements
from tacit.dp.parameters import ParameterError
from tacit.errors import FieldError, Refusal, UsageError
from tacit.methods.base.method import Method
from tacit.methods.estimators.registry import estimator_of
from tacit.models.local.form import Local
from tacit.recipe.derive import sample_design
from tacit.recipe.policy import Policy
from tacit.recipe.randomised import Sampling
from tacit.recipe.writing.builder import MAX_EPSILON0 as MOST_OF_RECIPES
from tacit.recipe.writing.builder import plan_of
from tacit.recipe.writing.privacy_target import PrivacyTarget
from tacit.recipe.writing.sampling_plan import SamplingPlan
from tacit.recipe.writing.survey import Survey

MEMBERS = {"cells": "encoder.cells", "epsilon0": "max_epsilon0"}
"""The members of a survey that fill the planner's parameters of another name."""


def requirements_of(
    survey: Survey, policy: Policy | None = None, *, allow_unbounded_local: bool = False
) -> Requirements:
    """The planner's input: the survey's question and target, and the limits of ``policy``, if there is one.
    ``allow_unbounded_local``: noise shares may be proposed even if the policy does not allow them. Raises
    ``FieldError`` and ``UsageError``."""
    if survey.form.watched:
        raise FieldError(
            "model",
            f"{survey.model} is not compared: its randomizer follows from the statistic, and `tacit recipe new` says "
            "what that costs",
        )
    for name in ("population", "encoder"):
        if getattr(survey, name) is None:
            raise FieldError(name, "is needed to compare ways to ask")
    shape = survey.shape
    try:
        return Requirements(
            survey.given("population"),
            shape.cells,
            float(survey.epsilon),
            float(survey.delta),
            statistic=survey.statistic or shape.statistic.name,
            low=shape.low,
            high=shape.high,
            unit=shape.unit,
            norm=1 if shape.norm is None else shape.norm,
            model=survey.model,
            **_allowed_members(survey, policy, unbounded=allow_unbounded_local),
        )
    except ParameterError as error:
        raise FieldError(MEMBERS.get(error.name, error.name), error.reason) from error
    except (ValueError, TypeError) as error:
        raise UsageError(str(error)) from error


def _allowed_members(survey: Survey, policy: Policy | None, *, unbounded: bool) -> dict[str, Any]:
    """The members of ``Requirements`` that limit what may be proposed."""
    wished = None if survey.max_epsilon0 is None else float(survey.max_epsilon0)
    if policy is None:
        return {"max_epsilon0": wished or MAX_EPSILON0, "allow_unbounded_local": unbounded}
    most = float(policy.max_epsilon_local)
    return {
        "max_epsilon0": min(most, wished or most),
        "allow_unbounded_local": unbounded or policy.allow_unbounded_local,
        "min_batch_size": policy.min_batch_size,
        "max_epsilon_half": float(policy.max_epsilon_half_batch),
        "max_with_relay": float(policy.max_epsilon_aggregator_with_relay or "inf"),
        "max_half_with_relay": float(policy.max_epsilon_half_batch_with_relay or "inf"),
        "max_messages": policy.max_messages,
    }


@dataclass(frozen=True)
class Ways:
    """The ways to ask a survey's question, the most accurate one first, at the survey's epsilon, rate and minimum batch
    size. ``used``: the one that its recipe will use (None: none is allowed). ``refusal``: why there is none, or why it
    is less accurate than was wanted."""

    needs: Requirements
    found: tuple[Alternative, ...]
    used: Alternative | None
    refusal: Refusal | None = None


def ways_of(survey: Survey, policy: Policy) -> Ways:
    """Every method that answers the survey's question, as its recipe would state it, and for comparison methods that
    Tacit does not run. Of the methods that the survey and ``policy`` allow, the one that reaches the wanted error with
    the least noise is used; if none reaches it, the most accurate one. Raises ``FieldError`` and ``UsageError``."""
    needs = requirements_of(survey, policy)
    wanted = None if survey.accuracy is None else float(survey.accuracy) * needs.scale
    found = sorted([central(needs), *_stated_ways(survey, needs), *_of_other_models(needs)], key=lambda one: one.stderr)
    asked = [one for one in found if one.method is None or survey.wants(type(one.method))]
    try:
        return Ways(needs, tuple(found), proposal(asked, wanted, survey.model, needs.min_batch_size))
    except Refusal as refusal:
        return Ways(needs, tuple(found), next((one for one in asked if one.available), None), refusal)


def decide_way(survey: Survey, policy: Policy) -> Survey:
    """Fill in the way to ask that ``ways_of`` chooses, if the survey leaves it open, so that what was compared is what
    is published. With importance sampling, or if devices watch an event, ways are not compared and the survey stays as
    it is."""
    if survey.form.watched or survey.importance is not None or survey.randomizer is not None:
        return survey
    try:
        used = ways_of(survey, policy).used
    except UsageError:
        return survey
    return survey if used is None else survey.having(randomizer=used.randomizer, mechanism=None)


def _stated_ways(survey: Survey, needs: Requirements) -> Iterator[Alternative]:
    """Each method of the survey's model as the recipe would state it. Methods that cannot reach the target with noise
    of bounded size are left out."""
    if survey.model == Local.name:
        yield from local(needs)
        return
    plan = plan_of(survey.having(importance=None))
    batch = survey.min_batch_size or plan.batch_size()
    design = sample_design(Sampling.model_validate(plan.body()))
    for method in survey.methods:
        made, expected = _make_method(survey, method, needs, plan, batch), plan.expected_contributions(batch)
        if made is not None:
            stated = WAYS[survey.model].stated if survey.model in WAYS else stated_way
            yield stated(needs, made, design, batch, expected)


def _of_other_models(needs: Requirements) -> Iterator[Alternative]:
    """For comparison: the most accurate way by each method of the other models, and the local ways."""
    for model, ways in WAYS.items():
        if needs.model != model:
            for compared in ways.compared(needs):
                yield from sorted(compared, key=lambda one: one.stderr)[:1]
    if needs.model != Local.name:
        yield from local(needs)


def _make_method(
    survey: Survey, method: type[Method], needs: Requirements, plan: SamplingPlan, batch: int
) -> Method | None:
    most = survey.max_epsilon0 or MOST_OF_RECIPES
    target = PrivacyTarget(method.NAME, needs.shape, survey.epsilon, survey.delta, most)
    try:
        return target.made(plan, batch)
    except UsageError:
        return None


def alternative_document(needs: Requirements, one: Alternative) -> dict[str, Any]:
    """One way to ask the question, as a JSON object."""
    share, influence = (
        (None, None) if one.method is None else (one.method.noise_share, estimator_of(one.method).influence)
    )
    return {
        "model": one.model,
        "form": one.form,
        "trust": one.trust,
        "randomizer": one.randomizer,
        "rate": one.rate,
        "batch_size": one.batch_size,
        "contributions": one.contributions,
        "stderr": one.stderr,
        "relative_error": one.relative(needs),
        "epsilon0": one.epsilon0,
        "noise_share": None if share is None else asdict(share),
        "influence": None if influence is None else asdict(influence),
        "epsilon_of_batch": one.inner,
        "chunk_length": one.chunk_length,
        "upload_bytes": one.upload_bytes,
        "messages": one.messages,
        "allowed": one.allowed,
        "available": one.available,
    }
