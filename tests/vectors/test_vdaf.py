"""Every official Prio3 vector, operation by operation, and the vector of XofTurboShake128."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tacit.vdaf.circuits import Circuit, SumVec
from tacit.vdaf.field import Field64, Field128
from tacit.vdaf.gadgets import PolyEval
from tacit.vdaf.l1_bound_sum import Prio3L1BoundSum
from tacit.vdaf.prio3 import (
    Prio3,
    Prio3Count,
    Prio3Histogram,
    Prio3MultihotCountVec,
    Prio3Sum,
    Prio3SumVec,
    VerifierShare,
    VerifyError,
    VerifyState,
)
from tacit.vdaf.xof import XofTurboShake128

pytestmark = pytest.mark.vectors

PRIVATE_USE_ID = 0xFFFFFFFF


class HigherDegree(Circuit[int]):
    """0, 1 or 2, by a gadget of degree 3: x (x - 1) (x - 2)."""

    MEAS_LEN = 1
    OUTPUT_LEN = 1

    def __init__(self) -> None:
        super().__init__(Field64, PolyEval((0, 2, -3, 1)), 1)

    def encode(self, measurement: int) -> list[int]:
        return [measurement]

    def truncate(self, meas: Sequence[int]) -> list[int]:
        return list(meas)

    def decode(self, output: Sequence[int], num_measurements: int) -> int:
        return output[0]

    def wires(self, meas: Sequence[int], joint_rand: Sequence[int], num_shares: int) -> list[int]:
        return list(meas)

    def outputs(self, meas: Sequence[int], gadget_outputs: Sequence[int], num_shares: int) -> list[int]:
        return list(gadget_outputs)


def _sum_vec_with_multiproof(data: dict[str, Any]) -> Prio3[Any]:
    circuit = SumVec(Field64, data["length"], data["max_measurement"], data["chunk_length"])
    return Prio3(circuit, PRIVATE_USE_ID, data["shares"], proofs=3)


INSTANCES: dict[str, Callable[[dict[str, Any]], Prio3[Any]]] = {
    "Prio3Count": lambda d: Prio3Count(d["shares"]),
    "Prio3Sum": lambda d: Prio3Sum(d["shares"], d["max_measurement"]),
    "Prio3SumVec": lambda d: Prio3SumVec(d["shares"], d["length"], d["max_measurement"], d["chunk_length"]),
    "Prio3Histogram": lambda d: Prio3Histogram(d["shares"], d["length"], d["chunk_length"]),
    "Prio3MultihotCountVec": lambda d: Prio3MultihotCountVec(
        d["shares"], d["length"], d["max_weight"], d["chunk_length"]
    ),
    "Prio3L1BoundSum": lambda d: Prio3L1BoundSum(d["shares"], d["length"], d["max_value"], d["chunk_length"]),
    "Prio3SumVecWithMultiproof": _sum_vec_with_multiproof,
    "Prio3HigherDegree": lambda d: Prio3(HigherDegree(), PRIVATE_USE_ID, d["shares"]),
}

FILES = [
    *(f"Prio3Count_{n}" for n in range(3)),
    *(f"Prio3Count_bad_{what}" for what in ("gadget_poly", "helper_seed", "meas_share", "wire_seed")),
    "Prio3HigherDegree_0",
    *(f"Prio3Histogram_{n}" for n in range(3)),
    *(
        f"Prio3Histogram_bad_{what}"
        for what in ("helper_jr_blind", "leader_jr_blind", "public_share", "verifier_message")
    ),
    *(f"Prio3MultihotCountVec_{n}" for n in range(3)),
    *(f"Prio3SumVecWithMultiproof_{n}" for n in range(2)),
    *(f"Prio3SumVec_{n}" for n in range(2)),
    *(f"Prio3Sum_{n}" for n in range(3)),
]


class Replay:
    """Runs the operations of one vector file; each method compares what it makes with what the file holds."""

    def __init__(self, vdaf: Prio3[Any], data: dict[str, Any]) -> None:
        self.vdaf = vdaf
        self.data = data
        self.ctx = bytes.fromhex(data["ctx"])
        self.states: dict[tuple[int, int], VerifyState] = {}
        self.verifier_shares: dict[tuple[int, int], VerifierShare] = {}
        self.out_shares: dict[int, list[list[int]]] = {}

    def run(self) -> int:
        """All operations in order; returns how many had to fail, and did."""
        failures = 0
        for operation in self.data["operations"]:
            step = getattr(self, operation["operation"])
            if operation["success"]:
                step(operation)
            else:
                with pytest.raises(VerifyError, match=r"proof does not hold|does not match"):
                    step(operation)
                failures += 1
        return failures

    def shard(self, operation: dict[str, Any]) -> None:
        vdaf, report = self.vdaf, self._report(operation)
        nonce, rand = bytes.fromhex(report["nonce"]), bytes.fromhex(report["rand"])
        assert len(rand) == vdaf.RAND_SIZE
        public_share, input_shares = vdaf.shard(self.ctx, report["measurement"], nonce, rand)
        assert vdaf.encode_public_share(public_share).hex() == report["public_share"]
        assert [vdaf.encode_input_share(share).hex() for share in input_shares] == report["input_shares"]

    def verify_init(self, operation: dict[str, Any]) -> None:
        vdaf, report, agg_id = self.vdaf, self._report(operation), operation["aggregator_id"]
        state, verifier_share = vdaf.verify_init(
            bytes.fromhex(self.data["verify_key"]),
            self.ctx,
            agg_id,
            None,
            bytes.fromhex(report["nonce"]),
            vdaf.decode_public_share(bytes.fromhex(report["public_share"])),
            vdaf.decode_input_share(agg_id, bytes.fromhex(report["input_shares"][agg_id])),
        )
        expected = bytes.fromhex(report["verifier_shares"][0][agg_id])
        assert vdaf.encode_verifier_share(verifier_share) == expected
        assert vdaf.decode_verifier_share(state, expected) == verifier_share
        self.states[operation["report_index"], agg_id] = state

    def verifier_shares_to_message(self, operation: dict[str, Any]) -> None:
        vdaf, report = self.vdaf, self._report(operation)
        shares = [
            vdaf.decode_verifier_share(self.states[operation["report_index"], agg_id], bytes.fromhex(encoded))
            for agg_id, encoded in enumerate(report["verifier_shares"][operation["round"]])
        ]
        message = vdaf.verifier_shares_to_message(self.ctx, None, shares)
        assert vdaf.encode_verifier_message(message).hex() == report["verifier_messages"][operation["round"]]

    def verify_next(self, operation: dict[str, Any]) -> None:
        vdaf, report, agg_id = self.vdaf, self._report(operation), operation["aggregator_id"]
        state = self.states[operation["report_index"], agg_id]
        encoded = bytes.fromhex(report["verifier_messages"][operation["round"] - 1])
        out_share = vdaf.verify_next(self.ctx, state, vdaf.decode_verifier_message(state, encoded))
        assert vdaf.encode_out_share(out_share).hex() == report["out_shares"][agg_id]
        self.out_shares.setdefault(agg_id, []).append(out_share)

    def aggregate(self, operation: dict[str, Any]) -> None:
        vdaf, agg_id = self.vdaf, operation["aggregator_id"]
        agg_share = vdaf.agg_init(None)
        for out_share in self.out_shares[agg_id]:
            agg_share = vdaf.agg_update(None, agg_share, out_share)
        assert vdaf.encode_agg_share(agg_share).hex() == self.data["agg_shares"][agg_id]

    def unshard(self, operation: dict[str, Any]) -> None:
        shares = [self.vdaf.decode_agg_share(bytes.fromhex(share)) for share in self.data["agg_shares"]]
        assert self.vdaf.unshard(None, shares, len(self.data["reports"])) == self.data["agg_result"]

    def _report(self, operation: dict[str, Any]) -> dict[str, Any]:
        report: dict[str, Any] = self.data["reports"][operation["report_index"]]
        return report


@pytest.mark.parametrize("name", FILES)
def test_official_vector_is_reproduced_operation_by_operation(name: str, load_vector: Callable[[str], Any]) -> None:
    data = load_vector(f"vdaf/vdaf/{name}.json")
    replay = Replay(INSTANCES[name.split("_", maxsplit=1)[0]](data), data)
    assert replay.run() == (1 if "_bad_" in name else 0)


def test_the_vector_of_the_l1_bound_sum_draft_is_reproduced(load_vector: Callable[[str], Any]) -> None:
    data = load_vector("vdaf-l1boundsum/Prio3L1BoundSum_0.json")
    assert Replay(INSTANCES["Prio3L1BoundSum"](data), data).run() == 0


def test_every_prio3_vector_file_is_listed(vectors: Any) -> None:
    assert sorted(FILES) == sorted(path.stem for path in (vectors / "vdaf" / "vdaf").glob("Prio3*.json"))


def test_xof_turboshake128_derives_the_official_seed_and_vector(load_vector: Callable[[str], Any]) -> None:
    data = load_vector("vdaf/XofTurboShake128.json")
    seed, dst, binder = (bytes.fromhex(data[name]) for name in ("seed", "dst", "binder"))
    assert XofTurboShake128.derive_seed(seed, dst, binder).hex() == data["derived_seed"]
    vec = XofTurboShake128.expand_into_vec(Field128, seed, dst, binder, data["length"])
    assert Field128.encode_vec(vec).hex() == data["expanded_vec_field128"]
