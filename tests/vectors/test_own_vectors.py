"""``docs/vectors`` are what the code makes, and what others make of the same documents: every step is checked with
libraries that are not ours, or with arithmetic written out here."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
import shutil
import struct
import subprocess
import sys
from decimal import ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand
from pyhpke import AEADId, CipherSuite, KDFId, KEMId, KEMKey, KEMKeyInterface, KEMKeyPair

from infra.lab.vectors.cast import ASKED
from infra.lab.vectors.documents import ANSWERS, vector_files
from tests.conftest import skip_or_fail

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "vectors"
FIELD128 = 4611686018427387897 * 2**66 + 1
SUITE = CipherSuite.new(KEMId.DHKEM_X25519_HKDF_SHA256, KDFId.HKDF_SHA256, AEADId.AES128_GCM)
SIDES = {"leader": 2, "helper": 3}


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return found


KEYS, RECIPES, TOKEN, REPORTS, LOG = (read(name) for name in ("keys", "recipes", "token", "reports", "log"))
BY_NAME = {found["recipe"]["name"]: found for found in RECIPES["recipes"]}


def unhex(text: str) -> bytes:
    return bytes.fromhex(text)


def unb64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def opaque(data: bytes, size: int) -> bytes:
    return len(data).to_bytes(size, "big") + data


def sha256(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


def test_the_vectors_are_what_the_code_makes_byte_by_byte() -> None:
    made = vector_files()
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(made)
    differing = [name for name, content in made.items() if (FOLDER / name).read_bytes() != content]
    assert differing == [], "run: make documents"
    assert set(ANSWERS) == set(ASKED) == set(BY_NAME)


@pytest.mark.parametrize("name", BY_NAME)
def test_a_recipe_leads_to_its_task(name: str) -> None:
    found = BY_NAME[name]
    recipe, canonical = found["recipe"], found["canonical"].encode()
    assert rfc8785.dumps(recipe) == canonical
    assert sha256(canonical).hex() == found["hash"]
    leader, helper = (recipe["parties"][role]["url"].encode() for role in SIDES)
    vdaf, batch, interval = recipe["vdaf"], recipe["batch"], recipe["interval"]
    length, chunk = (struct.pack(">I", vdaf[member]) for member in ("length", "chunk_length"))
    of_vector = ("max_value", "centre", "max_square", "scale", "flips")
    bounds = [struct.pack(">Q", vdaf["vector"][member]) for member in of_vector if "vector" in vdaf]
    number, parameters = {
        "Prio3Count": (1, b""),
        "Prio3Sum": (2, struct.pack(">Q", vdaf.get("max_measurement", 0))),
        "Prio3SumVec": (3, length + struct.pack(">Q", vdaf.get("max_measurement", 0)) + chunk),
        "Prio3Histogram": (4, length + chunk),
        "Prio3MultihotCountVec": (5, length + chunk + struct.pack(">Q", vdaf.get("max_weight", 0))),
        "Prio3L2BoundSum": (0xFFFF5444, length + b"".join(bounds) + chunk),
    }[vdaf["name"]]
    precision = batch["time_precision"]
    span = struct.pack(">QQ", interval["start"] // precision, interval["duration"] // precision)
    configuration = (
        opaque(unhex(found["hash"]), 1)
        + opaque(leader, 2)
        + opaque(helper, 2)
        + struct.pack(">QQ", precision, batch["min_batch_size"])
        + bytes([{"time_interval": 1, "leader_selected": 2}[batch["mode"]]])
        + opaque(b"", 2)
        + struct.pack(">I", number)
        + opaque(parameters, 2)
        + opaque(struct.pack(">H", 1) + opaque(span, 2), 2)
    )
    assert configuration.hex() == found["task_configuration"]
    task_id = sha256(hashlib.sha256(b"dap-taskprov task id").digest(), configuration)
    assert task_id.hex() == found["task_id"]
    assert unb64(found["task_id_text"]) == task_id
    assert found["vdaf_context"] == (b"dap-18" + task_id).hex()
    verify_key = HKDF(SHA256(), 32, sha256(b"dap-taskprov"), task_id).derive(unhex(KEYS["verify_key_seed"]))
    assert verify_key.hex() == found["verify_key"]
    assert sha256(b"tacit vk confirm", verify_key).hex() == found["verify_key_confirmation"]


def token_key() -> rsa.RSAPublicKey:
    loaded = serialization.load_der_public_key(unhex(KEYS["issuer"]["token_key"]))
    assert isinstance(loaded, rsa.RSAPublicKey)
    return loaded


def test_a_token_is_a_blind_signature_over_the_slot_and_both_secrets() -> None:
    context = sha256(b"sa2-slot", struct.pack(">QI", TOKEN["epoch"], TOKEN["slot"]))
    assert context.hex() == TOKEN["redemption_context"]
    challenge = struct.pack(">H", 2) + opaque(TOKEN["issuer"].encode(), 2) + opaque(context, 1) + opaque(b"", 2)
    assert challenge.hex() == TOKEN["token_challenge"]
    r_leader, r_helper = unhex(TOKEN["r_leader"]), unhex(TOKEN["r_helper"])
    nonce = sha256(b"sa2-tok", sha256(r_leader), sha256(r_helper))
    key_id = sha256(unhex(KEYS["issuer"]["token_key"]))
    message = b"\x00\x02" + nonce + sha256(challenge) + key_id
    assert message.hex() == TOKEN["token_input"]
    token, request = unhex(TOKEN["token"]), unhex(TOKEN["token_request"])
    pss = padding.PSS(mgf=padding.MGF1(hashes.SHA384()), salt_length=48)
    token_key().verify(token[98:], message, pss, hashes.SHA384())
    assert token[:98] == message
    numbers, factor = token_key().public_numbers(), int(TOKEN["blinding_factor"], 16)
    signature, blinded = int.from_bytes(token[98:], "big"), int.from_bytes(request[3:], "big")
    assert request[:3] == b"\x00\x02" + key_id[-1:]
    assert blinded == pow(signature, numbers.e, numbers.n) * pow(factor, numbers.e, numbers.n) % numbers.n
    assert int(TOKEN["token_response"], 16) == signature * factor % numbers.n
    assert TOKEN["leader_extension"] == (token + r_leader + sha256(r_helper)).hex()
    assert TOKEN["helper_extension"] == (token + r_helper + sha256(r_leader)).hex()


def test_evidence_is_a_signature_of_the_certified_key_over_challenge_and_request() -> None:
    found = read("attestation")
    binding = sha256(b"tacit attest v1", unhex(found["challenge"]), unhex(TOKEN["token_request"]))
    assert binding.hex() == found["binding"]
    blob = unhex(found["blob"])
    size = int.from_bytes(blob[:2], "big")
    chain, signature = blob[2 : 2 + size], blob[4 + size :]
    assert int.from_bytes(blob[2 + size : 4 + size], "big") == len(signature)
    ders = []
    while chain:
        length = int.from_bytes(chain[:2], "big")
        ders.append(chain[2 : 2 + length])
        chain = chain[2 + length :]
    assert [der.hex() for der in ders] == KEYS["device"]["chain"]
    leaf, above = (x509.load_der_x509_certificate(der) for der in ders)
    leaf.verify_directly_issued_by(above)
    public = leaf.public_key()
    assert isinstance(public, ec.EllipticCurvePublicKey)
    public.verify(signature, binding, ec.ECDSA(SHA256()))
    body = found["body"]
    assert unb64(body["evidence"]["blob"]) == blob
    assert (unb64(body["challenge"]).hex(), unb64(body["token_request"]).hex()) == (
        found["challenge"],
        TOKEN["token_request"],
    )
    assert body["evidence"]["fmt"] == "software-root"


def keep(epsilon: Decimal, others: int) -> int:
    with localcontext() as context:
        context.prec = 60
        exact = Decimal(2**128) * epsilon.exp() / (epsilon.exp() + others)
        return int(exact.to_integral_value(rounding=ROUND_FLOOR)) - 1


def test_categories_are_kept_with_the_stated_probability_and_else_replaced() -> None:
    for found in read("answers")["recipes"]:
        recipe = BY_NAME[found["recipe"]]["recipe"]
        spec = recipe["randomizer"]
        if spec["name"] != "krr":
            continue
        size = spec["categories"]
        threshold = keep(Decimal(spec["epsilon0"]), size - 1)
        assert f"{threshold:032x}" == found["keep_threshold"]
        for row in found["answers"]:
            drawn = [int(one, 16) for one in row["draws"]]
            if row["encoded"] is None:
                assert row["measurement"] == drawn[0] % size
                continue
            other = drawn[1] % (size - 1)
            expected = row["encoded"] if drawn[0] < threshold else other + (other >= row["encoded"])
            assert row["measurement"] == expected
            assert int(row["coin_threshold"], 16) == Fraction(row["rate"]) * 2**128 // 1


def test_noise_is_a_number_of_fair_flips_on_top_of_the_scaled_answer() -> None:
    found = {one["recipe"]: one for one in read("answers")["recipes"]}
    for name in ("spent", "update", "update-proved"):
        spec = BY_NAME[name]["recipe"]["randomizer"]
        for row in found[name]["answers"]:
            if row["encoded"] is None:
                continue
            values = row["encoded"] if isinstance(row["encoded"], list) else [row["encoded"]]
            measured = row["measurement"] if isinstance(row["measurement"], list) else [row["measurement"]]
            mask = (1 << spec["flips"]) - 1
            ones = [(int(draw, 16) & mask).bit_count() for draw in row["draws"]]
            sums = [spec["scale"] * value + flips for value, flips in zip(values, ones, strict=True)]
            assert measured == sums, "what is proved is what is added, its noise included"


def test_a_number_is_rounded_to_an_end_of_its_range_at_random_and_that_bit_kept_or_turned() -> None:
    (found,) = (one for one in read("answers")["recipes"] if one["recipe"] == "start")
    recipe = BY_NAME["start"]["recipe"]
    spec, question = recipe["randomizer"], recipe["question"]["encoder"]
    low, unit = question["low"], Fraction(question["unit"])
    assert (spec["maximum"], recipe["vdaf"]["name"]) == ((question["high"] - low) / unit, "Prio3Count")
    threshold = keep(Decimal(spec["epsilon0"]), 1)
    assert f"{threshold:032x}" == found["keep_threshold"]
    for row in found["answers"]:
        if row["encoded"] is not None:
            clipped = min(max(Fraction(row["value"]), low), question["high"])
            assert row["encoded"] == round((clipped - low) / unit), "half to even, as Python rounds fractions"
    neutral = int(-low / unit)
    for row in (*found["answers"], *({"encoded": None, **dummy} for dummy in found["dummies"])):
        rounded, kept = (int(one, 16) for one in row["draws"])
        bit = int(rounded % spec["maximum"] < (neutral if row["encoded"] is None else row["encoded"]))
        assert row["measurement"] == (bit if kept < threshold else 1 - bit)


def key_of(private: bytes) -> tuple[KEMKeyInterface, KEMKeyInterface]:
    public = X25519PrivateKey.from_private_bytes(private).public_key()
    return KEMKey.from_pyca_cryptography_key(
        X25519PrivateKey.from_private_bytes(private)
    ), KEMKey.from_pyca_cryptography_key(public)


def check_seal(seal: dict[str, Any], recipient: bytes, aad: bytes, plaintext: bytes) -> None:
    """Sealing with the given ephemeral key gives these bytes, and the recipient opens them."""
    private, public = key_of(recipient)
    ephemeral, shown = key_of(unhex(seal["ephemeral_private"]))
    enc, sender = SUITE.create_sender_context(public, unhex(seal["hpke_info"]), eks=KEMKeyPair(ephemeral, shown))
    assert enc.hex() == seal["enc"]
    assert sender.seal(plaintext, aad).hex() == seal["ciphertext"]
    opened = SUITE.create_recipient_context(enc, private, unhex(seal["hpke_info"]))
    assert opened.open(unhex(seal["ciphertext"]), aad) == plaintext


@pytest.mark.parametrize("found", REPORTS["reports"], ids=lambda found: str(found["recipe"]))
def test_a_report_is_two_seals_over_everything_that_was_agreed(found: dict[str, Any]) -> None:
    task = BY_NAME[found["recipe"]]
    public_share = unhex(found["public_share"])
    metadata = unhex(found["report_id"]) + struct.pack(">Q", found["time"]) + opaque(b"", 2)
    aad = unhex(task["task_id"]) + unhex(task["task_configuration"]) + metadata + opaque(public_share, 4)
    assert aad.hex() == found["aad"]
    report = metadata + opaque(public_share, 4)
    token, own = unhex(found["token"]), {side: unhex(found[f"r_{side}"]) for side in SIDES}
    for side, role in SIDES.items():
        (other,) = (secret for name, secret in own.items() if name != side)
        extension = struct.pack(">H", 0xFF54) + opaque(token + own[side] + sha256(other), 2)
        share = found[side]
        plaintext = opaque(extension, 2) + opaque(unhex(share["input_share"]), 4)
        assert plaintext.hex() == share["plaintext"]
        assert unhex(share["hpke_info"]) == b"dap-18 input share" + bytes([1, role])
        check_seal(share, unhex(KEYS["hpke"][side]["private"]), aad, plaintext)
        config = unhex(KEYS["hpke"][side]["config"])
        report += config[:1] + opaque(unhex(share["enc"]), 2) + opaque(unhex(share["ciphertext"]), 4)
    assert report.hex() == found["report"]
    assert found["time"] == task["recipe"]["interval"]["start"] // task["recipe"]["batch"]["time_precision"]


def test_an_upload_travels_in_one_size_class_and_its_answer_opens() -> None:
    found = read("ohttp")
    sections = (found["method"], found["scheme"], found["authority"], found["path"])
    head = b"\x00" + b"".join(bytes([len(text)]) + text.encode() for text in sections[:3])
    path = sections[3].encode()
    fields = b"".join(bytes([len(part)]) + part.encode() for field in found["fields"] for part in field)
    content = unhex(found["content"])
    encoded = head + varint(len(path)) + path + varint(len(fields)) + fields + varint(len(content)) + content + b"\x00"
    assert encoded.hex() == found["binary_http_request"]
    message, config = unhex(found["encapsulated_request"]), unhex(found["key_config"])
    header = config[:3] + bytes.fromhex("00010001")
    assert message[:7] == header
    assert len(message) == 4096 == len(unhex(found["encapsulated_response"]))
    info = b"message/bhttp request\x00" + header
    assert info.hex() == found["hpke_info"]
    seal = {**found, "enc": message[7:39].hex(), "ciphertext": message[39:].hex()}
    padded = encoded.ljust(4096 - 7 - 32 - 16, b"\x00")
    check_seal(seal, unhex(KEYS["gateway"]["private"]), b"", padded)
    private, _ = key_of(unhex(KEYS["gateway"]["private"]))
    context = SUITE.create_recipient_context(message[7:39], private, info)
    answer, nonce = unhex(found["encapsulated_response"]), unhex(found["response_nonce"])
    assert answer[:16] == nonce
    secret = context.export(b"message/bhttp response", 16)
    prk = HKDF.extract(SHA256(), message[7:39] + nonce, secret)
    key, aead_nonce = (HKDFExpand(SHA256(), size, label).derive(prk) for size, label in ((16, b"key"), (12, b"nonce")))
    opened = AESGCM(key).decrypt(aead_nonce, answer[16:], b"")
    assert opened.rstrip(b"\x00") == unhex(found["binary_http_response"]).rstrip(b"\x00")


def varint(value: int) -> bytes:
    return bytes([value]) if value < 64 else (value | 0x4000).to_bytes(2, "big")


def tree_root(leaves: list[bytes]) -> bytes:
    if len(leaves) == 1:
        return leaves[0]
    split = 1 << (len(leaves) - 1).bit_length() - 1
    return sha256(b"\x01", tree_root(leaves[:split]), tree_root(leaves[split:]))


def test_leaves_are_signed_and_in_the_tree_that_log_and_witness_signed() -> None:
    names = {f"{name}.example": unhex(key["public"]) for name, key in KEYS["signing"].items()}
    for leaf in LOG["leaves"]:
        entry = json.loads(leaf["entry"])
        assert rfc8785.dumps(entry).decode() == leaf["entry"]
        signed = b"tacit leaf v1\x00" + entry["type"].encode() + b"\x00" + rfc8785.dumps(entry["body"])
        assert signed.hex() == leaf["signed"]
        Ed25519PublicKey.from_public_bytes(names[entry["signer"]]).verify(unb64(entry["signature"]), signed)
        assert sha256(b"\x00", leaf["entry"].encode()).hex() == leaf["leaf_hash"]
    hashes_ = [unhex(leaf["leaf_hash"]) for leaf in LOG["leaves"]]
    assert tree_root(hashes_).hex() == LOG["root"]
    assert tree_root(hashes_[: LOG["known_size"]]).hex() == LOG["known_root"]
    text, _, lines = LOG["checkpoint"].partition("\n\n")
    origin, size, root = f"{text}\n".splitlines()
    assert (origin, int(size), base64.b64decode(root).hex()) == ("log.example/tacit", len(hashes_), LOG["root"])
    own, witness = (base64.b64decode(line.split(" ")[2])[4:] for line in lines.splitlines())
    Ed25519PublicKey.from_public_bytes(names["log.example"]).verify(own, f"{text}\n".encode())
    cosigned = f"cosignature/v1\ntime {int.from_bytes(witness[:8], 'big')}\n{text}\n".encode()
    Ed25519PublicKey.from_public_bytes(names["witness.example"]).verify(witness[8:], cosigned)


def test_a_page_holds_the_leaves_with_proofs_and_is_named_by_its_digest() -> None:
    (page,), (digest,) = LOG["page_bytes"], LOG["head"]["pages"]
    assert sha256(unhex(page)) == unb64(digest)
    assert json.loads(unhex(page)) == LOG["pages"][0]
    assert LOG["head"]["checkpoint"] == LOG["checkpoint"]
    entries = LOG["pages"][0]["entries"]
    assert [unb64(entry["leaf"]).decode() for entry in entries] == [leaf["entry"] for leaf in LOG["leaves"]]
    for entry, leaf in zip(entries, LOG["leaves"], strict=True):
        path = [unb64(one) for one in entry["inclusion"]]
        assert [one.hex() for one in path] == leaf["inclusion_proof"]
        assert from_inclusion(unhex(leaf["leaf_hash"]), entry["index"], LOG["size"], path).hex() == LOG["root"]
    leaves = unb64(LOG["hashes"]["leaves"])
    assert [leaves[at : at + 32].hex() for at in range(0, len(leaves), 32)] == [
        one["leaf_hash"] for one in LOG["leaves"]
    ]


def from_inclusion(leaf: bytes, index: int, size: int, path: list[bytes]) -> bytes:
    if not path:
        return leaf
    split, sibling = 1 << (size - 1).bit_length() - 1, path[-1]
    if index < split:
        return sha256(b"\x01", from_inclusion(leaf, index, split, path[:-1]), sibling)
    return sha256(b"\x01", sibling, from_inclusion(leaf, index - split, size - split, path[:-1]))


def test_the_consistency_proof_leads_to_both_roots() -> None:
    # RFC 6962 section 2.1.2 for 3 of 9 entries: the third leaf, the fourth, the first two, the next four, the last
    third, fourth, first, four, last = (unhex(one) for one in LOG["consistency_proof"])
    assert (LOG["known_size"], LOG["size"]) == (3, 9)
    assert sha256(b"\x01", first, third).hex() == LOG["known_root"]
    eight = sha256(b"\x01", sha256(b"\x01", first, sha256(b"\x01", third, fourth)), four)
    assert sha256(b"\x01", eight, last).hex() == LOG["root"]


def test_aggregate_shares_add_up_to_the_counts_from_which_the_estimate_follows() -> None:
    found = read("aggregate")
    recipe = BY_NAME[found["recipe"]]["recipe"]
    totals = [0] * len(found["counts"])
    for side in SIDES:
        share = unhex(found[side]["aggregate_share"])
        check_seal(found[side], unhex(KEYS["hpke"]["collector"]["private"]), unhex(found["aad"]), share)
        numbers = [int.from_bytes(share[at : at + 16], "little") for at in range(0, len(share), 16)]
        totals = [(one + other) % FIELD128 for one, other in zip(totals, numbers, strict=True)]
    assert totals == found["counts"]
    assert totals == [sum(row["measurement"] == cell for row in found["reports"]) for cell in range(len(totals))]
    power = math.exp(float(recipe["randomizer"]["epsilon0"]))
    hit, noise = power / (power + len(totals) - 1), 1 / (power + len(totals) - 1)
    rate, count = float(recipe["sampling"]["rate"]), found["report_count"]
    estimates = [(total - count * noise) / ((hit - noise) * rate) for total in totals]
    assert estimates == pytest.approx(found["estimates"], abs=1e-5)


REFERENCE = """
import json, sys
from vdaf_poc import vdaf_prio3
for case in json.load(sys.stdin):
    if vdaf_prio3.Prio3Count.ID != 1:
        sys.exit("this is the reference of an early draft, whose algorithm ids begin at 0")
    vdaf = getattr(vdaf_prio3, case["name"])(2, *case["parameters"])
    context, nonce, rand = (bytes.fromhex(case[name]) for name in ("context", "nonce", "rand"))
    public_share, shares = vdaf.shard(context, case["measurement"], nonce, rand)
    encoded = [vdaf.encode_public_share(public_share), *map(vdaf.encode_input_share, shares)]
    print(json.dumps([part.hex() for part in encoded]))
