"""The intruder's verdict is an exact test of all attackers together, with a stated rate of false alarms."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta, binom

from client_agent.panprivate.watch import Plan, Schedule
from infra.lab.intruder.game import played
from infra.lab.intruder.verdict import FALSE_ALARM, Advantage, chance_of, highest_rate, judged_together
from infra.lab.kit.entropy import SeededEntropy
from tacit.panprivate.elgamal import PrivateKey
from tacit.panprivate.single_server import NonZero
from tacit.panprivate.stored import OneServer
from tests.kit.leaks import LEAKS

SEED = SeededEntropy(b"verdict")
PLAN = Plan(bytes(32), OneServer(NonZero(PrivateKey.generate(SEED).public_key())), Schedule(1_000_000, 60, 3))
NAMES = ("bytes", "classifier", "timing", "work", "metadata")


def least_right(guesses: int, attackers: int) -> int:
    """From how many right guesses on an attacker is found."""
    return next(
        right
        for right in range(guesses // 2, guesses + 1)
        if judged_together(
            [Advantage("one", right, guesses), *[Advantage("other", 0, guesses)] * (attackers - 1)]
        ).found
    )


@pytest.mark.parametrize("guesses", [20, 75, 300, 800])
def test_all_attackers_together_accuse_an_honest_device_at_most_as_often_as_stated(guesses: int) -> None:
    for attackers in (1, 5, 6):
        limit = least_right(guesses, attackers)
        exact = float(binom.sf(limit - 1, guesses, 0.5))
        assert attackers * exact <= FALSE_ALARM, "the union bound, whatever attackers have in common"
        assert attackers * float(binom.sf(limit - 2, guesses, 0.5)) > FALSE_ALARM, "and the test is no weaker than that"


@pytest.mark.parametrize(("guesses", "advantage"), [(800, 0.18), (300, 0.29), (75, 0.56)])
def test_an_advantage_is_found_with_the_stated_power(guesses: int, advantage: float) -> None:
    limit = least_right(guesses, 5)
    assert binom.sf(limit - 1, guesses, (1 + advantage) / 2) >= 0.9
    assert binom.sf(limit - 1, guesses, (1 + advantage - 0.03) / 2) < 0.9


def test_the_bounds_are_the_exact_ones_at_the_level_of_one_attacker() -> None:
    for right, guesses in ((0, 20), (11, 20), (160, 300), (399, 800), (799, 800)):
        level = FALSE_ALARM / 5
        assert highest_rate(right, guesses, level) == pytest.approx(beta.ppf(1 - level, right + 1, guesses - right))
        assert chance_of(right, guesses) == pytest.approx(binom.sf(right - 1, guesses, 0.5))
    assert highest_rate(20, 20, FALSE_ALARM) == 1


@pytest.mark.parametrize("guesses", [20, 75, 300])
def test_an_attacker_is_found_exactly_where_its_least_advantage_is_above_chance(guesses: int) -> None:
    for right in range(guesses // 2, guesses + 1):
        verdict = judged_together([Advantage(name, right, guesses) for name in NAMES])
        assert bool(verdict.found) == (verdict.least > 0)
        assert verdict.least < verdict.best.advantage <= verdict.most


def test_the_words_follow_from_the_test() -> None:
    honest = judged_together([Advantage(name, 150 + at, 300) for at, name in enumerate(NAMES)])
    said = "no attacker did better than chance (test of 300 guesses by each of 5 attackers, false alarm 0.001)"
    assert honest.words == said
    assert honest.bound_words.startswith(
        "best: metadata, 154 of 300 right, advantage 0.03; no attacker has more than 0.2"
    )
    leaking = judged_together([Advantage("timing", 230, 300), Advantage("work", 149, 300)])
    assert leaking.words.startswith("attacker timing guesses better than chance")
    assert "advantage 0.53, at least 0.3" in leaking.bound_words
    both = judged_together([Advantage("timing", 230, 300), Advantage("work", 249, 300)])
    assert both.words.startswith("attackers work and timing guess better than chance")


@pytest.mark.parametrize("wrong", [([], 1e-3), ([Advantage("one", 1, 2)], 0.0), ([Advantage("one", 1, 2)], 1.0)])
def test_a_verdict_takes_attackers_and_a_rate(wrong: tuple[list[Advantage], float]) -> None:
    with pytest.raises(ValueError, match="a verdict needs"):
        judged_together(*wrong)


@pytest.mark.false_alarm(FALSE_ALARM, "the verdict's own rate: CPU times differ from run to run", runs=3)
def test_an_honest_keeper_is_not_accused() -> None:
    assert played(PLAN, 100, 100, SEED.child("honest")).verdict.found == ()


@pytest.mark.parametrize("leak", ["update skipped", "same randomness", "longer on event", "early return"])
def test_a_leaking_keeper_is_caught(leak: str) -> None:
    """Its advantage is 0.9 at least: of 60 guesses 44 right are enough, and fewer have a probability below 1e-8."""
    verdict = played(PLAN, 60, 60, SEED.child(leak), LEAKS[leak]).verdict
    assert verdict.found
    assert verdict.least > 0
    assert binom.cdf(least_right(60, 5) - 1, 60, 0.95) < 1e-8


@pytest.mark.false_alarm(1e-4, "binomial over 4,000 verdicts with a probability of 0.001 at most each: 13 or more")
def test_verdicts_on_coins_accuse_at_the_stated_rate() -> None:
    draws = np.random.default_rng(11).binomial(300, 0.5, (4000, len(NAMES)))
    accused = sum(
        bool(judged_together([Advantage(name, int(right), 300) for name, right in zip(NAMES, row, strict=True)]).found)
        for row in draws
    )
    assert accused < 13
