"""Slots, the split preimage and nullifiers: a token counts for one slot, in one report, once."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.dap_errors import ReportError, ReportRejected
from tacit.errors import CryptoError, DecodeError, Fatal
from tacit.tokens.binding import (
    EXTENSION_SIZE,
    TOKEN_EXTENSION_TYPE,
    Holder,
    Preimages,
    check,
    check_all,
    extension_data,
    nonce_of,
    nullifier,
    open_extension,
)
from tacit.tokens.blinding import blind_with
from tacit.tokens.issuance import request_token
from tacit.tokens.issuer_key import IssuerKey, blind_sign, issue
from tacit.tokens.slots import Slot, TokenVerifier, redemption_context, slot_challenge
from tacit.tokens.structures import Token

SLOT = Slot("issuer.example", 7, 3)
PREIMAGES = Preimages(b"L" * 32, b"H" * 32)


@lru_cache
def issuer_key() -> IssuerKey:
    return IssuerKey.generate()


@lru_cache
def token_of(preimages: Preimages = PREIMAGES, slot: Slot = SLOT) -> Token:
    key = issuer_key()
    pending = request_token(key.token_key, slot_challenge(slot), preimages.nonce, os.urandom)
    return pending.finalize(key.token_key, issue(key, pending.request, os.urandom))


@lru_cache
def verifier() -> TokenVerifier:
    return TokenVerifier(issuer_key().token_key.spki, SLOT)


def cause_of(data: bytes, role: int) -> str:
    with pytest.raises(ReportRejected) as caught:
        check(open_extension(data, role), role, verifier())
    assert caught.value.code is ReportError.INVALID_MESSAGE
    return caught.value.cause


def test_the_redemption_context_follows_the_rule() -> None:
    expected = hashlib.sha256(b"sa2-slot" + (7).to_bytes(8, "big") + (3).to_bytes(4, "big")).digest()
    assert redemption_context(7, 3) == expected
    challenge = slot_challenge(SLOT)
    assert (challenge.token_type, challenge.issuer_name, challenge.origin_info) == (2, "issuer.example", "")
    assert challenge.redemption_context == expected


def test_the_nonce_follows_the_rule() -> None:
    left, right = hashlib.sha256(b"L" * 32).digest(), hashlib.sha256(b"H" * 32).digest()
    assert PREIMAGES.nonce == nonce_of(left, right) == hashlib.sha256(b"sa2-tok" + left + right).digest()


def test_both_aggregators_accept_their_extension_and_derive_one_nullifier() -> None:
    token = token_of()
    tags = set()
    for role in Holder:
        data = PREIMAGES.extension(token.encode(), role)
        assert len(data) == EXTENSION_SIZE == 418
        tags.add(check(open_extension(data, role), role, verifier()))
    assert tags == {nullifier(2, token.nonce, token.challenge_digest, token.token_key_id)}
    assert TOKEN_EXTENSION_TYPE == 0xFF54


def test_the_nullifier_leaves_out_the_signature() -> None:
    token = token_of()
    parts = b"\0\2" + token.nonce + token.challenge_digest + token.token_key_id
    tag = nullifier(2, token.nonce, token.challenge_digest, token.token_key_id)
    assert tag == hashlib.sha256(parts).digest()


def test_a_stolen_token_is_useless_without_the_other_secret() -> None:
    seen_by_leader = open_extension(PREIMAGES.extension(token_of().encode(), Holder.LEADER), Holder.LEADER)
    forged = extension_data(seen_by_leader.token, b"x" * 32, hashlib.sha256(seen_by_leader.r_own).digest())
    assert cause_of(forged, Holder.HELPER) == "token-binding"


def test_the_leaders_extension_does_not_serve_the_helper() -> None:
    assert cause_of(PREIMAGES.extension(token_of().encode(), Holder.LEADER), Holder.HELPER) == "token-binding"


def test_each_fault_has_its_own_cause() -> None:
    token = token_of()
    role = Holder.LEADER
    other_slot = token_of(slot=replace(SLOT, slot=4))
    assert cause_of(PREIMAGES.extension(other_slot.encode(), role), role) == "token-challenge"
    other_key = replace(token, token_key_id=b"k" * 32)
    assert cause_of(PREIMAGES.extension(other_key.encode(), role), role) == "token-key"
    other_nonce = replace(token, nonce=b"n" * 32)
    assert cause_of(PREIMAGES.extension(other_nonce.encode(), role), role) == "token-signature"
    other_type = b"\0\1" + token.encode()[2:]
    assert cause_of(PREIMAGES.extension(other_type, role), role) == "token-malformed"


@given(st.binary(max_size=450))
def test_an_extension_of_another_size_is_malformed(data: bytes) -> None:
    if len(data) == EXTENSION_SIZE:
        assert open_extension(data, 2).token == data[:354]
    else:
        with pytest.raises(ReportRejected, match="token-malformed"):
            open_extension(data, 2)


@given(st.integers(0, EXTENSION_SIZE - 1), st.integers(1, 255), st.sampled_from(Holder))
def test_every_changed_byte_is_noticed(at: int, flip: int, role: Holder) -> None:
    data = bytearray(PREIMAGES.extension(token_of().encode(), role))
    data[at] ^= flip
    assert cause_of(bytes(data), role).startswith("token-")


def signed(tokens: Sequence[bytes]) -> list[bool]:
    """Whether each token's signature holds, one by one."""
    results = []
    for token in tokens:
        try:
            verifier().verify_signature(Token.decode(token))
            results.append(True)
        except ReportRejected:
            results.append(False)
    return results


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, EXTENSION_SIZE), st.integers(0, 255)), max_size=6), st.sampled_from(Holder))
def test_many_extensions_are_judged_as_each_alone(changes: list[tuple[int, int]], role: Holder) -> None:
    extensions = []
    for at, flip in changes:
        whole = bytearray(PREIMAGES.extension(token_of().encode(), role))
        whole[at : at + 1] = bytes((whole[at] ^ flip,)) if at < EXTENSION_SIZE else bytes(flip % 2)
        extensions.append(bytes(whole))
    found = check_all(extensions, role, verifier(), signed)
    for data, verdict in zip(extensions, found, strict=True):
        if isinstance(verdict, bytes):
            assert verdict == check(open_extension(data, role), role, verifier())
        else:
            with pytest.raises(ReportRejected) as caught:
                check(open_extension(data, role), role, verifier())
            assert (verdict.code, verdict.cause) == (caught.value.code, caught.value.cause)


