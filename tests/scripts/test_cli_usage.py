"""Wrong use of serve, up and keys: the exit code, and one line that says what to do."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer

from infra.cli import COMMANDS, build, run
from infra.stacks.layout import Layout
from infra.stacks.new_layout import create_layout
from infra.stacks.options import StackOptions
from services.gateway.ports import SeenRequest
from services.gateway.store import ReplayStore
from tacit import __version__
from tacit.adapters.databases.watermark import Watermark
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.aggregator.keys import read_hpke_key, read_peer_file, state_key_text
from tacit.aggregator.state_keys import read_state_key
from tacit.codec import b64url
from tacit.service.base.keys import read_signing_key
from tacit.tlog.checkpoint import COSIGNATURE, NoteKey
from tacit.tokens.attestation import SoftwareDevice
from tacit.tokens.software_root import SoftwareRoot
from tests.printed import commands

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    folder = tmp_path_factory.mktemp("usage") / "stack"
    return create_layout(folder, StackOptions(epoch_seconds=60), OsEntropy(), SystemClock().now())


def complaint(capsys: Capture, *arguments: str) -> tuple[int, list[str]]:
    """Exit code and lines on stderr; nothing may stand on stdout."""
    code = run(arguments)
    captured = capsys.readouterr()
    assert captured.out == ""
    return code, captured.err.splitlines()


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        (["unheard-of"], "tacit"),
        (["up", "--agents", "-1"], "tacit up"),
        (["recipe", "new", "--bogus"], "tacit recipe new"),
        (["privacy", "explian"], "tacit privacy"),
    ],
)
def test_a_usage_error_points_to_the_help_of_its_command(capsys: Capture, arguments: list[str], place: str) -> None:
    code, lines = complaint(capsys, *arguments)
    assert (code, lines[-1]) == (2, f"tacit: try: {place} --help")


ALL = commands()


@pytest.mark.parametrize(("path", "command"), ALL, ids=[" ".join(path) for path, _ in ALL])
def test_every_command_has_help_with_an_example_and_json(path: tuple[str, ...], command: Any) -> None:
    assert f"tacit {' '.join(path)}" in " ".join(command.help.split()).partition("Example: ")[2]
    assert any("--json" in option.opts for option in command.params)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_each_says_of_itself(name: str) -> None:
    real, listed = (typer.main.get_command(build(word)).commands[name] for word in (name, ""))  # type: ignore[attr-defined]
    told = real.help.partition("\n\n")[0].replace("\n", " ")
    assert told.startswith(listed.help[:20])


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"], ["recipe"], ["recipe", "-h"], ["recipe", "new", "-h"]])
def test_help_goes_to_stdout_as_it_is(capsys: Capture, arguments: list[str]) -> None:
    assert run(arguments) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("Usage: tacit")
    assert shown.out.count("\n") > 5
    assert shown.err == ""


def test_a_list_of_commands_imports_no_command() -> None:
    listing = (
        "import sys; from infra.cli import run; run(['--help']); print([m for m in sys.modules if 'commands' in m])"
    )
    done = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_version_is_told(capsys: Capture) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"tacit {__version__}\n"


def test_a_failure_with_json_is_json(capsys: Capture, tmp_path: Path) -> None:
    assert run(["recipe", "list", "--state-dir", str(tmp_path), "--json"]) == 1
    failed = json.loads(capsys.readouterr().out)
    assert failed["error"]["kind"] == "failed"
    assert "no stack here" in failed["error"]["detail"]
    assert run(["recipe", "list", "--json", "--colour"]) == 2
    assert json.loads(capsys.readouterr().out)["error"] == {"kind": "usage", "detail": "No such option: --colour"}


@pytest.mark.parametrize(("typed", "offered"), [("tacit re", "recipe"), ("tacit recipe n", "new")])
def test_a_shell_completes_commands(typed: str, offered: str) -> None:
    words = {"_TACIT_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    command = [sys.executable, "-c", "from infra.cli import main; main()"]
    done = subprocess.run(command, env={**os.environ, **words}, capture_output=True, text=True, check=False)
    assert offered in done.stdout.split()


@pytest.mark.parametrize(
    "arguments",
    [
        ["serve"],
        ["serve", "relay"],
        ["serve", "nobody", "--config", "x.json"],
        ["serve", "relay", "--config", "x.json", "--colour"],
        ["serve", "relay", "--config", "x.json", "--accept-rollback"],
        ["serve", "relay", "--config", "x.json", "--print-config"],
        ["serve", "ingest", "--print-config"],
        ["serve", "agent", "--config", "x.json"],
        ["serve", "helper", "--config", "x.json", "--accept-rollback", "--new-mark"],
        ["serve", "ingest", "--config", "x.json", "--leader-config", "y.json", "--new-mark"],
        ["up", "--agents", "-1"],
        ["up", "--epoch-seconds", "0"],
        ["up", "--epoch-seconds", "soon"],
        ["keys", "generate", "rsa", "--out", "x"],
        ["keys", "generate", "signing"],
        ["keys", "generate", "signing", "--id", "3", "--out", "x"],
        ["keys", "generate", "hpke", "--id", "256", "--out", "x"],
        ["keys", "forge"],
        ["unheard-of"],
    ],
)
def test_a_wrong_flag_or_value_is_a_usage_error(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code, lines = complaint(capsys, *arguments)
    assert code == 2
    assert 1 <= len(lines) <= 3
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_service_gets_the_list_of_names(capsys: Capture) -> None:
    _, lines = complaint(capsys, "serve", "nobody", "--config", "x.json")
    assert "no service is called nobody; choose one of recipe_server, issuer" in lines[0]


def test_a_configuration_is_printed_and_nothing_is_served(capsys: Capture) -> None:
    assert run(["serve", "--print-config", "leader"]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert tomllib.loads(shown.out)["limits"]["job_size"] == 1000
    assert run(["serve", "agent", "--print-config", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["timing"]["poll_seconds"] == 60


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "No such file or directory"),
        ("{", "not a valid configuration file"),
        ("{}", "state_dir: is missing"),
        ('{"state_dir": ".", "gateway_url": "http://127.0.0.1:1", "colour": "red"}', "colour: is not known"),
        ('{"state_dir": ".", "gateway_url": "http://relay.example"}', "plain http:// is allowed on loopback only"),
        (
            '{"state_dir": ".", "gateway_url": "http://127.0.0.1:1", "gateway_bearer": "none.token"}',
            "none.token: No such file or directory",
        ),
        (
            '{"state_dir": ".", "gateway_url": "http://127.0.0.1:1", "listen": {"tls_cert": "x.pem"}}',
            "listen: tls_cert and tls_key must be set together",
        ),
        (
            '{"state_dir": ".", "gateway_url": "http://127.0.0.1:1", "listen": {"tls_cert": "x.pem", "tls_key": "x"}}',
            "listen: certificate, key or CA cannot be loaded",
        ),
    ],
)
def test_a_bad_configuration_fails_in_one_line(capsys: Capture, tmp_path: Path, content: str | None, says: str) -> None:
    path = tmp_path / "relay.json"
    if content is not None:
        path.write_text(content)
    code, lines = complaint(capsys, "serve", "relay", "--config", str(path))
    assert code == 1
    assert len(lines) == 1
    assert says in lines[0]


def test_a_token_that_others_can_read_is_not_used(capsys: Capture, layout: Layout) -> None:
    token = layout.credentials["gateway_client"]
    token.chmod(0o644)
    try:
        code, lines = complaint(capsys, "serve", "relay", "--config", str(layout.configs["relay"]))
    finally:
        token.chmod(0o600)
    assert (code, len(lines)) == (1, 1)
    assert f"run: chmod 600 {token}" in lines[0]


def test_a_database_that_was_lost_fails_in_one_line_that_says_what_to_do(capsys: Capture, layout: Layout) -> None:
    folder = layout.configs["gateway"].parent
    url = f"sqlite+aiosqlite:///{folder / 'gateway.sqlite3'}"

    async def spend() -> None:
        window = ReplayStore(url, Watermark(folder / "gateway.mark", SystemClock()))
        await window.open()
        await window.remember([SeenRequest(bytes(32), 1)])
        await window.close()

    asyncio.run(spend())
    (folder / "gateway.sqlite3").unlink()
    try:
        code, lines = complaint(capsys, "serve", "gateway", "--config", str(layout.configs["gateway"]))
    finally:
        (folder / "gateway.mark").unlink()
    assert (code, len(lines)) == (1, 1)
    for words in ("gateway.mark: the database is new or a different one", "--accept-rollback", "docs/restoring.md"):
        assert words in lines[0]


def test_an_address_in_use_fails_in_one_line(capsys: Capture, layout: Layout) -> None:
    port = json.loads(layout.configs["attester"].read_text())["listen"]["port"]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        code, lines = complaint(capsys, "serve", "attester", "--config", str(layout.configs["attester"]))
    assert (code, len(lines)) == (1, 1)
    assert f"cannot bind 127.0.0.1:{port}" in lines[0]


def test_a_stack_keeps_the_epochs_that_it_was_made_with(capsys: Capture, layout: Layout) -> None:
    code, lines = complaint(capsys, "up", "--state-dir", str(layout.state_dir), "--epoch-seconds", "61")
    assert (code, len(lines)) == (1, 1)
    assert "epochs of 60 s" in lines[0]


def test_a_state_folder_that_cannot_be_made_fails_in_one_line(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, lines = complaint(capsys, "up", "--state-dir", str(tmp_path / "file"))
    assert (code, len(lines)) == (1, 1)


@pytest.mark.parametrize("kind", ["signing", "hpke", "bearer", "state"])
def test_a_key_is_made_once_for_its_owner_only_and_its_public_part_shown(
    capsys: Capture, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "keys" / kind
    assert run(["keys", "generate", kind, "--out", str(path)]) == 0
    made = json.loads(capsys.readouterr().out)
    content = path.read_bytes()
    secrets = [json.loads(content)["private_key"]] if kind in {"hpke", "state"} else [content.decode()]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert run(["keys", "show", str(path)]) == 0
    assert json.loads(capsys.readouterr().out) == made
    assert made["kind"] == kind
    assert not any(secret in json.dumps(made) for secret in secrets)
    code, lines = complaint(capsys, "keys", "generate", kind, "--out", str(path))
    assert (code, len(lines)) == (1, 1)
    assert "exists already" in lines[0]
    assert path.read_bytes() == content


def test_what_two_share_and_what_devices_are_known_by_is_shown_by_its_public_part(
    capsys: Capture, tmp_path: Path
) -> None:
    def given(*words: str) -> dict[str, Any]:
        assert run(["keys", *words]) == 0
        shown: dict[str, Any] = json.loads(capsys.readouterr().out)
        return shown

    peer, root, device, key = (tmp_path / name for name in ("peer.json", "root.pem", "device.pem", "signing.key"))
    assert given("generate", "peer", "--out", str(peer)) == given("show", str(peer))
    assert read_peer_file(peer).seed_id == given("show", str(peer))["seed_id"]
    made = given("generate", "device-root", "--out", str(root))
    assert made["certificate"].encode() == SoftwareRoot.from_pem(root.read_bytes()).root_pem
    enrol = ("device", "--name", "device-0", "--out", str(device), "--root")
    assert given(*enrol, str(root))["name"] == "device-0"
    assert len(SoftwareDevice.from_pem(device.read_bytes()).chain) == 2
    assert stat.S_IMODE(device.stat().st_mode) == 0o600
    assert run(["keys", "show", str(device)]) == 1
    assert run(["keys", *enrol, str(root)]) == 1
    assert "exists already" in capsys.readouterr().err
    given("generate", "signing", "--out", str(key))
    named = given("show", str(key), "--log-name", "a.example/log", "--witness-name", "w.example")
    assert NoteKey.decode(named["log_key"]).name == "a.example/log"
    assert NoteKey.decode(named["witness_key"]).algorithm == COSIGNATURE
    for wrong in ([str(key), "--log-name", "a b"], [str(peer), "--log-name", "a"]):
        assert run(["keys", "show", *wrong]) == 2


def test_generated_keys_are_what_configurations_take(capsys: Capture, tmp_path: Path) -> None:
    assert run(["keys", "generate", "hpke", "--id", "7", "--out", str(tmp_path / "hpke.key")]) == 0
    shown = json.loads(capsys.readouterr().out)
    key = read_hpke_key(tmp_path / "hpke.key")
    assert (key.config.id, b64url(key.config.encode())) == (7, shown["hpke_config"])
    assert run(["keys", "generate", "state", "--out", str(tmp_path / "state.key")]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown == {"kind": "state", "state_key": state_key_text(read_state_key(tmp_path / "state.key"))}
    assert run(["keys", "generate", "signing", "--out", str(tmp_path / "signing.key")]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["public_key"] == b64url(read_signing_key(tmp_path / "signing.key").public)


def test_showing_what_is_no_key_fails_in_one_line(capsys: Capture, tmp_path: Path) -> None:
    for name, content in (("text", b"hello"), ("json", b"{}")):
        path = tmp_path / name
        path.write_bytes(content)
        path.chmod(0o600)
        code, lines = complaint(capsys, "keys", "show", str(path))
        assert (code, len(lines)) == (1, 1)


def test_a_number_of_asked_devices_is_of_one_recipe(capsys: Capture) -> None:
    code, lines = complaint(capsys, "results", "--asked", "5")
    assert code != 0
    assert any("the name of a recipe: tacit results NAME --asked 1000" in line for line in lines), lines
