"""``tacit demo --model local`` as a user runs it: a process, a file of texts, a JSON document."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.test_demo import tacit

DEVICES = 1_500
COUNTS = {"stop": 600, "go": 400, "left": 250}


@pytest.mark.slow
@pytest.mark.false_alarm(1e-6, "five standard errors, of three answers")
def test_frequent_texts_of_a_file_are_found_by_real_devices(tmp_path: Path) -> None:
    rest = DEVICES - sum(COUNTS.values())
    lines = [text for text, count in COUNTS.items() for _ in range(count)] + [f"x{number}" for number in range(rest)]
    (tmp_path / "words.txt").write_text("\n".join(lines))
    options = ("--input", "words.txt", "--devices", str(DEVICES), "--epsilon", "2", "--json")
    done = tacit("demo", "--model", "local", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["devices"], document["accepted"], document["rejected"]) == (DEVICES, DEVICES, 0)
    assert document["epsilon0"] == document["privacy"]["by_adversary"]["analyzer"] == 2.0
    found = {row["item"]: row for row in document["heavy_hitters"]}
    assert "stop" in found
    for text, row in found.items():
        assert row["truth"] == COUNTS.get(text, 0 if not text.startswith("x") else row["truth"])
        assert row["estimate"] >= document["threshold"]
    assert abs(found["stop"]["estimate"] - COUNTS["stop"]) < 5 * found["stop"]["stderr"]
    assert (document["report_bits"], document["false_positive_rate"], document["engine"]) == (3, 0.05, "tree")


@pytest.mark.slow
@pytest.mark.false_alarm(1e-4, "the item is listed with three standard errors to spare; five bound its error", runs=2)
def test_the_papers_histogram_finds_a_very_frequent_text_and_refuses_what_it_cannot_find(tmp_path: Path) -> None:
    (tmp_path / "letters.txt").write_text("\n".join(["a"] * 980 + ["b"] * 20))
    options = ("--model", "local", "--engine", "paper", "--input", "letters.txt", "--json")
    done = tacit("demo", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["engine"], document["report_bits"], document["accepted"]) == ("paper", 1, 1000)
    (found,) = document["heavy_hitters"]
    assert (found["item"], found["truth"]) == ("a", 980)
    assert abs(found["estimate"] - 980) < 5 * found["stderr"]
    refused = tacit("demo", *options, "--epsilon", "1", cwd=tmp_path)
    assert refused.returncode != 0
    assert "succinct-histogram finds nothing: n = 1,000 reports of 8 bits" in refused.stderr
