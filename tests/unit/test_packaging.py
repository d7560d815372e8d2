"""One distribution, exactly our packages, a complete lock file, and a library that stays light where it
must.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tacit import __version__
from tests.installed import SUPPORTED

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("numpy", "scipy", "pandas", "matplotlib", "statsmodels", "aiohttp", "sqlalchemy", "pydantic", "asyncio")


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    """The parsed pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def packages(project: dict[str, Any]) -> list[str]:
    """The top-level packages that the wheel must hold."""
    return sorted(project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])


def test_the_list_of_packages_is_what_lies_in_the_tree(packages: list[str]) -> None:
    found = sorted(path.parent.name for path in ROOT.glob("*/__init__.py") if path.parent.name != "tests")
    assert packages == found


def test_no_other_distribution_owns_one_of_our_names(packages: list[str]) -> None:
    owners = packages_distributions()
    assert {name: set(owners.get(name, [])) - {"tacit"} for name in packages} == {name: set() for name in packages}


def test_nobody_uploads_this_by_accident(project: dict[str, Any]) -> None:
    assert "Private :: Do Not Upload" in project["project"]["classifiers"]


def test_the_lock_pins_every_dependency_with_hashes_and_no_host(project: dict[str, Any]) -> None:
    text = (ROOT / "requirements.lock").read_text()
    pins = re.findall(r"^([A-Za-z0-9._-]+)==(\S+).*(\n +--hash=sha256:[0-9a-f]{64}.*)+", text, flags=re.MULTILINE)
    starts = re.findall(r"^[A-Za-z0-9].*", text, flags=re.MULTILINE)
    extras = project["project"]["optional-dependencies"]
    wanted = [*project["project"]["dependencies"], *extras["demo"], *extras["test"], "hatchling", "editables"]
    versions: dict[str, list[str]] = {}
    for name, version, _ in pins:
        versions.setdefault(canonicalize_name(name), []).append(version)
    unmet = [
        line
        for line, requirement in ((line, Requirement(line)) for line in wanted)
        if not all(map(requirement.specifier.contains, versions.get(canonicalize_name(requirement.name), ["none"])))
    ]
    assert len(pins) == len(starts)
    assert unmet == []
    assert "://" not in text


def test_the_accountant_imports_nothing_heavy() -> None:
    program = (
        "import importlib, json, pkgutil, sys, tacit.dp, tacit.methods\n"
        "for package in (tacit.dp, tacit.methods):\n"
        "    for module in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        "        importlib.import_module(module.name)\n"
        f"print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60, cwd=ROOT
    )
    assert json.loads(done.stdout) == []


def test_the_version_stands_in_one_place_and_heads_the_changelog(project: dict[str, Any]) -> None:
    newest = re.search(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert "version" not in project["project"]
    assert project["tool"]["hatch"]["version"]["path"] == "tacit/__init__.py"
    assert newest is not None
    assert re.fullmatch(rf"{re.escape(__version__)}(, unreleased| - \d{{4}}-\d\d-\d\d)", newest[1])


def test_the_versions_of_python_are_the_same_wherever_they_are_stated(project: dict[str, Any]) -> None:
    stated = [
        re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", one) for one in project["project"]["classifiers"]
    ]
    versions = [found[1] for found in stated if found is not None]
    oldest = versions[0]
    assert tuple(versions) == SUPPORTED
    assert f"{sys.version_info[0]}.{sys.version_info[1]}" in versions
    assert project["project"]["requires-python"] == f">={oldest}"
    assert project["tool"]["mypy"]["python_version"] == oldest
    assert project["tool"]["ruff"]["target-version"] == f"py{oldest.replace('.', '')}"
    assert f"CPython {', '.join(versions[:-1])} and {versions[-1]}" in (ROOT / "README.md").read_text()
