"""``tacit agent``: one real process, its clean stop, and what its journal tells the owner."""

from __future__ import annotations

import asyncio
import fcntl
import json
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from client_agent.journal import Entry, Fact, State, Trouble
from client_agent.store import SqlAgentStore
from infra.cli import run
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.recipes import RecipeKit
from infra.stacks.agents import provision_agents
from infra.stacks.new_layout import create_layout
from infra.stacks.options import StackOptions
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.logview.view import LogState
from tests.kit.processes import running

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """The configuration of a device whose stack does not run."""
    now = SystemClock().now()
    layout = create_layout(tmp_path, StackOptions(epoch_seconds=60), OsEntropy(), now)
    (path,) = provision_agents(layout, 1, SeededEntropy(1), now)
    return path


def edit(config: Path, **changes: Any) -> None:
    config.write_text(json.dumps({**json.loads(config.read_text()), **changes}))


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


async def fill(config: Path, *, failure: str = "") -> None:
    store = await SqlAgentStore.open(config.parent / "agent.sqlite3")
    now = SystemClock().now()
    await store.keep(
        {
            Fact.LOG_STATE: LogState(size=9, failure=failure).encode(),
            Fact.LOG_TROUBLE: Trouble(now, failure or "the relay answered 502").encode(),
        }
    )
    await store.decide(Entry(b"a" * 32, "visits", State.REFUSED, now, "batch-floor: B = 9 is below the floor"))
    await store.decide(Entry(b"b" * 32, "steps", State.NOT_SAMPLED, now, "", "0.75"))
    await store.decide(
        Entry(b"c" * 32, "crashes", State.SCHEDULED, now, "", "0.5", send_at=now + 60, report=b"report bytes")
    )
    await store.close()


def test_the_journal_shows_what_was_asked_refused_and_charged(config: Path, capsys: Capture) -> None:
    asyncio.run(fill(config))
    assert run(["agent", "journal", "--config", str(config)]) == 0
    shown = capsys.readouterr().out
    for words in ("visits", "batch-floor", "not-sampled", "will be sent at", "ε 1.25 of 10", "the relay answered 502"):
        assert words in " ".join(shown.split())
    assert run(["agent", "journal", "--config", str(config), "--json"]) == 0
    output = capsys.readouterr().out
    document = json.loads(output)
    assert [(row["recipe"], row["state"]) for row in document["recipes"]] == [
        ("visits", "refused"),
        ("steps", "not-sampled"),
        ("crashes", "scheduled"),
    ]
    assert document["budget"] == {
        "epsilon": "10",
        "days": 365,
        "delta": "0.00001",
        "charged": "1.25",
        "epsilon_with_relay": "20",
        "charged_with_relay": "1.25",
    }
    assert document["troubles"]["log-trouble"]["detail"] == "the relay answered 502"
    assert "report" not in output


def test_the_journal_is_read_while_the_agent_writes(config: Path, capsys: Capture) -> None:
    asyncio.run(fill(config))
    agent = sqlite3.connect(config.parent / "agent.sqlite3", isolation_level=None)
    agent.execute("BEGIN IMMEDIATE")
    agent.execute("UPDATE facts SET content = x'00' WHERE name = 'none'")
    assert run(["agent", "journal", "--config", str(config), "--json"]) == 0
    assert [row["recipe"] for row in json.loads(capsys.readouterr().out)["recipes"]] == ["visits", "steps", "crashes"]
    agent.execute("COMMIT")
    agent.close()


def test_what_earlier_runs_decided_is_not_told_as_new(config: Path, capsys: Capture) -> None:
    asyncio.run(fill(config))
    assert run(["agent", "run", "--config", str(config), "--once"]) == 1
    told = {event["event"] for event in events(capsys.readouterr().err)}
    assert "log-trouble" in told
    assert told.isdisjoint({State.REFUSED.value, State.NOT_SAMPLED.value})


