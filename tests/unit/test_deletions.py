"""The table of deletions holds every place of the product that deletes something, and no other (P37)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.tools.documents.deletions import BY_TIME, DELETIONS, NOBODY, deletions_page

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("tacit", "services", "relay", "attester", "recipe_server", "client_agent", "infra")
METHODS = frozenset({"unlink", "rmtree"})
OF_OS = frozenset({"remove", "rmdir", "truncate", "ftruncate", "unlink"})
EXPIRES = frozenset({"ex", "px", "exat", "pxat"})


def places(source: str, path: str) -> set[str]:
    """The functions of a module that delete rows or files, or let keys expire."""
    return {f"{path}:{'.'.join(names) or '<module>'}" for names in _found(ast.parse(source), ())}


def _found(node: ast.AST, names: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for child in ast.iter_child_nodes(node):
        named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        if _deletes(child):
            yield names
        yield from _found(child, (*names, child.name) if named else names)  # type: ignore[attr-defined]


def _deletes(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and node.value.lstrip().upper().startswith(("DELETE FROM", "TRUNCATE"))
    if isinstance(node, ast.Attribute):  # called, or handed on to be called later
        return node.attr in METHODS or (_is(node.value, "os") and node.attr in OF_OS)
    if not isinstance(node, ast.Call):
        return False
    called = node.func
    is_sql = _is(called, "delete") or (
        isinstance(called, ast.Attribute) and called.attr == "delete" and _is(called.value, "sa")
    )
    return is_sql or any(one.arg in EXPIRES for one in node.keywords)


def _is(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def in_the_product() -> set[str]:
    files = (path for folder in PRODUCT for path in (ROOT / folder).rglob("*.py"))
    own = [str(path.relative_to(ROOT)) for path in files]
    kept = [path for path in own if not path.startswith("infra/lab/") and "/migrations/" not in path]
    assert len(kept) > 300
    return {place for path in kept for place in places((ROOT / path).read_text(), path)}


def test_the_table_of_deletions_names_every_place_that_deletes_and_no_other() -> None:
    named = [place for row in DELETIONS for place in row.places]
    assert len(named) == len(set(named))
    assert set(named) == in_the_product()


@pytest.mark.parametrize(
    "source",
    [
        "async def f(c):\n    await c.execute(sa.delete(ROWS))",
        "async def f(c):\n    await c.execute(delete(ROWS))",
        "def f(c):\n    c.execute('DELETE FROM rows')",
        "def f(c, name):\n    c.execute(f'DELETE FROM {name}')",
        "def f(path):\n    path.unlink()",
        "def f(stack, path):\n    stack.callback(path.unlink)",
        "def f(path):\n    shutil.rmtree(path)",
        "def f(path):\n    os.remove(path)",
        "def f(redis):\n    redis.set('a', 'b', ex=5)",
    ],
)
def test_a_new_deletion_is_found(source: str) -> None:
    assert places(source, "new.py") == {"new.py:f"}


def test_every_deletion_by_time_names_who_vouches_for_it() -> None:
    assert all(row.vouch and row.vouch != NOBODY for row in BY_TIME)
    assert all(row.what in deletions_page() for row in DELETIONS)
