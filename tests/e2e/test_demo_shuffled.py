"""The demo of the shuffled model: real parties and devices, few of them."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from infra.lab.commands.demo_shuffled import MOST_SEALED_DOMAIN, of_domain
from infra.lab.demo import counted_run
from infra.lab.demo.counted_run import CountedRun
from infra.lab.demo.dataset import Dataset
from infra.lab.demo.results.report import write_report
from infra.lab.demo.results.shuffled_result import MOST_MESSAGES, ShuffledResult
from infra.lab.demo.results.view import Stages, show
from infra.lab.demo.shuffled_run import LEAST_DEVICES, ShuffledRun
from tacit.errors import UsageError
from tacit.service.base.log import set_log_level
from tests.kit.logged import Secrets, members_beyond

DOMAIN = 12
QUIET = Stages(Console(stderr=True, quiet=True))


@pytest.mark.slow
@pytest.mark.false_alarm(1e-6, "six standard errors of the most frequent answer, and of all that zsum shows")
@pytest.mark.parametrize("randomizer", ["zsum", "unbiased"])
def test_every_device_is_counted_once_and_no_answer_that_nobody_has_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], randomizer: str
) -> None:
    secrets = Secrets()
    secrets.spy(monkeypatch)
    set_log_level("debug")
    try:
        run = ShuffledRun(of_domain(DOMAIN, LEAST_DEVICES), randomizer, tmp_path / "stack", QUIET)
        result = asyncio.run(run.run())
    finally:
        set_log_level("info")
    assert isinstance(result, ShuffledResult)
    document = json.loads(json.dumps(result.document()))
    counted = (document["devices"], document["sampled"], document["accepted"], document["rejected"])
    assert counted == (LEAST_DEVICES, LEAST_DEVICES, LEAST_DEVICES, 0)
    assert (document["recipe"]["model"], document["recipe"]["randomizer"]["name"]) == ("shuffled", randomizer)
    first = document["buckets"][0]
    assert abs(first["estimate"] - first["truth"]) < 6 * first["stderr"]
    assert document["answers"] == DOMAIN + 1, "devices without a value have a category of their own"
    assert document["bundle_bytes"] == 50 * document["messages_per_device"]
    if randomizer == "zsum":
        assert (document["false_positives"], document["messages_per_device"]) == (0, DOMAIN + 2)
        assert document["zeros"].startswith("0 means: fewer than ")
    assert document["privacy"]["by_adversary"]["shuffler"] == 0
    seen = {one["party"]: one["read"] for one in document["observed"]}
    assert list(seen) == ["attester", "issuer", "relay", "gateway", "shuffler"]
    assert seen["shuffler"]["sealed_messages"] == document["messages_per_device"]
    tried = {one["attempt"]: one["refused_by"] for one in document["refused"]}
    assert len(tried) == 11
    assert tried["a token spent twice"] == tried["a bundle after the interval"] == "shuffler"
    assert tried["messages from somebody who is not the shuffler"] == "analyzer"
    shown = io.StringIO()
    show(result, Console(file=shown, width=100), write_report(result, tmp_path / "out"))
    assert "sealed messages of the same size" in " ".join(shown.getvalue().split())
    secrets.read_files(tmp_path / "stack")
    logged = capsys.readouterr().err
    assert members_beyond([line for line in logged.splitlines() if line.startswith("{")]) == []
    assert secrets.found_in(logged) == []


@pytest.mark.slow
@pytest.mark.false_alarm(1e-4, "six standard errors of the noise in each of 6,000 answers, twice")
@pytest.mark.parametrize(("randomizer", "most_sealed"), [("zsum", 0), ("flipped", 2_000)])
def test_of_many_answers_some_devices_seal_and_the_rest_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, randomizer: str, most_sealed: int
) -> None:
    monkeypatch.setattr(counted_run, "MOST_SEALED", most_sealed)
    devices, domain = 3_000, MOST_SEALED_DOMAIN + 5_000
    run = CountedRun(of_domain(domain, devices), randomizer, tmp_path / "stack", QUIET)
    result = asyncio.run(run.run())
    assert isinstance(result, ShuffledResult)
    document = result.document()
    counted = (document["devices"], document["sampled"], document["accepted"], document["answers"])
    assert counted == (devices, devices, devices, domain)
    sealed = document["sealed_devices"]
    assert sealed == most_sealed // document["messages_per_device"]
    assert sealed + document["counted_devices"] == devices
    shown = document["buckets"]
    assert 0 < len(shown) < 50
    assert {"1", "2"} <= {row["label"] for row in shown}
    assert all(abs(row["estimate"] - row["truth"]) < 6 * row["stderr"] for row in shown)
    assert document["largest_error"] < 200
    if randomizer == "zsum":
        assert (document["false_positives"], document["messages_per_device"]) == (0, domain + 1)
    else:
        assert "with probability 0.95, all answers that nobody has are 0" in document["zeros"]


def test_too_few_devices_are_refused_before_anything_starts(tmp_path: Path) -> None:
    few: Dataset = of_domain(DOMAIN, LEAST_DEVICES - 1)
    assert len(few.values) == LEAST_DEVICES - 1
    with pytest.raises(UsageError, match="too few to hide in"):
        ShuffledRun(few, "zsum", tmp_path / "stack", QUIET)


@pytest.mark.parametrize(
    ("randomizer", "answers", "devices", "advice"),
    [
        ("zsum", MOST_MESSAGES - 1, LEAST_DEVICES, ""),
        ("zsum", 20_000, 2_000, "--variant flipped"),
        ("flipped", 20_000, LEAST_DEVICES, "give more --devices"),
        ("flipped", 20_000, 2_000, ""),
    ],
)
def test_a_run_that_real_devices_would_refuse_says_so_and_what_they_would_not_refuse(
    tmp_path: Path, randomizer: str, answers: int, devices: int, advice: str
) -> None:
    said = CountedRun(of_domain(answers, devices), randomizer, tmp_path / "stack", QUIET).caution
    assert bool(said) == bool(advice)
    assert advice in said
    assert not advice or "policies usually allow 5,000: real devices would refuse" in said