"""
"""A program: shards with the CFRG's reference implementation, which needs CPython 3.12 and pycryptodomex."""


def test_the_reference_implementation_of_the_vdaf_draft_makes_the_same_shares() -> None:
    path = os.environ.get("TACIT_VDAF_POC", "")
    interpreter = sys.executable if sys.version_info >= (3, 12) else shutil.which("python3.12")
    if not path or interpreter is None:
        skip_or_fail("vdaf-poc", "TACIT_VDAF_POC names no CFRG reference implementation, or there is no python3.12")
    cases, expected = [], []
    for found in REPORTS["reports"]:
        spec = BY_NAME[found["recipe"]]["recipe"]["vdaf"]
        if "vector" in spec:
            continue  # not one of the draft's
        length, chunk, most = spec["length"], spec["chunk_length"], spec.get("max_measurement")
        parameters = {
            "Prio3Count": (),
            "Prio3Sum": (most,),
            "Prio3SumVec": (length, most, chunk),
            "Prio3Histogram": (length, chunk),
            "Prio3MultihotCountVec": (length, spec.get("max_weight"), chunk),
        }[spec["name"]]
        cases.append(
            {
                "name": spec["name"],
                "parameters": parameters,
                "measurement": found["measurement"],
                "context": unhex(BY_NAME[found["recipe"]]["vdaf_context"]).hex(),
                "nonce": unhex(found["report_id"]).hex(),
                "rand": unhex(found["vdaf_rand"]).hex(),
            }
        )
        expected.append([found["public_share"], *(found[side]["input_share"] for side in SIDES)])
    assert len(expected) >= 5
    done = subprocess.run(
        [str(interpreter), "-c", REFERENCE],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert [json.loads(line) for line in done.stdout.split("\n") if line] == expected
