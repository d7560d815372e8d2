"""A complete recipe from a question and a privacy target: the local epsilon or the noise shares, the VDAF and the claim
follow.

Used by ``tacit recipe new`` and by the demonstration; what it returns passes the rules under the default policy
wherever the target can be met.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Literal

from tacit.errors import Refusal, UsageError
from tacit.methods.method import plain
from tacit.methods.registry import METHODS, methods_of
from tacit.methods.statistics import STATISTICS
from tacit.models.forms.form import Cap
from tacit.models.forms.parties import Parties
from tacit.models.forms.registry import form_of
from tacit.recipe.claims import claim_of
from tacit.recipe.model import MODE_OF_CLOSE, Question, Recipe, TokenSlot
from tacit.recipe.privacy import UNBOUNDED
from tacit.recipe.target import Target
from tacit.recipe.turnout import TurnoutPlan


def propose(
    *,
    name: str,
    question: Question,
    population: int,
    parties: Parties,
    token: TokenSlot,
    start: int,
    duration: int,
    rate: Decimal = Decimal("0.5"),
    default: int | None = None,
    default_rate: Decimal | None = None,
    non_default_share: Decimal | None = None,
    dummies: Decimal | None = None,
    dummy_epsilon: Decimal | None = None,
    attested_devices: int | None = None,
    min_batch_size: int | None = None,
    epsilon: Decimal = Decimal(1),
    delta: Decimal = Decimal("0.000001"),
    max_epsilon0: Decimal = Decimal(8),
    randomizer: str | None = None,
    aggregator_flips: int = 0,
    close: Literal["interval_end", "at_B"] = "interval_end",
    time_precision: int = 60,
    account: str = "default",
    audience: str = "all",
    criteria: Mapping[str, str] | None = None,
) -> Recipe:
    """The recipe that asks ``population`` devices with the largest epsilon0, up to ``max_epsilon0``, whose claim
    against an aggregator with the relay (no sampling counted) stays within ``epsilon``.

    With the randomizer ``flips`` (the only one for sums, means and vector sums) it is the least noise with which that
    claim holds although only half of B is honest; ``aggregator_flips`` of each aggregator come on top.

    With a ``default`` answer (encoded), whose holders take part at ``default_rate``, the target is the claim against
    one aggregator instead: what the rates tell to the relay is not lessened by any noise. ``max_epsilon0`` is then
    that of the claim against everybody. ``non_default_share`` is how many devices have another answer. ``dummies`` are
    expected ones, or the fewest that hide whether a device sent, to ``dummy_epsilon``, from who knows the others.
    ``attested_devices``: how many a census in the log attests at least; without it nothing hides how many messages of a
    batch that does not fill come from one device alone.

    ``start`` and ``duration`` are seconds and multiples of ``time_precision``; ``criteria`` are the attribute values
    that a device of the audience has. Raises ``UsageError`` where the numbers give no recipe.
    """
    chosen = _randomizer_for(question, randomizer)
    plan = TurnoutPlan(population, rate, default, default_rate, non_default_share, dummies, attested_devices)
    if dummy_epsilon is not None:
        plan = plan.with_dummies_for(dummy_epsilon, delta, min_batch_size)
    batch_size = plan.batch_size() if min_batch_size is None else min_batch_size
    body: dict[str, Any] = {
        "version": 1,
        "name": name,
        "question": question.canonical(),
        "model": "secure-aggregation",
        **({"aggregator_noise": {"flips": aggregator_flips}} if aggregator_flips else {}),
        "sampling": plan.body(),
        "batch": {
            "min_batch_size": batch_size,
            "mode": MODE_OF_CLOSE[close],
            "close": close,
            "time_precision": time_precision,
            "expected_contributions": plan.expected_contributions(batch_size),
        },
        "interval": {"start": start, "duration": duration},
        "audience": {"population": audience, **({"criteria": dict(criteria)} if criteria else {})},
        "token": token.model_dump(mode="json"),
        "parties": parties.model_dump(mode="json"),
    }
    target = Target(chosen, question, epsilon, delta, max_epsilon0)
    claimed = functools.partial(with_claim, delta=delta, account=account)
    members = target.members(plan, batch_size) if default_rate is None else target.searched(plan, body, claimed)
    return claimed({**body, **members})


def _randomizer_for(question: Question, wanted: str | None) -> str:
    """The randomizer that is wanted, or the usual one. Raises ``UsageError`` for one that does not fit the question."""
    fitting = [method.NAME for method in methods_of(STATISTICS[question.statistic])]
    chosen = wanted or fitting[0]
    if chosen not in METHODS:
        raise UsageError(f"randomizer {chosen!r} is not known; {', '.join(METHODS)} are")
    if chosen not in fitting:
        raise UsageError(f"a {question.statistic} needs the randomizer {' or '.join(fitting)}, not {chosen}")
    return chosen


def with_claim(body: dict[str, Any], *, delta: Decimal, account: str = "default") -> Recipe:
    """The recipe of ``body`` (without ``privacy``) with the claim that its parameters give, rounded up."""
    epsilon0 = body["randomizer"].get("epsilon0", UNBOUNDED)
    form = form_of(body["model"])
    privacy = {
        "delta": plain(delta),
        "relation": "replacement",
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
    if "importance" not in body["sampling"]:
        stated |= {row.name: epsilon0 for row in form.capped(Cap.LOCAL)}
    return Recipe.from_body({**body, "privacy": {**privacy, "mechanism": claim.mechanism, "epsilon": stated}})
