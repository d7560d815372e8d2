"""How text is read and files are written in every module: where a line ends, in which encoding, and whole or not."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.lines import lines_of
from tests.unit.test_sizes import ROOT, modules

PARTS = [*modules("product"), *modules("laboratory"), ROOT / "hatch_build.py", *(ROOT / "examples").rglob("*.py")]


@functools.cache
def nodes(path: Path) -> list[ast.AST]:
    return [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Attribute | ast.Call)]


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
        return any(isinstance(node, ast.Attribute) and node.attr == "splitlines" for node in nodes(path))

    assert [str(path.relative_to(ROOT)) for path in PARTS if splits(path)] == []
    assert len(PARTS) > 500


def calls(path: Path) -> Iterator[tuple[str, ast.Call]]:
    for node in nodes(path):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield node.func.attr, node


def _in_the_locales_encoding(name: str, call: ast.Call) -> bool:
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    if "encoding" in given:
        return False
    if name in ("read_text", "write_text"):
        return len(call.args) < (1 if name == "read_text" else 2)
    if name == "open":
        mode = call.args[0] if call.args else None
        return isinstance(mode, ast.Constant) and mode.value in ("r", "w", "a", "x", "r+", "w+")
    return isinstance(given.get("text"), ast.Constant)


def test_every_text_has_its_encoding_whatever_the_locale_is() -> None:
    found = [
        (str(path.relative_to(ROOT)), name)
        for path in PARTS
        for name, call in calls(path)
        if _in_the_locales_encoding(name, call)
    ]
    assert found == []


BY_PATH = {"savefig", "savez", "savez_compressed"}
DRAFT_OR_MEMORY = {"draft", "written", "buffer", "data"}


def test_pictures_and_arrays_are_written_beside_and_renamed() -> None:
    """``replacing`` calls its path ``draft``; the other names are buffers in memory."""
    targets = [
        (str(path.relative_to(ROOT)), call.args[0].id if isinstance(call.args[0], ast.Name) else "")
        for path in (*modules("product"), *modules("laboratory"))
        for name, call in calls(path)
        if name in BY_PATH
    ]
    assert len(targets) > 10
    assert [one for one in targets if one[1] not in DRAFT_OR_MEMORY] == []
