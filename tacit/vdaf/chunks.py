"""The chunk length of a circuit's range checks."""

from __future__ import annotations


def chunk_length_for(elements: int) -> int:
    """The chunk length that makes the proof shortest for a circuit over ``elements`` elements.

    The wire polynomials have a power of two of coefficients, one of them for the prover's seed, so 2^k - 1 gadget calls
    waste none: chunk = ceil(elements / (2^k - 1)) for the best k (16 -> 6, 256 -> 18, 1000 -> 33). ``elements`` is
    length for a histogram, length * bits for SumVec, length + bits of the weight for Multihot.
    """
    if elements < 1:
        raise ValueError(f"a circuit needs at least one element, not {elements}")
    chunks = {-(-elements // ((1 << k) - 1)) for k in range(1, elements.bit_length() + 1)}
    return min(chunks, key=lambda chunk: (_proof_len(elements, chunk), chunk))


def _proof_len(elements: int, chunk_length: int) -> int:
    """Wire seeds and gadget polynomial of the chunked range check: 2 chunk + 2 p - 1 elements, p the power of two that
    holds the calls and the seed."""
    calls = -(-elements // chunk_length)
    return 2 * chunk_length + 2 * (1 << calls.bit_length()) - 1
