"""Finite randomizers in exact arithmetic: Theorem 4.1, Claims 4.2 to 4.4 of Balcer and Cheu (2020), and the command."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from fractions import Fraction
from itertools import permutations, product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.cli import run
from infra.lab.shuffled.protocols import THE_MESSAGE
from infra.lab.shuffled.randomizers import Factor, FiniteRandomizer, Messages, Weights, epsilon_of, least_factor
from tacit.dp.rr_exact import epsilon_one_cell
from tacit.dp.shuffled_counts import epsilon_zsum

Capture = pytest.CaptureFixture[str]
DELTA = st.fractions(0, Fraction(1, 2), max_denominator=50)

ONES_OF_NOBODY = 2
"""How many of the four messages of a user with a 1 in ``gap`` are never 1."""


def swapped() -> FiniteRandomizer:
    """A user with a bit x sends x, then 1 - x (Claim 4.3). Its first message is the bit; all messages together are as
    many zeros as ones, whatever the bits are."""
    return FiniteRandomizer(tuple({(bit, 1 - bit): Fraction(1)} for bit in (0, 1)))


def gap() -> FiniteRandomizer:
    """A user sends four bits: with a 0 uniform ones, with a 1 uniform ones of which not exactly two are 1 (Claim 4.4).
    Two ones tell that a user by itself has a 0; from two users on, every number of ones is possible for all inputs."""
    every = list(product((0, 1), repeat=4))
    allowed = [bits for bits in every if sum(bits) != ONES_OF_NOBODY]
    return FiniteRandomizer(tuple(dict.fromkeys(some, Fraction(1, len(some))) for some in (every, allowed)))


def zsum_randomizer(p: Fraction) -> FiniteRandomizer:
    """The randomizer of zsum with the probability ``p`` of a noise message, above 0 and below 1."""
    return FiniteRandomizer(tuple({(THE_MESSAGE,) * bit: 1 - p, (THE_MESSAGE,) * (bit + 1): p} for bit in (0, 1)))


@st.composite
def single_message(draw: st.DrawFn, least: int = 0) -> FiniteRandomizer:
    """A randomizer with two or three inputs and messages, whose weights are at least ``least``."""
    columns = draw(st.integers(2, 3))
    weights = st.lists(st.integers(least, 9), min_size=columns, max_size=columns).filter(any)
    rows = draw(st.lists(weights, min_size=2, max_size=3))
    return FiniteRandomizer.single_message([[Fraction(one, sum(row)) for one in row] for row in rows])


def excess(one: dict[Messages, Fraction], other: dict[Messages, Fraction], factor: Fraction) -> Fraction:
    """The hockey stick of two laws."""
    shares = (share - factor * other.get(seen, Fraction(0)) for seen, share in one.items())
    return sum((share for share in shares if share > 0), start=Fraction(0))


def law_by_vectors(randomizer: FiniteRandomizer, values: tuple[int, ...]) -> dict[Messages, Fraction]:
    """What the shuffler shows, from every combination of what users send."""
    found: dict[Messages, Fraction] = defaultdict(Fraction)
    for sent in product(*(randomizer.laws[value].items() for value in values)):
        together = tuple(sorted(message for vector, _ in sent for message in vector))
        counts = tuple(together.count(message) for message in range(randomizer.messages))
        found[counts] += math.prod((share for _, share in sent), start=Fraction(1))
    return dict(found)


@settings(max_examples=60)
@given(single_message(), st.integers(1, 3), DELTA)
def test_the_factor_of_shuffled_messages_is_the_least_that_holds_for_all_neighbours(
    randomizer: FiniteRandomizer, users: int, delta: Fraction
) -> None:
    factor = randomizer.shuffled_factor(users, delta)
    pairs = [
        (law_by_vectors(randomizer, (one, *others)), law_by_vectors(randomizer, (other, *others)))
        for others in product(range(len(randomizer.laws)), repeat=users - 1)
        for one, other in permutations(range(len(randomizer.laws)), 2)
    ]
    if factor is None:
        assert max(excess(one, other, Fraction(10**9)) for one, other in pairs) > delta
        return
    assert max(excess(one, other, factor) for one, other in pairs) <= delta
    if factor > 1:
        less = 1 + (factor - 1) * Fraction(999_999, 1_000_000)
        assert max(excess(one, other, less) for one, other in pairs) > delta


@settings(max_examples=40)
@given(single_message(), st.lists(st.integers(0, 1), min_size=1, max_size=4))
def test_theorem_4_1_a_server_that_permutes_local_messages_sees_what_the_shuffler_shows(
    randomizer: FiniteRandomizer, values: list[int]
) -> None:
    shuffled = randomizer.multiset_law(values)
    assert shuffled == law_by_vectors(randomizer, tuple(values))
    assert sum(shuffled.values()) == 1
    # an analyzer that reads the messages in the order in which it gets them: the local server's is random
    orders = list(permutations(range(len(values))))
    local: dict[int, Fraction] = defaultdict(Fraction)
    for sent in product(*(randomizer.laws[value].items() for value in values)):
        share = math.prod((one for _, one in sent), start=Fraction(1))
        for order in orders:
            local[sent[order[0]][0][0]] += share / len(orders)
    first = {
        message: sum((share * seen[message] / len(values) for seen, share in shuffled.items()), start=Fraction(0))
        for message in range(randomizer.messages)
    }
    assert dict(local) == {message: share for message, share in first.items() if share}


@settings(max_examples=60)
@given(single_message(), st.integers(1, 4))
def test_claim_4_2_at_delta_0_shuffled_messages_tell_exactly_what_one_tells(
    randomizer: FiniteRandomizer, users: int
) -> None:
    assert randomizer.shuffled_factor(users) == randomizer.local_factor()


@settings(max_examples=30)
@given(single_message(least=1), st.fractions(Fraction(1, 1000), Fraction(1, 5), max_denominator=1000))
def test_at_a_delta_above_0_more_users_never_tell_more(randomizer: FiniteRandomizer, delta: Fraction) -> None:
    factors = [randomizer.shuffled_factor(users, delta) for users in (1, 2, 3, 4)]
    assert factors[0] == randomizer.local_factor(delta)
    finite = [factor for factor in factors if factor is not None]
    assert finite == sorted(finite, reverse=True)
    assert len(finite) == 4


def test_claim_4_3_two_messages_can_be_private_together_while_the_first_one_is_the_bit() -> None:
    randomizer = swapped()
    assert [randomizer.shuffled_factor(users) for users in (1, 2, 3)] == [1, 1, 1]
    assert randomizer.local_factor() is None
    assert randomizer.local_factor(Fraction(99, 100)) is None
    assert randomizer.pre_shuffled().local_factor() == 1


def test_claim_4_4_a_users_sorted_messages_can_tell_everything_where_two_users_messages_do_not() -> None:
    randomizer = gap()
    alone = randomizer.pre_shuffled()
    assert alone.local_factor() is None
    assert alone.local_factor(Fraction(6, 16)) is not None
    assert randomizer.shuffled_factor(1) is None
    laws = [randomizer.multiset_law(values) for values in product((0, 1), repeat=2)]
    assert all({seen[1] for seen in law} == set(range(9)) for law in laws)
    factors = [randomizer.shuffled_factor(users) for users in (2, 3)]
    assert all(factor is not None and 1 < factor < 50 for factor in factors)
    assert alone.shuffled_factor(2) == factors[0]


@pytest.mark.parametrize("delta", [Fraction(1, 10), Fraction(1, 1000)])
@pytest.mark.parametrize(("users", "p"), [(4, Fraction(1, 2)), (9, Fraction(2, 3)), (14, Fraction(7, 10))])
def test_zsum_enumerated_agrees_with_its_exact_accountant(users: int, p: Fraction, delta: Fraction) -> None:
    stated = epsilon_zsum(users, float(1 - p) * users, float(delta))
    assert epsilon_of(zsum_randomizer(p).shuffled_factor(users, delta)) == pytest.approx(stated, abs=2e-5)
    assert zsum_randomizer(p).shuffled_factor(users) is None


@pytest.mark.parametrize("users", [2, 5, 30])
def test_randomised_response_enumerated_is_what_its_accountant_rounds_up(users: int) -> None:
    matrix = [[Fraction(3, 4), Fraction(1, 4)], [Fraction(1, 4), Fraction(3, 4)]]
    factor = FiniteRandomizer.single_message(matrix).shuffled_factor(users, Fraction(1, 100))
    assert epsilon_of(factor) <= epsilon_one_cell(0.25, users, 0.01) <= 1.003 * epsilon_of(factor)


@pytest.mark.parametrize(
    ("factor", "epsilon"),
    [
        (None, math.inf),
        (Fraction(1), 0.0),
        (Fraction(10**400 + 1, 10**400), 0.0),
        (Fraction(10**400), 400 * math.log(10)),
    ],
)
def test_epsilon_is_the_logarithm_of_the_factor(factor: Factor, epsilon: float) -> None:
    assert epsilon_of(factor) == pytest.approx(epsilon, abs=1e-12)
    assert epsilon_of(1 + Fraction(1, 10**20)) == pytest.approx(1e-20)


def test_the_least_factor_of_laws_of_which_one_alone_has_an_output() -> None:
    one: Weights = {(0,): 3, (1,): 1}
    other: Weights = {(0,): 4}
    assert least_factor(one, other, Fraction(0)) is None
    assert least_factor(one, other, Fraction(1)) == 1
    assert least_factor(other, one, Fraction(0)) == Fraction(4, 3)
    assert least_factor(other, one, Fraction(1, 2)) == Fraction(7, 6)
    assert least_factor(one, one, Fraction(0)) == 1


def test_randomizers_that_are_none_and_enumerations_that_would_never_end_are_refused() -> None:
    half = Fraction(1, 2)
    for matrix, told in (
        ([[half, half]], "at least two inputs"),
        ([[half, half], [half]], "a probability for each message"),
        ([[half, half], [half, Fraction(1, 3)]], "input 2: the probabilities sum to 5/6"),
        ([[half, half], [-half, 3 * half]], "input 2: a probability is negative"),
    ):
        with pytest.raises(ValueError, match=told):
            FiniteRandomizer.single_message(matrix)
    with pytest.raises(ValueError, match="too many to enumerate"):
        FiniteRandomizer.single_message([[half, half]] * 2).shuffled_factor(10**6)
    with pytest.raises(ValueError, match="too many to enumerate"):
        FiniteRandomizer.single_message([[Fraction(1, 256)] * 256] * 64).shuffled_factor(1000)


def written(folder: Path, text: str) -> str:
    (folder / "matrix.json").write_text(text)
    return str(folder / "matrix.json")


def test_the_command_tells_that_shuffling_adds_nothing_to_pure_privacy(tmp_path: Path, capsys: Capture) -> None:
    name = written(tmp_path, '[["3/4", "1/4"], [0.25, 0.75]]')
    assert run(["privacy", "shuffle-check", name, "--n", "4", "--delta", "0.01", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["local"] == {"delta": 0.0, "epsilon": pytest.approx(math.log(3)), "factor": "3"}
    assert document["shuffled_pure"] == document["local"]
    assert document["shuffled"] == {"delta": 0.01, "epsilon": pytest.approx(1.0664972), "factor": "1961/675"}
    assert document["shuffling_adds_at_delta_0"] is False
    assert run(["privacy", "shuffle-check", name, "--n", "4", "--delta", "0.01"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "one message 0 1.098612 3" in shown
    assert "4 users, shuffled 0.01 1.066497 1961/675" in shown
    assert "shuffling adds nothing" in shown


def test_the_command_says_where_no_epsilon_is_enough_and_rounds_long_fractions(tmp_path: Path, capsys: Capture) -> None:
    name = written(tmp_path, "[[1, 0], [0.123456789012345678901, 0.876543210987654321099]]")
    assert run(["privacy", "shuffle-check", name, "--delta", "0.88", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["local"] == {"delta": 0.0, "epsilon": None, "factor": "infinite"}
    assert float(document["shuffled"]["factor"]) == pytest.approx(math.exp(document["shuffled"]["epsilon"]), rel=1e-6)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[[1, 0], [0.5, 0.4]]", "row 2 sums to 9/10, not to 1"),
        ("[[1, 0], [1.5, -0.5]]", "row 2, entry 2 must be a probability such as 0.25 or 1/4"),
        ('[[1, 0], ["1/0", 0.4]]', "row 2, entry 1 divides by 0"),
        ("[[1, 0], [NaN, 1]]", "row 2, entry 1 must be a probability"),
        ("[[1, 0], [1e999999, 1]]", "row 2, entry 1 must be a probability"),
        ("[[1, 0], [true, 0]]", "row 2, entry 1 must be a probability"),
        ("[[1, 0], 1]", "row 2 must be a list of 1 to 256 probabilities"),
        ("[[1, 0], [1]]", "row 2 has 1 probabilities, row 1 has 2"),
        ("[[1, 0]]", "from 2 to 64 of them"),
        ("{}", "from 2 to 64 of them"),
        ("[[1, 0], [", "not JSON; give a list of rows"),
        ("[" * 100_000, "not JSON; give a list of rows"),
    ],
)
def test_a_bad_row_is_named_in_one_line(tmp_path: Path, capsys: Capture, text: str, told: str) -> None:
    assert run(["privacy", "shuffle-check", written(tmp_path, text)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert told in line


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--delta", "1"], "give a decimal from 0 up to 1"),
        (["--delta", "x"], "give a decimal from 0 up to 1"),
        (["--delta", "1e-99999999"], "of at most 40 digits"),
        (["--n", "900"], "; --n 99 works"),
    ],
)
def test_what_cannot_be_enumerated_is_refused_in_one_line(
    tmp_path: Path, capsys: Capture, flags: list[str], told: str
) -> None:
    assert run(["privacy", "shuffle-check", written(tmp_path, "[[1, 0], [0.5, 0.5]]"), *flags]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line
