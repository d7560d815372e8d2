"""Signing where the key is, and publishing elsewhere: what comes back as a leaf is checked before it is sent."""

from __future__ import annotations

import functools
import json
import os
import pty
import select
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infra.cli import run
from infra.lab.kit.recipes import RecipeKit
from tacit.errors import DecodeError, Refusal, UsageError
from tacit.operations.publishing import read_leaf, signed_leaf, verified_document
from tacit.recipe.context import Context, Stage
from tacit.recipe.series import Series
from tacit.recipe.writing.series_builder import Shape, propose_series
from tacit.rules.log import recipe_signature
from tacit.service.base.keys import write_signing_key
from tacit.tlog.leaves import LeafType, SignedLeaf, sign_leaf
from tests.hostile import ODD_FILES
from tests.kit.processes import running

KIT = RecipeKit()
RECIPE = KIT.recipe()
KEY = KIT.keys["analyst"]


@functools.cache
def series() -> Series:
    return propose_series(RECIPE, Shape(2, None, RECIPE.interval.start, RECIPE.interval.duration, 2))


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    found = {name: tmp_path / name for name in ("recipe.json", "series.json", "signing.key", "other.key", "out.leaf")}
    found["recipe.json"].write_text(json.dumps(RECIPE.body(), indent=1))
    found["series.json"].write_text(json.dumps(series().body(), indent=1))
    write_signing_key(found["signing.key"], KEY)
    write_signing_key(found["other.key"], KIT.keys["leader"])
    return found


