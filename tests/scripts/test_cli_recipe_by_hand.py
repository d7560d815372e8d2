"""``tacit recipe new`` without a stack: noise shares, fractions, sampling and dummies, and what does not fit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from infra.cli import run
from infra.lab.kit.recipes import RecipeKit
from infra.lab.kit.shuffled import ShuffledKit
from tacit.adapters.system import SystemClock
from tests.scripts.test_cli_recipe import complaint


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
        (["--statistic", "sum", "--low", "3", "--high", "3"], "--low: must be below --high"),
        (
            ["--statistic", "mean", "--low", "0", "--high", "1", "--unit", "0.3"],
            "change --high to 0.9 or 1.2, or --unit",
        ),
        (["--statistic", "mean", "--low", "-.5", "--high", "1"], "--low: '-.5' is not a number like"),
        (["--statistic", "mean", "--low", "0", "--high", "1", "--unit", "1e-2"], "--unit: '1e-2' is not a number like"),
        (["--statistic", "mean", "--low", "0", "--high", "1", "--unit", "0"], "above 0"),
        (["--buckets", "0,x"], "such as 0,1,2,4 or 0,0.25,0.5"),
        (["--buckets", "0,0.5,0.50"], "increasing"),
        (["--statistic", "sum", "--low", "0", "--high", "9", "--norm", "3"], "--norm"),
        (
            [
                *("--statistic", "vector-sum", "--norm", "3", "--low", "0", "--high", "9", "--length", "3"),
                *("--mechanism", "local"),
            ],
            "flips",
        ),
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
        (["--buckets", "0,1,5", "--importance-default", "1 to <5"], 1, "q = 0.05 for 1 to <5, 0.5 for any other"),
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
        (["--boolean", "--importance-default", "maybe", *RARELY], 1, "is not an answer to a count"),
        (
            ["--categories", "a,b", "--importance-default", "c", *RARELY],
            1,
            "'c' is not an answer; choose one of a, b, no value",
        ),
        (["--boolean", "--dummy-epsilon", "1"], 2, "belongs to --dummies auto"),
        (["--boolean", "--dummies", "many"], 2, "--dummies: takes a number"),
        (["--boolean", "--dummies", "auto", "--dummy-epsilon", "0"], 2, "a number above 0"),
        (["--boolean", "--dummies", "auto", "--dummy-epsilon", "0.0001"], 1, "no number of dummies from 20000 devices"),
        (["--boolean", "--importance-default", "no", *RARELY[:2], "--non-default-share", "1.5"], 2, "at most 1"),
    ],
)
def test_flags_of_sampling_that_do_not_fit_are_refused_in_words(
    words: list[str], code: int, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(made_by_hand(tmp_path, *words)) == code
    assert message in " ".join(capsys.readouterr().err.replace("│", " ").split())


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--low", "1", "--high", "10"], ""),
        (["--low", "10", "--high", "1"], "--low: must be below --high"),
        (["--high", "10"], "--low and --high: needs --low too"),
        (["--low", "1", "--high", "10", "--buckets", "1,2"], "--low: does not belong to --buckets"),
        (["--low", "0.5", "--high", "10"], "--unit: must divide --high minus --low"),
    ],
)
def test_a_histogram_of_whole_numbers_behind_a_shuffler_is_made_from_flags(
    words: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parties, out = tmp_path / "parties.json", tmp_path / "ports.json"
    parties.write_text(json.dumps(ShuffledKit().shuffled_parties().model_dump(mode="json")))
    start = int(SystemClock().now()) // 3600 * 3600 + 3600
    flags = ["--start", str(start), "--duration", "1800", "--epoch", "5", "--slot", "0", "--out", str(out)]
    question = ["--name", "ports", "--metric", "port", "--population", "2000", "--rate", "1", "--model", "shuffled"]
    given = ["recipe", "new", *question, "--statistic", "histogram", *words, "--parties", str(parties), *flags]
    assert run(given) == (2 if told else 0)
    if told:
        assert told in " ".join(complaint(capsys))
        return
    made = json.loads(out.read_text())["question"]
    assert (made["statistic"], made["encoder"]["kind"]) == ("histogram", "number")
    assert "coarse" not in capsys.readouterr().err
