"""``tacit recipe``, ``collect`` and ``results`` against a running stack with agents, and by themselves."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from functools import cache, partial
from math import ceil
from pathlib import Path
from typing import Any

import pytest

from client_agent.config import AgentConfig
from client_agent.runner import Watch, keep_running, open_agent
from infra.authoring.devices_at_work import Crowd
from infra.base.machine_load import how_busy
from infra.base.recipe_files import read_recipe
from infra.cli import run
from infra.lab.kit.recipes import RecipeKit
from infra.stacks.agents import provision_agents
from infra.stacks.local import LocalStack
from infra.stacks.new_layout import create_layout
from infra.stacks.options import StackOptions
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.operations.tables import csv_bytes
from tacit.recipe.model import Recipe
from tacit.recipe.writing.survey import NO_VALUE
from tacit.service.base.config_files import load_config
from tests.scripts.live_stack import in_thread, step_until

AGENTS = 3
MOST_TRIES = 200


@cache
def epoch_seconds() -> int:
    """As long as a machine that is as busy as this one needs until its devices have decided."""
    return max(16, 12 * ceil(how_busy()))


@dataclass(frozen=True)
class Stack:
    """A stack with three devices in a thread of its own, in real time."""

    folder: Path

    def __call__(self, *words: str) -> int:
        return run([*words, "--state-dir", str(self.folder)])


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("stack")
    with in_thread(partial(_live, folder)):
        yield Stack(folder)


async def _live(folder: Path, ready: threading.Event, ended: threading.Event) -> None:
    options = StackOptions(epoch_seconds=epoch_seconds(), slots_per_epoch=5, batch_floor=2, poll_seconds=0.2)
    clock, entropy = SystemClock(), OsEntropy()
    layout = create_layout(folder, options, entropy, clock.now())
    local = LocalStack(layout, clock, entropy)
    async with local.running(), contextlib.AsyncExitStack() as devices:
        await local.settle("issuer", "gateway", rounds=5)
        for path in provision_agents(layout, AGENTS, entropy, clock.now()):
            await devices.enter_async_context(device(load_config(path, AgentConfig), clock))
        ready.set()
        await step_until(ended, local)


@contextlib.asynccontextmanager
async def device(config: AgentConfig, clock: SystemClock) -> AsyncIterator[None]:
    stop = asyncio.Event()
    async with open_agent(config, clock) as (agent, store):
        watch = Watch(store, lambda _event, _told: None)
        running = asyncio.ensure_future(keep_running(agent, clock, 0.3, stop, watch))
        yield
        stop.set()
        await running


def document(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def complaint(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Lines on stderr that are not the stack's own log."""
    return [line for line in capsys.readouterr().err.splitlines() if line and not line.startswith("{")]


def write(path: Path, recipe: Recipe, **changes: Any) -> str:
    path.write_text(json.dumps({**recipe.body(), **changes}))
    return str(path)


def early_in_an_epoch() -> None:
    """A recipe for the next epoch is then known to devices long before the first quarter of its interval is over."""
    left = -SystemClock().now() % epoch_seconds()
    if left < epoch_seconds() / 2:
        time.sleep(left)


