"""The analyst's key in a PKCS#11 token (SoftHSM): commands and the admin service sign with it, and it stays there."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pkcs11
import pytest

from infra.cli import NEVER_AGAIN, run
from infra.lab.kit.recipes import RecipeKit
from services.admin.base.config import AdminConfig
from tacit.codec import unb64url
from tacit.errors import UsageError
from tacit.ports import TransportError
from tacit.service.base.config_files import load_config
from tacit.service.base.hsm import HsmKey, Pkcs11Key, generate_hsm_key
from tacit.signing import verify
from tacit.tlog.leaves import SignedLeaf
from tests.conftest import ROOT, skip_or_fail
from tests.http.admin_stage import KIT, Stage
from tests.kit.softhsm import MODULES, Token, find_module, softhsm

LABEL = b"tacit test v1\0"


@pytest.fixture(scope="module")
def module() -> Path:
    found = find_module()
    if found is None:
        skip_or_fail("softhsm", "SoftHSM is not installed (apt-get install softhsm2)")
    assert found is not None
    return found


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory, module: Path) -> Iterator[list[Token]]:
    with softhsm(tmp_path_factory.mktemp("softhsm"), module, tokens=2) as made:
        yield made


@pytest.fixture(scope="module")
def token(tokens: list[Token]) -> Token:
    """A PKCS#11 token that holds the analyst's key."""
    generate_hsm_key(tokens[0].place)
    return tokens[0]


def other(place: Pkcs11Key, **changes: object) -> Pkcs11Key:
    return Pkcs11Key.model_validate(place.model_dump() | changes)


def refused(place: Pkcs11Key) -> str:
    """What is said of a key that cannot be used: one line."""
    with pytest.raises(UsageError) as caught:
        HsmKey(place)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_token_signs_as_a_key_file_does_and_gives_its_key_to_nobody(token: Token) -> None:
    key = HsmKey(token.place)
    verify(key.public, key.sign(LABEL, b"text"), b"text", label=LABEL)
    assert token.pin not in repr(key) + repr(token.place)
    library = pkcs11.lib(str(token.module))
    with library.get_token(token_label=token.label).open(user_pin=token.pin) as session:
        (private,) = session.get_objects({pkcs11.Attribute.CLASS: pkcs11.ObjectClass.PRIVATE_KEY})
        assert private[pkcs11.Attribute.EXTRACTABLE] is False
        with pytest.raises(pkcs11.PKCS11Error):
            assert private[pkcs11.Attribute.VALUE]
    with pytest.raises(UsageError, match="there already is a key analyst"):
        generate_hsm_key(token.place)


def test_a_recipe_is_signed_on_the_command_line_without_the_pin_in_any_line(
    token: Token, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["keys", "show", *token.flags()]) == 0
    shown = json.loads(capsys.readouterr().out)
    kit = RecipeKit()
    body = kit.recipe().body()
    body["parties"]["analyst"]["signing_key"] = shown["public_key"]
    file, leaf = tmp_path / "recipe.json", tmp_path / "recipe.leaf"
    file.write_text(json.dumps(body))
    assert run(["recipe", "sign", str(file), *token.flags(), "--out", str(leaf), "--json"]) == 0
    SignedLeaf.decode(leaf.read_bytes()).verify(unb64url(shown["public_key"]))
    told = capsys.readouterr()
    assert json.loads(told.out)["signer"] == body["parties"]["analyst"]["operator"]
    file.write_text(json.dumps(kit.recipe().body()))
    assert run(["recipe", "sign", str(file), *token.flags(), "--out", str(tmp_path / "none")]) == 1
    assert "another signing key" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
    assert run(["recipe", "sign", str(file), "--key", "x", "--token", "y", "--out", str(leaf)]) == 2
    assert "go together" in capsys.readouterr().err
    assert token.pin not in told.out + told.err


def test_what_cannot_be_used_is_told_in_one_line(tokens: list[Token], token: Token, tmp_path: Path) -> None:
    place = token.place
    assert "no such file" in refused(other(place, module=tmp_path / "none.so"))
    (tmp_path / "text.so").write_text("no library")
    assert "not a PKCS#11 module" in refused(other(place, module=tmp_path / "text.so"))
    assert "no token has the label" in refused(other(place, token="another"))
    assert "no private keys have the label nobody" in refused(other(place, key="nobody"))
    open_to_all = tmp_path / "pin"
    open_to_all.write_text(token.pin)
    open_to_all.chmod(0o644)
    assert token.pin not in refused(other(place, pin_file=open_to_all))
    empty = tmp_path / "empty"
    empty.touch(0o600)
    empty.write_text("\n")
    assert "must hold the token's PIN" in refused(other(place, pin_file=empty))
    with (
        pkcs11.lib(str(token.module))
        .get_token(token_label=tokens[1].label)
        .open(rw=True, user_pin=tokens[1].pin) as session
    ):
        session.generate_keypair(pkcs11.KeyType.RSA, 2048, store=True, label="rsa")
        for _ in range(2):
            params = {pkcs11.Attribute.EC_PARAMS: b"\x06\x03\x2b\x65\x70"}
            curve = session.create_domain_parameters(pkcs11.KeyType.EC_EDWARDS, params, local=True)
            mechanism = pkcs11.Mechanism.EC_EDWARDS_KEY_PAIR_GEN
            curve.generate_keypair(mechanism=mechanism, store=True, label="twice")
    second = tokens[1].place
    assert "another type" in refused(other(second, key="rsa"))
    assert "2 private keys have the label twice" in refused(other(second, key="twice"))


