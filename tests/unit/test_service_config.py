"""Configuration files and secret files."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tacit.adapters.disk.files import is_private
from tacit.adapters.network.origins import require_secure_url
from tacit.errors import UsageError
from tacit.recipe.policy import parse_policy
from tacit.service.base.config import ServiceConfig
from tacit.service.base.config_files import load_config
from tacit.service.base.secret_files import read_secret, write_secret
from tests.hostile import ODD_FILES


class _Config(ServiceConfig):
    peer_url: str = "https://peer.example"
    limit: int = 10


def _write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_json_and_toml_give_the_same_configuration(tmp_path: Path) -> None:
    as_json = _write(tmp_path / "a.json", json.dumps({"state_dir": "state", "listen": {"port": 8443}, "limit": 3}))
    as_toml = _write(tmp_path / "a.toml", 'state_dir = "state"\nlimit = 3\n[listen]\nport = 8443\n')
    config = load_config(as_json, _Config)
    assert config == load_config(as_toml, _Config)
    assert (config.limit, config.listen.port, config.listen.host) == (3, 8443, "127.0.0.1")


def test_relative_paths_are_taken_from_the_folder_of_the_file(tmp_path: Path) -> None:
    text = json.dumps({"state_dir": "state", "listen": {"tls_cert": "cert.pem", "tls_key": "/keys/key.pem"}})
    config = load_config(_write(tmp_path / "a.json", text), _Config)
    assert config.state_dir == tmp_path / "state"
    assert config.listen.tls_cert == tmp_path / "cert.pem"
    assert config.listen.tls_key == Path("/keys/key.pem")
    assert config.database_url("leader") == f"sqlite+aiosqlite:///{tmp_path}/state/leader.sqlite3"
    memory = config.model_copy(update={"storage": "memory"})
    assert memory.database_url("leader") == "sqlite+aiosqlite:///:memory:"


def test_a_database_url_comes_from_a_secret_file(tmp_path: Path) -> None:
    write_secret(tmp_path / "db", b"postgresql://tacit:word@db.example:5433/leader?ssl=require\n")
    config = load_config(_write(tmp_path / "a.json", '{"state_dir": "s", "database_file": "db"}'), _Config)
    assert config.database_url("leader") == "postgresql+asyncpg://tacit:word@db.example:5433/leader?ssl=require"
    assert "word" not in repr(config)
    (tmp_path / "db").chmod(0o644)
    with pytest.raises(UsageError, match="chmod 600"):
        config.database_url("leader")
    for broken in (b"sqlite:///x", b"postgresql://", b"postgresql://word@a/b\npostgresql://c/d", b"word"):
        write_secret(tmp_path / "db", broken)
        with pytest.raises(UsageError, match="must hold one URL") as caught:
            config.database_url("leader")
        assert "word" not in str(caught.value)
    both = '{"state_dir": "s", "storage": "memory", "database_file": "db"}'
    with pytest.raises(UsageError, match="exclude"):
        load_config(_write(tmp_path / "a.json", both), _Config)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.json", '{"state_dir": "s", "colour": 1}', "colour: is not known"),
        ("a.json", '{"limit": 1}', "state_dir: is missing"),
        ("a.json", '{"state_dir": "s", "listen": {"port": 70000}}', "listen.port: "),
        ("a.json", "{", "not a valid configuration file"),
        ("a.json", "[]", "file: "),
        ("a.toml", "state_dir = ", "not a valid configuration file"),
        ("a.json", json.dumps({"state_dir": "s", "\x1b[2J\u202e": 1}), "?[2J?: is not known"),
        ("a.json", '{"state_dir": "s", "state_dir": "t"}', "not a valid configuration file: state_dir appears twice"),
        ("a.json", '{"listen": {"port": 1, "port": 2}}', "not a valid configuration file: port appears twice"),
        ("a.toml", 'state_dir = "s"\nstate_dir = "t"\n', "not a valid configuration file"),
        ("a.json", '{"state_dir": "s", "drain_seconds": NaN}', "not a valid configuration file: NaN is not a number"),
        ("a.json", '{"state_dir": "s", "drain_seconds": -Infinity}', "not a valid configuration file: -Infinity"),
        ("a.json", '{"state_dir": "s", "listen": {"limits": {"idle_seconds": 1e400}}}', "listen.limits.idle_seconds: "),
        ("a.toml", 'state_dir = "s"\n[listen.limits]\nidle_seconds = inf\n', "listen.limits.idle_seconds: "),
        ("a.toml", 'state_dir = "s"\ndrain_seconds = nan\n', "drain_seconds: "),
        (
            "a.json",
            '{"state_dir": "s", "limit": 1' + "0" * 400 + "}",
            "not a valid configuration file: a number must fit",
        ),
        ("a.json", '{"limit": ' + "9" * 5000 + "}", "not a valid configuration file"),
        ("a.json", "[" * 100_000, "not a valid configuration file: nested too deeply"),
        ("a.json", '{"a":' * 100_000, "not a valid configuration file: nested too deeply"),
        ("a.toml", "a = " + "[" * 100_000, "not a valid configuration file: nested too deeply"),
        ("a.json", '{"state_dir": "a\\u0000b"}', "state_dir: "),
        ("a.json", '{"state_dir": "' + "a" * 300 + '"}', "state_dir: is too long"),
        ("a.json", '{"state_dir": "' + "a/" * 3000 + '"}', "state_dir: is too long"),
        ("a.json", '{"state_dir": "~nobody-of-this-name/x"}', "state_dir: "),
        ("a.json", '{"state_dir": "\\ud800"}', "not a valid configuration file: a text is not valid Unicode"),
        ("a.json", '{"state_dir": "s", "\\udfff": 1}', "not a valid configuration file: a text is not valid Unicode"),
        ("a.json", '{"state_dir": "s", "listen": {"port": -1}}', "listen.port: "),
        ("a.json", '{"state_dir": "s", "listen": {"port": "http"}}', "listen.port: "),
        ("a.json", '{"state_dir": "s", "listen": {"port": 0, "reuse_port": true}}', "listen: "),
        ("a.json", '{"state_dir": "s", "listen": {"port": 80}, "metrics": {"port": 80}}', "file: "),
        ("a.json", "", "not a valid configuration file"),
        ("a.json", "\ufeff{}", "not a valid configuration file"),
    ],
)
def test_a_wrong_file_is_one_line_that_names_file_and_field(
    tmp_path: Path, name: str, text: str, expected: str
) -> None:
    path = _write(tmp_path / name, text)
    with pytest.raises(UsageError) as caught:
        load_config(path, _Config)
    assert str(caught.value).startswith(f"{path}: {expected}")
    assert "\n" not in str(caught.value)


def test_a_missing_or_binary_file_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        load_config(tmp_path / "none.json", _Config)
    (tmp_path / "a.json").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="not a valid configuration file"):
        load_config(tmp_path / "a.json", _Config)


@ODD_FILES
def test_what_is_no_configuration_is_neither_read_whole_nor_waited_for(
    tmp_path: Path, make: Callable[[Path], None], words: str
) -> None:
    make(tmp_path / "a.json")
    with pytest.raises(UsageError, match=words):
        load_config(tmp_path / "a.json", _Config)


def test_errors_do_not_repeat_values(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.json", '{"state_dir": "s", "limit": "hunter2"}')
    with pytest.raises(UsageError) as caught:
        load_config(path, _Config)
    assert "hunter2" not in str(caught.value)


def test_a_secret_is_written_for_its_owner_only_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "token"
    write_secret(path, b"first")
    write_secret(path, b"second")
    assert read_secret(path) == b"second"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [file.name for file in path.parent.iterdir()] == ["token"]


def test_a_secret_in_the_place_of_its_files_name_is_not_repeated(tmp_path: Path) -> None:
    for word in ("q83v-EjRWeJCrze8SNFZ4kKvN7x", "2f6b9c0d1e3a5f7081920a3b4c5d6e7f"):
        with pytest.raises(UsageError, match="name a file that holds the secret") as caught:
            read_secret(tmp_path / word)
        assert word not in str(caught.value)
    with pytest.raises(UsageError, match=r"operator\.token: No such file"):
        read_secret(tmp_path / "operator.token")


def test_a_secret_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    write_secret(path, b"x")
    path.chmod(0o640)
    with pytest.raises(UsageError, match="chmod 600"):
        read_secret(path)


@pytest.mark.parametrize(("owner", "mode", "private"), [
    (0, 0o440, True), (0, 0o640, True), (0, 0o444, False), (0, 0o460, False), (0, 0o450, False),
    (10001, 0o400, True), (10001, 0o440, False), (10002, 0o440, False),
])  # fmt: skip
def test_a_group_may_read_what_root_gives_it_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, owner: int, mode: int, private: bool
) -> None:
    status = os.stat_result((stat.S_IFREG | mode, 0, 0, 1, owner, 10001, 1, 0, 0, 0))
    monkeypatch.setattr(os, "geteuid", lambda: 10001)
    assert is_private(status) is private
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert is_private(status) is (mode == 0o400), "root itself has no need of a group"


def test_a_secret_must_be_a_file_of_reasonable_size(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    with pytest.raises(UsageError, match="No such file"):
        read_secret(tmp_path / "none")
    with pytest.raises(UsageError):
        read_secret(tmp_path)
    write_secret(tmp_path / "big", b"x" * 100)
    with pytest.raises(UsageError, match="larger"):
        read_secret(tmp_path / "big", max_size=99)
    write_secret(tmp_path / "empty", b"")
    with pytest.raises(UsageError, match="empty"):
        read_secret(tmp_path / "empty")


@pytest.mark.parametrize(
    "word", ["https://me:s3cret@peer.example", "https://me:s3cret/x@peer.example:1", "https://[s3cret"]
)
def test_a_url_with_a_password_in_it_is_refused_and_not_repeated(word: str) -> None:
    with pytest.raises(UsageError) as caught:
        require_secure_url(word)
    assert "s3cret" not in str(caught.value)


def test_a_policy_that_is_nested_too_deeply_is_refused() -> None:
    for name, data in (("p.toml", b"a = " + b"[" * 100_000), ("p.json", b"[" * 100_000)):
        with pytest.raises(UsageError, match=name):
            parse_policy(data, name)
