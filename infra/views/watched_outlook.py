"""Describes in sentences what a recipe whose devices watch an event will cost and yield."""

from __future__ import annotations

from infra.views.terminal import span
from tacit.models.form import Cap
from tacit.models.forms import form_of
from tacit.operations.watched_outlook import WatchedOutlook
from tacit.recipe.encoder_specs import Occurrences
from tacit.recipe.model import Recipe


def watched_lines(recipe: Recipe, found: WatchedOutlook) -> list[str]:
    """The event, the bytes that a device keeps and sends, the claim, and the error."""
    spec, form = recipe.question.encoder, form_of(recipe.model)
    if not isinstance(spec, Occurrences):
        return []
    epsilon, result = (
        found.epsilon[name] for name in (form.charged, next(one.name for one in form.capped(Cap.AGGREGATE)))
    )
    against = "one aggregator" if form.proves else "the analyzer, which opens single reports"
    alone = "" if form.proves else f", {result:.4f} in the result alone"
    unit = "occurrences" if recipe.question.statistic == "mean" else "devices"
    return [
        f"devices watch {recipe.question.metric} for {spec.steps} steps of {spec.step_seconds} seconds, "
        f"{span(spec.start, spec.end)}; devices that read the recipe later miss earlier events",
        f"each keeps {found.state_bytes:,} bytes of ciphertexts that tell an intruder nothing, and sends "
        f"{found.report_bytes:,}",
        f"epsilon {epsilon:.4f} against {against}{alone}; no guarantee against an intruder who works with a server",
        f"expected standard error of a number: about {found.stderr:,.4g} {unit}",
    ]
