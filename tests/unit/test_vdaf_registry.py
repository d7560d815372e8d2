"""DAP's VDAF configurations, and the choice of the chunk length."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import DecodeError
from tacit.vdaf.chunks import chunk_length_for
from tacit.vdaf.circuits import Count
from tacit.vdaf.field import Field64
from tacit.vdaf.l1_bound_sum import Prio3L1BoundSum
from tacit.vdaf.prio3 import (
    Prio3,
    Prio3Count,
    Prio3Histogram,
    Prio3MultihotCountVec,
    Prio3Sum,
    Prio3SumVec,
)
from tacit.vdaf.registry import (
    MAX_ELEMENTS,
    vdaf_configuration,
    vdaf_from_configuration,
)

ENCODED: list[tuple[Prio3[Any], str]] = [
    (Prio3Count(2), ""),
    (Prio3Sum(2, 1337), "0000000000000539"),
    (Prio3SumVec(2, 10, 255, 9), "0000000a00000000000000ff00000009"),
    (Prio3Histogram(2, 16, 6), "0000001000000006"),
    (Prio3MultihotCountVec(2, 16, 8, 5), "00000010000000050000000000000008"),
    (Prio3L1BoundSum(2, 10, 240, 9), "0000000a00000000000000f000000009"),
]


@pytest.mark.parametrize(("vdaf", "encoded"), ENCODED)
def test_configuration_survives_its_encoding(vdaf: Prio3[Any], encoded: str) -> None:
    assert vdaf_configuration(vdaf).hex() == encoded
    again = vdaf_from_configuration(vdaf.ID, bytes.fromhex(encoded))
    assert type(again) is type(vdaf)
    assert again.SHARES == 2
    assert again.flp.MEAS_LEN == vdaf.flp.MEAS_LEN
    assert again.flp.PROOF_LEN == vdaf.flp.PROOF_LEN
    assert vdaf_configuration(again).hex() == encoded


@pytest.mark.parametrize(("vdaf", "encoded"), ENCODED)
def test_configuration_with_missing_or_trailing_bytes_is_refused(vdaf: Prio3[Any], encoded: str) -> None:
    for wrong in {encoded + "00", encoded[:-2]} - {encoded}:
        with pytest.raises(DecodeError):
            vdaf_from_configuration(vdaf.ID, bytes.fromhex(wrong))


@pytest.mark.parametrize("vdaf_type", [0, 6, 8, 0xFFFF0000, 0xFFFFFFFF])
def test_unknown_type_is_refused(vdaf_type: int) -> None:
    with pytest.raises(DecodeError, match="not known"):
        vdaf_from_configuration(vdaf_type, b"")


@pytest.mark.parametrize(
    ("vdaf_type", "encoded", "message"),
    [
        (2, "0000000000000000", "max_measurement must be between"),
        (2, "ffffffffffffffff", "max_measurement must be between"),
        (4, "0000000000000006", "length must be at least 1"),
        (4, "0000001000000000", "chunk_length must be at least 1"),
        (7, "00000000000000000000000900000001", "length must be from 1"),
        (7, "00000004000000000000000000000001", "max_value must be between"),
        (5, "00000004000000020000000000000005", "above the length"),
        (4, "ffffffff00000001", f"more than {MAX_ELEMENTS} elements"),
        (4, "00000010ffffffff", f"more than {MAX_ELEMENTS} elements"),
        (3, "ffffffffffffffffffffffffffffffff", f"more than {MAX_ELEMENTS} elements"),
    ],
)
def test_parameters_that_cannot_be_run_are_refused(vdaf_type: int, encoded: str, message: str) -> None:
    with pytest.raises(DecodeError, match=message):
        vdaf_from_configuration(vdaf_type, bytes.fromhex(encoded))


@given(vdaf_type=st.integers(0, 8), configuration=st.binary(max_size=20))
def test_arbitrary_configuration_is_understood_or_refused(vdaf_type: int, configuration: bytes) -> None:
    try:
        vdaf = vdaf_from_configuration(vdaf_type, configuration)
    except DecodeError:
        return
    assert vdaf_configuration(vdaf) == configuration


def test_instance_without_a_dap_encoding_is_refused() -> None:
    with pytest.raises(ValueError, match="2 aggregators, not 3"):
        vdaf_configuration(Prio3Count(3))
    with pytest.raises(ValueError, match="Prio3 has no DAP configuration"):
        vdaf_configuration(Prio3(Count(Field64), 1, 2))


@pytest.mark.parametrize(("elements", "chunk_length"), [(1, 1), (16, 6), (256, 18), (1000, 33)])
def test_chunk_length_fills_the_wire_polynomials(elements: int, chunk_length: int) -> None:
    assert chunk_length_for(elements) == chunk_length


@given(elements=st.integers(1, 600))
def test_no_chunk_length_gives_a_shorter_proof(elements: int) -> None:
    best = Prio3Histogram(2, elements, chunk_length_for(elements)).flp.PROOF_LEN
    candidates = range(1, elements + 1, 1 + elements // 40)
    assert best == min(best, *(Prio3Histogram(2, elements, chunk).flp.PROOF_LEN for chunk in candidates))


def test_chunk_length_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="not 0"):
        chunk_length_for(0)