def test_a_log_that_failed_is_shown_and_the_agent_does_nothing(config: Path, capsys: Capture) -> None:
    asyncio.run(fill(config, failure="log-split-view: the log signed two different roots for size 9"))
    assert run(["agent", "journal", "--config", str(config)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "The log failed" in shown
    assert "log-split-view: the log signed two different roots for size 9" in shown
    assert run(["agent", "run", "--config", str(config), "--once"]) == 1
    assert "log-split-view" in capsys.readouterr().err


def test_one_step_without_a_relay_says_so_and_fails(config: Path, capsys: Capture) -> None:
    assert run(["agent", "run", "--config", str(config), "--once"]) == 1
    (event,) = events(capsys.readouterr().err)
    assert event["event"] == "log-trouble"
    assert "POST failed" in event["detail"]


def test_check_shows_what_the_device_would_answer_before_anything_is_sent(config: Path, capsys: Capture) -> None:
    data = config.parent / "data.csv"
    data.write_text("mdvis,crashed\n3,no\n")
    before = {path.name for path in config.parent.iterdir()}
    assert run(["agent", "check", "--config", str(config)]) == 0
    assert [line.split() for line in capsys.readouterr().out.split("\n")[1:3]] == [["mdvis", "3"], ["crashed", "no"]]
    data.write_text("mdvis ,crashed\n3,no\n")
    assert run(["agent", "check", "mdvis", "crashed", "--config", str(config), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["crashed"] == {"value": "no", "trouble": ""}
    assert found["mdvis"]["value"] is None
    assert found["mdvis"]["trouble"].endswith("data.csv: column 'mdvis' is not there, but 'mdvis ' is")
    assert {path.name for path in config.parent.iterdir()} == before


def test_check_reads_a_value_as_a_recipe_does(config: Path, tmp_path: Path, capsys: Capture) -> None:
    body = RecipeKit().recipe().body()
    file = tmp_path / "recipe.json"
    for cell, trouble in (("2", ""), ('"1,5"', "the value is not a number like 1234.5"), ("", "")):
        (config.parent / "data.csv").write_text(f"mdvis,x\n{cell},1\n")
        file.write_text(json.dumps(body))
        assert run(["agent", "check", "--config", str(config), "--recipe", str(file), "--json"]) == (
            1 if trouble else 0
        )
        assert json.loads(capsys.readouterr().out)["mdvis"]["trouble"] == trouble


def test_check_names_a_file_that_no_agent_could_use(config: Path, capsys: Capture) -> None:
    (config.parent / "data.csv").unlink()
    assert run(["agent", "check", "--config", str(config)]) == 1
    assert "data.csv: cannot read the data source (No such file or directory)" in capsys.readouterr().err
    (config.parent / "identity.pem").write_text("no key")
    assert run(["agent", "check", "--config", str(config)]) == 1
    assert "identity.pem" in capsys.readouterr().err


def test_the_journal_of_a_device_that_never_ran_is_one_line(config: Path, capsys: Capture) -> None:
    assert run(["agent", "journal", "--config", str(config)]) == 1
    assert "no journal here yet" in capsys.readouterr().err
    assert not (config.parent / "agent.sqlite3").exists()


def test_a_second_agent_on_the_same_journal_is_refused(config: Path, capsys: Capture) -> None:
    with (config.parent / "agent.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert run(["agent", "run", "--config", str(config), "--once"]) == 1
    assert "another agent is at work here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"unknown": 1}, "unknown"),
        ({"relay_url": "http://relay.example"}, "relay_url: plain http"),
        ({"relay_url": "http://127.0.0.1:1/"}, "relay_url"),
        ({"log_key": "no key"}, "pinned key"),
        ({"policy": "absent.json"}, "absent.json"),
        ({"attestation": {"identity": "agent.json"}}, "agent.json"),
        ({"source": {"kind": "mail", "path": "x"}}, "source"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_configuration_that_cannot_be_used_is_one_line(
    config: Path, changes: dict[str, Any], words: str, capsys: Capture
) -> None:
    edit(config, **changes)
    assert run(["agent", "run", "--config", str(config), "--once"]) == 1
    error = capsys.readouterr().err.strip().splitlines()
    assert len(error) == 1
    assert words in error[0]


def test_an_identity_that_others_can_read_is_refused(config: Path, capsys: Capture) -> None:
    (config.parent / "identity.pem").chmod(0o644)
    assert run(["agent", "run", "--config", str(config), "--once"]) == 1
    assert "chmod 600" in capsys.readouterr().err


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)], ids=["TERM", "INT"]
)
def test_a_signal_stops_the_agent_cleanly(config: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-c", "from infra.cli import main; main()", "agent", "run", "--config", str(config)]
    with running(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as agent:
        assert agent.stderr is not None
        told = [agent.stderr.readline(), agent.stderr.readline()]
        agent.send_signal(number)
        output, rest = agent.communicate(timeout=120)
    assert agent.returncode == 0
    assert output == ""
    assert [event["event"] for event in events("".join(told) + rest)] == ["started", "log-trouble", "stopped"]


def test_applications_tell_the_agent_of_events_while_it_is_at_work(config: Path, capsys: Capture) -> None:
    command = [sys.executable, "-c", "from infra.cli import main; main()", "agent", "run", "--config", str(config)]
    with running(command, stderr=subprocess.PIPE, text=True) as agent:
        assert agent.stderr is not None
        assert "started" in agent.stderr.readline()
        assert "log-trouble" in agent.stderr.readline()
        assert run(["agent", "record", "visit", "--config", str(config)]) == 0
        assert "no recipe watches visit on this device now" in capsys.readouterr().err
        assert run(["agent", "record", "visit", "--config", str(config), "--times", "3", "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == {"recorded": False}
        assert run(["agent", "record", "two words", "--config", str(config)]) == 1
        assert "an event has a name such as visit" in capsys.readouterr().err
        assert run(["agent", "state", "--config", str(config)]) == 0
        assert "watches nothing now" in capsys.readouterr().out
        agent.send_signal(signal.SIGTERM)
        told = agent.communicate(timeout=120)[1]
    assert agent.returncode == 0
    assert "visit" not in told
    assert not (config.parent / "watch.sock").exists()


def test_until_ends_the_run(config: Path, capsys: Capture) -> None:
    assert run(["agent", "run", "--config", str(config), "--until", "0.3"]) == 0
    told = [event["event"] for event in events(capsys.readouterr().err)]
    assert (told[0], told[-1]) == ("started", "stopped")


@pytest.mark.parametrize("as_json", [False, True], ids=["words", "json"])
def test_a_terminal_gets_a_few_words_and_json_only_when_asked(
    config: Path, as_json: bool, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    flags = ["--json"] if as_json else []
    assert run(["agent", "run", "--config", str(config), "--until", "2", *flags]) == 0
    told = capsys.readouterr().err
    if as_json:
        assert [event["event"] for event in events(told)] == ["started", "log-trouble", "stopped"]
        return
    begun, trouble, ended = told.splitlines()
    assert "1 agent is at work" in begun
    assert "the log is not read: " in trouble
    assert ended.endswith("stopped")
