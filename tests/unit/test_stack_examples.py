"""Examples dealt out over the devices of a stack, and with which stack a plan runs."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client_agent.data.sources import CsvSource, CsvSourceConfig
from infra.stacks.agents import DATA_NAME
from infra.stacks.examples import MOST_CHARACTERS, deal_examples, give_examples
from tacit.errors import UsageError
from tacit.learning.local import examples_of
from tacit.learning.plan import EXAMPLE, SMALL, Plan
from tacit.operations.learning.plans import forecast
from tacit.recipe.training import Softmax


def test_every_example_is_a_devices_value_of_the_metric_once_and_its_other_data_stay(tmp_path: Path) -> None:
    path = tmp_path / "digits.csv"
    path.write_text("\n".join(f"{number},0.5,{number % 2}" for number in range(7)) + "\n\n")
    folders = [tmp_path / str(number) for number in range(3)]
    for folder in folders:
        folder.mkdir()
        (folder / DATA_NAME).write_text("mdvis,crashed\n4,1\n")
    found = deal_examples(path, 3)
    assert found is not None
    assert found.metric == "digits"
    for _ in range(2):
        give_examples(folders, found)
    firsts = []
    for folder in folders:
        source = CsvSource(CsvSourceConfig(kind="csv", path=folder / DATA_NAME))
        assert source.value("mdvis") == "4"
        numbers = [float(one) for one in str(source.value("digits")).split(",")]
        held = examples_of(Softmax(kind="softmax", inputs=2, classes=2), numbers)
        firsts.append([int(one) for one in held.features[:, 0]])
        assert [one % 2 for one in firsts[-1]] == held.labels.tolist()
        assert len((folder / DATA_NAME).read_text().splitlines()) == 2
    assert firsts == [[0, 3, 6], [1, 4], [2, 5]]


@given(st.integers(1, 40), st.integers(1, 40))
def test_all_lines_are_dealt_and_no_device_goes_without(tmp_path_factory: Any, lines: int, devices: int) -> None:
    path = tmp_path_factory.mktemp("dealt") / "digits.csv"
    path.write_text("".join(f"{number},0\n" for number in range(lines)))
    if devices > lines:
        with pytest.raises(UsageError, match=f"--agents {lines}"):
            deal_examples(path, devices)
        return
    found = deal_examples(path, devices)
    assert found is not None
    pairs = [cell.split(",")[::2] for cell in found.cells]
    assert sorted(int(one) for cell in pairs for one in cell) == list(range(lines))
    assert {len(cell) for cell in pairs} <= {lines // devices, -(-lines // devices)}


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("Some digits.csv", b"1,0\n", "the file is to be named after the plan's metric"),
        ("digits.csv", b"\xff\xfe", "not UTF-8 text"),
        ("digits.csv", b"", "0 examples for 2 devices"),
        ("digits.csv", b"a,b\n1,0\n", "line 1 is not numbers with commas between"),
        ("digits.csv", b"1,0\n\n1,2,0\n", "line 3 has 3 numbers, and those before have 2"),
        ("digits.csv", b"1,0\n" * (MOST_CHARACTERS // 2 + 2), "take about"),
    ],
)
def test_a_file_that_cannot_be_dealt_is_refused_in_a_line(tmp_path: Path, name: str, data: bytes, said: str) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(UsageError, match=said):
        deal_examples(path, 2)


def test_no_file_is_no_examples_and_an_absent_one_is_refused(tmp_path: Path) -> None:
    assert deal_examples(None, 2) is None
    with pytest.raises(UsageError, match="No such file"):
        deal_examples(tmp_path / "digits.csv", 2)


def test_the_small_plan_says_the_stack_on_which_it_runs() -> None:
    flags = "--agents 60 --batch-floor 45 --epoch-seconds 120 --allow-unbounded-local --release-cap 5"
    assert forecast(Plan.model_validate(SMALL)).stack == tuple(flags.split())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"delta": Decimal("0.00001")}, "must be above 0 and at most 0.000001"),
        ({"devices": 20_000}, "at most 10,000 devices"),
        ({"min_batch_size": 9, "epsilon": 40}, "a min_batch_size of 10"),
        ({"round_seconds": 3, "release_seconds": 1}, "at least 5 s"),
    ],
)
def test_a_plan_that_no_stack_on_one_machine_runs_says_why(changes: dict[str, Any], said: str) -> None:
    found = forecast(Plan.model_validate({**SMALL, **changes}))
    assert found.stack == ()
    assert said in found.no_stack


def test_a_plan_that_the_usual_caps_allow_needs_no_other() -> None:
    plan = Plan.model_validate({**EXAMPLE, "min_batch_size": 450, "delta": Decimal("0.000001"), "epsilon": 1})
    assert "--release-cap" not in forecast(plan).stack
