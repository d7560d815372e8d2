"""Fields, the XOF and polynomials in the Lagrange basis, against definitions written out the slow way."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import DecodeError
from tacit.vdaf.field import Field, Field64, Field128
from tacit.vdaf.polynomials import WireDomain, missing_value_rows, next_power_of_2, roots_of_unity
from tacit.vdaf.xof import XofTurboShake128

FIELDS: list[type[Field]] = [Field64, Field128]


class Field193(Field):
    """Small enough that the XOF meets values at and above the modulus."""

    MODULUS = 193
    ENCODED_SIZE = 1
    GENERATOR = 125
    GEN_ORDER = 64

    @classmethod
    def encode_vec(cls, vec: Sequence[int]) -> bytes:
        return bytes(vec)

    @classmethod
    def unpack(cls, data: bytes) -> list[int]:
        return list(data)


def _interpolate(field: type[Field], nodes: Sequence[int], values: Sequence[int], point: int) -> int:
    """The polynomial of least degree through the points, by Lagrange's formula."""
    modulus = field.MODULUS
    total = 0
    for i, node in enumerate(nodes):
        term = values[i]
        for j, other in enumerate(nodes):
            if i != j:
                term = term * (point - other) * field.inv(node - other) % modulus
        total += term
    return total % modulus


@pytest.mark.parametrize("field", FIELDS)
def test_vector_survives_encoding_and_has_fixed_size(field: type[Field]) -> None:
    vec = [0, 1, 2**32, field.MODULUS - 1]
    encoded = field.encode_vec(vec)
    assert len(encoded) == 4 * field.ENCODED_SIZE
    assert encoded[field.ENCODED_SIZE] == 1
    assert field.decode_vec(encoded) == vec
    assert field.decode_vec(b"") == []


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("excess", [0, 1])
def test_element_at_or_above_the_modulus_is_refused(field: type[Field], excess: int) -> None:
    encoded = (field.MODULUS + excess).to_bytes(field.ENCODED_SIZE, "little")
    with pytest.raises(DecodeError, match="modulus"):
        field.decode_vec(bytes(field.ENCODED_SIZE) + encoded)


@pytest.mark.parametrize("field", FIELDS)
def test_partial_element_is_refused(field: type[Field]) -> None:
    with pytest.raises(DecodeError, match="whole"):
        field.decode_vec(bytes(field.ENCODED_SIZE + 1))


@given(data=st.binary(max_size=64))
def test_arbitrary_bytes_decode_to_their_own_preimage_or_are_refused(data: bytes) -> None:
    for field in FIELDS:
        try:
            vec = field.decode_vec(data)
        except DecodeError:
            continue
        assert field.encode_vec(vec) == data


@pytest.mark.parametrize("field", FIELDS)
def test_roots_of_unity_have_exactly_their_order(field: type[Field]) -> None:
    for size in (1, 2, 4, 64):
        roots = roots_of_unity(field, size)
        assert len(set(roots)) == size
        assert all(pow(root, size, field.MODULUS) == 1 for root in roots)
        inverses = roots_of_unity(field, size, inverse=True)
        assert all(a * b % field.MODULUS == 1 for a, b in zip(roots, inverses, strict=True))


@pytest.mark.parametrize("order", [0, -1, 3, 2**33])
def test_root_of_an_order_that_does_not_exist_is_refused(order: int) -> None:
    with pytest.raises(ValueError, match="no principal root"):
        Field64.nth_root(order)


def test_vectors_of_different_length_are_not_added() -> None:
    with pytest.raises(ValueError, match="2 and 1"):
        Field64.add_vec([1, 2], [1])
    with pytest.raises(ValueError, match="2 and 1"):
        Field64.sub_vec([1, 2], [1])


def test_next_power_of_2() -> None:
    assert [next_power_of_2(n) for n in (1, 2, 3, 4, 5, 8, 9)] == [1, 2, 4, 4, 8, 8, 16]


@settings(max_examples=20, deadline=None)
@given(
    field=st.sampled_from(FIELDS),
    size=st.sampled_from([2, 4, 8]),
    step=st.sampled_from([1, 2, 4]),
    seed=st.integers(min_value=0),
)
def test_wire_domain_agrees_with_lagrange_interpolation(field: type[Field], size: int, step: int, seed: int) -> None:
    rng = random.Random(seed)
    width, modulus = 3, field.MODULUS
    wires = [rng.randrange(modulus) for _ in range(size * width)]
    domain = WireDomain(field, size, step, width)
    coarse, fine = roots_of_unity(field, size), roots_of_unity(field, size * step)
    grids = [wires, *domain.cosets(wires)]
    point = rng.randrange(modulus)
    weights = domain.weights(0, point)
    for wire in range(width):
        values = [0] * (size * step)
        for coset, grid in enumerate(grids):
            values[coset::step] = [value % modulus for value in grid[wire::width]]
        known = wires[wire::width]
        assert values == [_interpolate(field, coarse, known, at) for at in fine]
        expected = _interpolate(field, coarse, known, point)
        assert field.inner_product(weights, known) == expected
        assert domain.evaluate_fine(values, point, weights) == expected


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize(("known", "size"), [(8, 8), (7, 8), (5, 8), (10, 16)])
def test_missing_values_follow_from_the_known_ones(field: type[Field], known: int, size: int) -> None:
    rng = random.Random(7)
    roots = roots_of_unity(field, size)
    values = [rng.randrange(field.MODULUS) for _ in range(known)]
    rows = missing_value_rows(field, known, size)
    assert [field.inner_product(row, values) for row in rows] == [
        _interpolate(field, roots[:known], values, point) for point in roots[known:]
    ]


def test_xof_skips_blocks_that_are_not_below_the_modulus() -> None:
    stream = XofTurboShake128(bytes(32), b"dst", b"binder").next(400)
    assert max(stream) >= Field193.MODULUS
    vec = XofTurboShake128.expand_into_vec(Field193, bytes(32), b"dst", b"binder", 200)
    assert vec == [value for value in stream if value < Field193.MODULUS][:200]


def test_xof_output_is_one_stream_however_it_is_read() -> None:
    whole = XofTurboShake128(b"s" * 32, b"dst").next(300)
    parts = XofTurboShake128(b"s" * 32, b"dst")
    assert b"".join(parts.next(length) for length in (1, 0, 167, 132)) == whole
    assert XofTurboShake128.expand_into_vec(Field64, b"s" * 32, b"dst", b"", 0) == []


def test_xof_refuses_what_its_length_prefixes_cannot_hold() -> None:
    with pytest.raises(ValueError, match="tag of 65536"):
        XofTurboShake128(bytes(32), bytes(65536))
    with pytest.raises(ValueError, match="seed of 256"):
        XofTurboShake128(bytes(256), b"")