def test_many_who_sign_at_a_time_show_a_wrong_pin_once(token: Token) -> None:
    key = HsmKey(token.place)
    token.set_pin("wrong-pin")

    def refused(_number: int) -> str:
        with pytest.raises(TransportError) as caught:
            key.sign(b"label", b"data")
        return str(caught.value)

    with ThreadPoolExecutor(8) as threads:
        told = list(threads.map(refused, range(8)))
    token.set_pin(token.pin)
    assert sum("the PIN is wrong" in one for one in told) == 1
    assert sum("has refused this PIN before" in one for one in told) == 7


def test_a_pin_that_was_refused_is_not_shown_again(token: Token) -> None:
    key = HsmKey(token.place)
    token.set_pin("wrong-pin")
    try:
        with pytest.raises(TransportError, match="the PIN is wrong") as caught:
            key.sign(LABEL, b"text")
        assert "wrong-pin" not in str(caught.value)
        with pytest.raises(TransportError, match="has refused this PIN before"):
            key.sign(LABEL, b"text")
    finally:
        token.set_pin(token.pin)
    verify(key.public, key.sign(LABEL, b"text"), b"text", label=LABEL)


def test_a_wrong_pin_ends_a_command_in_a_way_that_no_service_manager_tries_again(
    token: Token, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unit = (ROOT / "infra" / "systemd" / "tacit@.service").read_text()
    assert f"RestartPreventExitStatus={NEVER_AGAIN}\n" in unit
    token.set_pin("wrong-pin")
    try:
        assert run(["keys", "show", *token.flags()]) == NEVER_AGAIN
    finally:
        token.set_pin(token.pin)
    told = capsys.readouterr()
    assert "the PIN is wrong" in told.err
    assert "wrong-pin" not in told.err
    assert run(["keys", "show", *token.flags(), "--token", "another"]) == 1
    assert run(["keys", "show", *token.flags()]) == 0


def test_a_configuration_names_a_key_file_or_a_token(tmp_path: Path) -> None:
    member = {"module": "m.so", "token": "t", "key": "k", "pin_file": "pin"}
    (tmp_path / "admin.json").write_text(
        json.dumps({"state_dir": ".", "log": {"url": "http://127.0.0.1:1", "key": KIT.log_policy.log_key.encode()},
                    "parties": "p", "analyst_key": "a", "analyst_token": member})
    )  # fmt: skip
    with pytest.raises(UsageError, match="exclude each other"):
        load_config(tmp_path / "admin.json", AdminConfig)


async def test_the_admin_service_publishes_with_it_and_nothing_is_half_done_while_it_is_away(
    token: Token, tmp_path: Path
) -> None:
    stage = Stage(tmp_path)
    await stage.prepare()
    token.take_in(KIT.keys["analyst"], "kit")
    await stage.start(analyst_key=None, analyst_token=other(token.place, key="kit"))
    _, keys = await stage.call("GET", "/v1/keys", status=200)
    assert [one["held"] for one in keys["analyst"]] == [True]

    question = await stage.approved()
    token.set_pin("wrong-pin")
    try:
        _, problem = await stage.call("POST", f"/v1/questions/{question}/publish", status=503)
        assert (problem["type"], problem["peer"]) == ("urn:tacit:problem:peer-away", "signing token")
        assert token.pin not in json.dumps(problem)
        assert (await stage.shown(question))["state"] == "approved"
        assert await stage.recipes() == []
    finally:
        token.set_pin(token.pin)
    _, published = await stage.call("POST", f"/v1/questions/{question}/publish", status=200)
    assert await stage.recipes() == [published["hash"]]
    await stage.inner.close()


@pytest.mark.slow
def test_the_ceremony_with_an_hsm_works_as_printed(module: Path, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "operations.md").read_text().partition("## The analyst's key in an HSM\n")[2]
    ceremony, signing = [block.removeprefix("sh\n") for block in page.split("```")[1:4:2]]
    exports = next(line for line in ceremony.splitlines() if line.startswith("export "))

    def give(lines: str) -> str:
        text = lines.replace(MODULES[0], str(module)).replace("tacit ", f"{Path(sys.executable).with_name('tacit')} ")
        said = subprocess.run(["/bin/bash", "-euc", text], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert said.returncode == 0, said.stderr
        return said.stdout

    made = give(ceremony)
    keys = [json.loads(part + "}") for part in made[made.index("{") :].split("}")[:2]]
    assert keys[0] == keys[1]
    body = RecipeKit().recipe().body()
    body["parties"]["analyst"]["signing_key"] = keys[0]["public_key"]
    (tmp_path / "visits.json").write_text(json.dumps(body))
    give(f"{exports}\n{signing}")
    SignedLeaf.decode((tmp_path / "visits.leaf").read_bytes()).verify(unb64url(keys[0]["public_key"]))
