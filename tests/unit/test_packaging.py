"""One distribution, exactly our packages, a complete lock file, and a library that stays light where it
must.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import distribution, packages_distributions
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tacit import __version__
from tacit.extras import PARTS
from tests.installed import SUPPORTED

ROOT = Path(__file__).resolve().parents[2]
MOST_PACKAGES = 8
"""How many distributions a device may install beside Tacit, not counting what these need themselves."""
UNLOCKED = {"ray", "peers"}
"""Extras that nothing here needs; peers wants a NumPy from before the locked one."""
FOR_OTHERS = {"async-timeout", "colorama", "typing-extensions", "tzdata"}
"""What the lock of the demo holds for other versions of Python or other systems."""
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


def pins(name: str) -> dict[str, list[str]]:
    """Versions by package in a lock. Each has hashes, and none a host."""
    text = (ROOT / name).read_text()
    found = re.findall(r"^([A-Za-z0-9._-]+)==(\S+).*(?:\n +--hash=sha256:[0-9a-f]{64}.*)+", text, flags=re.MULTILINE)
    assert len(found) == len(re.findall(r"^[A-Za-z0-9].*", text, flags=re.MULTILINE))
    assert "://" not in text
    versions: dict[str, list[str]] = {}
    for package, version in found:
        versions.setdefault(canonicalize_name(package), []).append(version)
    return versions


def test_the_locks_pin_every_dependency_with_hashes_and_no_host_and_none_twice(project: dict[str, Any]) -> None:
    locks = {name: pins(name) for name in ("requirements.lock", "requirements-test.lock", "requirements-check.lock")}
    versions = {package: found for lock in locks.values() for package, found in lock.items()}
    locked = asked(project, *(project["project"]["optional-dependencies"].keys() - UNLOCKED))
    unmet = [
        str(one)
        for one in (*locked, *map(Requirement, ("hatchling", "editables")))
        if not all(map(one.specifier.contains, versions.get(canonicalize_name(one.name), ["none"])))
    ]
    assert unmet == []
    assert len(versions) == sum(map(len, locks.values()))
    assert list(pins("requirements-pip.lock")) == ["pip"]


def test_the_demo_is_installed_with_what_it_needs_and_nothing_else(project: dict[str, Any]) -> None:
    locked = set(pins("requirements.lock"))
    needed = closure([*asked(project, "demo"), Requirement("hatchling"), Requirement("editables")])
    assert needed - locked == set()
    assert locked - needed <= FOR_OTHERS


def test_a_server_is_installed_from_a_lock_that_is_whole_and_agrees_with_the_others(project: dict[str, Any]) -> None:
    production = pins("requirements-production.lock")
    needed = closure(asked(project, "stack", "backup", "hsm", "postgres"))
    assert needed - set(production) == set()
    assert {"asyncpg", "pyrage", "redis", "fido2"} <= needed
    assert set(production) - needed <= FOR_OTHERS, "nothing of the demo, the tests or the checks"
    others = {**pins("requirements.lock"), **pins("requirements-test.lock")}
    assert {name: others[name] for name in production} == production, "what is tested is what runs"


def test_aiohttp_is_used_through_what_it_shows_to_everybody() -> None:
    """A release of it may then change what it likes inside. Classes of its connections are private in fact: whoever
    derives from one uses their attributes."""
    packages = ("tacit", "services", "relay", "attester", "recipe_server", "client_agent", "infra")
    found = []
    for path in (path for package in packages for path in (ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "aiohttp":
                found += [f"{path}: {one.name}" for one in node.names if one.name.startswith("_")]
            if isinstance(node, ast.ClassDef):
                bases = {ast.unparse(base) for base in node.bases}
                found += [f"{path}: {base}" for base in bases & {"web.RequestHandler", "web.Server", "web.BaseSite"}]
    assert found == []


def test_a_device_installs_few_packages_and_a_stack_all_that_its_parts_name(project: dict[str, Any]) -> None:
    device = {canonicalize_name(one.name) for one in asked(project)}
    stack = {canonicalize_name(one.name) for one in asked(project, "stack")}
    modules = packages_distributions()
    parts = {canonicalize_name(modules[name][0]) for names in PARTS.values() for name in names}
    assert len(device) <= MOST_PACKAGES
    assert stack - device == parts, "what an import of each of them without its part says: tacit.extras.PARTS"
    assert {name for name in PARTS if PARTS[name]} | {"stack"} <= project["project"]["optional-dependencies"].keys()


def test_a_part_brings_the_modules_that_are_said_to_be_its(project: dict[str, Any]) -> None:
    for part, names in PARTS.items():
        own = {canonicalize_name(one.name) for one in map(Requirement, lines_of(project, part))} - {"tacit"}
        assert own == {canonicalize_name(packages_distributions()[name][0]) for name in names}


def lines_of(project: dict[str, Any], extra: str) -> list[str]:
    """What an extra asks for; the empty name stands for what Tacit asks for in any case."""
    found = project["project"]
    return list(found["optional-dependencies"][extra] if extra else found["dependencies"])


def asked(project: dict[str, Any], *extras: str) -> list[Requirement]:
    """What Tacit asks for with ``extras``, and with those that these name."""
    found: dict[str, list[Requirement]] = {}
    todo = ["", *extras]
    while todo:
        if (extra := todo.pop()) not in found:
            lines = list(map(Requirement, lines_of(project, extra)))
            found[extra] = [one for one in lines if one.name != "tacit"]
            todo += [name for one in lines if one.name == "tacit" for name in one.extras]
    return [one for lines in found.values() for one in lines]


def closure(todo: list[Requirement]) -> set[str]:
    """The distributions that requirements bring here."""
    found: set[tuple[str, str]] = set()
    while todo:
        wanted = todo.pop()
        for extra in {"", *wanted.extras} if wanted.marker is None or wanted.marker.evaluate() else ():
            if (one := (canonicalize_name(wanted.name), extra)) not in found:
                found.add(one)
                todo += [Requirement(line) for line in needs_of(*one)]
    return {name for name, _ in found}


def needs_of(name: str, extra: str) -> Iterator[str]:
    """What an installed distribution asks for with an extra of its own, its marker left out."""
    for requirement in map(Requirement, distribution(name).requires or ()):
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            requirement.marker = None
            yield str(requirement)


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
