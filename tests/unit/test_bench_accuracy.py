"""``tacit bench accuracy``: its rows, its comparison of pairs, and its simulation of the shuffled model."""

from __future__ import annotations

import io
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from infra.cli import run
from infra.lab.bench.accuracy import peers
from infra.lab.bench.accuracy import run as accuracy
from infra.lab.bench.accuracy.rows import RECALL, AccuracyRow, Where, paired_p, table
from infra.lab.bench.accuracy.run import largest_recall
from infra.lab.bench.accuracy.shuffled import TARGETS, shuffled_rows
from infra.lab.devices.vectorised import Words, most_frequent
from infra.lab.shuffled.variants import cut_below, zsum_estimate

MEMBERS = {"model", "n", "domain_bits", "epsilon", "metric", "value", "stderr", "seeds", "peer", "peer_value", "target"}
QUICK_PEER = 20_000
XXH32_OF_TEN_DIGITS = [4098373602, 3852766788, 4210151918]


@pytest.mark.false_alarm(0, "only times depend on the system's draws, and no time is asserted")
def test_a_quick_run_has_a_row_of_every_part_and_keeps_and_draws_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(peers, "why_not", lambda: "no peer here")
    assert run(["bench", "accuracy", "--quick", "--json", "--save", "--plot", "picture.png"]) == 0
    said = capsys.readouterr()
    document = json.loads(said.out)
    rows = [AccuracyRow(**row) for row in document["rows"]]
    assert set(document["rows"][0]) >= MEMBERS
    assert {row.model for row in rows} == {"local", "local, oracle", "shuffled"}
    (recall,) = [row for row in rows if row.metric == RECALL]
    assert (recall.peer, recall.peer_value, recall.difference_p) == (None, None, None)
    assert "no peer here" in said.err
    assert {"server seconds", "client ms per report", "payload bits"} <= {row.metric for row in rows}
    (kept,) = (tmp_path / "benchmarks" / "accuracy").glob("*.json")
    assert json.loads(kept.read_text())["rows"] == document["rows"]
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.false_alarm(0, "only times depend on the system's draws, and no time is asserted")
def test_a_part_that_there_is_not_and_a_picture_of_nothing_are_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bench", "accuracy", "--quick", "--part", "speed"]) != 0
    assert "recall, oracle, shuffled, cost, not speed" in capsys.readouterr().err.replace("\n", " ")
    assert run(["bench", "accuracy", "--quick", "--part", "cost", "--plot", str(tmp_path / "nothing.png")]) != 0
    assert capsys.readouterr().err.strip().splitlines()[-1].startswith("tacit: --plot: ")


def test_a_peer_that_knows_the_truth_has_a_recall_of_one_on_the_same_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    def knows(items: Words, epsilon: float, bits: int, top: int) -> list[int]:
        assert (len(items), epsilon, bits) == (QUICK_PEER, 4, 32)
        return most_frequent(items, top)

    monkeypatch.setattr(peers, "most_frequent_by_peer", knows)
    part = accuracy.accuracy_parts(accuracy.QUICK, with_peer=True)["recall"]
    told: list[float] = []
    (row,) = accuracy.measured(part, told.append)
    assert (row.peer, row.peer_value) == (peers.NAME, 1.0)
    assert row.value < 1
    assert row.difference_p is not None
    assert told == sorted(told)
    assert told[-1] == pytest.approx(1)


def test_the_peer_s_hash_is_xxh32() -> None:
    """Its published values for no byte, and for "abc" and longer texts those of the reference implementation."""
    seeds = np.array([0, 1, 2**32 - 1], np.uint32)
    assert peers.hashes(b"", seeds)[0] == 0x02CC5D05
    assert peers.hashes(b"abc", seeds)[0] == 0x32D153FF
    assert peers.hashes(b"4294967295", seeds).tolist() == XXH32_OF_TEN_DIGITS


def test_the_peer_s_supports_are_the_reports_whose_value_is_an_item_s_hash() -> None:
    random = np.random.default_rng(1)
    seeds, values = random.integers(0, 2**32, 500, np.uint32), random.integers(0, 8, 500, np.uint32)
    items = [7, 4_000_000_001, 65_535, 4_000_000_000, 0, 12]
    wanted = [np.count_nonzero(peers.hashes(str(item).encode(), seeds) % 8 == values) for item in items]
    assert peers.supports(items, seeds, values, 8).tolist() == wanted


