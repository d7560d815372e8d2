"""Prio3L2BoundSum: vectors of bounded length, with noise that is only range-checked."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.lab.kit.entropy import SeededEntropy
from tacit.vdaf.chunks import chunk_length_for
from tacit.vdaf.field import Field128
from tacit.vdaf.flp import FlpBBCGGI19, VerifyError
from tacit.vdaf.l2_bound_sum import ALGORITHM_ID, L2BoundSum, Prio3L2BoundSum
from tacit.vdaf.registry import vdaf_configuration, vdaf_from_configuration
from tacit.vdaf.release import added_up
from tacit.vdaf.vector_bounds import VectorBounds

DRAW = SeededEntropy(b"vdaf_l2_bound_sum")
CTX = b"a task"
P = Field128.MODULUS
ROOT = pow(7, (P - 1) // 4, P)
"""A square root of -1: squares of field elements can cancel, those of small integers cannot."""


def _elements(count: int) -> list[int]:
    return [int.from_bytes(DRAW(16)) % P for _ in range(count)]


def _split(elements: Sequence[int], shares: int) -> list[list[int]]:
    others = [_elements(len(elements)) for _ in range(shares - 1)]
    return [[(e - sum(column)) % P for e, *column in zip(elements, *others, strict=True)], *others]


class Proved:
    """An encoding with a proof, changed or not, as any number of verifiers judge it."""

    def __init__(self, flp: FlpBBCGGI19[Sequence[int]], meas: Sequence[int]) -> None:
        self.flp, self.meas = flp, list(meas)
        self.joint = _elements(flp.JOINT_RAND_LEN)
        self.proof = flp.prove(self.meas, _elements(flp.PROVE_RAND_LEN), self.joint)

    def holds(self, shares: int = 2) -> bool:
        query = _elements(self.flp.QUERY_RAND_LEN)
        pairs = zip(_split(self.meas, shares), _split(self.proof, shares), strict=True)
        verifiers = [self.flp.query(meas, proof, query, self.joint, shares) for meas, proof in pairs]
        return self.flp.decide([sum(column) % P for column in zip(*verifiers, strict=True)])


def _flp(bounds: VectorBounds, chunk_length: int) -> FlpBBCGGI19[Sequence[int]]:
    return FlpBBCGGI19(L2BoundSum(Field128, bounds, chunk_length))


def _is_valid(bounds: VectorBounds, meas: Sequence[int]) -> bool:
    """The statement itself, from the definition of the encoding: weights 1, 2, 4, ... and the rest."""

    def numbers(bits: Sequence[int], maximum: int) -> list[int]:
        size = maximum.bit_length()
        weights = [*(1 << k for k in range(size - 1)), maximum - (1 << size - 1) + 1]
        return [
            sum(w * b for w, b in zip(weights, bits[at : at + size], strict=True)) for at in range(0, len(bits), size)
        ]

    if any(element not in (0, 1) for element in meas):
        return False
    end = bounds.length * bounds.max_value.bit_length()
    values = numbers(meas[:end], bounds.max_value)
    (square,) = numbers(meas[-bounds.max_square.bit_length() :], bounds.max_square)
    return sum((value - bounds.centre) ** 2 for value in values) == square


TINY = [
    (VectorBounds(1, 2, 1, 1, flips=1), 2, (0, 1, 2, P - 1, (P + 1) // 2)),
    (VectorBounds(2, 1, 0, 1), 1, (0, 1, 2, P - 1, ROOT, P - ROOT, (P + 1) // 2)),
    (VectorBounds(2, 1, 1, 2), 3, (0, 1, 2, P - 1, ROOT)),
    (VectorBounds(1, 3, 0, 4), 4, (0, 1, P - 1)),
]


@pytest.mark.parametrize(("bounds", "chunk_length", "elements"), TINY)
def test_of_all_encodings_of_a_tiny_instance_exactly_the_valid_ones_are_accepted(
    bounds: VectorBounds, chunk_length: int, elements: tuple[int, ...]
) -> None:
    flp = _flp(bounds, chunk_length)
    valid = 0
    for meas in itertools.product(elements, repeat=flp.MEAS_LEN):
        expected = _is_valid(bounds, meas)
        valid += expected
        assert Proved(flp, meas).holds() == expected, meas
    assert valid


bounded = st.builds(
    lambda length, most, centre, square, scale, flips: VectorBounds(
        length, most, min(centre, most), square, scale, flips
    ),
    st.integers(1, 6),
    st.integers(1, 40),
    st.integers(0, 40),
    st.integers(1, 9000),
    st.integers(1, 3),
    st.integers(0, 9),
)


@st.composite
def _instances(draw: st.DrawFn) -> tuple[VectorBounds, int, Sequence[int]]:
    bounds = draw(bounded)
    values = draw(st.lists(st.integers(0, bounds.max_value), min_size=bounds.length, max_size=bounds.length))
    if bounds.square(values) > bounds.max_square:
        values = [bounds.centre] * bounds.length
    count = bounds.length if bounds.flips else 0
    noises = draw(st.lists(st.integers(0, bounds.flips), min_size=count, max_size=count))
    return bounds, draw(st.integers(1, 50)), [*values, *noises]


@given(_instances(), st.sampled_from((2, 3)))
@settings(max_examples=40, deadline=None)
def test_vectors_verify_and_add_up_with_their_noise(
    instance: tuple[VectorBounds, int, Sequence[int]], count: int
) -> None:
    bounds, chunk_length, measurement = instance
    vdaf = Prio3L2BoundSum(count, bounds, chunk_length)
    nonce, key = DRAW(16), DRAW(32)
    public, shares = vdaf.shard(CTX, measurement, nonce, DRAW(vdaf.RAND_SIZE))
    encoded = [vdaf.encode_input_share(share) for share in shares]
    again = [vdaf.decode_input_share(agg_id, share) for agg_id, share in enumerate(encoded)]
    assert [vdaf.encode_input_share(share) for share in again] == encoded
    states, verifiers = zip(
        *(vdaf.verify_init(key, CTX, agg_id, None, nonce, public, share) for agg_id, share in enumerate(again)),
        strict=True,
    )
    message = vdaf.verifier_shares_to_message(CTX, None, verifiers)
    outs = [vdaf.verify_next(CTX, state, message) for state in states]
    values, noises = measurement[: bounds.length], measurement[bounds.length :]
    expected = [bounds.scale * v + f for v, f in zip(values, noises or [0] * len(values), strict=True)]
    assert vdaf.unshard(None, outs, 1) == expected


@given(_instances())
@settings(max_examples=60, deadline=None)
def test_configurations_come_back_from_their_bytes(instance: tuple[VectorBounds, int, Sequence[int]]) -> None:
    bounds, chunk_length, _ = instance
    again = vdaf_from_configuration(ALGORITHM_ID, vdaf_configuration(Prio3L2BoundSum(2, bounds, chunk_length)))
    assert isinstance(again, Prio3L2BoundSum)
    assert (again.bounds, again.chunk_length) == (bounds, chunk_length)


BOUNDS = VectorBounds(4, 14, 7, 100, scale=2, flips=5)
EDGE = [13, 7 + 8, 7, 7]


def _bits(bounds: VectorBounds, values: Sequence[int], square: int) -> list[int]:
    """An encoding that states ``square``, whatever the values are."""
    circuit = L2BoundSum(Field128, bounds, 3)
    noises = circuit.noise.encode(bounds.flips) * bounds.length if circuit.noise else []
    return [*(bit for v in values for bit in circuit.integers.encode(v)), *noises, *circuit.square.encode(square)]


@pytest.mark.parametrize("shares", [2, 3])
def test_a_vector_at_the_bound_passes_and_one_unit_more_does_not(shares: int) -> None:
    flp = _flp(BOUNDS, 3)
    at, beyond = [13, 14, 10, 9], [13, 14, 10, 10]
    assert (BOUNDS.square(at), BOUNDS.square(beyond)) == (98, 103)
    exact = VectorBounds(4, 14, 7, 98)
    assert Proved(_flp(exact, 3), _bits(exact, at, 98)).holds(shares)
    less = VectorBounds(4, 14, 7, 97)
    with pytest.raises(ValueError, match="squared length above 97"):
        _flp(less, 3).encode(at)
    assert not Proved(_flp(less, 3), _bits(less, at, 97)).holds(shares)
    assert not any(Proved(flp, _bits(BOUNDS, beyond, square)).holds(shares) for square in (0, 98, 100))
    assert not Proved(flp, _bits(BOUNDS, at, 97)).holds(shares)


def test_a_vector_that_wraps_around_the_field_does_not_pass() -> None:
    bounds = VectorBounds(2, 1, 0, 1)
    flp = _flp(bounds, 2)
    for values in ([ROOT, 1], [ROOT, P - 1], [P - 1, 0], [(P + 1) // 2, (P + 1) // 2]):
        for square in (0, 1):
            assert not Proved(flp, [*values, square]).holds()
    far = P - 100
    assert not Proved(flp, [1, 1, 2]).holds()
    assert not Proved(flp, [1, far, (1 + far * far) % P]).holds()


@pytest.mark.parametrize("shares", [2, 3])
def test_a_forged_sum_of_squares_does_not_pass(shares: int) -> None:
    bounds = VectorBounds(4, 14, 7, 50)
    flp = _flp(bounds, 3)
    circuit = flp.circuit
    values = [14, 7, 7, 5]
    made = Proved(flp, _bits(bounds, values, 50))
    outputs = made.proof[flp.PROVE_RAND_LEN :]
    squares = [2 * (call + 1) for call in range(circuit.JOINT_RAND_LEN, circuit.calls)]
    assert sum(outputs[at] for at in squares) % P == bounds.square(values) == 53
    assert not made.holds(shares)
    for at in squares:
        forged = Proved(flp, made.meas)
        forged.proof[flp.PROVE_RAND_LEN + at] = (forged.proof[flp.PROVE_RAND_LEN + at] - 3) % P
        verdicts = circuit.outputs(forged.meas, forged.proof[flp.PROVE_RAND_LEN + 2 :: 2][: circuit.calls], 1)
        assert verdicts == [0, 0]
        assert not forged.holds(shares)


def test_noise_is_not_part_of_the_length_but_must_be_in_its_range() -> None:
    circuit = L2BoundSum(Field128, BOUNDS, 3)
    flp = FlpBBCGGI19(circuit)
    assert Proved(flp, circuit.encode([7] * 4 + [5, 0, 5, 0])).holds()
    with pytest.raises(ValueError, match="not an integer between 0 and 5"):
        circuit.encode([7] * 4 + [6, 0, 0, 0])
    meas = circuit.encode([7] * 4 + [0] * 4)
    for at in range(4 * 4, 4 * 4 + 4 * 3):
        assert not Proved(flp, [*meas[:at], 2, *meas[at + 1 :]]).holds()


@pytest.mark.parametrize(
    "measurement",
    [[7] * 7, [7] * 9, [7] * 4, 7, [15, 7, 7, 7] + [0] * 4, [14, 14, 14, 7] + [0] * 4, [7] * 7 + [6]],
)
def test_measurements_out_of_the_domain_are_refused(measurement: Any) -> None:
    vdaf = Prio3L2BoundSum(2, BOUNDS, 3)
    with pytest.raises(ValueError, match=r"^a measurement "):
        vdaf.shard(CTX, measurement, bytes(16), bytes(vdaf.RAND_SIZE))


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ((0, 1, 0, 1), "length must be"),
        ((1 << 32, 1, 0, 1), "length must be"),
        ((2, 5, 6, 1), "centre must be"),
        ((2, 5, -1, 1), "centre must be"),
        ((2, 5, 1, 1 << 64), "max_square must be at most"),
        ((2, 5, 1, 1, 0), "scale"),
        ((2, 5, 1, 1, 1, -1), "scale"),
        ((2, (1 << 64) - 1, 1, 1, 2), "max_square must be at most"),
        ((2, (1 << 64) - 1, 0, 1), "could wrap around"),
        ((1 << 20, 1 << 54, 0, 1), "could wrap around"),
    ],
)
def test_bounds_that_could_wrap_or_cannot_be_stated_are_refused(numbers: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        VectorBounds(*numbers)


def test_the_largest_bounds_that_cannot_wrap_are_allowed_and_an_empty_square_is_not() -> None:
    assert VectorBounds(1 << 20, (1 << 54) - 1, 0, 1).reach == (1 << 54) - 1
    with pytest.raises(ValueError, match="max_square must be between 1"):
        Prio3L2BoundSum(2, VectorBounds(2, 1, 0, 0), 3)
    with pytest.raises(ValueError, match="chunk_length must be at least 1"):
        Prio3L2BoundSum(2, VectorBounds(2, 1, 0, 1), 0)


def test_a_sum_is_released_only_if_that_many_vectors_can_have_it() -> None:
    vdaf = Prio3L2BoundSum(2, VectorBounds(2, 20, 10, 25, scale=2, flips=3), 4)
    middle = 3 * 2 * 10
    for values, slack, plausible in (
        ([middle + 30, middle], 0, True),
        ([middle + 39, middle + 9], 0, True),
        ([middle + 40, middle], 0, False),
        ([middle + 40, middle], 1, True),
        ([middle - 30, middle], 0, True),
        ([middle - 31, middle], 0, False),
        ([middle + 39, middle + 39], 0, False),
        ([-1, middle], 0, False),
    ):
        shares = [[value % P for value in values], [0, 0]]
        if plausible:
            assert added_up(vdaf, shares, 3, slack) == tuple(values)
        else:
            with pytest.raises(ValueError, match="cannot be the sum"):
                added_up(vdaf, shares, 3, slack)


@pytest.mark.parametrize(("elements", "squares"), [(5, 1), (70, 10), (900, 100), (110_000, 10_000)])
def test_the_chosen_chunk_makes_the_shortest_proof(elements: int, squares: int) -> None:
    def proof(chunk: int) -> int:
        calls = -(-elements // chunk) - (-squares // chunk)
        return 2 * chunk + 2 * (1 << calls.bit_length()) - 1

    found = chunk_length_for(elements, squares)
    assert proof(found) == min(map(proof, range(1, elements + squares + 1)))


def test_a_tampered_share_is_rejected() -> None:
    vdaf = Prio3L2BoundSum(2, BOUNDS, 3)
    public, shares = vdaf.shard(CTX, [7, 8, 9, 10, 1, 2, 3, 4], bytes(16), DRAW(vdaf.RAND_SIZE))
    encoded = bytearray(vdaf.encode_input_share(shares[0]))
    encoded[16 * (vdaf.flp.MEAS_LEN - 1)] ^= 1
    shares = [vdaf.decode_input_share(0, bytes(encoded)), shares[1]]
    key = DRAW(32)
    verifiers = [
        vdaf.verify_init(key, CTX, agg_id, None, bytes(16), public, share)[1] for agg_id, share in enumerate(shares)
    ]
    with pytest.raises(VerifyError):
        vdaf.verifier_shares_to_message(CTX, None, verifiers)
