"""With which stack on one machine (``tacit up``) a training run goes: the flags that follow from its plan."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from tacit.errors import Refusal
from tacit.learning.plan import Plan
from tacit.operations.design_rounds import OF_NUMBERS
from tacit.recipe.policy import UPLOADS, Policy, upload_limits
from tacit.recipe.series import Series
from tacit.rules import series_table

MOST_DEVICES: Final = 10_000
LEAST_FLOOR: Final = 10
LEAST_SECONDS: Final = 5
"""Shortest epoch that is proposed, in seconds."""
MOST_CAP: Final = 64
"""The largest epsilon of one batch that is proposed."""
_CLAIMS: Final = frozenset({"claim-cap", "claim-half-batch"})


def fitting_stack(plan: Plan, series: Series) -> tuple[tuple[str, ...], str]:
    """The flags of a new stack that accepts the ``series`` of ``plan``, and whose epochs are as long as a round; or
    none, and why there is no such stack."""
    if plan.devices > MOST_DEVICES:
        return (), f"it has at most {MOST_DEVICES:,} devices"
    if plan.min_batch_size < LEAST_FLOOR:
        return (), f"it accepts a min_batch_size of {LEAST_FLOOR} and more"
    if plan.period < LEAST_SECONDS:
        return (), f"its epochs, and so round_seconds + release_seconds, have at least {LEAST_SECONDS} s"
    found = {size: _refusals(plan, series, MOST_CAP, size) for size in UPLOADS}
    fitting = [size for size, refusals in found.items() if all(one.rule in _CLAIMS for one in refusals)]
    if not fitting:
        return (), next(one.detail for one in found[UPLOADS[-1]] if one.rule not in _CLAIMS)
    upload = fitting[0]
    flags = ["--agents", str(plan.devices), "--batch-floor", str(plan.min_batch_size), "--epoch-seconds",
             str(plan.period), "--allow-unbounded-local"]  # fmt: skip
    if upload > UPLOADS[0]:
        flags += ["--max-upload", str(upload)]
    if _refusals(plan, series, None, upload):
        caps = range(1, MOST_CAP + 1)
        cap = bisect_left(caps, True, key=lambda most: not _refusals(plan, series, most, upload)) + 1
        if cap > MOST_CAP:
            return (), f"a single batch would tell more than epsilon {MOST_CAP}; take a smaller epsilon"
        flags += ["--release-cap", str(cap)]
    return tuple(flags), ""


def _refusals(plan: Plan, series: Series, cap: int | None, upload: int) -> list[Refusal]:
    """Why parties of a stack that takes reports up to the size class ``upload`` and lets a batch tell at most epsilon
    ``cap`` (None: the usual) refuse the series."""
    names = [one for one in Policy.model_fields if one.startswith(("max_epsilon_aggregator", "max_epsilon_half_batch"))]
    caps = {} if cap is None else dict.fromkeys(names, str(cap))
    usual = Policy(min_batch_size=plan.min_batch_size, allow_unbounded_local=True)
    policy = usual.model_copy(update=caps | upload_limits(upload))
    return [one for one in series_table.check(series, policy, 0.0) if one.rule in OF_NUMBERS]
