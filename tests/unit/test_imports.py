"""What the contracts in pyproject.toml cannot say of imports: circles between a folder and a folder inside it, and that
every package is under the contracts."""

from __future__ import annotations

import re
import tomllib
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[2]
FORMS = re.compile(r"tacit\.models\.(form|forms|parties|one_server|\w+\.form)")
"""Forms of models: they lie below recipes, while the other sides in the same folders lie above them."""


@pytest.fixture(scope="module")
def configured() -> dict[str, Any]:
    """What pyproject.toml says to the tools."""
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    return found


def test_no_two_folders_import_each_other_in_a_circle(configured: dict[str, Any]) -> None:
    graph = grimp.build_graph(*configured["importlinter"]["root_packages"], cache_dir=None)

    def folder(module: str) -> str:
        if FORMS.fullmatch(module):
            return "the forms of tacit.models"
        return module if graph.find_children(module) else module.rpartition(".")[0]

    imports: dict[str, set[str]] = {}
    for module in graph.modules:
        here = {folder(found) for found in graph.find_modules_directly_imported_by(module)}
        imports.setdefault(folder(module), set()).update(here - {folder(module)})
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        pytest.fail(f"imported in a circle: {' <- '.join(error.args[1])}")


def test_every_package_of_the_wheel_and_the_tests_are_under_the_contracts(configured: dict[str, Any]) -> None:
    packages = configured["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert sorted(configured["importlinter"]["root_packages"]) == sorted([*packages, "tests"])


FEATURES = {
    "learning": (r"(\w+\.)*(learning|learn\w*)(\.\w+)*", 7),
    "pan-private": (
        r"(\w+\.)*(panprivate|pan_private|pan_private_single|watch_work|watched_outlook)(\.\w+)*"
        r"|tacit\.rules\.watching|tacit\.models\.interfaces\.watched|tacit\.aggregator\.state_keys",
        1,
    ),
    "shuffled": (r"(\w+\.)*(shuffler|shuffled\w*)(\.\w+)*", 7),
    "search": (r"(\w+\.)*(succinct|succinct_histogram|prefix_rounds|search\w*)(\.\w+)*", 7),
}
"""The rooms of each feature, and how many modules outside them import from them: a number that only goes down. What is
found by name (``tacit.extension_points``) is no import."""


@pytest.mark.parametrize("feature", FEATURES)
def test_few_modules_import_a_feature_from_outside_its_rooms(feature: str, configured: dict[str, Any]) -> None:
    packages = [one for one in configured["importlinter"]["root_packages"] if one != "tests"]
    graph = grimp.build_graph(*packages, cache_dir=None)
    pattern, most = FEATURES[feature]
    rooms = {module for module in graph.modules if re.fullmatch(pattern, module)}
    outside = {
        importer
        for module in rooms
        for importer in graph.find_modules_that_directly_import(module)
        if importer not in rooms and not importer.startswith("infra.lab.")
    }
    assert len(rooms) > 3
    assert len(outside) <= most, sorted(outside)
