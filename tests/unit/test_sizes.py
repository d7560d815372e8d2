"""How long functions and modules may be: a function is one thought, a module one subject. Longer ones have two."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("tacit", "services", "relay", "attester", "recipe_server", "client_agent", "infra")
LABORATORY = ROOT / "infra" / "lab"
MOST_LINES_OF_FUNCTIONS = 100
"""From the line of ``def`` to its last, docstring and signature included."""
MOST_LINES_OF_MODULES = 800
PARTS = ("product", "laboratory", "tests")


def modules(part: str) -> list[Path]:
    if part == "tests":
        return sorted((ROOT / "tests").rglob("*.py"))
    if part == "laboratory":
        return sorted(LABORATORY.rglob("*.py"))
    found = [path for package in PRODUCT for path in (ROOT / package).rglob("*.py")]
    return sorted(path for path in found if LABORATORY not in path.parents)


def functions(paths: list[Path]) -> Iterator[tuple[str, int]]:
    """Every function of these files, and its length in lines."""
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
                yield f"{path.relative_to(ROOT)} {node.name}", node.end_lineno - node.lineno + 1


def test_no_function_of_product_or_laboratory_has_more_than_a_hundred_lines() -> None:
    found = functions(modules("product") + modules("laboratory"))
    assert {name for name, lines in found if lines > MOST_LINES_OF_FUNCTIONS} == set()


@pytest.mark.parametrize("part", PARTS)
def test_no_module_has_more_than_eight_hundred_lines(part: str) -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in modules(part)}
    assert [name for name, lines in lengths.items() if lines > MOST_LINES_OF_MODULES] == []
    assert len(lengths) > 50
