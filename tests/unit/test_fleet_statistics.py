"""Coins, data, faults and arrivals of a fleet against what they are said to be.

``ALPHA`` is the false-alarm rate of each comparison over the choice of seeds; the seeds are fixed, so that a change of
the draws fails by chance about once in ten thousand edits.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pytest
from scipy.stats import binomtest, chisquare, expon, kstest

from client_agent.coin import coin
from infra.lab.devices.additions import addition_of
from infra.lab.devices.arrivals import BURST_SECONDS, BURST_SIZE, SWING, arrivals
from infra.lab.devices.decisions import CHUNK, coins, decide, participation, randomise, with_dummies
from infra.lab.devices.faults import CHURN, Fault, FaultMix, parse_faults
from infra.lab.devices.population import MAX_CATEGORIES, drawn_population, listed_population, parse_population
from infra.lab.devices.profile import Profile
from infra.lab.kit.entropy import SeededEntropy
from tacit.errors import UsageError
from tacit.recipe.encoder_specs import Categories, Number
from tacit.recipe.model import Question
from tacit.recipe.randomised import Dummies, Importance, Sampling
from tests.kit.methods import randomizer_from

ALPHA = 1e-5
COUNT = 20_000
RATE = 250.0


def generator(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("rate", ["0.01", "0.5", "0.000000000000000001", "0.999999999999999999", "1"])
def test_vector_coins_are_the_agents_coins_on_the_same_bytes(rate: str) -> None:
    drawn = SeededEntropy(7)(16 * 400)
    pieces = iter([drawn[at : at + 16] for at in range(0, len(drawn), 16)])
    one_by_one = [coin(Decimal(rate), lambda _size: next(pieces)) for _ in range(400)]
    assert coins(Decimal(rate), 400, lambda _size: drawn).tolist() == one_by_one


def test_coins_at_the_edge_of_the_threshold_fall_as_the_agents_do() -> None:
    threshold = (1 << 128) // 4
    edge = b"".join(value.to_bytes(16, "big") for value in (threshold - 1, threshold, threshold + 1))
    assert coins(Decimal("0.25"), 3, lambda _size: edge).tolist() == [True, False, False]


@pytest.mark.false_alarm(ALPHA, "a binomial test")
def test_coins_come_up_at_their_rate() -> None:
    heads = int(coins(Decimal("0.1"), COUNT, SeededEntropy(3)).sum())
    assert binomtest(heads, COUNT, 0.1).pvalue > ALPHA


@pytest.mark.false_alarm(ALPHA, "chi-square")
def test_a_wrong_number_of_weights_says_that_no_value_has_one_too() -> None:
    question = Question(
        text="Which?",
        metric="word",
        statistic="histogram",
        encoder=Categories(kind="categories", categories=("a", "b"), missing="no value"),
    )
    assert drawn_population(question, "weights:2,1,0").label == "weights:2,1,0"
    words = (
        "3 weights are needed, at least one of them above 0; the last is that of 'no value', devices without a value"
    )
    with pytest.raises(UsageError, match=words):
        drawn_population(question, "weights:2,1")
    with pytest.raises(UsageError, match=r"above 0$"):
        parse_population("weights:2,1", 3)


def test_numbers_of_a_histogram_are_drawn_as_categories() -> None:
    encoder = Number(kind="number", low=1, high=200_000)
    question = Question(text="Which?", metric="word", statistic="histogram", encoder=encoder)
    drawn = drawn_population(question, None).of(0, 1_000, np.random.default_rng(1))
    assert drawn.dtype == np.dtype(np.uint32)
    assert drawn.max() < 200_000


@pytest.mark.parametrize("text", ["uniform", "zipf", "zipf:0.7", "weights:5,1,0,2"])
def test_data_follow_their_distribution(text: str) -> None:
    population = parse_population(text, 4)
    drawn = np.bincount(population.of(0, COUNT, generator()), minlength=4)
    expected = np.array(population.probabilities) * COUNT
    held = expected > 0
    assert drawn[~held].sum() == 0
    assert chisquare(drawn[held], expected[held]).pvalue > ALPHA


@pytest.mark.parametrize(
    "text", ["", "zipf:x", "zipf:-1", "weights:", "weights:1,2", "weights:0,0,0", "weights:inf,1,1", "normal"]
)
def test_a_distribution_that_says_nothing_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--data"):
        parse_population(text, 3)
    with pytest.raises(UsageError, match="2 to 1048576"):
        parse_population("uniform", MAX_CATEGORIES + 1)


def test_listed_devices_keep_their_datum_wherever_the_shards_are_cut() -> None:
    long = listed_population("file", [1 << 500, None, 7, 1 << 500])
    assert long.answers(long.of(2, 4, np.random.default_rng(1))) == [7, 1 << 500, 1 << 500, None]
    population = listed_population("file", [3, 1, 4])
    assert population.of(2, 5, generator()).tolist() == [4, 3, 1, 4, 3]
    with pytest.raises(UsageError, match="holds no device"):
        listed_population("file", [])


@pytest.mark.false_alarm(ALPHA, "a binomial test")
def test_every_device_is_decided_once_in_chunks() -> None:
    population = parse_population("uniform", 3)
    chunks = list(decide(Sampling(rate="0.02"), population, 10, CHUNK + 500, SeededEntropy(5), generator()))
    assert [(chunk.first, chunk.count) for chunk in chunks] == [(10, CHUNK), (10 + CHUNK, 500)]
    sampled = np.concatenate([chunk.sampled for chunk in chunks])
    assert len(np.unique(sampled)) == len(sampled)
    assert sampled.min() >= 10
    assert sampled.max() < 10 + CHUNK + 500
    assert binomtest(len(sampled), CHUNK + 500, 0.02).pvalue > ALPHA


UNEQUAL = Sampling(
    rate="0.4",
    importance=Importance(default=0, default_rate="0.1"),
    dummies=Dummies(intensity="0.5", population=3),
)


def test_devices_of_a_fleet_toss_at_the_rate_of_their_answer_as_agents_do() -> None:
    drawn = SeededEntropy(9)(16 * 400)
    answers = generator().integers(0, 3, 400)
    pieces = iter([drawn[at : at + 16] for at in range(0, len(drawn), 16)])
    one_by_one = [coin(UNEQUAL.rate_of(answer), lambda _size: next(pieces)) for answer in answers.tolist()]
    assert participation(UNEQUAL, answers, lambda _size: drawn).tolist() == one_by_one


@pytest.mark.false_alarm(4 * ALPHA, "four binomial tests")
def test_a_fleet_decides_by_answer_and_every_other_device_may_send_a_dummy() -> None:
    population = parse_population("uniform", 2)
    (chunk,) = decide(UNEQUAL, population, 7, COUNT, SeededEntropy(10), generator())
    held = population.of(7, COUNT, generator())
    devices = np.bincount(held, minlength=2)
    sampled, dummies = (
        np.bincount(np.asarray(chunk.answers, dtype=np.int64), minlength=2),
        np.bincount(held[chunk.dummies - 7], minlength=2),
    )
    assert held[chunk.sampled - 7].tolist() == chunk.answers
    assert not set(chunk.sampled.tolist()) & set(chunk.dummies.tolist())
    for answer, rate in enumerate((0.1, 0.4)):
        assert binomtest(int(sampled[answer]), int(devices[answer]), rate).pvalue > ALPHA
        silent = int(devices[answer] - sampled[answer])
        assert binomtest(int(dummies[answer]), silent, 1 / 6).pvalue > ALPHA


@pytest.mark.false_alarm(ALPHA, "a binomial test")
@pytest.mark.parametrize(("name", "max_weight"), [("krr", None), ("rappor", 2)])
def test_dummies_of_a_fleet_stand_among_its_reports_in_the_order_of_devices(name: str, max_weight: int | None) -> None:
    randomizer = randomizer_from(name, Decimal(1), 4, max_weight)
    (chunk,) = decide(UNEQUAL, parse_population("uniform", 4), 0, 2000, SeededEntropy(11), generator())
    answers, beyond = randomise(chunk, randomizer, SeededEntropy(12))
    sent, silent = with_dummies(chunk, answers, beyond, randomizer, UNEQUAL.dummy_rate, SeededEntropy(13))
    devices = [one.device for one in sent]
    filling = set(beyond) - set(silent)
    assert devices == sorted({one.device for one in answers} | set(chunk.dummies.tolist()) | filling)
    assert binomtest(len(filling), len(beyond), 1 / 6).pvalue > ALPHA if beyond else not filling
    assert bool(beyond) is (name == "rappor")
    if name == "rappor":
        assert all(len(addition_of(one.measurement, 4)) <= 2 for one in sent)


@pytest.mark.parametrize(("name", "cells"), [("krr", 6), ("rappor", 6), ("rr", 1)])
def test_randomised_answers_name_the_cells_that_they_add_to(name: str, cells: int) -> None:
    randomizer = randomizer_from(name, Decimal(1), 2 if name == "rr" else 6, 3 if name == "rappor" else None)
    population = parse_population("uniform", 2 if name == "rr" else 6)
    chunk = next(decide(Sampling(rate="1"), population, 0, 300, SeededEntropy(6), generator()))
    answers, beyond = randomise(chunk, randomizer, SeededEntropy(8))
    assert len(answers) + len(beyond) == 300
    assert bool(beyond) is (name == "rappor")
    for answer in answers:
        ones = addition_of(answer.measurement, cells)
        assert isinstance(ones, tuple)
        if isinstance(answer.measurement, list):
            assert [int(cell in ones) for cell in range(6)] == answer.measurement
        elif name == "krr":
            assert ones == (answer.measurement,)
        else:
            assert len(ones) == answer.measurement


@pytest.mark.false_alarm(2 * ALPHA, "two binomial tests")
def test_faults_come_at_their_shares() -> None:
    mix = parse_faults("bad-proof=0.1, late=0.02,slow=0.0")
    drawn = np.bincount(mix.draw(COUNT, generator(2)), minlength=len(Fault))
    assert drawn[Fault.SLOW] == 0
    assert drawn[[Fault.NONE, Fault.BAD_PROOF, Fault.LATE]].sum() == COUNT
    for fault, share in ((Fault.BAD_PROOF, 0.1), (Fault.LATE, 0.02)):
        assert binomtest(int(drawn[fault]), COUNT, share).pvalue > ALPHA


@pytest.mark.parametrize("text", ["proof=0.1", "late", "late=x", "late=2", "late=-0.1", "late=0.1,late=0.1"])
def test_a_mix_of_faults_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--faults"):
        parse_faults(text)
    with pytest.raises(UsageError, match="more than 1"):
        parse_faults("late=0.6,slow=0.6")


def test_churn_adds_devices_that_go_away_unless_the_mix_speaks_of_them() -> None:
    assert dict(FaultMix().with_churn().shares) == CHURN
    mix = dict(parse_faults("vanish=0.2,late=0.1").with_churn().shares)
    assert mix == {Fault.LATE: 0.1, Fault.ABORT: CHURN[Fault.ABORT], Fault.VANISH: 0.2}


@pytest.mark.false_alarm(2 * ALPHA, "two Kolmogorov-Smirnov tests")
def test_steady_and_churning_arrivals_are_a_poisson_process() -> None:
    for profile in (Profile.STEADY, Profile.CHURN):
        gaps = np.diff(arrivals(profile, COUNT, RATE, generator(3)))
        assert kstest(gaps, expon(scale=1 / RATE).cdf).pvalue > ALPHA


@pytest.mark.false_alarm(ALPHA, "chi-square")
def test_diurnal_arrivals_follow_the_curve() -> None:
    times = arrivals(Profile.DIURNAL, COUNT, RATE, generator(4))
    period = COUNT / RATE
    edges = np.linspace(0, period, 13)[:11]  # the last of so many arrivals may come before the period is over
    cumulative = edges - SWING * period / (2 * np.pi) * np.sin(2 * np.pi * edges / period)
    inside = times[times < edges[-1]]
    drawn, _ = np.histogram(inside, edges)
    expected = np.diff(cumulative) / cumulative[-1] * len(inside)
    assert chisquare(drawn, expected).pvalue > ALPHA
    assert drawn[5] > 5 * drawn[0]


@pytest.mark.false_alarm(ALPHA, "a normal beyond 4.5")
def test_bursts_keep_the_mean_rate_and_come_in_clusters() -> None:
    times = arrivals(Profile.BURST, COUNT, RATE, generator(5))
    clusters = COUNT / BURST_SIZE
    # of n clusters with geometric sizes and exponential gaps the length has a relative deviation of sqrt(2 / n)
    assert abs(times[-1] * RATE / COUNT - 1) < 4.5 * np.sqrt(2 / clusters)
    counts = np.bincount((times / BURST_SECONDS).astype(int))
    assert counts.var() > 5 * counts.mean()


@pytest.mark.parametrize("profile", Profile)
def test_arrivals_are_sorted_and_as_many_as_asked(profile: Profile) -> None:
    for count in (0, 1, 997):
        times: Sequence[float] = arrivals(profile, count, RATE, generator(6)).tolist()
        assert len(times) == count
        assert times == sorted(times)
        assert all(time >= 0 for time in times)
    assert arrivals(profile, 5, None, generator()).tolist() == [0.0] * 5
    with pytest.raises(UsageError, match="--rate"):
        arrivals(profile, 5, 0.0, generator())
