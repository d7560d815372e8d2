"""``docs/vectors/kept_shares.json`` by arithmetic written out here: ristretto255 (RFC 9496), ElGamal, and the sums."""

from __future__ import annotations

import pytest

from tests.vectors.test_own_vectors import read, unhex

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
ROOT_M1 = pow(2, (P - 1) // 4, P)
FIELD64 = 2**64 - 2**32 + 1
FOUND = read("kept_shares")
SIZES = {"leader": 48, "helper": 32}

Point = tuple[int, int]


def positive(x: int) -> int:
    return x % P if x % P % 2 == 0 else -x % P


def decoded(data: bytes) -> Point:
    """Section 4.3.1, in affine coordinates."""
    s = int.from_bytes(data, "little")
    assert s < P
    assert s % 2 == 0
    u1, u2 = (1 - s * s) % P, (1 + s * s) % P
    v = (-(D * u1 * u1) - u2 * u2) % P
    inverse = inverse_root(v * u2 * u2 % P)
    den_x = inverse * u2 % P
    den_y = inverse * den_x * v % P
    x = positive(2 * s * den_x)
    y = u1 * den_y % P
    assert x * y % P % 2 == 0
    assert y != 0
    return x, y


def inverse_root(v: int) -> int:
    """Section 4.2 with u = 1, for a square."""
    r = pow(v, 3, P) * pow(v, 7 * ((P - 5) // 8), P) % P
    found = next(one for one in (r, r * ROOT_M1 % P) if v * one * one % P == 1)
    return positive(found)


def added(first: Point, second: Point) -> Point:
    (x1, y1), (x2, y2) = first, second
    t = D * x1 * x2 * y1 * y2 % P
    x = (x1 * y2 + x2 * y1) * pow(1 + t, -1, P)
    return x % P, (y1 * y2 + x1 * x2) * pow(1 - t, -1, P) % P


def times(number: int, point: Point) -> Point:
    found = (0, 1)
    for bit in bin(number)[2:]:
        found = added(found, found)
        if bit == "1":
            found = added(found, point)
    return found


def same(first: Point, second: Point) -> bool:
    """Section 4.3.3: equal as elements."""
    (x1, y1), (x2, y2) = first, second
    return x1 * y2 % P == y1 * x2 % P or y1 * y2 % P == x1 * x2 % P


GENERATOR = decoded(bytes.fromhex("e2f2ae0a6abc4e71a884a961c500515f58e30b6aa582dd8db6a65945e08d2d76"))


def test_state_keys_are_multiples_of_the_generator_and_named_by_the_recipe() -> None:
    for side, key in FOUND["state_keys"].items():
        scalar = int.from_bytes(unhex(key["private"]), "little")
        assert same(times(scalar, GENERATOR), decoded(unhex(key["public"]))), side


@pytest.mark.parametrize("side", SIZES)
def test_ciphertexts_are_encryptions_of_elements_that_carry_the_shares(side: str) -> None:
    key = FOUND["state_keys"][side]
    private, public = int.from_bytes(unhex(key["private"]), "little"), decoded(unhex(key["public"]))
    cell = FOUND["cells"][1][side]
    chunks = []
    for element, draw, ciphertext in zip(cell["elements"], cell["draws"], cell["ciphertexts"], strict=True):
        first, second = decoded(unhex(ciphertext)[:32]), decoded(unhex(ciphertext)[32:])
        r = int.from_bytes(unhex(draw), "little") % ORDER
        carried = decoded(unhex(element))
        assert same(first, times(r, GENERATOR))
        assert same(second, added(carried, times(r, public)))
        masked = times(ORDER - private, first)
        assert same(added(second, masked), carried)
        chunks.append(unhex(element)[1:31])
    assert b"".join(chunks) == unhex(cell["share"]).ljust(60, b"\0")


def test_payloads_and_shares_are_those_of_the_cells_in_order_and_sum_to_the_bits() -> None:
    assert FOUND["context"] == (b"dap-18" + unhex(FOUND["task_id"])).hex()
    for side, size in SIZES.items():
        assert FOUND[side]["payload"] == "".join("".join(cell[side]["ciphertexts"]) for cell in FOUND["cells"])
        assert FOUND[side]["input_share"] == "".join(cell[side]["share"] for cell in FOUND["cells"])
        assert {len(unhex(cell[side]["share"])) for cell in FOUND["cells"]} == {size}
    outs = [
        [int.from_bytes(unhex(FOUND[side]["out_share"])[at : at + 8], "little") for at in range(0, 40, 8)]
        for side in SIZES
    ]
    assert [(one + other) % FIELD64 for one, other in zip(*outs, strict=True)] == [
        cell["bit"] for cell in FOUND["cells"]
    ]