def new(stack: Stack, capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[int, str, list[str]]:
    """Status, stdout and complaints of ``recipe new``, given again as often as it says that the log does not show the
    epoch's keys yet."""
    capsys.readouterr()
    for _ in range(MOST_TRIES):
        status, shown = stack("recipe", "new", *flags), capsys.readouterr()
        if "wait a moment" not in shown.err:
            return status, shown.out, [line for line in shown.err.splitlines() if line and not line.startswith("{")]
        time.sleep(0.5)
        early_in_an_epoch()  # the wait may have used up the time that devices need
    pytest.fail(shown.err)


def test_a_question_goes_from_the_command_line_to_a_result(
    stack: Stack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "visits.json")
    early_in_an_epoch()
    flags = ["--name", "visits", "--metric", "mdvis", "--buckets", "0,1,2", "--rate", "1", "--min-batch-size", "2"]
    status, shown, _ = new(stack, capsys, *flags, "--population", "3", "--out", file, "--json")
    assert status == 0
    written = json.loads(shown)
    interval, token = written["recipe"]["interval"], written["recipe"]["token"]
    assert interval == {"start": token["epoch"] * epoch_seconds(), "duration": epoch_seconds()}
    assert interval["start"] > SystemClock().now() - 1
    assert stack("recipe", "check", file, "--json") == 0
    assert document(capsys)["accepted"]

    assert stack("recipe", "publish", file, "--json") == 0
    published = document(capsys)
    # its time is moved on a busy machine
    written["hash"] = read_recipe(Path(file).read_bytes(), "visits").hash_text
    written["recipe"] = json.loads(Path(file).read_bytes())
    assert published["hash"] == written["hash"]
    leaf, key = str(tmp_path / "visits.leaf"), str(stack.folder / "analyst" / "signing.key")
    assert run(["recipe", "sign", file, "--key", key, "--out", leaf]) == 0
    capsys.readouterr()
    for again in (file, leaf):
        assert stack("recipe", "publish", again, "--json") == 0
        assert document(capsys) == published

    assert stack("recipe", "yield", "visits", "--json") == 0
    before = document(capsys)
    assert (before["hash"], before["exact"], before["min_batch_size"]) == (written["hash"], False, 2)
    assert before["looks"] == []
    assert before["forecast"] is None
    assert stack("recipe", "yield", "visits") == 0
    assert "no count yet" in capsys.readouterr().out

    assert stack("collect", "visits", "--wait", "120", "--json") == 0
    collected = document(capsys)
    assert (collected["state"], collected["recipe_hash"]) == ("released", written["hash"])
    (result,) = collected["results"]
    assert result["report_count"] == AGENTS
    assert [bucket["label"] for bucket in result["buckets"]] == ["0", "1", "2+", NO_VALUE]

    assert stack("recipe", "yield", written["hash"], "--json") == 0
    filled = document(capsys)
    assert (filled["contributions"], filled["exact"], filled["forecast"]) == (AGENTS, True, None)
    assert stack("recipe", "yield", "visits") == 0
    assert "released: 3 contributions, B = 2" in capsys.readouterr().out
    assert stack("results", "visits", "--json") == 0
    known = document(capsys)
    assert known["results"] == [result]
    assert known["simulated"] == collected["simulated"]
    assert known["simulated"]["agents"] == sum(known["simulated"]["truth"].values()) == AGENTS
    assert stack("results", "visits") == 0
    assert "known only because they are simulated" in " ".join(capsys.readouterr().out.replace("│", "").split())
    tables = {kind: tmp_path / f"answers.{kind}" for kind in ("csv", "parquet")}
    for kind, out in tables.items():
        assert stack("results", "visits", "--format", kind, "--out", str(out)) == 0
    capsys.readouterr()
    assert stack("results", "visits", "--format", "csv") == 0
    assert tables["csv"].read_bytes() == capsys.readouterr().out.encode() == csv_bytes([result])
    assert tables["parquet"].read_bytes()[:4] == b"PAR1"
    for wrong in (["--out", "x"], ["--format", "parquet"], ["--format", "xls"]):
        assert stack("results", *wrong) == 2
    capsys.readouterr()
    assert stack("results") == 0
    shown = " ".join(capsys.readouterr().out.replace("│", "").split())
    assert "3 contributions counted" in shown
    assert "one aggregator, or the analyst" in shown

    assert stack("recipe", "list", "--json") == 0
    (summary,) = document(capsys)["recipes"]
    assert (summary["hash"], summary["name"]) == (written["hash"], "visits")
    for name in ("visits", written["hash"], written["hash"][:8]):
        assert stack("recipe", "show", name, "--json") == 0
        assert document(capsys)["recipe"] == written["recipe"]
    assert stack("recipe", "show", "visits") == 0
    assert "Who takes part" in capsys.readouterr().out
    assert stack("recipe", "list") == 0
    assert "visits" in capsys.readouterr().out

    config = str(stack.folder / "agents" / "0" / "agent.json")
    assert run(["agent", "journal", "--config", config, "--json"]) == 0
    journal = document(capsys)
    assert [(row["recipe"], row["state"]) for row in journal["recipes"]] == [("visits", "sent")]
    assert journal["log"]["failure"] == ""
    assert run(["agent", "journal", "--config", config]) == 0
    assert "durably stored" in capsys.readouterr().out


@pytest.mark.slow
def test_too_few_contributions_are_a_clear_refusal(
    stack: Stack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "many.json")
    early_in_an_epoch()
    flags = ["--name", "many", "--metric", "nothing", "--boolean", "--population", "1000", "--out", file]
    assert new(stack, capsys, *flags)[0] == 0
    assert stack("recipe", "publish", file) == 0
    capsys.readouterr()
    assert stack("collect", "many", "--wait", "120") == 1
    error = complaint(capsys)
    assert len(error) == 1
    assert "fewer than the recipe's minimum of 400" in error[0]
    assert "of at least 400 contributions came" in error[0]
    unreleased = tmp_path / "unreleased"
    for flags in (["--format", "csv", "--out", str(unreleased)], ["--html", str(unreleased)], ["--format", "csv"], []):
        assert stack("results", "many", *flags) == 1
        shown, said = capsys.readouterr()
        assert shown == ""
        assert "many is not released: " in said
        assert "of at least 400 contributions came" in said
        assert not unreleased.exists()
    assert stack("results", "many", "--json") == 1
    assert document(capsys) == {"results": []}


ASKED = ["--metric", "nothing", "--boolean", "--rate", "1", "--min-batch-size", "2"]


def test_two_drafts_take_different_slots_though_neither_is_published(
    stack: Stack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokens = []
    for name in ("one", "two"):
        early_in_an_epoch()
        status, shown, _ = new(stack, capsys, "--name", name, *ASKED, "--population", "3", "--json")
        assert status == 0
        tokens.append(json.loads(shown)["recipe"]["token"])
    assert tokens[0] != tokens[1]


def test_a_draft_whose_time_was_left_open_and_has_passed_is_published_for_a_later_one(
    stack: Stack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "dawdled.json"
    early_in_an_epoch()
    assert new(stack, capsys, "--name", "dawdled", *ASKED, "--population", "3", "--out", str(file))[0] == 0
    body = json.loads(file.read_text())
    body["interval"]["start"] -= 5 * epoch_seconds()
    body["token"]["epoch"] -= 5
    file.write_text(json.dumps(body))
    assert stack("recipe", "publish", str(file), "--json") == 0
    shown = capsys.readouterr()
    assert "its time was left open: it asks" in shown.err
    assert f"{AGENTS} of the {AGENTS} agents of this stack are at work" in shown.err
    after = read_recipe(file.read_bytes(), "dawdled")
    assert after.hash_text == json.loads(shown.out)["hash"], "the file is what was published"
    assert after.interval.start > body["interval"]["start"]
    timed = {name: after.body()[name] for name in ("batch", "interval", "token")}
    assert after.body() == {**body, **timed}
    assert timed["batch"] == {**body["batch"], "time_precision": timed["batch"]["time_precision"]}


def test_a_draft_with_a_start_of_its_own_that_has_passed_is_not_published_and_the_next_time_is_offered(
    stack: Stack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "passed.json"
    early_in_an_epoch()
    assert new(stack, capsys, "--name", "passed", *ASKED, "--population", "3", "--out", str(file))[0] == 0
    body = json.loads(file.read_text())
    body["interval"] = {"start": body["interval"]["start"] - 5 * epoch_seconds() + 6, "duration": 6}
    body["token"]["epoch"] -= 5
    file.write_text(json.dumps(body))
    assert stack("recipe", "publish", str(file)) == 1
    error = complaint(capsys)[-1]
    assert "nobody would be asked: the time to decide ended at" in error
    assert "the next suitable time is" in error
    assert "nothing was published or charged (--now publishes it anyway)" in error
    assert json.loads(file.read_text()) == body


def test_a_recipe_that_the_agents_at_work_cannot_fill_is_not_charged_unless_somebody_insists(
    stack: Stack, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = str(tmp_path / "few.json")
    early_in_an_epoch()
    assert new(stack, capsys, "--name", "few", *ASKED, "--population", "3", "--out", file)[0] == 0
    monkeypatch.setattr("infra.authoring.publishing_time.crowd_of", lambda _layout: Crowd(AGENTS, 0, 2.0))
    assert stack("recipe", "publish", file) == 1
    error = complaint(capsys)[-1]
    assert f"0 of the {AGENTS} agents of this stack are at work, and B = 2 needs 2 of them" in error
    assert "nothing was published or charged" in error
    assert stack("recipe", "publish", file, "--anyway") == 0


def test_an_understated_epsilon_is_refused_by_check_and_by_the_log(
    stack: Stack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, shown, _ = new(stack, capsys, "--name", "low", "--metric", "mdvis", "--boolean", "--population", "400")
    assert status == 0
    body = json.loads(shown)
    body["privacy"]["epsilon"]["aggregator"] = "0.1"
    file = tmp_path / "low.json"
    file.write_text(json.dumps(body))
    assert stack("recipe", "check", str(file)) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "claim-understated" in shown
    assert "privacy.epsilon.aggregator at" in shown
    assert "refused by 1 of" in shown
    assert stack("recipe", "publish", str(file)) == 1
    assert "claim-understated" in capsys.readouterr().err


def test_check_beyond_the_draft_asks_the_log(stack: Stack, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "draft.json")
    flags = ["--name", "draft", "--metric", "mdvis", "--boolean", "--population", "400"]
    assert new(stack, capsys, *flags, "--out", file)[0] == 0
    assert stack("recipe", "check", file, "--stage", "active", "--json") == 1
    refused = {rule["rule"] for rule in document(capsys)["rules"] if not rule["passed"]}
    assert {"recipe-signature", "recipe-in-log", "opt-in-missing"} <= refused


def test_a_draft_that_the_policy_will_refuse_is_not_proposed_for_publishing(
    stack: Stack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "dear.json")
    flags = ["--name", "dear", "--metric", "mdvis", "--boolean", "--population", "400", "--epsilon", "30"]
    status, _, lines = new(stack, capsys, *flags, "--out", file)
    assert status == 1
    words = [line for line in lines if "will refuse this" in line]
    assert "recipe publish" not in "".join(lines)
    Path(file).unlink()
    status, shown, _ = new(stack, capsys, *flags, "--out", file, "--json")
    assert status == 1
    refusals = json.loads(shown)["refusals"]
    assert len(refusals) == len(words) > 0
    assert all(one["rule"] in line for one, line in zip(refusals, words, strict=True))
    assert Path(file).exists()


def test_names_that_the_log_does_not_show_are_one_line(stack: Stack, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (("recipe", "show", "nothing"), ("collect", "nothing"), ("results", "nothing")):
        assert stack(*words) == 1
        assert len(complaint(capsys)) == 1
    assert stack("recipe", "show", "--nothing") == 2


# Without a stack


def test_parties_from_a_file_make_a_recipe_that_the_default_policy_accepts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "parties.json").write_text(json.dumps(RecipeKit().parties().model_dump(mode="json")))
    start = int(SystemClock().now()) // 3600 * 3600 + 3600
    flags = ["--start", str(start), "--duration", "1800", "--epoch", "5", "--slot", "0", "--out", "colours.json"]
    question = ["--name", "colours", "--metric", "colour", "--categories", "red,green,blue", "--population", "1000"]
    assert run(["recipe", "new", *question, "--parties", "parties.json", *flags]) == 0
    assert run(["recipe", "check", "colours.json"]) == 0
    assert "accepted by all" in capsys.readouterr().out
    assert run(["recipe", "show", "colours.json"]) == 0
    shown = capsys.readouterr().out
    assert "red, green, blue" in shown
    assert "not published" in shown


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (["--name", "Not A Name"], "--name"),
        (["--buckets", "0,1,x"], "--buckets"),
        (["--buckets", "3,1"], "increasing"),
        (["--boolean", "--categories", "a,b"], "give only one of"),
        (["--rate", "1.5"], "--rate"),
        (["--rate", "much"], "--rate"),
        (["--epsilon", "-1"], "--epsilon"),
        (["--delta", "1"], "--delta"),
        (["--close", "never"], "--close"),
        (["--population", "0"], "--population"),
    ],
)
def test_a_wrong_value_is_a_usage_error_before_anybody_is_asked(
    changes: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {"--name": ["visits"], "--metric": ["mdvis"], "--population": ["500"]}
    flags = [word for flag, value in given.items() if flag not in changes for word in (flag, *value)]
    if not {"--buckets", "--categories", "--boolean"} & set(changes):
        flags += ["--boolean"]
    assert run(["recipe", "new", *flags, *changes, "--state-dir", "nowhere"]) == 2
    error = complaint(capsys)
    assert words in " ".join(error)
    assert len(error) <= 3


def test_what_is_missing_is_named_where_nobody_can_be_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["recipe", "new", "--name", "visits"]) == 2
    assert "--metric, --population, --buckets, --categories, --strings or --boolean" in capsys.readouterr().err


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b'{"version":1}', b"\xff", b'{"version": 1.5}'],
    ids=["empty", "list", "part", "bytes", "float"],
)
def test_a_file_that_is_no_recipe_is_one_line_with_its_name(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bad.json"
    file.write_bytes(content)
    assert run(["recipe", "check", str(file)]) == 1
    error = complaint(capsys)
    assert len(error) == 1
    assert "bad.json" in error[0]
    assert run(["recipe", "check", str(tmp_path / "absent.json")]) == 1
    assert "absent.json" in capsys.readouterr().err


def test_a_stack_that_is_down_or_absent_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    absent = str(tmp_path / "nowhere")
    assert run(["recipe", "list", "--state-dir", absent]) == 1
    assert "start one with: tacit up" in capsys.readouterr().err
    assert run(["recipe", "list", "--server", "http://127.0.0.1:1"]) == 1
    assert "does not answer" in capsys.readouterr().err
    assert run(["recipe", "list", "--server", "http://127.0.0.1:1", "--state-dir", absent]) == 2
    capsys.readouterr()
    file = write(tmp_path / "r.json", RecipeKit().recipe())
    assert run(["recipe", "publish", file, "--server", "http://127.0.0.1:1"]) == 2
    assert "--key" in capsys.readouterr().err


def test_a_policy_of_ones_own_decides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start = int(SystemClock().now()) // 60 * 60
    recipe = RecipeKit().recipe(start=start)
    file = write(tmp_path / "r.json", recipe)
    strict = tmp_path / "strict.toml"
    strict.write_text("min_batch_size = 1000\n")
    assert run(["recipe", "check", file, "--policy", str(strict)]) == 1
    assert "B = 200 is below the floor of" in capsys.readouterr().out
    strict.write_text("min_batch = 1000\n")
    assert run(["recipe", "check", file, "--policy", str(strict)]) == 1
    assert "strict.toml" in capsys.readouterr().err


@pytest.mark.slow
def test_a_series_and_its_rounds_go_into_the_log_and_are_charged_once(
    stack: Stack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, series, round_file = (str(tmp_path / name) for name in ("train.json", "training.json", "round.json"))
    flags = ["--name", "training", "--metric", "mdvis", "--buckets", "0,1,2", "--rate", "1", "--min-batch-size", "2"]
    early_in_an_epoch()
    assert new(stack, capsys, *flags, "--population", "3", "--out", source)[0] == 0
    rounds = ["--rounds", "2", "--donation-slots", "2", "--min-batch-size", "2"]
    assert stack("series", "new", "--from", source, *rounds, "--out", series) == 0
    capsys.readouterr()
    assert run(["series", "round", series, "--index", "0", "--round-input", "first", "--out", round_file]) == 0
    assert stack("recipe", "publish", round_file) == 1
    assert "series-missing" in complaint(capsys)[-1]
    assert stack("series", "publish", series, "--json") == 0
    published = document(capsys)
    assert stack("recipe", "check", round_file, "--json") == 0
    assert document(capsys)["accepted"]
    assert stack("recipe", "publish", round_file, "--json") == 0
    capsys.readouterr()
    assert stack("series", "show", "training", "--json") == 0
    shown = document(capsys)
    assert (shown["hash"], shown["state"]) == (published["hash"], f"entry {published['index']} of the log")
    assert stack("privacy", "ledger", "--json") == 0
    ledger = {one["name"]: one for account in document(capsys)["accounts"] for one in account["recipes"]}
    assert (ledger["training"]["charged"], ledger["training-0"]["charged"]) == (True, False)
    assert ledger["training-0"]["state"] == "covered"
    window = str(epoch_seconds() - 1)
    assert stack("series", "new", "--from", source, "--rounds", "9", "--window", window) == 1
    assert "is not inside epoch" in complaint(capsys)[-1]
