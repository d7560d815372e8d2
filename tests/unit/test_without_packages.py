"""A device has neither gmpy2 nor pycryptodome: what it computes without them is the same."""

from __future__ import annotations

import random

import pytest
from Crypto.Hash import TurboSHAKE128

from tacit.errors import CryptoError
from tacit.tokens import blind_rsa, blinding
from tacit.tokens.blind_rsa import TokenKey
from tacit.tokens.issuer_key import IssuerKey, blind_sign
from tacit.tokens.modular import invert_plainly
from tacit.vdaf import xof
from tacit.vdaf.turbo_shake import RATE, Stream
from tests.installed import without_modules

BOUNDARIES = (0, 1, RATE - 2, RATE - 1, RATE, RATE + 1, 2 * RATE - 1, 2 * RATE, 1000)
STREAMS = """
from tacit.vdaf.xof import XofTurboShake128
stream = XofTurboShake128(b"s" * 32, b"tag", b"binder")
print(type(stream._stream).__module__, stream.next(500).hex())
"""


@pytest.mark.parametrize("length", BOUNDARIES)
def test_the_stream_in_python_is_that_of_pycryptodome(length: int) -> None:
    data = random.Random(length).randbytes(length)
    ours, theirs = Stream(domain=1, data=data), TurboSHAKE128.new(domain=1, data=data)
    for piece in (0, 1, 32, RATE - 33, RATE, RATE + 1, 3 * RATE, 5):
        assert ours.read(piece) == theirs.read(piece)


def test_without_pycryptodome_the_xof_is_computed_in_python() -> None:
    place, stream = without_modules(STREAMS, "Crypto").split()
    assert place == Stream.__module__
    assert stream == xof.XofTurboShake128(b"s" * 32, b"tag", b"binder").next(500).hex()


def test_a_token_is_blinded_alike_by_both_arithmetics(monkeypatch: pytest.MonkeyPatch) -> None:
    key = IssuerKey.generate()
    known = blinding.blind_with(key.token_key, b"message", salt=b"s" * 48, r=3**1000)
    monkeypatch.setattr(blind_rsa, "mpz", int)
    monkeypatch.setattr(blinding, "mpz", int)
    monkeypatch.setattr(blinding, "powmod", pow)
    monkeypatch.setattr(blinding, "invert", invert_plainly)
    public = TokenKey.from_public_key(key.token_key.verifier)
    blinded, state = blinding.blind_with(public, b"message", salt=b"s" * 48, r=3**1000)
    assert type(public.n) is int
    assert (blinded, state) == known
    blinding.finalize(public, b"message", blind_sign(key, blinded, random.randbytes), state)
    with pytest.raises(CryptoError):
        blinding.blind_with(public, b"message", salt=b"s" * 48, r=int(key.p))


def test_without_gmpy2_the_interpreter_computes() -> None:
    program = "from tacit.tokens import modular; print(modular.mpz.__name__, modular.powmod(3, 65537, 1009))"
    assert without_modules(program, "gmpy2").split() == ["int", str(pow(3, 65537, 1009))]
