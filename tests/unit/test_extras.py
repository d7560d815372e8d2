"""Nobody is told to install ``tacit`` by name: on the package index that name is somebody else's."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tacit import __version__
from tacit.extras import UNKNOWN_SOURCE, install_command, missing_laboratory

ROOT = Path(__file__).resolve().parents[2]
BY_NAME = re.compile(r"""(pip3?|uv|pipx)\s+(?:install|add)\b[^\n`;|]*?(?<![\w./*\\-])['"]?tacit(?![\w./*-])""")
SAID_WHY_NOT = {"README.md": "so `pip install tacit` in a fresh environment is wrong"}
"""The one place that says what not to do."""
COME_ALONG = {"packageurl": "cyclonedx-python-lib needs it", "PIL": "matplotlib needs it"}
"""Modules that an extra brings without naming them."""


SUFFIXES = {
    "",
    ".py",
    ".md",
    ".toml",
    ".sh",
    ".txt",
    ".html",
    ".js",
    ".mjs",
    ".json",
    ".yaml",
    ".yml",
    ".service",
    ".conf",
}


def files() -> Iterator[Path]:
    """What belongs to the project, in whatever state its folder is."""
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name == ".ci" or not name.startswith((".", "__pycache__", "dist"))]
        yield from (Path(folder, name) for name in names if Path(name).suffix in SUFFIXES)


def test_the_laboratory_is_installed_from_where_tacit_came_from(monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = f"tacit_lab-{__version__}-py3-none-any.whl"
    for source, place in (
        ("/src/tacit", "/src/tacit/infra/lab"),
        (f"/dist/tacit-{__version__}-py3-none-linux_x86_64.whl", f"/dist/{wheel}"),
        (UNKNOWN_SOURCE, f"/path/to/the/wheel/of/{wheel}"),
    ):
        monkeypatch.setattr("tacit.extras._source", lambda source=source: (source, True))
        assert str(missing_laboratory("tacit demo")).endswith(f" -m pip install {place}")


@pytest.mark.parametrize("command", ["demo", "privacy shuffle-check FILE --n 4 --json"])
def test_without_the_laboratory_its_commands_say_how_to_get_it(command: str) -> None:
    called = f"from infra.cli import run; sys.exit(run({command.split()}))"
    program = f"import sys; sys.modules['infra.lab'] = None; {called}"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60, cwd=ROOT
    )
    name = command.partition(" FILE")[0]
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith(f"tacit: tacit {name} needs the laboratory; install it with: ")


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("pip install 'tacit[fleet]'", True),
        ('pip install "tacit[fleet]"', True),
        ("pip install --upgrade tacit", True),
        ("uv add tacit", True),
        ("pip install dist/tacit-0.1.0-py3-none-any.whl", False),
        ("pip install --editable '.[fleet]'", False),
        ("pip install /srv/tacit", False),
    ],
)
def test_the_search_finds_every_way_to_say_it(line: str, found: bool) -> None:
    assert bool(BY_NAME.search(line)) is found


def test_no_file_says_to_install_tacit_by_name() -> None:
    said = []
    for path in files():
        name = str(path.relative_to(ROOT))
        text = path.read_bytes().decode("utf-8", "ignore").replace(SAID_WHY_NOT.get(name, "\0"), "")
        said += [f"{name}: {match[0]}" for match in BY_NAME.finditer(text) if path != Path(__file__).resolve()]
    assert said == []


@pytest.mark.parametrize(
    ("origin", "words"),
    [
        ({"url": "file:///srv/my%20tacit", "dir_info": {"editable": True}}, ["--editable", "/srv/my tacit[fleet]"]),
        ({"url": "file:///srv/tacit-0.1.0.whl", "archive_info": {}}, ["/srv/tacit-0.1.0.whl[fleet]"]),
        ({"url": "https://files.example/tacit-0.1.0.whl"}, [f"{UNKNOWN_SOURCE}[fleet]"]),
        (None, [f"{UNKNOWN_SOURCE}[fleet]"]),
        ("no JSON", [f"{UNKNOWN_SOURCE}[fleet]"]),
    ],
)
def test_an_extra_comes_from_where_this_installation_came_from(
    origin: Any, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Installed:
        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return None if origin is None else json.dumps(origin) if isinstance(origin, dict) else str(origin)

    monkeypatch.setattr(importlib.metadata, "distribution", lambda _name: Installed())
    assert shlex.split(install_command("fleet"))[3:] == ["install", *words]


def advised() -> Iterator[tuple[str, str, str]]:
    """Where an extra is advised, the extras, and a module that they are to bring."""
    for path in files():
        if path.suffix == ".py" and path.relative_to(ROOT).parts[0] not in {"tests", "examples"}:
            text = path.read_text(encoding="utf-8")
            for node in ast.walk(ast.parse(text)) if "_extra(" in text else ():
                name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
                if name in {"require_extra", "missing_extra"} and isinstance(node, ast.Call):
                    given = [one.value if isinstance(one, ast.Constant) else None for one in node.args]
                    if given[1] is not None:
                        yield from ((str(path.relative_to(ROOT)), str(given[1]), str(one)) for one in given[2:] if one)


def test_an_extra_that_is_advised_brings_what_is_missing() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    modules = importlib.metadata.packages_distributions()
    found = list(advised())
    wrong = []
    for where, names, module in found:
        brought = {canonicalize_name(Requirement(line).name) for name in names.split(",") for line in extras[name]}
        owners = {canonicalize_name(one) for one in modules.get(module, [module])}
        if not brought & owners and module not in COME_ALONG:
            wrong.append((where, names, module))
    assert len(found) > 20
    assert wrong == []
