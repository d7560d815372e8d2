"""``tacit admin``: the chain of acts as it lies in a database."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from pathlib import Path

import pytest

from infra.cli import FAILED, OK, USAGE, run
from services.admin.storage.audit import record
from services.admin.storage.records import Act
from services.admin.storage.store import AdminStore


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Of an admin service that has done five things."""

    async def act() -> None:
        store = AdminStore(f"sqlite+aiosqlite:///{tmp_path / 'admin.sqlite3'}")
        await store.open()
        async with store.transaction() as tx:
            for number in range(5):
                await record(tx, Act("p", f"act-{number}", "", 1, "loopback", "done"))
        await store.close()

    asyncio.run(act())
    log = {"url": "http://127.0.0.1:1", "key": "log.example/tacit+00000000+AQ"}
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"state_dir": ".", "parties": "parties.json", "log": log}))
    return path


def changed(config: Path, statement: str) -> None:
    connection = sqlite3.connect(config.parent / "admin.sqlite3")
    connection.execute(statement)
    connection.commit()
    connection.close()


def test_a_chain_is_recomputed_and_says_where_it_breaks(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    verify = ["admin", "audit", "verify", "--config", str(config)]
    assert run([*verify, "--json"]) == OK
    found = json.loads(capsys.readouterr().out)
    assert (found["rows"], found["broken"]) == (5, None)
    assert run([*verify, "--holds", found["newest"]]) == OK
    changed(config, "DELETE FROM audit WHERE number = 5")
    assert run(verify) == OK
    capsys.readouterr()
    assert run([*verify, "--holds", found["newest"]]) == FAILED
    assert "acts are missing" in capsys.readouterr().out
    changed(config, "UPDATE audit SET outcome = 'refused' WHERE number = 3")
    assert run([*verify, "--json", "--holds", found["newest"]]) == FAILED
    assert json.loads(capsys.readouterr().out)["broken"] == 3


@pytest.mark.parametrize(
    "arguments", [["--url", "http://127.0.0.1:1"], ["--holds", "x"], ["--state-dir", "a", "--config", "b"]]
)
def test_what_cannot_be_meant_is_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["admin", "audit", "verify", *arguments]) in {USAGE, FAILED}
    assert capsys.readouterr().err.count("\n") <= 2
