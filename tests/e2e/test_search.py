"""A search for frequent texts as docs/ways-to-ask.md prints it: from an empty folder to the ranking, with a fleet."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.printed import Walk, in_document

PLACE, FOLDER = "docs/ways-to-ask.md", ".tacit-words"
FREQUENT = {"love", "that"}
"""Five and four of seventeen devices; the noise may let the next one, three of them, fall out."""


@pytest.mark.slow
@pytest.mark.false_alarm(0.03, "0.05 squared for two texts that nobody has, 0.02 for a frequent one below a threshold")
def test_the_printed_search_finds_the_frequent_texts_and_can_be_taken_up_again(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    walk = Walk(tmp_path)
    given = [one for one in in_document(PLACE) if FOLDER in one.text or "words.csv" in one.text]
    assert len(given) == 6
    try:
        for one in given:
            walk.require(one.text)
        capfd.readouterr()
        for again in ("next", "run"):
            walk.require(f"tacit series {again} words --state-dir {FOLDER} --json")
            found = json.loads(capfd.readouterr().out)
            texts = {item["item"] for item in found["ranked"]["items"]}
            assert texts >= FREQUENT
            assert len(texts - {"love", "that", "with", "have", "time", "tree", "no"}) <= 1
            assert len(found["released"]) == 3
            assert found["published"] is None
    finally:
        walk.end()
