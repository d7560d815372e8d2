"""``tacit recipe``, ``collect`` and ``results`` against a running stack with agents, and by themselves."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from client_agent.config import AgentConfig
from client_agent.runner import Watch, keep_running, opened_agent
from infra.agents import provision_agents
from infra.cli import run
from infra.lab.kit.recipes import RecipeKit
from infra.new_layout import create_layout
from infra.stack import LocalStack
from infra.stack_options import StackOptions
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.operations.tables import csv_bytes
from tacit.recipe.model import Recipe
from tacit.service.config import load_config
from tests.scripts.live_stack import in_thread, step_until

EPOCH_SECONDS = 12
AGENTS = 3
MOST_TRIES = 200


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
    options = StackOptions(epoch_seconds=EPOCH_SECONDS, slots_per_epoch=5, batch_floor=2, poll_seconds=0.2)
    clock, entropy = SystemClock(), OsEntropy()
    layout = create_layout(folder, options, entropy, clock.now())
    local = LocalStack(layout, clock, entropy)
    async with local.running(), contextlib.AsyncExitStack() as devices:
        await local.settle("issuer", "gateway", rounds=5)
        for path in provision_agents(layout, AGENTS, entropy, clock.now()):
            await devices.enter_async_context(_device(load_config(path, AgentConfig), clock))
        ready.set()
        await step_until(ended, local)


@contextlib.asynccontextmanager
async def _device(config: AgentConfig, clock: SystemClock) -> AsyncIterator[None]:
    stop = asyncio.Event()
    async with opened_agent(config, clock) as (agent, store):
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
    left = -SystemClock().now() % EPOCH_SECONDS
    if left < EPOCH_SECONDS / 2:
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
    assert interval == {"start": token["epoch"] * EPOCH_SECONDS, "duration": EPOCH_SECONDS}
    assert interval["start"] > SystemClock().now() - 1
    assert stack("recipe", "check", file, "--json") == 0
    assert document(capsys)["accepted"]

    assert stack("recipe", "publish", file, "--json") == 0
    published = document(capsys)
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
    assert before["forecast"]["least"] <= before["forecast"]["contributions"] <= before["forecast"]["most"]
    assert stack("recipe", "yield", "visits") == 0
    assert "B is expected at" in capsys.readouterr().out

    assert stack("collect", "visits", "--wait", "120", "--json") == 0
    collected = document(capsys)
    assert (collected["state"], collected["recipe_hash"]) == ("released", written["hash"])
    (result,) = collected["results"]
    assert result["report_count"] == AGENTS
    assert [bucket["label"] for bucket in result["buckets"]] == ["0", "1", "2+"]

    assert stack("recipe", "yield", written["hash"], "--json") == 0
    filled = document(capsys)
    assert (filled["contributions"], filled["exact"], filled["forecast"]) == (AGENTS, True, None)
    assert stack("recipe", "yield", "visits") == 0
    assert "released: 3 contributions, B = 2" in capsys.readouterr().out
    assert stack("results", "visits", "--json") == 0
    assert document(capsys)["results"] == [result]
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
        (["--boolean", "--categories", "a,b"], "give one of"),
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
    assert "--metric, --population, --buckets, --categories or --boolean" in capsys.readouterr().err


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


@pytest.mark.parametrize(
    ("words", "statistic", "mechanism"),
    [
        (["--statistic", "mean", "--low", "0", "--high", "20000", "--unit", "1000"], "mean", "flips-exact+sampling"),
        (["--statistic", "sum", "--low", "-5", "--high", "5"], "sum", "flips-exact+sampling"),
        (["--boolean", "--mechanism", "flips"], "count", "flips-exact+sampling"),
        (["--buckets", "0,1,2", "--mechanism", "flips"], "histogram", "flips-exact+sampling"),
        (
            ["--statistic", "vector-sum", "--low", "-9", "--high", "9", "--length", "4", "--norm", "9"],
            "vector-sum",
            "flips-vector+sampling",
        ),
        (["--boolean", "--mechanism", "local"], "count", "rr-exact+sampling"),
    ],
)
def test_a_recipe_of_noise_shares_says_what_it_costs_and_gives_before_anybody_is_asked(
    words: list[str], statistic: str, mechanism: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parties, out = tmp_path / "parties.json", tmp_path / "steps.json"
    parties.write_text(json.dumps(RecipeKit().parties().model_dump(mode="json")))
    start = int(SystemClock().now()) // 3600 * 3600 + 3600
    flags = ["--start", str(start), "--duration", "1800", "--epoch", "5", "--slot", "0", "--out", str(out)]
    question = ["--name", "steps", "--metric", "steps", "--population", "10000", *words]
    assert run(["recipe", "new", *question, "--parties", str(parties), *flags, "--json"]) == 0
    answered = capsys.readouterr()
    made = json.loads(answered.out)
    assert made["recipe"]["question"]["statistic"] == statistic
    assert made["recipe"]["privacy"]["mechanism"] == mechanism
    if not mechanism.startswith("flips"):
        assert "outlook" not in made
        return
    outlook = made["outlook"]
    assert 0.9 < outlook["epsilon_half"] <= 1
    assert outlook["epsilon"]["both_aggregators"] == "unbounded"
    assert min(outlook["noise_stderr"], outlook["measurement_bits"], outlook["leader_share_bytes"]) > 0
    assert "unbounded against both aggregators" in answered.err
    assert run(["recipe", "show", str(out)]) == 0
    shown = capsys.readouterr().out
    assert shown.count("unbounded") == 2
    assert "no local guarantee" in " ".join(shown.replace("│", " ").split())
    assert run(["recipe", "check", str(out)]) == 1
    assert "allow_unbounded_local" in capsys.readouterr().out
    policy = tmp_path / "policy.json"
    policy.write_text('{"allow_unbounded_local": true}')
    assert run(["recipe", "check", str(out), "--policy", str(policy)]) == 0


@pytest.mark.parametrize(
    ("words", "complaint_words"),
    [
        (["--statistic", "median"], "--statistic: must be"),
        (["--statistic", "sum", "--low", "0"], "needs --high"),
        (["--statistic", "sum", "--low", "3", "--high", "3"], "--low: must be below high"),
        (["--statistic", "mean", "--low", "0", "--high", "1", "--unit", "0.3"], "change high to 0.9 or 1.2, or unit"),
        (["--statistic", "mean", "--low", "-.5", "--high", "1"], "--low: '-.5' is not a number like"),
        (["--statistic", "mean", "--low", "0", "--high", "1", "--unit", "1e-2"], "--unit: '1e-2' is not a number like"),
        (["--statistic", "mean", "--low", "0", "--high", "1", "--unit", "0"], "above 0"),
        (["--buckets", "0,x"], "such as 0,1,2,4 or 0,0.25,0.5"),
        (["--buckets", "0,0.5,0.50"], "increasing"),
        (["--statistic", "sum", "--low", "0", "--high", "9", "--norm", "3"], "--norm"),
        (["--statistic", "mean", "--low", "0", "--high", "9", "--mechanism", "local"], "flips"),
        (["--statistic", "vector-sum", "--low", "0", "--high", "9", "--length", "3"], "--norm"),
        (["--boolean", "--low", "1"], "--low"),
        (["--boolean", "--statistic", "histogram"], "--buckets or --categories"),
        (["--buckets", "0,1", "--statistic", "count"], "--boolean"),
        (["--boolean", "--mechanism", "magic"], "--mechanism"),
        (["--boolean", "--mechanism", "flips", "--randomizer", "rr"], "either"),
    ],
)
def test_flags_of_a_statistic_that_do_not_fit_are_a_usage_error(
    words: list[str], complaint_words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--name", "visits", "--metric", "mdvis", "--population", "500", "--state-dir", "nowhere"]
    assert run(["recipe", "new", *given, *words]) == 2
    assert complaint_words in " ".join(complaint(capsys))


def made_by_hand(tmp_path: Path, *words: str) -> list[str]:
    parties = tmp_path / "parties.json"
    parties.write_text(json.dumps(RecipeKit().parties().model_dump(mode="json")))
    start = int(SystemClock().now()) // 3600 * 3600 + 3600
    place = ["--parties", str(parties), "--start", str(start), "--duration", "1800", "--epoch", "5", "--slot", "0"]
    question = ["--name", "errors", "--metric", "error", "--population", "20000"]
    return ["recipe", "new", *question, *place, "--out", str(tmp_path / "errors.json"), *words]


def test_a_recipe_in_fractions_says_what_is_rounded_to_what(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "errors.json")
    share = ["--statistic", "mean", "--low", "0", "--high", "1.00", "--unit", "0.010"]
    assert run([*made_by_hand(tmp_path, *share), "--json"]) == 0
    answered = capsys.readouterr()
    made = json.loads(answered.out)
    assert made["recipe"]["question"]["encoder"] == {"kind": "number", "low": 0, "high": 1, "unit": "0.01"}
    assert "the nearest 0.01" in made["rounding"]
    assert made["rounding"] in answered.err
    assert "warning" not in answered.err
    assert run(["recipe", "show", out]) == 0
    assert "values are rounded to the nearest 0.01" in " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert run(["recipe", "show", out, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rounding"] == made["rounding"]
    assert run(made_by_hand(tmp_path, "--buckets", "0,0.10,0.5", "--randomizer", "krr")) == 0
    assert "below 0 it counts as 0 to <0.1" in capsys.readouterr().err
    assert json.loads(Path(out).read_text())["question"]["encoder"]["edges"] == [0, "0.1", "0.5"]


def test_a_unit_that_is_coarse_for_its_range_is_warned_about_when_a_recipe_is_made_and_when_it_is_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = tmp_path / "policy.json"
    policy.write_text('{"allow_unbounded_local": true}')
    assert run(made_by_hand(tmp_path, "--statistic", "mean", "--low", "0", "--high", "1")) == 0
    words = "warning: unit 1 is coarse: 0 to 1 has 1 step, 0.3 counts as 0"
    said = capsys.readouterr().err
    assert words in said
    assert "take unit 0.01" in said
    check = ["recipe", "check", str(tmp_path / "errors.json"), "--policy", str(policy)]
    assert run(check) == 0
    assert words in capsys.readouterr().err
    assert run([*check, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["warnings"][0] in words.removeprefix("warning: ") + said


RARELY = ["--importance-rate", "0.05", "--non-default-share", "0.1", "--attested-devices", "20000"]


@pytest.mark.parametrize(
    ("words", "default", "shown"),
    [
        (["--categories", "none,disk,net", "--importance-default", "none"], 0, "q = 0.05 for none, 0.5 for any other"),
        (["--buckets", "0,1,5", "--importance-default", "1-4"], 1, "q = 0.05 for 1-4, 0.5 for any other"),
        (["--boolean", "--importance-default", "no"], 0, "q = 0.05 for no, 0.5 for any other"),
        (
            ["--statistic", "sum", "--low", "-5", "--high", "5", "--importance-default", "0"],
            5,
            "q = 0.05 for 0, 0.5 for any other",
        ),
    ],
)
def test_a_usual_answer_is_named_as_people_read_it(
    words: list[str], default: int, shown: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(made_by_hand(tmp_path, *words, *RARELY, "--json")) == 0
    answered = capsys.readouterr()
    made = json.loads(answered.out)
    assert made["recipe"]["sampling"]["importance"] == {"default": default, "default_rate": "0.05", "devices": 20_000}
    assert made["hiding"]["dummies_epsilon"] is None
    assert 0 < made["hiding"]["count_epsilon"] < 1
    assert "the relay sees who sends: epsilon 2." in answered.err
    assert run(["recipe", "show", str(tmp_path / "errors.json")]) == 0
    assert shown in " ".join(capsys.readouterr().out.replace("│", " ").split())


def test_as_few_dummies_as_will_do_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = []
    for words in (["auto"], ["auto", "--dummy-epsilon", "0.5"], ["150"]):
        assert run(made_by_hand(tmp_path, "--boolean", "--dummies", *words, "--json")) == 0
        answered = capsys.readouterr()
        made = json.loads(answered.out)
        dummies = made["recipe"]["sampling"]["dummies"]
        assert dummies["population"] == 20_000
        found.append((float(dummies["intensity"]), made["hiding"]["dummies_epsilon"]))
        assert "against somebody who knows which others took part" in answered.err
    (few, loose), (many, tight), (given, _) = found
    assert few < given == 150 < many
    assert 0.99 < loose <= 1
    assert 0.49 < tight <= 0.5
    assert run(["recipe", "show", str(tmp_path / "errors.json")]) == 0
    assert "150 expected among 20000 devices" in " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert run(["recipe", "check", str(tmp_path / "errors.json")]) == 0


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--boolean", "--importance-default", "no"], 2, "--importance-rate, --non-default-share"),
        (["--boolean", "--importance-default", "no", *RARELY[2:]], 2, "needs --importance-rate too"),
        (["--boolean", "--importance-default", "maybe", *RARELY], 1, "is no answer to a count"),
        (["--categories", "a,b", "--importance-default", "c", *RARELY], 1, "'c' is no answer; one of a, b is"),
        (["--boolean", "--dummy-epsilon", "1"], 2, "belongs to --dummies auto"),
        (["--boolean", "--dummies", "many"], 2, "--dummies: takes a number"),
        (["--boolean", "--dummies", "auto", "--dummy-epsilon", "0"], 2, "a number above 0"),
        (["--boolean", "--dummies", "auto", "--dummy-epsilon", "0.0001"], 1, "no dummies of 20000 devices"),
        (["--boolean", "--importance-default", "no", *RARELY[:2], "--non-default-share", "1.5"], 2, "at most 1"),
    ],
)
def test_flags_of_sampling_that_do_not_fit_are_refused_in_words(
    words: list[str], code: int, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(made_by_hand(tmp_path, *words)) == code
    assert message in " ".join(capsys.readouterr().err.replace("│", " ").split())


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
    assert stack("fleet", "run", "--recipe", "training-0", "--devices", "3", "--oracle") == 1
    assert "a round of a series with donation" in " ".join(complaint(capsys))
    assert stack("series", "new", "--from", source, "--rounds", "9", "--window", "5") == 1
    assert "is not inside epoch" in complaint(capsys)[-1]
