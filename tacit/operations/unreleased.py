"""Why a recipe is not released yet, in words for whoever operates the stack: exact counts, of no single report."""

from __future__ import annotations

from tacit.counting_words import plural
from tacit.operations.status import TaskStatus
from tacit.recipe.model import Recipe
from tacit.time_format import format_utc


def unreleased_words(task: TaskStatus | None, recipe: Recipe, now: float) -> str:
    """What the release of ``recipe`` waits for at ``now`` (POSIX seconds). ``task``: what its servers say of it; None
    where none of them answers or knows it."""
    if task is None:
        return "no server of the recipe answers"
    if task.rule:
        return f"a server refused the recipe by rule {task.rule}"
    page = task.taking
    if not page:
        return f"the recipe is {task.state}: no server counts contributions to it"
    parts = [f"its interval ends at {format_utc(recipe.interval.end)}"] if now < recipe.interval.end else []
    parts += _unfinished_work(task)
    least, came = recipe.batch.min_batch_size, page["uploaded"] - page["rejected"]
    if came < least:
        parts.append(f"{came} of at least {least} contributions came")
    elif page["aggregated"] < least:
        parts.append(f"{page['aggregated']} of {came} contributions are counted, and at least {least} are needed")
    else:
        parts.append(f"{plural(page['aggregated'], 'contribution')} counted, at least {least} needed")
    if page["rejected"]:
        causes = ", ".join(f"{number} {name}" for name, number in sorted(page["rejected_by_cause"].items()))
        parts.append(f"{page['rejected']} were rejected ({causes})")
    return "; ".join(parts)


def _unfinished_work(task: TaskStatus) -> list[str]:
    """The work that aggregators have not finished."""
    page, parts = task.taking, []
    if waiting := page.get("waiting", 0):
        parts.append(f"{plural(waiting, 'contribution')} wait{'s' if waiting == 1 else ''} for a job")
    jobs = page.get("jobs", {})
    for state, whom in (("formed", "to be sent"), ("sent", "for the helper")):
        if number := jobs.get(state, 0):
            parts.append(f"{plural(number, 'job')} wait{'s' if number == 1 else ''} {whom}")
    if failed := jobs.get("failed", 0) + jobs.get("abandoned", 0):
        parts.append(f"{plural(failed, 'job')} failed for good")
    causes = [str(job["cause"]) for job in task.failing if job.get("cause")]
    return [*parts, *dict.fromkeys(causes)]
