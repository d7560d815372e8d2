"""Where a line ends, in every module that reads one."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.lines import lines_of
from tests.unit.test_sizes import ROOT, modules

PARTS = [*modules("product"), *modules("laboratory"), ROOT / "hatch_build.py", *(ROOT / "examples").rglob("*.py")]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("\n", [""]),
        ("a", ["a"]),
        ("a\n\nb\r\n", ["a", "", "b"]),
        ("a\rb\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029c\n", ["a\rb\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029c"]),
    ],
)
def test_a_line_ends_at_a_line_feed_and_nowhere_else(text: str, lines: list[str]) -> None:
    assert lines_of(text) == lines


@given(st.lists(st.text(st.characters(exclude_characters="\r\n"))))
def test_lines_that_were_joined_are_the_same_lines(lines: list[str]) -> None:
    for end in ("\n", "\r\n"):
        assert lines_of("".join(line + end for line in lines)) == lines


def test_no_module_splits_lines_at_characters_that_stand_within_texts() -> None:
    def splits(path: Path) -> bool:
        tree = ast.walk(ast.parse(path.read_text("utf-8")))
        return any(isinstance(node, ast.Attribute) and node.attr == "splitlines" for node in tree)

    assert [str(path.relative_to(ROOT)) for path in PARTS if splits(path)] == []
    assert len(PARTS) > 500
