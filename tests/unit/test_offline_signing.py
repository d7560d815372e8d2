"""Signing where the key is, and publishing elsewhere: what comes back as a leaf is checked before it is sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from infra.cli import run
from infra.lab.kit.recipes import RecipeKit
from tacit.errors import DecodeError, Refusal, UsageError
from tacit.operations.publishing import read_leaf, signed_leaf, verified_document
from tacit.recipe.context import Context, Stage
from tacit.recipe.series_builder import Shape, propose_series
from tacit.rules.log import recipe_signature
from tacit.service.keys import write_signing_key
from tacit.tlog.leaves import LeafType, SignedLeaf, sign_leaf

KIT = RecipeKit()
RECIPE = KIT.recipe()
SERIES = propose_series(RECIPE, Shape(2, None, RECIPE.interval.start, RECIPE.interval.duration, 2))
KEY = KIT.keys["analyst"]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    found = {name: tmp_path / name for name in ("recipe.json", "series.json", "signing.key", "other.key", "out.leaf")}
    found["recipe.json"].write_text(json.dumps(RECIPE.body(), indent=1))
    found["series.json"].write_text(json.dumps(SERIES.body(), indent=1))
    write_signing_key(found["signing.key"], KEY)
    write_signing_key(found["other.key"], KIT.keys["leader"])
    return found


@pytest.mark.parametrize("kind", ["recipe", "series"])
def test_signing_needs_the_key_and_nothing_else_and_writes_the_leaf_that_publishing_would_send(
    kind: str, files: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    document = RECIPE if kind == "recipe" else SERIES
    words = [kind, "sign", str(files[f"{kind}.json"]), "--out", str(files["out.leaf"]), "--key"]
    assert run([*words, str(files["signing.key"]), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["type"], told["hash"], told["signer"]) == (kind, document.hash_text, "analyst.example")
    assert files["out.leaf"].read_bytes() == signed_leaf(document, KEY).encode()
    leaf = read_leaf(files["out.leaf"].read_bytes(), "out.leaf")
    assert leaf is not None
    assert verified_document(leaf).hash == document.hash
    assert run([*words, str(files["signing.key"])]) == 0
    assert document.hash_text in capsys.readouterr().out
    assert run([*words, str(files["other.key"])]) == 1
    assert "names another signing key of its analyst analyst.example" in capsys.readouterr().err


def test_a_leaf_stays_one_however_a_person_lays_it_out_and_a_document_is_none() -> None:
    leaf = signed_leaf(RECIPE, KEY)
    spaced = json.dumps(json.loads(leaf.encode()), indent=2).encode() + b"\n"
    found = read_leaf(spaced, "spaced")
    assert found is not None
    assert found.encode() == leaf.encode()
    assert recipe_signature(RECIPE, KIT.policy, Context(Stage.PUBLISH, 0.0, leaf=found)) is None
    assert read_leaf(json.dumps(RECIPE.body()).encode(), "recipe") is None
    assert read_leaf(b"[]", "list") is None


def _changed(**members: Any) -> bytes:
    return json.dumps({**json.loads(signed_leaf(RECIPE, KEY).encode()), **members}).encode()


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        (_changed(signature="AAAA"), UsageError, "leaf signature"),
        (_changed(version=2), UsageError, "not known"),
        (b"\xff", UsageError, "not JSON"),
        (_changed(body={**RECIPE.body(), "name": "other"}), Refusal, "leaf-signature"),
        (_changed(signer="leader.example"), Refusal, "signed by leader.example"),
        (sign_leaf(LeafType.RECIPE, RECIPE.body(), "analyst.example", KIT.keys["leader"]).encode(), Refusal, "the key"),
        (_changed(body={"version": 1}), DecodeError, "recipe"),
        (
            sign_leaf(LeafType.OPT_IN, KIT.opt_in(RECIPE, "leader"), "leader.example", KIT.keys["leader"]).encode(),
            DecodeError,
            "an analyst's are recipe and series",
        ),
    ],
    ids=["signature", "version", "bytes", "body", "signer", "key", "no recipe", "an opt-in"],
)
def test_what_the_analyst_did_not_sign_as_it_is_is_not_sent(data: bytes, error: type[Exception], words: str) -> None:
    def checked() -> SignedLeaf | None:
        leaf = read_leaf(data, "leaf")
        if leaf is not None:
            verified_document(leaf)
        return leaf

    with pytest.raises(error, match=words):
        checked()


def test_publishing_takes_a_leaf_without_a_key_and_says_what_does_not_go_together(
    files: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    away = ["--server", "http://127.0.0.1:1"]
    files["out.leaf"].write_bytes(signed_leaf(RECIPE, KEY).encode())
    assert run(["recipe", "publish", str(files["out.leaf"]), *away]) == 1
    assert "does not answer" in capsys.readouterr().err
    assert run(["recipe", "publish", str(files["out.leaf"]), *away, "--key", str(files["signing.key"])]) == 2
    assert "is signed already" in capsys.readouterr().err.replace("\n", " ")
    assert run(["recipe", "publish", str(files["recipe.json"]), *away, "--key", str(files["other.key"])]) == 1
    assert "names another signing key" in capsys.readouterr().err
    assert run(["series", "publish", str(files["out.leaf"]), *away]) == 1
    assert "publish it with: tacit recipe publish" in capsys.readouterr().err
