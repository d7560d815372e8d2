"""``tacit series`` by itself: what it makes of a recipe, what it shows, and what it complains about."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from infra.cli import run
from infra.commands import privacy_budget
from infra.lab.kit.recipes import RecipeKit, changed
from tacit.codec import b64url
from tacit.logview.live import LiveLog
from tacit.logview.signers import LeafSigners
from tacit.logview.view import VerifiedEntry
from tacit.recipe.claims import total_claim
from tacit.recipe.model import Recipe
from tacit.recipe.policy import AccountLimit
from tacit.recipe.series import Series
from tacit.service.base.secret_files import write_secret
from tacit.tlog.leaves import SignedLeaf

KIT = RecipeKit()
RECIPE = KIT.recipe(name="training", population=20_000, rate=Decimal(1), epsilon=Decimal("0.5"))


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A recipe's file, in an empty folder that has no stack."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "train.json"
    path.write_text(json.dumps(RECIPE.body()))
    return str(path)


def document(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def complaint(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err


def made(file: str, tmp_path: Path, *flags: str) -> tuple[str, Series]:
    out = str(tmp_path / "training.json")
    assert run(["series", "new", "--from", file, *flags, "--out", out]) == 0
    return out, Series.from_body(json.loads(Path(out).read_text()))


def test_a_recipe_becomes_a_series_whose_rate_is_spread_over_the_slots(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, series = made(file, tmp_path, "--rounds", "12", "--donation-slots", "10")
    shown = capsys.readouterr().out
    assert series.probe.sampling.rate == "0.1"
    assert series.claim.delta == RECIPE.privacy.delta
    assert series.claim.epsilon.model_dump() == total_claim(series).rounded_up()
    beside, alone = (stated["aggregator_with_relay"] for stated in (series.claim.epsilon, RECIPE.privacy.epsilon))
    assert float(beside) <= float(alone)
    for words in ("12 independent recipes", "this series", "one aggregator, or the analyst", "34.9% never"):
        assert words in shown
    assert "2 of 12 rounds, from round 10 on, expect fewer than B" in shown
    assert run(["series", "show", out, "--json"]) == 0
    found = document(capsys)
    assert found["hash"] == series.hash_text
    claims = found["claim"]
    for adversary in ("aggregator", "aggregator_with_relay", "both_aggregators"):
        one, whole, many = (
            claims[name]["epsilon"][adversary] for name in ("one_round", "series", "independent_recipes")
        )
        assert one <= whole
        if adversary == "aggregator_with_relay":
            assert whole < many, "of one round at most, where sampling hides nothing"
    assert found["expected_contributions"][:3] == [2000, 1800, 1620]


def test_a_series_of_noise_shares_shows_the_operators_number_beside_the_devices(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shares = KIT.recipe(name="sums", population=20_000, rate=Decimal(1), randomizer="flips")
    Path(file).write_text(json.dumps(shares.body()))
    out, series = made(file, tmp_path, "--rounds", "4", "--donation-slots", "4")
    capsys.readouterr()
    assert run(["series", "show", out, "--json"]) == 0
    found = document(capsys)
    assert found["gaussian_analog"]["epsilon"] < float(series.claim.epsilon["aggregator"])
    assert found["claim"]["series"]["epsilon"]["both_aggregators"] == "unbounded"
    assert run(["series", "show", out]) == 0
    assert re.search(r"operator's accountant \(PLD\) would say 0\.\d{4}", " ".join(capsys.readouterr().out.split()))


def test_a_round_is_a_recipe_with_its_input_and_its_window(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, series = made(file, tmp_path, "--rounds", "3", "--donation-slots", "3")
    given = tmp_path / "weights.txt"
    given.write_text("1 2 3")
    written = str(tmp_path / "round.json")
    assert run(["series", "round", out, "--index", "2", "--round-input-file", str(given), "--out", written]) == 0
    recipe = Recipe.from_body(json.loads(Path(written).read_text()))
    assert recipe.question.round_input == "1 2 3"
    assert recipe.interval == series.window(2)
    assert series.mismatch(recipe) is None
    assert run(["recipe", "show", written]) == 0
    assert f"round 2 of {series.hash_text}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--index", "3"], "3 rounds, from 0 to 2"),
        (["--index", "0", "--start", "60"], "go together"),
        (["--index", "0", "--start", "60", "--duration", "60"], "time of every round is fixed"),
        (["--index", "0", "--round-input", "x", "--round-input-file", "y"], "either"),
        (["--index", "0", "--round-input", "x" * 16_385], "round_input"),
    ],
)
def test_a_round_that_cannot_be_is_a_usage_error(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], words: str
) -> None:
    out, _ = made(file, tmp_path, "--rounds", "3", "--donation-slots", "3")
    capsys.readouterr()
    assert run(["series", "round", out, *flags]) != 0
    assert words in complaint(capsys)


def test_without_donation_a_round_may_have_a_time_of_its_own(file: str, tmp_path: Path) -> None:
    out, series = made(file, tmp_path, "--rounds", "3")
    start = series.interval.start + 600
    flags = ["--start", str(start), "--duration", "1200", "--out", str(tmp_path / "round.json")]
    assert run(["series", "round", out, "--index", "1", *flags]) == 0
    recipe = Recipe.from_body(json.loads((tmp_path / "round.json").read_text()))
    assert (recipe.interval.start, recipe.interval.duration) == (start, 1200)
    assert series.mismatch(recipe) is None


def test_files_that_hold_no_series_are_refused_in_one_line(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["series", "show", file]) == 1
    assert complaint(capsys).count("\n") == 1
    (tmp_path / "list.json").write_text("[]")
    assert run(["series", "show", str(tmp_path / "list.json")]) == 1
    assert "not a JSON object" in complaint(capsys)


def test_too_few_devices_for_so_many_rounds_are_named(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    small = KIT.recipe(name="small", population=300, rate=Decimal(1))
    Path(file).write_text(json.dumps(small.body()))
    assert run(["series", "new", "--from", file, "--rounds", "200", "--donation-slots", "200"]) == 1
    assert "300 devices are too few for 200 rounds" in complaint(capsys)


def test_a_round_is_planned_as_its_series_and_not_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    series = KIT.series()
    limit = AccountLimit(epsilon="10", delta="0.00001", window_seconds=86_400)
    policy = KIT.policy.model_copy(update={"accounts": {"default": limit}})
    log = LiveLog.from_entries([VerifiedEntry(0, KIT.series_leaf(series))])
    monkeypatch.setattr(privacy_budget, "_log", lambda _state_dir: (log, policy))
    path = tmp_path / "round.json"
    words = ["privacy", "plan", "--recipe", str(path)]
    path.write_text(json.dumps(KIT.round(series, 1).body()))
    assert run([*words, "--json"]) == 0
    found = document(capsys)
    assert (found["series"], found["epsilon"]) == (series.name, series.claim.epsilon["aggregator"])
    assert (found["start"], found["end"]) == (series.interval.start, series.interval.end)
    assert found["beside"] == 0, "the series, which the log holds, is not weighed twice"
    assert run(words) == 0
    assert f"a round of {series.name} costs nothing more: the series is charged once" in " ".join(
        capsys.readouterr().out.split()
    )
    path.write_text(json.dumps(changed(KIT.round(series, 1), "question.text", "Something else?").body()))
    assert run(words) == 1
    assert "is not a round of series training: question differ" in " ".join(complaint(capsys).split())
    path.write_text(json.dumps(KIT.round(KIT.series(name="unseen"), 0).body()))
    assert run(words) == 1
    assert "publish it first: tacit series publish" in " ".join(complaint(capsys).split())


ASKED = (
    *("recipe", "new", "--name", "words", "--metric", "word", "--prefixes", "4"),
    *("--alphabet", "abcdefghijklmnopqrstuvwxyz", "--population", "20000", "--rate", "1", "--parties", "parties.json"),
    *("--epoch", "20000", "--slot", "0", "--start", "1728000000", "--duration", "3600"),
)


@pytest.fixture
def search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The file of a recipe about prefixes, in an empty folder that has no stack."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "parties.json").write_text(KIT.parties().model_dump_json(exclude_none=True))
    assert run([*ASKED, "--out", "ask.json"]) == 0
    return "ask.json"


def test_a_search_has_a_round_and_a_slot_for_each_level(
    search: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, series = made(search, tmp_path, "--window", "600", "--pause", "60")
    said = capsys.readouterr()
    assert "600 s each, 60 s apart" in said.out
    assert "tacit series next words" in said.err
    encoder = series.template["question"]["encoder"]
    assert (encoder["levels"], encoder["candidates"], encoder["missing"]) == ([9, 14, 20], 512, "no value")
    assert series.donation is not None
    assert (series.rounds, series.donation.slots, series.donation.pause_seconds) == (3, 3, 60)
    assert run(["series", "round", out, "--index", "1", "--round-input", "no candidates", "--out", "r.json"]) == 0
    capsys.readouterr()
    assert run(["recipe", "check", "r.json"]) == 1
    assert "round-candidates" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--prefix-levels", "9,x"], "whole numbers with commas"),
        (["--prefix-levels", "9,14"], "must rise from 1 or more to 20"),
        (["--candidates", "1"], "too few"),
        (["--candidates", "2000"], "candidates"),
        (["--alphabet", "aa"], "distinct"),
        (["--strings", "4"], "give only one of"),
    ],
)
def test_a_search_that_cannot_be_is_refused_by_its_flag(
    search: str, capsys: pytest.CaptureFixture[str], flags: list[str], words: str
) -> None:
    assert run([*ASKED, *flags]) != 0
    assert words in " ".join(complaint(capsys).split())


def test_rounds_are_needed_elsewhere_and_a_pause_belongs_to_donation(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["series", "new", "--from", file]) == 1
    assert "--rounds is needed" in complaint(capsys)
    assert run(["series", "new", "--from", file, "--rounds", "3", "--pause", "60"]) == 1
    assert "a pause between rounds belongs to donation" in complaint(capsys)


@pytest.mark.parametrize(
    ("flag", "name", "signer"), [("--key", "analyst", "analyst.example"), ("--log-key", "log", "log")]
)
def test_a_series_is_ended_with_the_key_of_its_analyst_or_of_the_log(
    file: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    flag: str,
    name: str,
    signer: str,
) -> None:
    sent: list[SignedLeaf] = []

    async def send(_transport: object, server: str, leaf: SignedLeaf) -> int:
        assert server == "http://127.0.0.1:9"
        sent.append(leaf)
        return 7

    monkeypatch.setattr("tacit.operations.publishing.send_leaf", send)
    out, series = made(file, tmp_path, "--rounds", "3", "--donation-slots", "3")
    write_secret(tmp_path / "own.key", b64url(KIT.keys[name].private).encode())
    capsys.readouterr()
    at = ["--server", "http://127.0.0.1:9", flag, str(tmp_path / "own.key"), "--json"]
    assert run(["series", "end", out, *at]) == 0
    assert document(capsys) == {"hash": series.hash_text, "name": series.name, "index": 7}
    (leaf,) = sent
    assert (leaf.signer, leaf.body["series_hash"]) == (signer, series.hash_text)
    signers = LeafSigners(KIT.policy, [KIT.series_leaf(series)], KIT.keys["log"].public)
    (key,) = signers.keys_of([leaf])
    assert key is not None
    leaf.verify(key)


def test_a_series_is_not_ended_with_another_analysts_key_or_without_one(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, _ = made(file, tmp_path, "--rounds", "3", "--donation-slots", "3")
    write_secret(tmp_path / "own.key", b64url(KIT.keys["leader"].private).encode())
    server = ["--server", "http://127.0.0.1:9"]
    assert run(["series", "end", out, *server, "--key", str(tmp_path / "own.key")]) == 1
    assert "names another signing key of its analyst analyst.example; sign with that" in complaint(capsys)
    assert run(["series", "end", out, *server]) != 0
    assert "--server needs --key or --log-key" in complaint(capsys)
    assert run(["series", "end", "elsewhere", *server, "--log-key", str(tmp_path / "own.key")]) == 1
    assert "elsewhere: no such file; with --server give the file of the series" in complaint(capsys)
