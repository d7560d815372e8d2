"""The page of a benchmark's rows says what each saved row is."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from infra.lab.bench.described import STAGES, described, rows_page
from infra.lab.bench.rows import Row
from infra.tools.documents.schemas import member_notes

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


def test_the_page_is_that_of_the_code() -> None:
    assert (FOLDER / "rows.md").read_text() == rows_page(), "run: make documents"


def test_every_member_of_a_row_is_described() -> None:
    assert set(member_notes(Row)) == {field.name for field in dataclasses.fields(Row)}


def test_every_stage_that_was_saved_is_described() -> None:
    saved = [json.loads(path.read_text()) for path in FOLDER.glob("*.json")]
    stages = {row["stage"] for one in saved for row in one["rows"]}
    assert len(stages) > 15
    assert [one for one in sorted(stages) if not described(one)] == []


def test_a_stage_has_the_words_of_the_longest_name_that_it_begins_with() -> None:
    assert described("verify_init, batch") == STAGES["verify_init, batch", "shard, batch"]
    assert described("memory, 100 queued") == STAGES["memory, ",]
    assert not described("something else")