@pytest.mark.parametrize("kind", ["recipe", "series"])
def test_signing_needs_the_key_and_nothing_else_and_writes_the_leaf_that_publishing_would_send(
    kind: str, files: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    document = RECIPE if kind == "recipe" else series()
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
            "an analyst can publish a recipe or a series",
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
    assert "nobody would be asked" in capsys.readouterr().err, "its interval is over"
    assert run(["recipe", "publish", str(files["out.leaf"]), *away, "--now"]) == 1
    assert "does not answer" in capsys.readouterr().err
    assert run(["recipe", "publish", str(files["out.leaf"]), *away, "--key", str(files["signing.key"])]) == 2
    assert "is signed already" in capsys.readouterr().err.replace("\n", " ")
    words = [str(files["recipe.json"]), *away, "--now", "--key", str(files["other.key"])]
    assert run(["recipe", "publish", *words]) == 1
    assert "names another signing key" in capsys.readouterr().err
    assert run(["series", "publish", str(files["out.leaf"]), *away]) == 1
    assert "publish it with: tacit recipe publish" in capsys.readouterr().err


def _hostile(**question: str) -> bytes:
    body = RECIPE.body()
    return json.dumps({**body, "question": {**body["question"], **question}}).encode()


GOOD = json.dumps(RECIPE.body())
BOMB = 10_000


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (GOOD.replace('"name":', '"name": "other", "name":', 1).encode(), "member name appears twice"),
        (b'{"version": NaN}', "NaN is a float"),
        (b'{"version": 1e400}', "1e400 is a float"),
        (b'{"version": ' + b"9" * BOMB + b"}", "not JSON"),
        (b"[" * (20 * BOMB), "not JSON"),
        (b'{"a":' * (20 * BOMB), "not JSON"),
        (b"\xef\xbb\xbf" + GOOD.encode(), "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"", "not JSON"),
        (b"[]", "not a JSON object"),
        (json.dumps({**RECIPE.body(), "\x1b[2J\u202e": 1}).encode(), "is not known"),
        (_hostile(text="\ud800"), "question.text"),
    ],
    ids=[
        "twice",
        "nan",
        "huge",
        "digits",
        "deep",
        "deep objects",
        "bom",
        "bytes",
        "empty",
        "list",
        "name",
        "surrogate",
    ],
)
def test_a_hostile_request_is_refused_in_one_line_that_a_terminal_may_be_shown(
    data: bytes, words: str, files: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    files["recipe.json"].write_bytes(data)
    assert _sign(files) == 1
    told = capsys.readouterr()
    assert words in told.err
    assert told.err.count("\n") == 1
    assert told.err.removesuffix("\n").isprintable()
    assert not files["out.leaf"].exists()


def _sign(files: dict[str, Path], *more: str, kind: str = "recipe") -> int:
    names = ["--key", str(files["signing.key"]), "--out", str(files["out.leaf"])]
    return run([kind, "sign", str(files[f"{kind}.json"]), *names, *more])


@ODD_FILES
@pytest.mark.parametrize("kind", ["recipe", "series"])
def test_what_is_no_document_in_a_file_is_neither_read_whole_nor_waited_for(
    kind: str,
    make: Callable[[Path], None],
    words: str,
    files: dict[str, Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    files[f"{kind}.json"].unlink()
    make(files[f"{kind}.json"])
    assert _sign(files, kind=kind) == 1
    assert words in capsys.readouterr().err


ORDERS = "ok?\x1b[2J\x1b]0;own\x07\u202elive\u2066\x9b31m\rhidden\u200bsecond\u2028third"


def test_no_end_of_a_long_question_is_cut_from_what_is_shown(
    files: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    files["recipe.json"].write_bytes(_hostile(text=f"{'How many visits ' * 25} and your_income?"))
    assert _sign(files) == 0
    assert capsys.readouterr().out.count("your_income?") == 2


@pytest.mark.parametrize("member", ["text", "metric"])
def test_what_a_person_signs_is_shown_whole_and_no_character_of_it_moves_the_terminal(
    member: str, files: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    files["recipe.json"].write_bytes(_hostile(**{member: ORDERS}))
    assert _sign(files) == 0
    shown = capsys.readouterr().out
    assert shown.replace("\n", "").isprintable()
    seen = "".join(shown.split())
    assert r"ok?\x1b".replace("x1b", "u001b") in seen  # in words, and as JSON
    assert seen.count(r"\u202elive\u2066") == 2
    whole = json.loads(shown[: shown.index("\n}") + 2])
    leaf = SignedLeaf.decode(files["out.leaf"].read_bytes())
    assert whole == leaf.body
    assert whole["question"][member] == ORDERS


def test_a_series_is_shown_whole_before_it_is_signed(
    files: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert _sign(files, kind="series") == 0
    shown = capsys.readouterr().out
    assert json.loads(shown[: shown.index("\n}") + 2]) == series().body()


def test_a_request_that_was_swapped_is_not_signed_where_the_hash_is_known(
    files: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert _sign(files, "--hash", RECIPE.hash_text) == 0
    files["out.leaf"].unlink()
    files["recipe.json"].write_bytes(_hostile(text="How much do you earn?"))
    assert _sign(files, "--hash", RECIPE.hash_text) == 1
    assert "it is not signed" in capsys.readouterr().err
    assert not files["out.leaf"].exists()


def test_a_leaf_takes_the_place_of_no_key_no_request_and_nothing_behind_a_link(
    files: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key, request = files["signing.key"].read_bytes(), files["recipe.json"].read_bytes()
    for name in ("signing.key", "recipe.json"):
        (tmp_path / "link").unlink(missing_ok=True)
        (tmp_path / "link").symlink_to(files[name])
        assert _sign({**files, "out.leaf": files[name]}) == 1
        assert _sign({**files, "out.leaf": tmp_path / "link"}) == 1
        assert "give --out another name" in capsys.readouterr().err
    assert (files["signing.key"].read_bytes(), files["recipe.json"].read_bytes()) == (key, request)
    precious = tmp_path / "precious"
    precious.write_text("kept")
    files["out.leaf"].symlink_to(precious)
    assert _sign(files) == 0
    assert precious.read_text() == "kept"
    assert not files["out.leaf"].is_symlink()
    for place, words in ((tmp_path, "not a regular file"), (tmp_path / "none" / "leaf", "No such file")):
        assert _sign({**files, "out.leaf": place}) == 1
        assert words in capsys.readouterr().err
    assert not list(tmp_path.glob(".*"))


def test_a_key_that_others_may_read_signs_nothing(files: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    files["signing.key"].chmod(0o644)
    assert _sign(files) == 1
    assert "readable by others" in capsys.readouterr().err
    assert not files["out.leaf"].exists()


@pytest.mark.parametrize(("answer", "signed"), [(b"y\n", True), (b"\n", False)])
def test_a_person_at_a_terminal_is_asked_after_seeing_it(answer: bytes, signed: bool, files: dict[str, Path]) -> None:
    mine, theirs = pty.openpty()
    words = ["sign", str(files["recipe.json"]), "--key", str(files["signing.key"]), "--out", str(files["out.leaf"])]
    program = "import sys; from infra.cli import main; sys.argv[0] = 'tacit'; main()"
    command = [sys.executable, "-c", program, "recipe", *words]
    with running(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True) as child:
        os.close(theirs)
        seen = b""
        while b"sign this as analyst.example?" not in seen:
            assert select.select([mine], [], [], 60)[0], seen
            seen += os.read(mine, 4096)
        assert RECIPE.hash_text.encode() in seen
        assert not files["out.leaf"].exists()
        os.write(mine, answer)
        child.wait(60)
    os.close(mine)
    assert files["out.leaf"].exists() is signed
