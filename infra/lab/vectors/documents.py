"""Test vectors from a recipe to a result: one document per step, with every input and every byte that follows.

Everything follows from one published seed. Bytes are written as hex, JSON documents and texts as they are.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from cryptography.hazmat.primitives import serialization

from client_agent.answering import draw_answer
from client_agent.coin import coin_threshold
from infra.lab.vectors.cast import SEED, cast
from infra.lab.vectors.kept_shares import kept_shares
from infra.lab.vectors.log import log
from infra.lab.vectors.wire import aggregate, ohttp_exchange, reports
from tacit.codec import b64url
from tacit.messages import Role
from tacit.methods.randomisers.registry import device_randomiser_of
from tacit.recipe.derive import randomizer_of, task_configuration, task_id
from tacit.recipe.encoder import encoder_of
from tacit.recipe.model import Recipe
from tacit.task import verify_key_confirmation, verify_key_of
from tacit.tokens.attestation import attestation_binding, token_request_body
from tacit.tokens.binding import Preimages
from tacit.tokens.blinding import blind_with
from tacit.tokens.issuance import PendingToken
from tacit.tokens.issuer_key import issue
from tacit.tokens.slots import redemption_context, slot_challenge
from tacit.tokens.structures import BLIND_RSA_2048, TokenRequest, token_input
from tacit.version import DAP_18

WARNING = "Test keys: everybody knows them. They are drawn from the seed below and protect nothing."
ANSWERS: dict[str, list[Any]] = {
    "doctor-visits": [0, "3", 15, 99, -1, "", None],
    "crashed": [1, "no", True, None],
    "languages": ["en", "nl", None],
    "spent": [0, "12.5", -1000, "1e2", None],
    "update": [[1, -2, 3], [10, 10, -10], "1,2,3", None],
    "rare-visits": [0, 2, None],
    "idle": [0.3, "0.285", "0.295", 0.295, "1e-9", -2, 7, None],
    "signal": [0.3, "0.3", 0.29, "0.2999999999", -0.6, 9, None],
    "update-proved": [[1, -2, 3], [10, 10, -10], "1,2,3", None],
    "start": [3, "3.25", 3.75, -5, "1e9", "", None],
}


def keys() -> dict[str, Any]:
    """Return every party's keys, private ones included."""
    people = cast()
    config, pair = people.gateway
    device = people.device
    private = device.key.private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    issuer = people.issuer
    return {
        "warning": WARNING,
        "seed": SEED.decode(),
        "signing": {
            name: {"private": key.private.hex(), "public": key.public.hex()}
            for name, key in {**people.kit.keys, "witness": people.witness}.items()
        },
        "log_key": people.kit.log_policy.log_key.encode(),
        "hpke": {
            role.name.lower(): {
                "config": people.kit.hpke_config(role).encode().hex(),
                "private": people.kit.key_pairs[role].private.hex(),
            }
            for role in (Role.LEADER, Role.HELPER, Role.COLLECTOR)
        },
        "gateway": {"key_config": config.encode().hex(), "private": pair.private.hex()},
        "issuer": {
            "p": int(issuer.p).to_bytes(128, "big").hex(),
            "q": int(issuer.q).to_bytes(128, "big").hex(),
            "token_key": issuer.token_key.spki.hex(),
            "token_key_id": issuer.token_key.token_key_id.hex(),
        },
        "device": {"private_pkcs8": private.hex(), "chain": [der.hex() for der in device.chain]},
        "verify_key_seed": people.kit.verify_key_seed.hex(),
    }


def recipes() -> dict[str, Any]:
    """Return the steps from each recipe to its task."""
    people = cast()
    found = []
    for recipe in people.recipes.values():
        own = task_id(recipe)
        verify_key = verify_key_of(people.kit.verify_key_seed, own)
        found.append(
            {
                "recipe": recipe.body(),
                "canonical": recipe.encode().decode(),
                "hash": recipe.hash.hex(),
                "hash_text": recipe.hash_text,
                "task_configuration": task_configuration(recipe).encode().hex(),
                "task_id": own.hex(),
                "task_id_text": b64url(own),
                "vdaf_context": DAP_18.vdaf_context(own).hex(),
                "verify_key": verify_key.hex(),
                "verify_key_confirmation": verify_key_confirmation(verify_key).hex(),
            }
        )
    return {"recipes": found}


def token() -> dict[str, Any]:
    """Return the steps of one token, from its slot to its extensions."""
    people = cast()
    draw, slot, key = people.draws("token"), people.slot("doctor-visits"), people.issuer.token_key
    preimages = Preimages.draw(draw)
    challenge = slot_challenge(slot)
    message = token_input(BLIND_RSA_2048, preimages.nonce, challenge.digest(), key.token_key_id)
    salt, factor = draw(48), int.from_bytes(draw(256), "big") % int(key.n)
    blinded, state = blind_with(key, message, salt=salt, r=factor)
    request = TokenRequest(key.truncated_token_key_id, blinded)
    response = issue(people.issuer, request, draw)
    pending = PendingToken(request, preimages.nonce, challenge.digest(), key.token_key_id, state)
    made = pending.finalize(key, response)
    return {
        "issuer": slot.issuer,
        "epoch": slot.epoch,
        "slot": slot.slot,
        "redemption_context": redemption_context(slot.epoch, slot.slot).hex(),
        "token_challenge": challenge.encode().hex(),
        "challenge_digest": challenge.digest().hex(),
        "r_leader": preimages.r_leader.hex(),
        "r_helper": preimages.r_helper.hex(),
        "nonce": preimages.nonce.hex(),
        "token_input": message.hex(),
        "salt": salt.hex(),
        "blinding_factor": factor.to_bytes(256, "big").hex(),
        "token_request": request.encode().hex(),
        "token_response": response.encode().hex(),
        "token": made.encode().hex(),
        "leader_extension": preimages.extension(made.encode(), Role.LEADER).hex(),
        "helper_extension": preimages.extension(made.encode(), Role.HELPER).hex(),
    }


