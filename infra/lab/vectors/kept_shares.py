"""Vectors of model ``pan-private``: cells as devices keep and send them, and what leader and helper compute from
them."""

from __future__ import annotations

from typing import Any

from infra.lab.kit.watched import TWO, WatchingKit
from infra.lab.vectors.cast import SEED, Draws, cast
from tacit.messages import Role
from tacit.panprivate.elgamal import Ciphertext, PrivateKey
from tacit.panprivate.embedding import embed
from tacit.panprivate.state import encrypt_publicly
from tacit.recipe.derive import task_of
from tacit.task import verify_key_of
from tacit.vdaf import ping_pong
from tacit.vdaf.count_vec import Prio3CountVec

BITS = (0, 1, 0, 0, 1)
"""Randomised cells of a histogram up to 4: exactly 0, 1, 2, 3, at least 4."""
_SIDES = {Role.LEADER: "leader", Role.HELPER: "helper"}


def kept_shares() -> dict[str, Any]:
    """Return the cells of one answer: shared, embedded, encrypted, opened and verified."""
    people, kit = cast(), WatchingKit(SEED)
    recipe, draw = kit.watched_recipe(TWO, "histogram"), people.draws("kept shares")
    task = task_of(recipe, people.issuer.token_key.spki)
    report_id = draw(16)
    verify_key = verify_key_of(people.kit.verify_key_seed, task.task_id)
    draw.hex()
    cells = [_cell(kit.state_keys, task.ctx, bit, draw) for bit in BITS]
    shares = {side: b"".join(bytes.fromhex(cell[side]["share"]) for cell in cells) for side in _SIDES.values()}
    vdaf = Prio3CountVec(2, len(BITS))
    given = (vdaf, verify_key, task.ctx, None, report_id, b"")
    leader = ping_pong.leader_initialized(*given, shares["leader"])
    helper = ping_pong.helper_initialized(*given, shares["helper"], leader.outbound)
    out_shares = {"leader": leader.state.out_share, "helper": helper.out_share}
    return {
        "recipe": recipe.body(),
        "hash": recipe.hash.hex(),
        "task_id": task.task_id.hex(),
        "context": task.ctx.hex(),
        "report_id": report_id.hex(),
        "verify_key": verify_key.hex(),
        "state_keys": {
            side: {"private": key.scalar.hex(), "public": key.public_key().element.hex()}
            for side, key in kit.state_keys.items()
        },
        "cells": cells,
        **{
            side: {
                "payload": "".join("".join(cell[side]["ciphertexts"]) for cell in cells),
                "input_share": shares[side].hex(),
                "out_share": vdaf.encode_out_share(out_shares[side]).hex(),
            }
            for side in _SIDES.values()
        },
        "leader_initialize": leader.outbound.hex(),
        "helper_finish": helper.outbound.hex(),
    }


def _cell(keys: dict[str, PrivateKey], context: bytes, bit: int, draw: Draws) -> dict[str, Any]:
    vdaf = Prio3CountVec(2, 1)
    parts = vdaf.shard_cell(context, bit, draw(vdaf.CELL_RAND_SIZE))
    (rand,) = draw.hex()
    made: dict[str, Any] = {"bit": bit, "rand": rand}
    for side, share in zip(_SIDES.values(), parts, strict=True):
        elements = embed(share)
        sent: list[Ciphertext] = [keys[side].public_key().rerandomise(encrypt_publicly(one), draw) for one in elements]
        made[side] = {
            "share": share.hex(),
            "elements": [one.hex() for one in elements],
            "draws": draw.hex(),
            "ciphertexts": [one.encode().hex() for one in sent],
        }
    return made
