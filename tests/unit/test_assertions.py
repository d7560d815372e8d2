"""Every test can fail: it asserts something itself, or calls what says by its name that it does."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
ASSERTS = re.compile(r"_?(assert|check|require|test)_|(check|require|expect|raises|warns|fail)$")
"""Names of what raises where something does not hold."""
STATED = {"status", "check"}
"""Arguments that say what must come of a call, or it raises."""


def asserts(node: ast.AST) -> bool:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Assert):
            return True
        if isinstance(inner, ast.Call):
            called = inner.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if ASSERTS.match(name) or STATED & {one.arg for one in inner.keywords}:
                return True
    return False


def test_every_test_asserts_something() -> None:
    found = {
        f"{path.relative_to(TESTS)} {node.name}": asserts(node)
        for path in TESTS.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }
    assert [name for name, does in found.items() if not does] == []
    assert len(found) > 3000


def test_a_test_that_only_runs_something_is_found() -> None:
    assert not asserts(ast.parse("def test_it(): call(walk, status)"))
    assert asserts(ast.parse("async def test_it(): await stage.assert_kept()"))
