"""The demo of the local model: real parties and devices, few of them."""

from __future__ import annotations

import asyncio
import io
import json
from decimal import Decimal
from pathlib import Path

import pytest
from rich.console import Console

from infra.lab.demo.local_run import LocalResult, LocalRun
from infra.lab.demo.results.report import write_report
from infra.lab.demo.results.view import Stages, show
from infra.lab.demo.words import MIN_DEVICES, Texts, load_texts
from tacit.errors import UsageError
from tacit.service.base.log import set_log_level
from tests.kit.logged import Secrets, members_beyond
from tests.kit.long_texts import crash_signatures, rows, urls

STRINGS = {"kind": "strings", "length": 2, "alphabet": "abc"}
VALUES = ("ab",) * 60 + ("c",) * 40 + ("",) * 5 + ("too long",) * 15


@pytest.mark.slow
def test_every_device_is_counted_once_and_what_is_frequent_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    secrets = Secrets()
    secrets.spy(monkeypatch)
    set_log_level("debug")
    stages = Stages(Console(stderr=True, quiet=True))
    try:
        run = LocalRun(Texts("rows", "word", STRINGS, VALUES), Decimal("0.8"), 5, "tree", tmp_path / "stack", stages)
        result = asyncio.run(run.run())
    finally:
        set_log_level("info")
    assert isinstance(result, LocalResult)
    document = json.loads(json.dumps(result.document()))
    assert (document["devices"], document["sampled"], document["accepted"], document["rejected"]) == (120, 120, 120, 0)
    assert document["recipe"]["model"] == "local"
    assert (document["domain_bits"], document["report_bits"], document["epsilon0"]) == (4, 2, 0.8)
    assert document["frequent"] == [{"item": "ab", "devices": 60}, {"item": "c", "devices": 40}]
    assert document["privacy"]["by_adversary"].keys() == {"analyzer", "release"}
    for row in document["heavy_hitters"]:
        assert row["estimate"] >= document["threshold"]
    assert [one["party"] for one in document["observed"]] == ["attester", "issuer", "relay", "gateway", "analyzer"]
    tried = {one["attempt"]: one["refused_by"] for one in document["refused"]}
    assert len(tried) == 8
    assert (document["domain"], document["outside"]["devices"]) == ("texts of 1 to 2 of the 3 characters abc", 15)
    assert abs(document["outside"]["estimate"] - 15) < 6 * document["outside"]["stderr"]
    assert tried["an answer out of range"] == tried["a token spent twice"] == "analyzer"
    shown = io.StringIO()
    show(result, Console(file=shown, width=100), write_report(result, tmp_path / "out"))
    assert "of the 2 most frequent texts were found" in shown.getvalue()
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"result.png", "report.html", "result.json"}
    secrets.read_files(tmp_path / "stack")
    logged = capsys.readouterr().err
    lines = [line for line in logged.splitlines() if line.startswith("{")]
    assert members_beyond(lines) == []
    assert secrets.found_in(logged) == []


@pytest.mark.slow
@pytest.mark.parametrize("texts", [urls(40), crash_signatures(40)], ids=["addresses", "crashes"])
@pytest.mark.false_alarm(1e-3, "the most frequent of long texts, which is far above the threshold, is not found")
def test_long_texts_are_found_and_longer_ones_counted(texts: list[str], tmp_path: Path) -> None:
    longer = texts[0] + "/" * 64
    values = tuple([texts[0]] * 900 + rows(texts[1:], 200) + [longer] * 300)
    domain = {"kind": "strings", "length": 64}
    stages = Stages(Console(stderr=True, quiet=True))
    run = LocalRun(Texts("rows", "text", domain, values), Decimal(8), 5, "tree", tmp_path / "stack", stages)
    document = asyncio.run(run.run()).document()
    assert document["domain_bits"] == 512
    assert [one["item"] for one in document["heavy_hitters"]][:1] == [texts[0]]
    assert document["outside"]["devices"] == 300
    assert abs(document["outside"]["estimate"] - 300) < 6 * document["outside"]["stderr"]


def test_lines_of_a_file_are_devices_and_what_is_wrong_with_one_is_said(tmp_path: Path) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("é\r\n\nb\n" * 500, encoding="utf-8")
    assert load_texts(lines, None, MIN_DEVICES).values[:4] == ("é", "", "b", "é")
    table = tmp_path / "table.csv"
    table.write_text("name,word\n" + "x,ab\n" * MIN_DEVICES, encoding="utf-8")
    assert set(load_texts(table, "word", None).values) == {"ab"}
    latin = tmp_path / "latin.txt"
    latin.write_bytes(b"\xe9\n" * MIN_DEVICES)
    few, empty = tmp_path / "few.txt", tmp_path / "empty.txt"
    few.write_text("a\n" * 9, encoding="utf-8")
    empty.write_text("\n" * MIN_DEVICES, encoding="utf-8")
    for path, devices, words in (
        (latin, None, "not UTF-8"),
        (few, None, "1,000 to 100,000 devices, not 9"),
        (few, 1_000, "has 9 rows, --devices asks for 1000"),
        (empty, None, "every row is empty"),
        (tmp_path / "none.txt", None, "No such file"),
    ):
        with pytest.raises(UsageError, match=words):
            load_texts(path, None, devices)
