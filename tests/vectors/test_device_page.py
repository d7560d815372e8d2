"""``docs/device.md`` and ``docs/prio3.md``, written out from these pages alone, give what the vectors hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pytest
from Crypto.Hash import TurboSHAKE128

from client_agent import upload, wallet
from client_agent.agent import READ_WITHIN
from client_agent.coin import COIN_BITS
from client_agent.config import Timing
from client_agent.data.sources import READ_SECONDS
from infra.tools.documents.schemas import schema_of
from services.gateway.config import GatewayConfig
from tacit.dap_errors import DapProblem
from tacit.logview.paged import ATTEMPTS
from tacit.ohttp import REQUEST_OVERHEAD, SIZE_CLASSES
from tacit.recipe import asking
from tacit.recipe.asking import DECIDING_SHARE
from tacit.tlog.cosignature import MAX_SKEW_SECONDS
from tacit.tlog.hashes import BLOCK
from tacit.tlog.leaves import MAX_ENTRY_SIZE
from tacit.tokens.attestation import DEVICE_EKU, MAX_CHAIN
from tacit.tokens.binding import TOKEN_EXTENSION_TYPE
from tacit.version import DAP_18, DAP_19
from tests.vectors.test_own_vectors import BY_NAME, FOLDER, REPORTS, keep, read, unhex

PAGE = (FOLDER.parent / "device.md").read_text()


class Shares:
    """Sharding as ``docs/prio3.md`` has it: no transform, every polynomial by Lagrange."""

    def __init__(self, vdaf: dict[str, Any], context: bytes) -> None:
        names = ("Prio3Count", "Prio3Sum", "Prio3SumVec", "Prio3Histogram", "Prio3MultihotCountVec")
        self.vdaf, self.context = vdaf, context
        self.number = names.index(vdaf["name"]) + 1 if vdaf["name"] in names else 0xFFFF5444
        self.wide = self.number > 2
        self.p, order = (2**128 - 7 * 2**66 + 1, 2**66) if self.wide else (2**64 - 2**32 + 1, 2**32)
        self.generator, self.order = pow(7, (self.p - 1) // order, self.p), order
        self.size = 16 if self.wide else 8

    def root(self, size: int) -> int:
        return pow(self.generator, self.order // size, self.p)

    def encode(self, vector: Sequence[int]) -> bytes:
        return b"".join(one.to_bytes(self.size, "little") for one in vector)

    def xof(self, seed: bytes, usage: int, binder: bytes) -> Any:
        dst = b"\x12\x00" + self.number.to_bytes(4, "big") + usage.to_bytes(2, "big") + self.context
        data = len(dst).to_bytes(2, "little") + dst + bytes([len(seed)]) + seed + binder
        return TurboSHAKE128.new(domain=1, data=data)

    def vector(self, seed: bytes, usage: int, binder: bytes, length: int) -> list[int]:
        stream, found = self.xof(seed, usage, binder), list[int]()
        while len(found) < length:
            value = int.from_bytes(stream.read(self.size), "little")
            found += [value] if value < self.p else []
        return found

    def bits(self, value: int, most: int) -> list[int]:
        width = most.bit_length()
        rest = 2 ** (width - 1) - 1
        last = int(value > rest)
        value -= last * (most - rest)
        return [value >> place & 1 for place in range(width - 1)] + [last]

    def measured(self, measurement: Any) -> list[int]:
        if self.number == 1:
            return [measurement]
        if self.number == 2:
            return self.bits(measurement, self.vdaf["max_measurement"])
        if self.number == 3:
            return [bit for one in measurement for bit in self.bits(one, self.vdaf["max_measurement"])]
        if self.number == 4:
            return [int(place == measurement) for place in range(self.vdaf["length"])]
        if self.number == 5:
            return [*measurement, *self.bits(sum(measurement), self.vdaf["max_weight"])]
        bounds, size = self.vdaf["vector"], self.vdaf["length"]
        values, noises = measurement[:size], measurement[size:]
        square = sum((value - bounds["centre"]) ** 2 for value in values)
        parts = [self.bits(value, bounds["max_value"]) for value in values]
        parts += [self.bits(noise, bounds["flips"]) for noise in noises]
        return [bit for part in (*parts, self.bits(square, bounds["max_square"])) for bit in part]

    def squared(self, meas: Sequence[int]) -> list[list[int]]:
        """The inputs of the calls that sum the squares."""
        most, centre = self.vdaf["vector"]["max_value"], self.vdaf["vector"]["centre"]
        width, chunk, size = most.bit_length(), self.vdaf["chunk_length"], self.vdaf["length"]
        weights = [*(2**place for place in range(width - 1)), most - (2 ** (width - 1) - 1)]
        found = [sum(w * b for w, b in zip(weights, meas[at * width :], strict=False)) - centre for at in range(size)]
        found += [0] * (-size % chunk)
        return [[one for x in found[at : at + chunk] for one in (x, x)] for at in range(0, len(found), chunk)]

    def calls(self, meas: Sequence[int], joint: Sequence[int]) -> tuple[list[list[int]], Callable[..., int]]:
        if self.number == 1:
            return [[meas[0], meas[0]]], lambda x, y: x * y
        if self.number == 2:
            return [[one] for one in meas], lambda x: x * x - x
        chunk, found = self.vdaf["chunk_length"], []
        for call, r in enumerate(joint):
            part = [*meas[call * chunk : (call + 1) * chunk]]
            part += [0] * (chunk - len(part))
            pairs = [(pow(r, j + 1, self.p) * m % self.p, m - 1) for j, m in enumerate(part)]
            found.append([one for pair in pairs for one in pair])
        found += self.squared(meas) if "vector" in self.vdaf else []
        return found, lambda *inputs: sum(x * y for x, y in zip(inputs[0::2], inputs[1::2], strict=True))

    def proof(self, meas: Sequence[int], prove_rand: Sequence[int], joint: Sequence[int]) -> list[int]:
        calls, gadget = self.calls(meas, joint)
        points = 1 << len(calls).bit_length()
        coarse, fine = self.root(points), self.root(2 * points)
        values = [list(prove_rand), *calls, *[[0] * len(prove_rand)] * (points - 1 - len(calls))]
        found = list(prove_rand)
        for step in range(2 * points - 1):
            at = pow(fine, step, self.p)
            basis = [self.lagrange(points, coarse, place, at) for place in range(points)]
            wires = [sum(b * row[j] for b, row in zip(basis, values, strict=True)) for j in range(len(prove_rand))]
            found.append(gadget(*(one % self.p for one in wires)) % self.p)
        return found

    def lagrange(self, points: int, root: int, place: int, at: int) -> int:
        """The polynomial that is 1 at the place's root and 0 at the others."""
        own, value = pow(root, place, self.p), 1
        for other in range(points):
            if other != place:
                x = pow(root, other, self.p)
                value = value * (at - x) * pow(own - x, -1, self.p) % self.p
        return value

    def shard(self, measurement: Any, nonce: bytes, rand: bytes) -> tuple[bytes, bytes, bytes]:
        seeds = [rand[at : at + 32] for at in range(0, len(rand), 32)]
        meas = self.measured(measurement)
        helper_meas = self.vector(seeds[0], 1, b"\x01", len(meas))
        leader_meas = [(one - other) % self.p for one, other in zip(meas, helper_meas, strict=True)]
        public = b""
        joint: list[int] = []
        if self.wide:
            parts = [
                self.xof(blind, 7, bytes([role]) + nonce + self.encode(share)).read(32)
                for role, blind, share in ((0, seeds[2], leader_meas), (1, seeds[1], helper_meas))
            ]
            public = b"".join(parts)
            joint_seed = self.xof(bytes(32), 6, public).read(32)
            joint = self.vector(joint_seed, 3, b"\x01", -(-len(meas) // self.vdaf["chunk_length"]))
        arity = {1: 2, 2: 1}.get(self.number, 2 * self.vdaf["chunk_length"])
        proof = self.proof(meas, self.vector(seeds[-1], 4, b"\x01", arity), joint)
        helper_proof = self.vector(seeds[0], 2, b"\x01\x01", len(proof))
        leader_proof = [(one - other) % self.p for one, other in zip(proof, helper_proof, strict=True)]
        blinds = (seeds[2], seeds[1]) if self.wide else (b"", b"")
        return public, self.encode([*leader_meas, *leader_proof]) + blinds[0], seeds[0] + blinds[1]


@pytest.mark.parametrize("found", REPORTS["reports"], ids=lambda found: str(found["recipe"]))
def test_the_page_on_sharding_gives_every_share(found: dict[str, Any]) -> None:
    task = BY_NAME[found["recipe"]]
    shares = Shares(task["recipe"]["vdaf"], unhex(task["vdaf_context"]))
    made = shares.shard(found["measurement"], unhex(found["report_id"]), unhex(found["vdaf_rand"]))
    wanted = (found["public_share"], found["leader"]["input_share"], found["helper"]["input_share"])
    assert tuple(one.hex() for one in made) == wanted


def test_bits_are_flipped_and_dummies_drawn_as_the_page_says() -> None:
    (found,) = (one for one in read("answers")["recipes"] if one["recipe"] == "languages")
    spec = BY_NAME["languages"]["recipe"]["randomizer"]
    size, most = spec["categories"], spec["max_weight"]
    threshold = int(found["keep_threshold"], 16)
    for row in found["answers"]:
        if row["encoded"] is None:
            continue
        stream = "".join(row["draws"])
        drawn = [int(stream[at : at + 32], 16) for at in range(0, 32 * size, 32)]
        bits = [int(place == row["encoded"]) ^ int(one >= threshold) for place, one in enumerate(drawn)]
        assert row["measurement"] == (bits if sum(bits) <= most else None)
    weights = [int(one, 16) for one in found["weight_thresholds"]]
    flip = 1 - threshold / 2**128
    chances = [math.comb(size, j) * flip**j * (1 - flip) ** (size - j) for j in range(most + 1)]
    for j, weight in enumerate(weights):
        assert weight / 2**192 == pytest.approx(sum(chances[: j + 1]) / sum(chances))
    for dummy in found["dummies"]:
        stream = "".join(dummy["draws"])
        first, *drawn = (int(stream[at : at + 48], 16) for at in range(0, 48 * (most + 1), 48))
        places = list(range(size))
        for at, one in enumerate(drawn):
            chosen = at + (one * (size - at) >> 192)
            places[at], places[chosen] = places[chosen], places[at]
        weight = sum(threshold <= first for threshold in weights)
        assert dummy["measurement"] == [int(place in places[:weight]) for place in range(size)]
    assert threshold == keep(Decimal(spec["epsilon0"]) / 2, 1)


def delta_of(epsilon: float, local: float, n: int) -> float:
    """The page's bound, term by term."""
    if epsilon >= local:
        return 0.0
    r, a = 2 / (math.exp(local) + 1), (math.exp(local) - math.exp(epsilon)) / (math.exp(local) + 1)
    total = 0.0
    for c in range(n):
        weight = binomial(n - 1, r, c)
        if weight < 1e-18:
            continue
        share = math.expm1(epsilon + local) / (math.expm1(local) * (math.exp(epsilon) + 1))
        t = math.floor((c + 1) * share) + 1
        above = math.fsum(binomial(c, 0.5, k) for k in range(t, c + 1))
        total += weight * (a * binomial(c, 0.5, t - 1) - math.expm1(epsilon) * above)
    return total


def binomial(n: int, p: float, k: int) -> float:
    if k > n:
        return 0.0
    logarithm = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return math.exp(logarithm + k * math.log(p) + (n - k) * math.log1p(-p))


def test_the_claim_of_randomised_categories_follows_from_the_formulas_of_the_page() -> None:
    recipe = BY_NAME["doctor-visits"]["recipe"]
    local, n = float(recipe["randomizer"]["epsilon0"]), recipe["batch"]["min_batch_size"]
    delta, rate = float(recipe["privacy"]["delta"]), float(recipe["sampling"]["rate"])
    low, high = 0.0, local
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (low, middle) if delta_of(middle, local, n) <= delta else (middle, high)
    stated = {name: float(text) for name, text in recipe["privacy"]["epsilon"].items()}
    with_relay = stated["aggregator_with_relay"]
    assert high <= with_relay < high + 1e-4
    effective = rate * (1 + math.sqrt(3 * math.log(10 / delta) / n))
    apart = effective * math.log(effective / rate) + (1 - effective) * math.log((1 - effective) / (1 - rate))
    assert effective * delta + max(delta / 10, math.exp(-n / effective * apart)) <= delta
    assert math.log1p(effective * math.expm1(with_relay)) == pytest.approx(stated["aggregator"], abs=2e-6)
    assert stated["both_aggregators"] == stated["aggregator"]
    assert stated["both_aggregators_with_relay"] == local
    assert recipe["privacy"]["mechanism"] == "shuffle-fmt22+sampling"


def test_the_page_names_every_verdict_on_an_upload_and_every_pin() -> None:
    part = PAGE[PAGE.index("## 9. Sending") : PAGE.index("## 10.")]
    for version in (DAP_18, DAP_19):
        for error, code in version.report_codes.items():
            assert f" {code} `{error.name.lower()}`" in part or f" {code}," in part
    assert all(f"`{problem}`" in part for problem in (DapProblem.INVALID_MESSAGE, DapProblem.INVALID_TASK))
    pins = PAGE[PAGE.index("## 1. ") : PAGE.index("## 2. ")]
    own = {"state_dir", "source", "timing", "announcements", "tls_ca", "insecure_http", "attestation"}
    own |= {"clock_error_seconds"}  # for staging alone
    assert [
        name for name in schema_of("config-agent")["properties"] if name not in own and f"`{name}`" not in pins
    ] == []


def test_the_numbers_of_the_page_are_those_of_the_code() -> None:
    timing, text = Timing(), " ".join(PAGE.split())
    assert (DECIDING_SHARE, asking.TAIL_SHARE, wallet.LATE_SHARE, COIN_BITS) == (0.25, 0.05, 0.25, 128)
    for said in (
        f"end - min(duration / 20, {asking.TAIL_SECONDS:g})",
        "now <= start + duration / 4",
        "within a quarter of what is left of it",
        f"`late_seconds + resume_seconds` ({timing.late_seconds:g} and {timing.resume_seconds:g})",
        f"retry_limit_seconds) ({timing.retry_seconds:g} and {timing.retry_limit_seconds:g})",
        f"by more than {upload.MISSED_SECONDS:g} seconds",
        f"not there within {READ_SECONDS:g} seconds",
        f"not read the log for {({2: 'two'})[int(READ_WITHIN // 86_400)]} days",
        f"a date within {GatewayConfig.model_fields['date_window'].default} seconds",
        f"not more than {MAX_SKEW_SECONDS} s ahead",
        f"begin again at 1, {({4: 'four'})[ATTEMPTS]} times at most",
        f"of at most {MAX_ENTRY_SIZE:,} bytes",
        f"{SIZE_CLASSES[0]:,}, {SIZE_CLASSES[1]:,}, {SIZE_CLASSES[2]:,} or {SIZE_CLASSES[3]:,} bytes",
        f"{REQUEST_OVERHEAD} bytes are header, enc and tag",
        f"uint16 0x{TOKEN_EXTENSION_TYPE:X}",
        f"at most {MAX_CHAIN} )",
        f"usage {DEVICE_EKU.dotted_string}",
        f"floor(m / {BLOCK})",
    ):
        assert said in text, said
