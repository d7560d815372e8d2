"""The page in each party's folder names every file once, and says what threat model and import contracts say."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PARTIES = {
    "relay": ("relay",),
    "attester": ("attester",),
    "services/issuer": ("issuer",),
    "services/gateway": ("gateway",),
    "services/witness": ("witness",),
    "services/leader": ("leader, helper",),
    "services/helper": ("leader, helper",),
    "services/collector": ("collector",),
    "services/analyzer": ("analyzer of one server", "analyzer behind a shuffler"),
    "services/shuffler": ("shuffler",),
    "services/admin": ("admin service",),
    "recipe_server": ("recipe server",),
    "client_agent": ("device",),
}
"""By folder, the rows of the threat model that speak of the party."""
MOST_LINES = 60
"""One screen."""


def words_of(folder: str) -> str:
    """The page of a folder on one line."""
    return " ".join((ROOT / folder / "README.md").read_text("utf-8").split())


@pytest.fixture(scope="module")
def contracts() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    return found


def test_every_deployable_has_its_page() -> None:
    configured = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    (independent,) = (one for one in configured if one["name"] == "deployables are independent")
    assert {module.replace(".", "/") for module in independent["modules"]} == set(PARTIES)


@pytest.mark.parametrize("folder", PARTIES)
def test_a_page_names_every_file_of_its_folder_once(folder: str) -> None:
    page = (ROOT / folder / "README.md").read_text("utf-8")
    files = [path.name for path in (ROOT / folder).glob("*.py") if path.name != "__init__.py"]
    folders = [f"{path.parent.name}/" for path in (ROOT / folder).glob("*/__init__.py")]
    assert sorted(re.findall(r"^\| `([^`]+)` \| ", page, flags=re.MULTILINE)) == sorted(files + folders)
    assert len(page.splitlines()) <= MOST_LINES


@pytest.mark.parametrize("folder", PARTIES)
def test_the_files_and_folders_of_others_that_a_page_names_are_there(folder: str) -> None:
    named = re.findall(r"`([a-z_]+(?:/[a-z_0-9.]+)+)`", words_of(folder))
    assert [one for one in named if not (ROOT / one).exists()] == []


@pytest.mark.parametrize(("folder", "rows"), PARTIES.items())
def test_a_page_says_what_the_party_may_learn_as_the_threat_model_does(folder: str, rows: tuple[str, ...]) -> None:
    model = (ROOT / "docs" / "threat_model.md").read_text("utf-8")
    for row in rows:
        (found,) = re.findall(rf"^\| {row} \| (.+) \| (.+) \|$", model, flags=re.MULTILINE)
        of_row = f" ({row})" if len(rows) > 1 else ""
        assert f"* May learn{of_row}: {found[0]}. * Must never learn{of_row}: {found[1]}." in words_of(folder)


@pytest.mark.parametrize("folder", PARTIES)
def test_a_page_names_the_import_contracts_that_hold_it(folder: str, contracts: list[dict[str, Any]]) -> None:
    holding = {
        one["name"]
        for one in contracts
        if one["type"] == "forbidden"
        and folder.replace("/", ".") in one["source_modules"]
        and any(module.startswith("tacit.") for module in one["forbidden_modules"])
    }
    (sentence,) = re.findall(
        r"Held in code by the import contracts? (.+?) \(`pyproject.toml`\)\.", words_of(folder)
    ) or [""]
    assert set(re.findall(r'"([^"]+)"', sentence)) == holding
