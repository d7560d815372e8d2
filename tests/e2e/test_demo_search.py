"""The demo of a search over secure aggregation: real parties and devices, few of them; and as a user runs it."""

from __future__ import annotations

import asyncio
import json
import os
from decimal import Decimal
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from rich.console import Console

from infra.lab.demo import crowded, search_run
from infra.lab.demo import run as run_module
from infra.lab.demo.results.view import Stages
from infra.lab.demo.search_run import SearchRun
from infra.lab.demo.words import Texts
from tacit.service.base.log import set_log_level
from tests.e2e.test_demo import tacit
from tests.kit.logged import Secrets, members_beyond
from tests.unit.test_demo_search import SCHEMA

DOMAIN = {"kind": "strings", "length": 2, "alphabet": "abcdefghijklmnopqrstuvwxyz", "candidates": 64, "levels": (5, 10)}
"""Ten bits in two rounds."""
COUNTS = {"to": 300, "ab": 180, "": 10, "too long": 30}
AGENTS = 60
TRIED = {
    "a series that understates the epsilon of all its rounds": "recipe server, leader, helper, every device",
    "a second history of the log, with a gateway key for one device": "witnesses, device",
    "a round with more candidates than its search states": "recipe server, leader, helper, every device",
    "a round that asks again what the one before asked": "recipe server, leader, helper, every device",
    "these candidates in a round of another series": "recipe server, leader, helper, every device",
    "a second recipe for a round that was asked": "recipe server, leader, helper, every device",
    "a token spent twice": "leader",
    "a collection at B-1 = 49": "leader, helper",
    "a value outside the answers, told by who takes part": "every device",
    "a second answer of a device, asked in every round": "every device",
}


@pytest.mark.slow
@pytest.mark.false_alarm(1e-6, "six standard errors of the most frequent text, which is far above every threshold")
def test_two_rounds_count_every_device_once_and_find_what_most_devices_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for module, name in ((run_module, "MOST_AGENTS"), (search_run, "MOST_AGENTS"), (search_run, "AGENTS_OF_A_CROWD")):
        monkeypatch.setattr(module, name, AGENTS)
    monkeypatch.setattr(crowded, "SETTLE_SECONDS", 0.2)
    secrets = Secrets()
    secrets.spy(monkeypatch)
    set_log_level("debug")
    values = tuple(text for text, count in COUNTS.items() for _ in range(count))
    try:
        stages = Stages(Console(stderr=True, quiet=True))
        run = SearchRun(Texts("rows", "word", DOMAIN, values), Decimal(4), 5, tmp_path / "stack", stages)
        document = json.loads(json.dumps(asyncio.run(run.run()).document()))
    finally:
        set_log_level("info")
    Draft202012Validator(SCHEMA).validate(document)
    assert document["accepted"] == document["sampled"] == sum(one["contributions"] for one in document["rounds"])
    assert (document["devices"], document["rejected"], document["domain_bits"]) == (len(values), 0, 10)
    assert [one["prefix_bits"] for one in document["rounds"]] == [5, 10] == [5, document["domain_bits"]]
    assert len(document["rounds"]) == document["planned_rounds"] == 2
    assert document["frequent"] == [{"item": "to", "devices": 300}, {"item": "ab", "devices": 180}]
    (best, *_) = document["heavy_hitters"]
    assert (best["item"], best["truth"]) == ("to", 300)
    assert abs(best["estimate"] - best["truth"]) < 6 * best["stderr"]
    assert document["epsilon"]["aggregator"] < document["epsilon"]["aggregator_with_relay"] <= 4
    tried = {one["attempt"]: one["refused_by"] for one in document["refused"]}
    assert {attempt: tried.get(attempt) for attempt in TRIED} == TRIED
    assert [one["party"] for one in document["observed"]] == [
        "attester",
        "issuer",
        "relay",
        "gateway",
        "leader",
        "helper",
    ]
    secrets.read_files(tmp_path / "stack")
    logged = capfd.readouterr().err
    assert members_beyond([line for line in logged.splitlines() if line.startswith("{")]) == []
    assert secrets.found_in(logged) == []


@pytest.mark.slow
@pytest.mark.false_alarm(1e-3, "the text that half of the devices have passes each of three thresholds by far")
def test_the_command_finds_the_frequent_text_of_a_file_and_leaves_nothing_behind(tmp_path: Path) -> None:
    lines = ["stop"] * 900 + ["go"] * 350 + [f"x{number:03}" for number in range(250)]
    (tmp_path / "words.csv").write_text("id,word\n" + "".join(f"{at},{text}\n" for at, text in enumerate(lines)))
    (tmp_path / "temporary").mkdir()
    options = ("--heavy-hitters", "--input", "words.csv", "--column", "word", "--epsilon", "4", "--json")
    environment = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
    done = tacit("demo", *options, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert "proposed from the file: texts of up to 4 of the" in done.stderr
    assert '"level"' not in done.stderr, "no service has anything to complain of"
    document = json.loads(done.stdout)
    Draft202012Validator(SCHEMA).validate(document)
    assert document["devices"] == len(lines)
    assert document["accepted"] == document["sampled"]
    assert document["heavy_hitters"][0]["item"] == "stop"
    assert document["heavy_hitters"][0]["truth"] == 900
    assert sorted(path.name for path in tmp_path.iterdir()) == ["temporary", "words.csv"]
    assert list((tmp_path / "temporary").iterdir()) == []
