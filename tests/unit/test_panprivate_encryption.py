"""ElGamal over ristretto255: algebra, distributions, and what is refused."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.lab.kit.entropy import SeededEntropy
from tacit.errors import CryptoError, DecodeError
from tacit.panprivate.discrete_logarithm import MAX_VALUES, DiscreteLogarithm
from tacit.panprivate.elgamal import (
    Ciphertext,
    PrivateKey,
    PublicKey,
    add,
    ciphertext_size,
    decode_ciphertext,
    multiply,
)
from tacit.panprivate.embedding import CHUNK_SIZE, elements_for, embed, extract
from tacit.panprivate.ristretto import RISTRETTO255 as GROUP
from tacit.panprivate.state import _masks, chosen, encrypt_publicly, known_bit, next_cells

DRAW = SeededEntropy(b"panprivate_encryption")
KEY = PrivateKey.generate(DRAW)
PUBLIC = KEY.public_key()
ORDER = 2**252 + 27742317777372353535851937790883648493
FIELD_PRIME = 2**255 - 19

MULTIPLES = (
    "0000000000000000000000000000000000000000000000000000000000000000",
    "e2f2ae0a6abc4e71a884a961c500515f58e30b6aa582dd8db6a65945e08d2d76",
    "6a493210f7499cd17fecb510ae0cea23a110e8d5b901f8acadd3095c73a3b919",
)
"""The identity, the generator and twice the generator (RFC 9496, appendix A.1)."""
BAD_FORMS = (
    "00ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "f3ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "26948d35ca62e643e26a83177332e6b6afeb9d08e4268b650f1f5bbd8d81d371",
)
"""Not canonical, negative, or of no point (RFC 9496, appendix A.2)."""

numbers = st.integers(-(2**40), 2**40)


def encrypt_number(number: bytes) -> Ciphertext:
    """Encrypt a scalar in the exponent, that is, the scalar's multiple of the generator."""
    return PUBLIC.encrypt(GROUP.times_base(number), DRAW)


@pytest.mark.parametrize("number", range(3))
def test_small_multiples_of_the_generator_are_those_of_rfc_9496(number: int) -> None:
    assert GROUP.times_base(GROUP.scalar(number)).hex() == MULTIPLES[number]


@pytest.mark.parametrize("form", BAD_FORMS)
def test_bytes_that_are_no_element_are_refused_instead_of_read_as_the_identity(form: str) -> None:
    with pytest.raises(DecodeError):
        GROUP.checked_element(bytes.fromhex(form))


@given(numbers, numbers, numbers)
@settings(max_examples=40, deadline=None)
def test_sums_and_multiples_of_ciphertexts_hold_sums_and_multiples(first: int, second: int, factor: int) -> None:
    one, two = (encrypt_number(GROUP.scalar(number)) for number in (first, second))
    held = KEY.decrypt(add(multiply(GROUP.scalar(factor), one), two))
    assert held == GROUP.times_base(GROUP.scalar(factor * first + second))


@given(numbers)
@settings(max_examples=40, deadline=None)
def test_a_rerandomised_ciphertext_holds_the_same_and_shares_no_element_with_the_old_one(number: int) -> None:
    old = encrypt_number(GROUP.scalar(number))
    new = PUBLIC.rerandomise(old, DRAW)
    assert KEY.decrypt(new) == KEY.decrypt(old) == GROUP.times_base(GROUP.scalar(number))
    assert new.ephemeral != old.ephemeral
    assert new.masked != old.masked


@given(numbers, st.binary(min_size=64, max_size=64))
@settings(max_examples=20, deadline=None)
def test_rerandomising_with_r_makes_exactly_the_fresh_encryption_whose_r_is_the_sum(number: int, drawn: bytes) -> None:
    """For every starting point the map from the drawn r to the new one is a shift of the whole group of scalars: a
    rerandomised ciphertext is distributed as a fresh one, exactly."""
    start = DRAW(64)
    element = GROUP.times_base(GROUP.scalar(number))
    old = PUBLIC.encrypt(element, lambda _: start)
    new = PUBLIC.rerandomise(old, lambda _: drawn)
    total = (int.from_bytes(start, "little") + int.from_bytes(drawn, "little")) % ORDER
    r = GROUP.scalar(total)
    assert new == Ciphertext(GROUP.times_base(r), GROUP.add(element, GROUP.times(r, PUBLIC.element)))