def test_a_role_that_holds_no_share_has_no_extension() -> None:
    with pytest.raises(ValueError):
        PREIMAGES.extension(token_of().encode(), 0)
    with pytest.raises(ValueError):
        open_extension(bytes(EXTENSION_SIZE), 1)


def test_a_verifier_needs_a_token_key() -> None:
    with pytest.raises(DecodeError):
        TokenVerifier(b"no key", SLOT)


def test_fresh_preimages_differ_and_hide_in_their_repr() -> None:
    first, second = Preimages.draw(os.urandom), Preimages.draw(os.urandom)
    assert first != second
    assert repr(first) == "Preimages()"
    assert "token=" not in repr(open_extension(bytes(EXTENSION_SIZE), 2))


def test_a_fault_in_the_private_operation_releases_nothing() -> None:
    key = issuer_key()
    broken = replace(key, d_p=key.d_p + 2)
    with pytest.raises(Fatal):
        blind_sign(broken, (12345).to_bytes(256, "big"), os.urandom)


def test_a_factor_that_cannot_be_inverted_is_refused() -> None:
    key = issuer_key()
    for factor in (0, int(key.p)):
        with pytest.raises(CryptoError, match="invertible"):
            blind_with(key.token_key, b"message", salt=b"s" * 48, r=factor)
