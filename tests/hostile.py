"""Leaves that are in a log and should not be: every member of a recipe at its worst, and entries of every kind."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.lab.kit.recipes import EPOCH, EPOCH_SECONDS, NOW, RecipeKit, changed
from tacit import hpke
from tacit.codec import b64url
from tacit.messages import HpkeConfig
from tacit.ohttp import KeyConfig
from tacit.recipe.model import Recipe
from tacit.recipe.series import Series
from tacit.tlog.canonical import MAX_INTEGER, canonical_bytes
from tacit.tlog.leaves import LeafType, SignedLeaf, sign_leaf

LOW_ORDER = bytes([1]) + bytes(31)
NUMBERS = (0, 2**32, MAX_INTEGER)
TEXTS = ("", "0", "NaN", "-1", "1e400", "9" * 9, "\u0663", "\u202e\u0000x", "a" * 600)
URLS = ("https://", "http://[::1", "https://a.example:99999999", "https://" + "a" * 500, "javascript:0", "https://a\\b")


def sparse(path: Path) -> None:
    """A file of 2 GiB that takes no space."""
    with path.open("wb") as file:
        file.truncate(2 << 30)


ODD_FILES = pytest.mark.parametrize(
    ("make", "words"),
    [
        (sparse, "larger than"),
        (os.mkfifo, "not a regular file"),
        (Path.mkdir, "Is a directory"),
        (lambda path: path.symlink_to("/dev/zero"), "not a regular file"),
        (lambda path: path.symlink_to(path), "Too many levels"),
    ],
    ids=["sparse", "fifo", "folder", "device", "circle"],
)
"""What may stand where a file is expected: how it is made, and what is said of it."""
KEYS = (b64url(LOW_ORDER), b64url(bytes(32)), b64url(b"\xff" * 32), "AAAA", "=")


def _suited(public: bytes) -> str:
    suite = hpke.DEFAULT_SUITE
    return b64url(HpkeConfig(1, suite.kem_id, suite.kdf_id, suite.aead_id, public).encode())


CONFIGS = (_suited(LOW_ORDER), _suited(bytes(32)), _suited(b"\xff" * 32), _suited(b"x"), b64url(b"\0" * 9))


_ODD_TEXTS = (
    (b"", b"\\ud800"),
    (b'"\\ud800":1', b"x"),
    (b'"a":1e999', b"x"),
    (b'"a":1,"a":1', b"x"),
    (b"", b"\\u0000"),
)
"""What JSON allows and no canonical leaf holds: members of a body, and a signer."""


def _members(body: dict[str, Any], at: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in body.items():
        yield (*at, name), value
        if isinstance(value, dict):
            yield from _members(value, (*at, name))


def _worst(path: tuple[str, ...], value: Any) -> tuple[Any, ...]:
    if path[-1] == "hpke_config":
        return CONFIGS
    if path[-1] == "signing_key":
        return KEYS
    if path[-1] == "url":
        return URLS
    if isinstance(value, dict):
        return ({}, [], {"kind": "buckets", "edges": [MAX_INTEGER, -MAX_INTEGER]})
    return NUMBERS if isinstance(value, int) else TEXTS


def hostile_bodies(recipe: Recipe) -> Iterator[dict[str, Any]]:
    """The recipe with one member after the other at each of its worst values, or missing."""
    for path, value in _members(recipe.body()):
        for worst in (*_worst(path, value), None):
            body = copy.deepcopy(recipe.body())
            at: Any = body
            for name in path[:-1]:
                at = at[name]
            if worst is None:
                del at[path[-1]]
            else:
                at[path[-1]] = worst
            yield body


def recipe_leaves(kit: RecipeKit, recipe: Recipe) -> list[bytes]:
    """``hostile_bodies``, each signed by the analyst."""
    bodies = hostile_bodies(recipe)
    return [sign_leaf(LeafType.RECIPE, body, "analyst.example", kit.keys["analyst"]).encode() for body in bodies]


def _deep(depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(depth):
        found = {"a": found}
    return found


def odd_leaves(kit: RecipeKit) -> list[bytes]:
    """Entries of every kind that no reader can use, and some that are no leaves at all."""
    good, series = kit.recipe(), kit.series()
    signed = [sign_leaf(LeafType.RECIPE, _deep(depth), "analyst.example", kit.keys["analyst"]) for depth in (50, 200)]
    signed += [sign_leaf(kind, {}, "leader.example", kit.keys["leader"]) for kind in LeafType]
    signed += [*_hostile_series(kit, series), *_hostile_directories(kit), *_hostile_keys(kit)]
    signed += _leaves_about(kit, changed(good, "parties.leader.hpke_config", CONFIGS[0]))
    signed += _leaves_about(kit, changed(good, "vdaf.length", 1 << 20))
    signed += _leaves_about(
        kit, changed(good, "parties.leader.signing_key", b64url(kit.keys["analyst"].public)), "analyst"
    )
    forged = SignedLeaf(LeafType.RECIPE, good.body(), "analyst.example", bytes(64))
    nested = canonical_bytes({"type": "recipe", "version": 1, "body": _deep(300), "signer": "x", "signature": "AA"})
    raw = [b"{}", b"[" * 20_000, b'{"a":' * 900 + b"1" + b"}" * 900, b"\xff\xfe", b"1" * 5_000, nested]
    raw += [b'{"body":{%s},"signature":"AA","signer":"%s","type":"void","version":1}' % odd for odd in _ODD_TEXTS]
    return [leaf.encode() for leaf in (*signed, forged)] + raw


def _hostile_series(kit: RecipeKit, series: Series) -> Iterator[SignedLeaf]:
    """Series whose rounds have no slot or no time that a recipe could hold, each with a round of it."""
    for path, value in (
        (("slots", "epoch"), MAX_INTEGER),
        (("interval", "start"), MAX_INTEGER),
        (("rounds",), 10_000),
        (("donation", "window_seconds"), MAX_INTEGER),
        (("template",), {}),
        (("template", "question"), "x"),
        (("template", "question"), _deep(60)),
        (("template", "question"), _deep(240)),
        (("template", "sampling"), {"rate": [[[[{}]]]]}),
    ):
        body = copy.deepcopy(series.body())
        at: Any = body
        for name in path[:-1]:
            at = at[name]
        at[path[-1]] = value
        leaf = sign_leaf(LeafType.SERIES, body, "analyst.example", kit.keys["analyst"])
        yield leaf
        place = {"hash": b64url(_sha256(canonical_bytes(body))), "index": 1}
        of_it = {**kit.round(series, 1).body(), "series": place}
        yield sign_leaf(LeafType.RECIPE, of_it, "analyst.example", kit.keys["analyst"])


def _sha256(data: bytes) -> bytes:
    import hashlib

    return hashlib.sha256(data).digest()


def _hostile_directories(kit: RecipeKit) -> Iterator[SignedLeaf]:
    """Directories of the pinned issuer with slots that no token has, and keys that are none."""
    spki = kit.directory().spki(0) or b""
    keys = [
        {"slot": 1, "token_key": b64url(spki[:-3] + b"\x01\x00\x02")},
        {"slot": 2, "token_key": b64url(b"\x30" * 300)},
        {"slot": 2**40, "token_key": b64url(spki)},
        {"slot": MAX_INTEGER, "token_key": b64url(spki[:-1] + b"\x03")},
    ]
    body = {
        "issuer": "issuer.example",
        "epoch": EPOCH + 1,
        "epoch_seconds": EPOCH_SECONDS,
        "request_uri": "\u202e",
        "keys": keys,
    }
    yield sign_leaf(LeafType.ISSUER_DIRECTORY, body, "issuer.example", kit.keys["issuer"])
    far = {**body, "epoch": MAX_INTEGER, "epoch_seconds": MAX_INTEGER}
    yield sign_leaf(LeafType.ISSUER_DIRECTORY, far, "issuer.example", kit.keys["issuer"])


def _hostile_keys(kit: RecipeKit) -> Iterator[SignedLeaf]:
    """Key sets of the pinned gateway for later periods whose keys are none."""
    weak = b64url(KeyConfig(1, hpke.KEM_X25519, LOW_ORDER, ((1, 1),)).encode())
    other = b64url(KeyConfig(1, hpke.KEM_X25519, kit.key_pairs[next(iter(kit.key_pairs))].public, ((7, 7),)).encode())
    rotation = 7 * 86_400
    for ahead, key in enumerate((weak, other, "AAAA"), start=1):
        body = {
            "gateway": "gateway.example",
            "period": NOW // rotation + ahead,
            "rotation_seconds": rotation,
            "active": key,
        }
        yield sign_leaf(LeafType.OHTTP_CONFIG, body, "gateway.example", kit.keys["gateway"])


def _leaves_about(kit: RecipeKit, recipe: Recipe, signer: str = "") -> Iterator[SignedLeaf]:
    """What the aggregators of a hostile recipe may say about it, or the key of ``signer`` in their names."""
    yield kit.recipe_leaf(recipe)
    for role in ("leader", "helper"):
        about = {"recipe_hash": recipe.hash_text, "task_id": b64url(bytes(32)), "role": role}
        for kind, more in (
            (LeafType.VOID, {}),
            (LeafType.OPT_IN, {"seed_id": "x", "verify_key_confirmation": b64url(bytes(32))}),
            (LeafType.CENSUS_SHARE, {"report_count": MAX_INTEGER, "aggregate_share": "AAAA"}),
        ):
            yield sign_leaf(kind, {**about, **more}, f"{role}.example", kit.keys[signer or role])