def attestation() -> dict[str, Any]:
    """Return the device's request to the attester for that token."""
    people = cast()
    challenge = people.draws("attestation")(32)
    request = TokenRequest.decode(bytes.fromhex(token()["token_request"]))
    binding = attestation_binding(challenge, request)
    evidence = people.device.attest(binding)
    return {
        "at": people.now,
        "challenge": challenge.hex(),
        "binding": binding.hex(),
        "blob": evidence.blob.hex(),
        "body": json.loads(token_request_body(evidence, challenge, request)),
    }


def answers() -> dict[str, Any]:
    """Return the steps from values to what is sent: encoder, coins, randomizer, with the bytes drawn, in order."""
    people = cast()
    found = []
    for name, values in ANSWERS.items():
        recipe, draw = people.recipes[name], people.draws(f"answers {name}")
        randomiser, encoder = device_randomiser_of(randomizer_of(recipe)), encoder_of(recipe.question)
        rows = []
        for value in values:
            answer = encoder.encode(value)
            randomised = randomiser.missing(draw) if answer is None else randomiser.randomise(answer, draw)
            row = {"value": value, "encoded": answer, "draws": draw.hex(), "measurement": randomised}
            rate = recipe.sampling.rate_of(answer)
            row["rate"], row["coin_threshold"] = str(rate), f"{coin_threshold(rate):032x}"
            whole, _ = draw_answer(recipe, answer, draw)
            rows.append({**row, "sent": {"draws": draw.hex(), "measurement": whole}})
        dummies = [{"measurement": randomiser.dummy(draw), "draws": draw.hex()} for _ in range(2)]
        given = {"recipe": name, "labels": list(encoder.labels), **_thresholds(recipe)}
        found.append({**given, "answers": rows, "dummies": dummies})
    return {"recipes": found}


def _thresholds(recipe: Recipe) -> dict[str, Any]:
    """Return the thresholds with which draws are compared: the randomizer's, and that of a dummy's coin."""
    found = device_randomiser_of(randomizer_of(recipe)).thresholds()
    if recipe.sampling.dummies is not None:
        found["dummy_coin_threshold"] = f"{coin_threshold(recipe.sampling.dummy_rate):032x}"
    return found


DOCUMENTS: dict[str, tuple[Callable[[], dict[str, Any]], str]] = {
    "keys.json": (keys, "test keys of every party"),
    "recipes.json": (recipes, "recipe, canonical bytes, hash, task configuration, task id"),
    "token.json": (token, "slot, challenge, blinded request, token, extensions"),
    "attestation.json": (attestation, "binding, evidence and body for that token"),
    "answers.json": (answers, "value, encoded answer, draws, measurement"),
    "reports.json": (reports, "measurement, shares, plaintexts, AADs, seals, report"),
    "ohttp.json": (ohttp_exchange, "an upload in Binary HTTP, encapsulated, and its answer"),
    "log.json": (log, "leaves, checkpoint, cosignature, proofs, head, page, hashes"),
    "kept_shares.json": (kept_shares, "model pan-private: cells shared, embedded, encrypted, opened, verified"),
    "aggregate.json": (aggregate, "aggregate shares, their seals, sum and estimate"),
}
"""File -> the function that makes it, and a description."""


def vectors_readme() -> str:
    rows = "\n".join(f"| [{name}]({name}) | {about} |" for name, (_, about) in DOCUMENTS.items())
    return f"""# Test vectors

From a recipe to a result, one document per step, made by `tacit vectors` from one published seed; a test reproduces
them byte by byte and checks them with independent libraries. The keys are in `keys.json`: they are public, so use them
for nothing else. `docs/device.md` explains each step.

Bytes are hex, without a prefix; numbers, texts and JSON documents are as they are. `draws` are the random bytes that a
step drew, call by call, in order; thresholds are numbers in hex. `ephemeral_private` is the X25519 key of one HPKE
seal. In `answers.json` an answer has two parts: `measurement` is the randomised answer (for `encoded: null` that of a
missing value), and `sent` is the whole decision, with its own draws: the coin of `rate`, then the randomised answer if
the device takes part, then, if nothing is sent and the recipe has dummies, the coin of dummies. `vdaf_rand` is the
`rand` of the VDAF's shard function, whose nonce is the report id. In `kept_shares.json` a cell's `rand` is that of its
sharing, and each of its `draws`, little-endian modulo the group's order, is the r of one ciphertext.

| file | holds |
|---|---|
{rows}
"""


def vector_files() -> dict[str, bytes]:
    """Return the test vectors and their README, by file name."""
    files = {name: make() for name, (make, _) in DOCUMENTS.items()}
    texts = {name: json.dumps(found, indent=1, ensure_ascii=False) + "\n" for name, found in files.items()}
    return {name: text.encode() for name, text in {**texts, "README.md": vectors_readme()}.items()}
