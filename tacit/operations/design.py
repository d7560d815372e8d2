"""Ways to ask, compared before a recipe exists: what a survey wants, as the planner takes it, and what it answers."""

from __future__ import annotations

from typing import Any

from tacit.accounting.requirements import MAX_EPSILON0, Alternative, Requirements
from tacit.errors import FieldError, UsageError
from tacit.methods.flips import Flips
from tacit.recipe.policy import Policy
from tacit.recipe.survey import Survey


def requirements_of(
    survey: Survey, policy: Policy | None = None, *, allow_unbounded_local: bool = False
) -> Requirements:
    """What the planner is asked for: the survey's question and target, and what ``policy``, if there is one, accepts.
    ``allow_unbounded_local``: noise shares may be proposed whatever it says. Raises FieldError and UsageError."""
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
            **_allowed(survey, policy, unbounded=allow_unbounded_local),
        )
    except (ValueError, TypeError) as error:
        raise UsageError(str(error)) from error


def _allowed(survey: Survey, policy: Policy | None, *, unbounded: bool) -> dict[str, Any]:
    """The members of ``Requirements`` that say what may be proposed."""
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
    }


def alternative_document(needs: Requirements, one: Alternative) -> dict[str, Any]:
    """A way to ask, as JSON."""
    shares = one.method
    return {
        "model": one.model,
        "randomizer": one.randomizer,
        "rate": one.rate,
        "batch_size": one.batch_size,
        "contributions": one.contributions,
        "stderr": one.stderr,
        "relative_error": one.relative(needs),
        "epsilon0": one.epsilon0,
        "noise_share": {"scale": shares.scale, "flips": shares.flips} if isinstance(shares, Flips) else None,
        "epsilon_of_batch": one.inner,
        "chunk_length": one.chunk_length,
        "upload_bytes": one.upload_bytes,
        "available": one.available,
    }
