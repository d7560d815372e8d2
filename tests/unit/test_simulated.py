"""The truth of simulated agents beside a result, and that of nobody else."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.recipes import survey_from
from infra.stacks.agents import DRAWN_NAME, provision_agents
from infra.stacks.layout import Layout
from infra.stacks.new_layout import create_layout
from infra.stacks.options import StackOptions
from infra.stacks.simulated import Truth, truth_of
from infra.views.result_view import show_result
from tacit.recipe.encoder import labels
from tacit.recipe.model import Question, Recipe, TokenSlot
from tacit.recipe.writing.builder import propose

NOW = 1_800_000_000.0
AGENTS = 24


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = create_layout(tmp_path / "stack", StackOptions(), SeededEntropy(1), NOW)
    provision_agents(made, AGENTS, SeededEntropy(2), NOW)
    return made


def held(layout: Layout, metric: str) -> list[int]:
    paths = layout.state_dir.glob(f"agents/*/{DRAWN_NAME}")
    return [int(json.loads(path.read_text())["data"][metric]) for path in paths]


def asking(layout: Layout, statistic: str, metric: str, *, population: int = AGENTS, **encoder: Any) -> Recipe:
    body = {"text": "?", "metric": metric, "encoder": encoder, "statistic": statistic}
    start = int(NOW) // 7200 * 7200
    return propose(
        survey_from(
            name="asked", question=Question.model_validate(body), population=population, rate=Decimal(1),
            min_batch_size=16, start=start, duration=3600,
            token=TokenSlot(issuer=layout.parties.issuer.name, epoch=start // 7200, slot=0),
        ),
        layout.parties,
    )  # fmt: skip


BUCKETS: dict[str, Any] = {"kind": "buckets", "edges": [0, 1, 4]}
RANGE: dict[str, Any] = {"kind": "number", "low": 0, "high": 10}


def test_counts_totals_and_means_of_drawn_data_are_known(layout: Layout) -> None:
    visits, crashed = held(layout, "mdvis"), held(layout, "crashed")
    buckets = [sum(one == 0 for one in visits), sum(0 < one < 4 for one in visits), sum(one > 3 for one in visits)]
    clipped = [min(one, 10) for one in visits]
    for recipe, values in (
        (asking(layout, "histogram", "mdvis", **BUCKETS), buckets),
        (asking(layout, "count", "crashed", kind="boolean"), [sum(crashed)]),
        (asking(layout, "sum", "mdvis", **RANGE), [sum(clipped)]),
        (asking(layout, "mean", "mdvis", **RANGE), [sum(clipped) / AGENTS]),
    ):
        found = truth_of(layout, recipe)
        assert found is not None
        assert found.agents == AGENTS
        assert found.values == pytest.approx(values)
        assert found.document(recipe)["truth"] == dict(zip(labels(recipe), found.values, strict=True))


def test_as_soon_as_one_agent_has_data_of_somebody_nothing_is_added_up(layout: Layout) -> None:
    recipe = asking(layout, "histogram", "mdvis", **BUCKETS)
    own = layout.state_dir / "agents" / "3"
    before = (own / "data.csv").read_text()
    header, row = before.splitlines()
    for other in ("mdvis,crashed\n97,0\n", "crashed\n0\n", ""):
        (own / "data.csv").write_text(other)
        assert truth_of(layout, recipe) is None
    (own / "data.csv").write_text(f"{header},digits\n{row},9 3 1\n")
    assert truth_of(layout, recipe) is not None, "examples of a training, in a column of their own, change nothing"
    (own / DRAWN_NAME).unlink()
    assert truth_of(layout, recipe) is None, "an agent of which it is not known that its data was drawn"


def test_a_question_that_others_answer_too_or_that_nobody_was_drawn_for_has_no_truth(layout: Layout) -> None:
    assert truth_of(layout, asking(layout, "histogram", "mdvis", population=600, **BUCKETS)) is None
    assert truth_of(layout, asking(layout, "histogram", "steps", **BUCKETS)) is None


def test_the_truth_stands_beside_the_result_with_the_reason_why_it_is_known() -> None:
    document = {
        "name": "visits", "batch": 0, "statistic": "histogram", "report_count": 24, "released_at": NOW,
        "interval": {"start": int(NOW), "duration": 60},
        "buckets": [{"label": one, "estimate": 12.0, "stderr": 2.0, "count": 12} for one in ("0", "1+")],
        "privacy": {"by_adversary": {}, "n": 16, "delta": 1e-6, "mechanism": "m", "relation": "replacement"},
    }  # fmt: skip
    shown = io.StringIO()
    truth = Truth(24, (9.0, 15.0))
    show_result(document, Console(file=shown, width=120), truth.values, truth.words)
    lines = shown.getvalue()
    assert "┃ truth" in lines
    rows = [line.replace("│", "").split() for line in lines.splitlines() if "━━" in line]
    assert [(row[0], row[-1]) for row in rows] == [("0", "9"), ("1+", "15")]
    assert "known only because they are simulated" in " ".join(lines.replace("│", "").split())
    plain = io.StringIO()
    show_result(document, Console(file=plain, width=120))
    assert "truth" not in plain.getvalue()