@pytest.mark.false_alarm(1.8e-8, "chi-square with 15 degrees of freedom above 66.6")
def test_scalars_are_spread_over_the_whole_order() -> None:
    cells = Counter(int.from_bytes(GROUP.random_scalar(DRAW), "little") * 16 // ORDER for _ in range(4000))
    assert sum((cells[cell] - 250) ** 2 / 250 for cell in range(16)) < 66.6


def test_bits_are_decrypted_and_anything_else_is_refused() -> None:
    for bit in (0, 1):
        assert KEY.open_bit(encrypt_number(GROUP.scalar(bit)).encode()) == bit
    for number in (-1, 2, 2**200):
        with pytest.raises(CryptoError, match="not decrypt to a bit"):
            KEY.open_bit(encrypt_number(GROUP.scalar(number)).encode())


@given(numbers)
@settings(max_examples=25, deadline=None)
def test_opening_bytes_gives_what_decoding_and_decrypting_them_gives(number: int) -> None:
    ciphertext = encrypt_number(GROUP.scalar(number))
    assert KEY.open(ciphertext.encode()) == KEY.decrypt(ciphertext) == GROUP.times_base(GROUP.scalar(number))


def test_bytes_that_hold_no_bit_or_no_ciphertext_are_opened_as_neither() -> None:
    for bit in (0, 1):
        assert KEY.open_bit(encrypt_number(GROUP.scalar(bit)).encode()) == bit
    good = encrypt_number(GROUP.scalar(1))
    with pytest.raises(CryptoError, match="not decrypt to a bit"):
        KEY.open_bit(encrypt_number(GROUP.scalar(2)).encode())
    for form in map(bytes.fromhex, BAD_FORMS):
        for opened in (KEY.open, KEY.open_bit):
            with pytest.raises(DecodeError, match="canonical"):
                opened(form + good.masked)
        with pytest.raises(DecodeError, match="canonical"):
            KEY.open(good.ephemeral + form)
        with pytest.raises(CryptoError, match="not decrypt to a bit"):
            KEY.open_bit(good.ephemeral + form)
    for opened in (KEY.open, KEY.open_bit):
        with pytest.raises(DecodeError, match="other than the identity"):
            opened(known_bit(1).encode())
        for length in (0, 63, 65):
            with pytest.raises(DecodeError, match="not a ciphertext"):
                opened(good.encode().ljust(65, b"\0")[:length])


@given(st.integers(-500, 500), st.integers(0, 700), st.data())
@settings(max_examples=40, deadline=None)
def test_every_number_of_a_range_is_found_and_its_neighbours_are_refused(
    low: int, width: int, data: st.DataObject
) -> None:
    logarithm = DiscreteLogarithm(low, low + width)
    number = data.draw(st.integers(low, low + width))
    assert logarithm.of(GROUP.times_base(GROUP.scalar(number))) == number
    for outside in (low - 1, low + width + 1):
        with pytest.raises(CryptoError, match="not decrypt to a number in the expected range"):
            logarithm.of(GROUP.times_base(GROUP.scalar(outside)))


def test_ranges_that_are_empty_or_too_wide_are_refused() -> None:
    for low, high in ((1, 0), (0, MAX_VALUES)):
        with pytest.raises(ValueError, match="must"):
            DiscreteLogarithm(low, high)


@given(st.binary(max_size=3 * CHUNK_SIZE + 1))
@settings(max_examples=100, deadline=None)
def test_byte_strings_come_back_from_the_elements_that_carry_them(data: bytes) -> None:
    elements = embed(data)
    assert len(elements) == elements_for(len(data))
    assert all(GROUP.checked_element(element) == element for element in elements)
    held = [KEY.decrypt(PUBLIC.rerandomise(PUBLIC.encrypt(element, DRAW), DRAW)) for element in elements]
    assert extract(held, len(data)) == data


def test_elements_of_another_number_or_with_a_filling_that_is_not_zero_are_refused() -> None:
    elements = embed(b"x" * 31)
    with pytest.raises(DecodeError, match="do not carry"):
        extract(elements, 61)
    with pytest.raises(DecodeError, match="padding"):
        extract(embed(b"x" * 60), 59)


@given(numbers)
@settings(max_examples=20, deadline=None)
def test_ciphertexts_come_back_from_their_bytes(number: int) -> None:
    ciphertext = encrypt_number(GROUP.scalar(number))
    encoded = ciphertext.encode()
    assert len(encoded) == ciphertext_size()
    assert decode_ciphertext(encoded) == ciphertext


@pytest.mark.parametrize("length", [0, 32, 63, 65])
def test_ciphertexts_of_another_length_are_refused(length: int) -> None:
    with pytest.raises(DecodeError, match="not a ciphertext"):
        decode_ciphertext(bytes(length))


def test_ciphertexts_off_the_group_or_in_the_clear_are_refused() -> None:
    good = encrypt_number(GROUP.scalar(1))
    for form in BAD_FORMS:
        for ciphertext in (
            Ciphertext(bytes.fromhex(form), good.masked),
            Ciphertext(good.ephemeral, bytes.fromhex(form)),
        ):
            with pytest.raises(DecodeError):
                decode_ciphertext(ciphertext.encode())
    with pytest.raises(DecodeError, match="in the clear"):
        decode_ciphertext(known_bit(1).encode())


def test_the_generator_is_what_the_base_is_multiplied_by() -> None:
    assert GROUP.generator == GROUP.times_base(GROUP.scalar(1))


def test_keys_that_would_hide_nothing_are_refused() -> None:
    with pytest.raises(DecodeError, match="not a valid public key"):
        PublicKey(GROUP.identity)
    with pytest.raises(DecodeError, match="not a valid private key"):
        PrivateKey(bytes(32))
    with pytest.raises(DecodeError, match="must be below the order"):
        PrivateKey(ORDER.to_bytes(32, "little"))


def test_neither_keys_nor_ciphertexts_show_their_bytes() -> None:
    ciphertext = encrypt_number(GROUP.scalar(1))
    assert repr(ciphertext) == "Ciphertext()"
    assert repr(KEY) == "PrivateKey()"


@given(st.integers(0, 1), st.binary(min_size=32, max_size=32), st.binary(min_size=32, max_size=32))
def test_choosing_takes_the_first_for_one_and_the_second_for_zero(bit: int, one: bytes, zero: bytes) -> None:
    first, second = Ciphertext(one, zero), Ciphertext(zero, one)
    assert chosen(bit, first, second) == (first if bit else second)


@pytest.mark.parametrize("number", [2, 3, 1 << 64, -1, -2, -3])
def test_choosing_by_anything_but_a_bit_is_refused(number: int) -> None:
    with pytest.raises(ValueError, match="0 or 1"):
        chosen(number, known_bit(0), known_bit(1))


@pytest.mark.parametrize("size", [32, 64])
def test_choosing_computes_with_numbers_of_one_length_for_both_choices(size: int) -> None:
    drawn = DRAW(size)
    for number in (0, 1, int.from_bytes(drawn, "big")):
        lengths = {(mask & (number | 1 << 8 * size)).bit_length() for *masks, _ in _masks(size) for mask in masks}
        assert lengths == {8 * size + 1}


@pytest.mark.parametrize("half", ["ephemeral", "masked"])
def test_what_is_no_element_is_not_rerandomised_to_a_plaintext_in_the_clear(half: str) -> None:
    broken = replace(PUBLIC.rerandomise(known_bit(1), DRAW), **{half: b"\xff" * 32})
    with pytest.raises(CryptoError, match="not a ciphertext"):
        PUBLIC.rerandomise(broken, DRAW)


@pytest.mark.parametrize("event", [0, 1])
def test_a_step_replaces_every_cell_whether_or_not_anything_happened(event: int) -> None:
    before = tuple(PUBLIC.rerandomise(known_bit(bit), DRAW) for bit in (0, 1, 0))
    after = next_cells(event, before, (known_bit(1), *before[:2]), PUBLIC, DRAW)
    assert [KEY.open_bit(cell.encode()) for cell in after] == ([1, 0, 1] if event else [0, 1, 0])
    old, new = ({half for cell in cells for half in (cell.ephemeral, cell.masked)} for cells in (before, after))
    assert len(new) == 6
    assert not old & new


def test_what_everybody_can_read_becomes_a_fresh_encryption_by_one_rerandomisation() -> None:
    drawn = DRAW(64)
    element = embed(b"share")[0]
    assert PUBLIC.rerandomise(encrypt_publicly(element), lambda _: drawn) == PUBLIC.encrypt(element, lambda _: drawn)
