"""The error-correcting code of items: what it guarantees, and what it does beyond."""

from __future__ import annotations

import random
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.methods.succinct_histogram.code import INNER_BITS, INNER_DISTANCE, ItemCode
from tacit.methods.succinct_histogram.reed_solomon import ReedSolomon, inverse, multiply

SIZES = st.sampled_from([1, 7, 8, 12, 16, 24, 32, 40, 48, 56, 63, 64])


@given(st.integers(0, 255), st.integers(0, 255), st.integers(0, 255))
def test_the_field_is_one(a: int, b: int, c: int) -> None:
    assert multiply(a, b) == multiply(b, a)
    assert multiply(a, multiply(b, c)) == multiply(multiply(a, b), c)
    assert multiply(a, b ^ c) == multiply(a, b) ^ multiply(a, c)
    assert multiply(a, 1) == a
    if a:
        assert multiply(a, inverse(a)) == 1


def test_zero_has_no_inverse() -> None:
    with pytest.raises(ZeroDivisionError):
        inverse(0)


@given(st.data())
def test_reed_solomon_corrects_every_error_and_erasure_that_its_distance_allows(data: st.DataObject) -> None:
    symbols = data.draw(st.integers(1, 30))
    code = ReedSolomon(symbols, data.draw(st.integers(1, symbols)))
    message = data.draw(st.binary(min_size=code.message, max_size=code.message))
    places = data.draw(st.permutations(range(symbols)))
    erased = data.draw(st.integers(0, code.distance - 1))
    wrong = data.draw(st.integers(0, (code.distance - 1 - erased) // 2))
    received = {at: code.symbol(message, at) for at in places[erased:]}
    for at in places[erased : erased + wrong]:
        received[at] ^= data.draw(st.integers(1, 255))
    assert code.decode(received) == message


@given(st.data())
def test_what_reed_solomon_decodes_is_near_to_what_was_received(data: st.DataObject) -> None:
    """Up to four of twelve symbols are corrected; five may lead to another message, which is as near."""
    code, sent = ReedSolomon(12, 4), data.draw(st.binary(min_size=4, max_size=4))
    received = {at: code.symbol(sent, at) for at in range(12)}
    errors = data.draw(st.dictionaries(st.integers(0, 11), st.integers(1, 255), max_size=6))
    for at, error in errors.items():
        received[at] ^= error
    message = code.decode(received)
    assert message == sent or len(errors) > 4
    if message is not None:
        assert sum(code.symbol(message, at) != value for at, value in received.items()) <= 4


def test_too_few_symbols_and_sizes_that_fit_no_code_are_refused() -> None:
    assert ReedSolomon(5, 3).decode({0: 1, 1: 2}) is None
    for symbols, message in ((3, 0), (3, 4), (256, 4)):
        with pytest.raises(ValueError, match="message"):
            ReedSolomon(symbols, message)


def test_words_of_the_inner_code_differ_in_eight_bits_or_more() -> None:
    words = [ItemCode(8).encode(byte) for byte in range(256)]
    assert min((one ^ other).bit_count() for one, other in combinations(words, 2)) == INNER_DISTANCE


@pytest.mark.parametrize("bits", range(1, 65))
def test_the_distance_is_a_quarter_of_the_length_or_more_and_the_rate_a_sixth_of_whole_bytes(bits: int) -> None:
    code = ItemCode(bits)
    assert 4 * code.distance >= code.length
    assert code.correctable == (code.distance - 1) // 2
    if bits % 8 == 0:
        assert 6 * bits > code.length


@pytest.mark.parametrize("bits", [8, 16])
def test_no_two_codewords_are_nearer_than_the_distance(bits: int) -> None:
    """The code is linear, so that it is enough to look at weights."""
    code = ItemCode(bits)
    words = [code.encode(item) for item in range(1 << bits)]
    assert min(word.bit_count() for word in words if word) >= code.distance
    assert all(words[a] ^ words[b] == words[a ^ b] for a, b in combinations((3, 77, 129, 200, 255), 2))


@given(st.data())
def test_every_error_within_the_guarantee_is_corrected_be_it_spread_or_gathered(data: st.DataObject) -> None:
    code = ItemCode(data.draw(SIZES))
    item = data.draw(st.integers(0, (1 << code.bits) - 1))
    error, left = 0, data.draw(st.integers(0, code.correctable))
    for block in data.draw(st.permutations(range(code.outer.symbols))):
        most = min(left, data.draw(st.sampled_from([1, 2, 3, 4, 5, 8, 20])))
        places = data.draw(st.sets(st.integers(0, INNER_BITS - 1), max_size=most))
        error |= sum(1 << place for place in places) << (INNER_BITS * block)
        left -= len(places)
    assert error.bit_count() <= code.correctable
    assert code.decode(code.encode(item) ^ error) == item


@pytest.mark.parametrize("bits", [16, 32, 64])
@pytest.mark.parametrize("weight", [3, 4, 5])
def test_errors_that_mislead_as_many_inner_words_as_they_can_are_corrected(bits: int, weight: int) -> None:
    """Half the inner distance leaves a block in doubt, one more makes it wrong."""
    code, source = ItemCode(bits), random.Random(bits + weight)
    words = [ItemCode(8).encode(byte) for byte in range(1, 256)]
    for _ in range(200):
        item, error = source.getrandbits(bits), 0
        blocks = source.sample(range(code.outer.symbols), min(code.outer.symbols, code.correctable // weight))
        for block in blocks:
            word = source.choice([word for word in words if word.bit_count() == INNER_DISTANCE])
            places = source.sample([place for place in range(INNER_BITS) if word >> place & 1], weight)
            error |= sum(1 << place for place in places) << (INNER_BITS * block)
        assert code.decode(code.encode(item) ^ error) == item


@given(st.data())
def test_whatever_is_received_gives_an_item_of_the_domain_or_none(data: st.DataObject) -> None:
    code = ItemCode(data.draw(SIZES))
    item = code.decode(data.draw(st.integers(0, (1 << code.length) - 1)))
    assert item is None or 0 <= item < 1 << code.bits


@given(st.data())
def test_a_device_computes_one_bit_of_its_codeword(data: st.DataObject) -> None:
    code = ItemCode(data.draw(SIZES))
    item = data.draw(st.integers(0, (1 << code.bits) - 1))
    index = data.draw(st.integers(0, code.length - 1))
    assert code.bit(item, index) == code.encode(item) >> index & 1


def test_items_and_places_out_of_range_are_refused() -> None:
    for bits in (0, 65):
        with pytest.raises(ValueError, match="1 to 64 bits"):
            ItemCode(bits)
    code = ItemCode(12)
    for item in (-1, 1 << 12):
        with pytest.raises(ValueError, match="12 bits"):
            code.encode(item)
    for index in (-1, code.length):
        with pytest.raises(ValueError, match="index"):
            code.bit(0, index)
