"""Every official Prio3 vector of two Aggregators, through the kernels of every level that this machine runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tacit.vdaf.circuits import SumVec
from tacit.vdaf.field import Field64
from tacit.vdaf.native import LEVELS, usable_levels
from tacit.vdaf.native.kernels import BAD_PROOF, Kernels, pack_measurements
from tacit.vdaf.prio3 import Prio3, Prio3Count, Prio3Histogram, Prio3MultihotCountVec, Prio3Sum, Prio3SumVec

pytestmark = pytest.mark.vectors

INSTANCES: dict[str, Callable[[dict[str, Any]], Prio3[Any]]] = {
    "Prio3Count": lambda d: Prio3Count(2),
    "Prio3Sum": lambda d: Prio3Sum(2, d["max_measurement"]),
    "Prio3SumVec": lambda d: Prio3SumVec(2, d["length"], d["max_measurement"], d["chunk_length"]),
    "Prio3Histogram": lambda d: Prio3Histogram(2, d["length"], d["chunk_length"]),
    "Prio3MultihotCountVec": lambda d: Prio3MultihotCountVec(2, d["length"], d["max_weight"], d["chunk_length"]),
    "Prio3SumVecWithMultiproof": lambda d: Prio3(
        SumVec(Field64, d["length"], d["max_measurement"], d["chunk_length"]), 0xFFFFFFFF, 2, proofs=3
    ),
}


@pytest.mark.parametrize("level", [pytest.param(LEVELS.index(name), id=name) for name in usable_levels()])
def test_every_vector_of_two_aggregators_is_reproduced(
    level: int, vectors: Any, load_vector: Callable[[str], Any]
) -> None:
    kinds = set()
    for path in sorted((vectors / "vdaf" / "vdaf").glob("Prio3*.json")):
        data = load_vector(f"vdaf/vdaf/{path.name}")
        kind = path.stem.split("_", maxsplit=1)[0]
        if data["shares"] == 2 and kind in INSTANCES:
            kinds.add(kind)
            replay(INSTANCES[kind](data), data, level)
    assert kinds == set(INSTANCES)


def replay(vdaf: Prio3[Any], data: dict[str, Any], level: int) -> None:
    """All reports of a file as one batch; a file of a bad report must fail where it says."""
    kernels = Kernels(vdaf, bytes.fromhex(data["ctx"]), level)
    reports = data["reports"]
    failing = {operation["operation"] for operation in data["operations"] if not operation["success"]}
    nonces, public_shares = _column(reports, "nonce"), _column(reports, "public_share")
    verified = []
    for agg_id in sorted({o["aggregator_id"] for o in data["operations"] if o["operation"] == "verify_init"}):
        inputs = _column([dict(enumerate(report["input_shares"])) for report in reports], agg_id)
        made = kernels.verify_init(agg_id, bytes.fromhex(data["verify_key"]), nonces, public_shares, inputs)
        assert made.flags == bytes(len(reports))
        assert made.verifier_shares == _column([dict(enumerate(r["verifier_shares"][0])) for r in reports], agg_id)
        verified.append(made)
    if len(verified) == 2:
        messages, flags = kernels.decide(verified[0].verifier_shares, verified[1].verifier_shares, verified[1].seeds)
        assert any(flag & BAD_PROOF for flag in flags) == ("verifier_shares_to_message" in failing)
    if not failing:
        assert messages == b"".join(bytes.fromhex("".join(report["verifier_messages"])) for report in reports)
        assert flags == bytes(len(reports))
        _finish(vdaf, kernels, data, [made.out_shares for made in verified])


def _finish(vdaf: Prio3[Any], kernels: Kernels, data: dict[str, Any], out_shares: list[bytes]) -> None:
    reports = data["reports"]
    for agg_id, rows in enumerate(out_shares):
        assert rows == _column([dict(enumerate(report["out_shares"])) for report in reports], agg_id)
        assert kernels.aggregate(rows, b"\1" * len(reports)).hex() == data["agg_shares"][agg_id]
    packed = pack_measurements(vdaf, [report["measurement"] for report in reports])
    sharded = kernels.shard(packed, _column(reports, "nonce"), _column(reports, "rand"))
    assert sharded.public_shares == _column(reports, "public_share")
    assert sharded.leader_shares == _column([{0: report["input_shares"][0]} for report in reports], 0)


def _column(rows: list[dict[Any, Any]], key: object) -> bytes:
    return bytes.fromhex("".join(row[key] for row in rows))
