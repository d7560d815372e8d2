"""Figures that stand in documents by hand, computed anew by the code that they are about."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from pathlib import Path

import pytest

from client_agent.config import Budget
from tacit.accounting.fixed_steps import compose_fixed
from tacit.dp.gaussian import sigma_gaussian
from tacit.dp.hidden_count import SendingRates
from tacit.dp.membership import membership_epsilon
from tacit.dp.shuffled_counts import lambda_hist
from tacit.ledger.account import Account, Cost
from tacit.ledger.budget import fits
from tacit.ledger.filter import filter_of
from tacit.methods.base.affine import AffineHashing
from tacit.methods.base.design import SampleDesign
from tacit.methods.estimators.affine import AffineEstimator
from tacit.methods.estimators.registry import estimator_of
from tacit.recipe.policy import Policy

DOCS = Path(__file__).parents[2] / "docs"
WORDS = {"four": 4}
CLAIM = re.compile(r"(\S+) at (\S+)")


def text_of(name: str) -> str:
    """A document, its line ends as spaces."""
    return " ".join((DOCS / name).read_text().split())


def rows(name: str, first: str) -> list[list[str]]:
    """The rows of the table whose heading begins with ``first``."""
    lines = (DOCS / name).read_text().splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith(f"| {first} |"))
    found = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in line.strip("|").split("|")])
    return found


def costs_of(text: str) -> tuple[list[Cost], Cost]:
    """What is charged first, and the claim of which as many as fit follow: ``four of 1.25 at 0, then 0.1 at 0``."""
    before, _, last = text.rpartition(", then ")
    epsilon, delta = match.groups() if (match := CLAIM.fullmatch(last)) else pytest.fail(text)
    held: list[Cost] = []
    if before:
        number, claim = before.split(" of ")
        first, own = match.groups() if (match := CLAIM.fullmatch(claim)) else pytest.fail(text)
        held = [Cost(Decimal(first), Decimal(own))] * WORDS[number]
    return held, Cost(Decimal(epsilon), Decimal(delta))


@pytest.mark.parametrize("row", rows("privacy.md", "account"), ids=" ".join)
def test_what_an_account_holds_is_what_the_table_says(row: list[str]) -> None:
    limits, order, claims, added, held, beforehand = row
    epsilon, delta = limits.split(" at ")
    account = Account("", Decimal(epsilon), Decimal(delta), 1)
    assert filter_of(account).order == Decimal(order)
    before, each = costs_of(claims)
    most = int(held)
    assert fits([*before, *[each] * most], account)
    assert not fits([*before, *[each] * (most + 1)], account)

    def fixed(number: int) -> bool:
        steps = [one.step for one in (*before, *[each] * number)]
        return compose_fixed(steps, float(delta)) <= float(epsilon) * (1 + 1e-9)

    assert fixed(int(beforehand))
    assert not fixed(int(beforehand) + 1)
    room = account.epsilon - sum((one.epsilon for one in before), Decimal(0))
    by_delta = int(Decimal("0.9") * account.delta / each.delta) if each.delta else math.inf
    assert int(added) == min(int(room / each.epsilon), by_delta)


def test_one_report_about_a_text_moves_its_estimate_as_far_as_the_threat_model_says() -> None:
    text = text_of("threat_model.md")
    match = re.search(
        r"by up to (\S+) devices with 32 bits at epsilon 1 \((\S+) against a report that was turned\)", text
    )
    assert match is not None
    method = min(
        (AffineHashing(Decimal(1), bits, 32) for bits in range(1, 9)), key=lambda one: AffineEstimator(one).variance
    )
    design = SampleDesign(1.0)

    def estimate(supports: int, reports: int) -> float:
        (value,) = estimator_of(method).estimate([supports], reports, design).values
        return float(value)

    sent, turned = estimate(101, 301) - estimate(100, 300), estimate(101, 300) - estimate(100, 300)
    assert [f"{moved:.2f}" for moved in (sent, turned)] == list(match.groups())


def test_a_count_of_ten_thousand_watching_devices_has_the_error_that_is_stated() -> None:
    match = re.search(
        r"`sqrt\(n f \(1 - f\)\) / \(1 - 2 f\)`: (\S+) at n = 10,000 and epsilon0 = 2", text_of("privacy.md")
    )
    assert match is not None
    f = 1 / (math.exp(2) + 1)
    assert f"{math.sqrt(10_000 * f * (1 - f)) / (1 - 2 * f):.1f}" == match[1]


def test_the_noise_of_a_mean_of_occurrences_and_where_it_ends_are_as_stated() -> None:
    match = re.search(
        r"\(epsilon 1, delta 10\^-6: sigma = (\S+)\), and ends there at k = (\d+), because a device adds 65,536 flips",
        text_of("privacy.md"),
    )
    assert match is not None
    sigma = sigma_gaussian(1.0, 1e-6)
    assert f"{sigma:.4f}" == match[1]
    assert int(math.sqrt(65_536 / 4) / sigma) == int(match[2])


def test_noise_behind_a_shuffler_is_the_least_that_is_enough() -> None:
    match = re.search(r"exactly enough, (\S+) for a histogram at ε = 1, δ = 10\^-6", text_of("models.md"))
    assert match is not None
    assert f"{lambda_hist(1.0, 1e-6, 1_000_000):.1f}" == match[1]


def test_the_cost_of_belonging_to_an_audience_is_at_most_what_is_stated() -> None:
    pattern = (
        r"this costs at most `(\S+) sqrt\(q / \(\(1 - q\) X\)\)` .* about `(\S+) q / sqrt\(q0 \(1 - q0\) X\)` at worst"
    )
    match = re.search(pattern, text_of("privacy.md"))
    assert match is not None
    policy = Policy()
    least, most = policy.min_audience, float(policy.max_targeted_rate)
    for stated, rates in zip(map(float, match.groups()), ((most, most), (most, most / 10)), strict=True):
        factors = [
            membership_epsilon(audience, SendingRates(q, q0), 1e-6) * math.sqrt(q0 * (1 - q0) * audience) / q
            for audience, (q, q0) in ((least, rates), (10 * least, rates), (least, (rates[0] / 5, rates[1] / 5)))
        ]
        assert max(factors) == pytest.approx(stated, rel=0.03)


def test_chances_and_defaults_are_as_stated() -> None:
    text = text_of("privacy.md")
    assert "four standard errors" in text
    assert "3e-5 is the chance that a floor is too high" in text
    assert f"{math.erfc(4 / math.sqrt(2)) / 2:.0e}" == "3e-05"
    budget = Budget()
    assert f"By default: epsilon {budget.epsilon} at delta {budget.delta} in {budget.days} days" in text
    policy = Policy()
    assert f"`max_targeted_rate` ({policy.max_targeted_rate})" in text
    assert f"`min_audience` devices ({policy.min_audience:,} by default)" in text
    caps = policy.max_epsilon_aggregator_with_relay, policy.max_epsilon_half_batch_with_relay
    assert "By default a policy caps (b) of one recipe at {}, and at {} at B/2".format(*caps) in text
