"""What a party's process loads is what an auditor of that party has to read: it stays below its limit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from infra.base.service_names import kind_of
from infra.stacks.new_layout import create_layout
from infra.stacks.options import StackOptions
from infra.tools.documents.loaded_lines import LIMITS, ROOT, Loaded, counted_lines, loaded, loaded_table, with_table
from tacit.adapters.system import OsEntropy, SystemClock


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Loaded]:
    folder = tmp_path_factory.mktemp("loaded") / "stack"
    layout = create_layout(folder, StackOptions(witnesses=1), OsEntropy(), SystemClock().now())
    configs = {kind_of(name): path for name, path in layout.configs.items()}
    return {process: loaded(process, configs.get(process)) for process in LIMITS}


def test_lines_of_code_and_docstrings_count_and_comments_do_not(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text('''"""A module.

# a heading in a docstring
"""

# why
X = (
    # of the first
    1,  # one
    "#",
)
''')
    assert counted_lines(file) == 7


def by_package(lines: Mapping[str, int]) -> str:
    """The lines of the largest packages, for whoever is over a limit."""
    found: Counter[str] = Counter()
    for name, count in lines.items():
        found[".".join(name.split(".")[:3])] += count
    return ", ".join(f"{package} {count}" for package, count in found.most_common(20))


@pytest.mark.parametrize("process", LIMITS)
def test_a_process_loads_no_more_than_its_limit(process: str, found: dict[str, Loaded]) -> None:
    lines, limit = found[process].imported, LIMITS[process]
    assert limit.module in lines
    assert sum(lines.values()) <= limit.imported, by_package(lines)


@pytest.mark.parametrize("process", [process for process, limit in LIMITS.items() if limit.serving is not None])
def test_what_a_service_imports_later_counts_too(process: str, found: dict[str, Loaded]) -> None:
    lines, limit = found[process].serving, LIMITS[process].serving
    assert lines is not None
    assert limit is not None
    assert "tacit.service.run" in lines
    assert sum(lines.values()) <= limit, by_package(lines)


def test_the_table_of_the_architecture_is_that_of_the_code(found: dict[str, Loaded]) -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    assert page == with_table(page, loaded_table(found)), "run: make documents"
    assert "`services.helper.app`" in page