def test_pairs_are_compared_by_every_way_to_exchange_them() -> None:
    assert paired_p([3, 5, 4], [1, 1, 1]) == 2 / 8
    assert paired_p([1, 2], [2, 1]) == 1
    assert paired_p([5, 1, 0], [0, 0, 2]) == 6 / 8
    assert paired_p([10] * 20, [9] * 20) == 2 / 2**20


def test_a_missed_target_is_told_from_chance_and_from_what_no_search_can_reach() -> None:
    where = Where("a model", 10, 8, 1)
    near, far = where.row("an error", [1.0, 1.4], target=1.1), where.row("an error", [1.3, 1.31], target=1.1)
    beyond = where.row(RECALL, [0.3, 0.31], target=0.4, limit=0.375)
    assert [row.met for row in (near, far, beyond)] == [False] * 3
    assert [row.within_error for row in (near, far, beyond)] == [True, False, False]
    cells = [str(cell) for cell in table([near, far, beyond]).columns[-1].cells]
    assert cells == ["1.10 met within error", "1.10 missed", "0.400 missed (limit 0.375)"]


def test_no_list_has_more_items_than_the_best_test_finds() -> None:
    """At epsilon 1 the standard error of a share is 1.919 / sqrt n, and a string is listed by chance with 10 / 2^32,
    which a normal number exceeds beyond 5.86."""
    error = 1.919 / math.sqrt(100_000)
    assert largest_recall([5.86 * error] * 10, 100_000, 1) == pytest.approx(0.5, abs=0.01)
    assert largest_recall([9 * error, *[0.0] * 9], 100_000, 1) == pytest.approx(0.1, abs=1e-3)


def test_a_row_is_a_mean_with_its_error_and_says_whether_a_target_is_met() -> None:
    where = Where("local", 10, 3, 1.0)
    row = where.row(RECALL, [0.5, 0.7], target=0.6, peer="other", peer_value=0.3, difference_p=0.5)
    assert [row.value, row.stderr] == pytest.approx([0.6, 0.1])
    assert (row.met, row.significant) == (True, False)
    assert where.row("an error", [2.0], target=1.0).met is False
    assert where.row("an error", [2.0]).met is None
    assert table([row]).row_count == 1


def test_a_small_domain_is_not_measured_against_the_target_of_another_size() -> None:
    (part,) = accuracy.accuracy_parts(replace(accuracy.QUICK, oracle_bits=(4,)), with_peer=False)["oracle"]
    rows = part[1](lambda share: None)
    assert {(row.target, row.met, row.elsewhere) for row in rows} == {(None, None, True)}
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(table(rows))
    shown = console.export_text()
    assert shown.count("not the target's size") == len(rows) == 2
    assert "missed" not in shown


def test_the_expected_largest_of_normal_numbers_is_known_for_one_and_two() -> None:
    assert accuracy.largest_of_normal(1) == pytest.approx(math.sqrt(2 / math.pi), abs=1e-6)
    assert accuracy.largest_of_normal(2) == pytest.approx(2 / math.sqrt(math.pi), abs=1e-6)
    assert accuracy.largest_of_normal(65_536) == pytest.approx(4.4, abs=0.1)


def test_zsum_reads_a_total_as_the_paper_does() -> None:
    n, noise = 5, 2.0
    for count in range(n + 1):
        for ones in range(n + 1):
            total = count + ones
            wanted = 0.0 if total <= n else total - (1 - noise / n) * n
            found = zsum_estimate(np.array([count]), np.array([n - ones]), noise)
            assert found.tolist() == pytest.approx([wanted])
            assert zsum_estimate(count, n - ones, noise) == pytest.approx(wanted)
    assert cut_below(np.array([1.0, -3.0, 2.5]), 2.0).tolist() == [0, 0, 2.5]


def test_shuffled_errors_are_those_of_the_published_simulation() -> None:
    """The known values at 100 cells are 22.6 without bias and 21.7 for zsum, for n = 100,000."""
    rows = {row.metric: row for row in shuffled_rows(100_000, 100, 60, lambda _: None)}
    assert rows["largest count error, unbiased"].value == pytest.approx(22.1, abs=1.5)
    zsum, paper = rows["largest count error, zsum"], rows["largest count error, unbiased"].peer_value
    assert paper is not None
    assert paper > 50 * zsum.value
    assert rows["false positives, zsum"].value == 0
    assert set(TARGETS.values()) == {42.5, 56.6}
