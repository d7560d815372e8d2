"""The chunk length of a circuit's range checks."""

from __future__ import annotations

from bisect import bisect_left


def chunk_length_for(elements: int, squares: int = 0) -> int:
    """The chunk length that makes the proof shortest for a circuit that checks ``elements`` elements and sums
    ``squares`` squares in calls of their own.

    The wire polynomials have a power of two of coefficients, one of them for the prover's seed, so 2^k - 1 gadget calls
    waste none: the smallest chunk that needs no more of them, for the best k (16 -> 6, 256 -> 18, 1000 -> 33).
    ``elements`` is length for a histogram, length * bits for SumVec, length + bits of the weight for Multihot.
    """
    if elements < 1 or squares < 0:
        raise ValueError(f"a circuit needs at least one element, not {elements}")
    total = elements + squares
    # checks and squares share no call: with both there are two at least, more than 2^1 - 1
    fewest = 2 if squares else 1
    chunks = {
        # calls only become fewer as the chunk grows, so that the smallest chunk is found by bisection
        bisect_left(range(1, total + 1), True, key=lambda chunk: _calls(elements, squares, chunk) < 1 << k) + 1
        for k in range(fewest, total.bit_length() + 1)
    }
    return min(chunks, key=lambda chunk: (_proof_len(_calls(elements, squares, chunk), chunk), chunk))


def _calls(elements: int, squares: int, chunk_length: int) -> int:
    return -(-elements // chunk_length) - (-squares // chunk_length)


def _proof_len(calls: int, chunk_length: int) -> int:
    """Wire seeds and gadget polynomial: 2 chunk + 2 p - 1 elements, p the power of two that holds the calls and the
    seed."""
    return 2 * chunk_length + 2 * (1 << calls.bit_length()) - 1
