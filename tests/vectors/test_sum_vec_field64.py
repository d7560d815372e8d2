"""Prio3SumVecField64MultiproofHmacSha256Aes128 against libprio-rs: its reports verify here with the same bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import DecodeError
from tacit.vdaf.native.batch import BatchProver, BatchVerifier
from tacit.vdaf.prio3 import VerifyError
from tacit.vdaf.registry import vdaf_configuration, vdaf_from_configuration
from tacit.vdaf.sum_vec_field64 import ALGORITHM_ID, Prio3SumVecField64Multiproof, XofHmacSha256Aes128

VECTORS: list[dict[str, Any]] = json.loads(Path(__file__).with_name("sum_vec_field64.json").read_text())["vectors"]


def unhex(vector: dict[str, Any], *names: str) -> tuple[bytes, ...]:
    return tuple(bytes.fromhex(vector[name]) for name in names)


def instance(vector: dict[str, Any]) -> Prio3SumVecField64Multiproof:
    numbers = (vector["length"], vector["max"], vector["chunk"], vector["proofs"])
    return Prio3SumVecField64Multiproof(2, *numbers)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: f"{vector['proofs']}-proofs-{vector['length']}")
def test_a_report_of_libprio_is_verified_with_the_bytes_that_libprio_sends(vector: dict[str, Any]) -> None:
    vdaf = instance(vector)
    ctx, nonce, key, public = unhex(vector, "ctx", "nonce", "key", "public")
    public_share = vdaf.decode_public_share(public)
    states, shares = [], []
    for agg_id, encoded in enumerate(vector["inputs"]):
        share = vdaf.decode_input_share(agg_id, bytes.fromhex(encoded))
        state, verifier_share = vdaf.verify_init(key, ctx, agg_id, None, nonce, public_share, share)
        assert vdaf.encode_verifier_share(verifier_share).hex() == vector["verifier_shares"][agg_id]
        states.append(state)
        shares.append(verifier_share)
    message = vdaf.verifier_shares_to_message(ctx, None, shares)
    outs = [vdaf.verify_next(ctx, state, message) for state in states]
    assert vdaf.unshard(None, outs, 1) == vector["measurement"]


def test_a_changed_share_does_not_verify() -> None:
    vector = VECTORS[0]
    vdaf = instance(vector)
    ctx, nonce, key, public = unhex(vector, "ctx", "nonce", "key", "public")
    leader = bytearray.fromhex(vector["inputs"][0])
    leader[0] ^= 1
    shares = [
        vdaf.verify_init(
            key,
            ctx,
            agg_id,
            None,
            nonce,
            vdaf.decode_public_share(public),
            vdaf.decode_input_share(agg_id, bytes(share)),
        )[1]
        for agg_id, share in enumerate((leader, bytes.fromhex(vector["inputs"][1])))
    ]
    with pytest.raises(VerifyError):
        vdaf.verifier_shares_to_message(ctx, None, shares)


def test_batches_without_kernels_for_this_xof_give_the_same_reports() -> None:
    vdaf = Prio3SumVecField64Multiproof(2, 3, 7, 2, 3)
    nonce, rand = bytes(range(16)), bytes(range(256))[: vdaf.RAND_SIZE]
    public_share, (leader, helper) = vdaf.shard(b"ctx", [1, 2, 7], nonce, rand)
    (sharded,) = BatchProver(vdaf, b"ctx").shard([[1, 2, 7]], [nonce], [rand])
    assert sharded[0] == vdaf.encode_public_share(public_share)
    verifier = BatchVerifier(vdaf, bytes(32), b"ctx")
    begun = verifier.leader([nonce], [sharded[0]], [vdaf.encode_input_share(leader)])
    done = verifier.helper([nonce], [sharded[0]], [vdaf.encode_input_share(helper)], begun.outbounds)
    assert (begun.errors, done.errors) == ([None], [None])


@given(length=st.integers(1, 6), most=st.integers(1, 1 << 40), chunk=st.integers(1, 9), proofs=st.integers(2, 255))
def test_its_configuration_names_it_in_17_bytes(length: int, most: int, chunk: int, proofs: int) -> None:
    vdaf = Prio3SumVecField64Multiproof(2, length, most, chunk, proofs)
    configuration = vdaf_configuration(vdaf)
    assert (len(configuration), vdaf.ID) == (17, ALGORITHM_ID)
    again = vdaf_from_configuration(ALGORITHM_ID, configuration)
    assert isinstance(again, Prio3SumVecField64Multiproof)
    assert (again.length, again.max_measurement, again.chunk_length, again.PROOFS) == (length, most, chunk, proofs)
    with pytest.raises(DecodeError):
        vdaf_from_configuration(ALGORITHM_ID, configuration[:-1])


def test_one_proof_is_too_few() -> None:
    with pytest.raises(ValueError, match="at least 2 proofs"):
        Prio3SumVecField64Multiproof(2, 3, 7, 2, 1)


def test_the_counter_of_the_stream_does_not_carry_into_the_upper_half() -> None:
    xof = XofHmacSha256Aes128(bytes(32), b"dst", b"binder")
    xof._begin((1 << 64) - 2)
    block = Cipher(algorithms.AES(xof._key), modes.ECB()).encryptor()  # noqa: S305 - single blocks of a key stream
    counters = [(1 << 64) - 2, (1 << 64) - 1, 0, 1]
    expected = b"".join(block.update(xof._upper + counter.to_bytes(8, "big")) for counter in counters)
    assert xof.next(5) + xof.next(45) + xof.next(14) == expected
