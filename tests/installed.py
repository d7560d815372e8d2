"""Tacit as a distribution: built from the tree, and installed into an empty environment outside it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from tests.kit.processes import running

ROOT = Path(__file__).resolve().parents[1]
SUPPORTED = ("3.11", "3.12", "3.13")
"""The versions of CPython that Tacit states to run on, oldest first."""
SECONDS = 300

IMPORT_EVERYTHING = """
import importlib, json, pkgutil, sys
failed, seen = {}, 0
for top in json.loads(sys.argv[1]):
    package = importlib.import_module(top)
    for module in pkgutil.walk_packages(package.__path__, top + "."):
        if "-" in module.name:  # the native libraries are not extension modules of Python
            continue
        try:
            importlib.import_module(module.name)
            seen += 1
        except ModuleNotFoundError as error:
            failed[module.name] = error.name
from tacit.multibuffer.library import kernels
from tacit.vdaf.native.library import level
print(json.dumps({"failed": failed, "seen": seen, "level": level(), "multibuffer": kernels() is not None,
                  "place": importlib.import_module("tacit").__file__}))
"""
"""A program: imports every module of the packages in its argument; says which lack what, and if the C code runs."""


def without_modules(program: str, *names: str) -> str:
    """What ``program`` prints in an interpreter of this environment that lacks the modules ``names``."""
    program = f"import sys; sys.modules.update(dict.fromkeys({names!r}))\n{program}"
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=SECONDS, cwd=ROOT).stdout


def without_compiler(home: Path) -> dict[str, str]:
    """An environment for subprocesses with no C compiler, and with no cache but below ``home``."""
    nothing = home / "no-programs"
    nothing.mkdir(parents=True, exist_ok=True)
    return {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "PATH": str(nothing), "LC_ALL": "C.UTF-8"}


def with_compiler(home: Path) -> dict[str, str]:
    """The same with the programs of this machine."""
    return without_compiler(home) | {"PATH": os.environ["PATH"]}


def build(source: Path, target: str, folder: Path, environment: dict[str, str]) -> Path:
    """The ``target`` ("wheel" or "sdist") of the tree ``source``, built into the new ``folder``."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(folder)]
    subprocess.run(command, capture_output=True, check=True, timeout=SECONDS, cwd=source, env=environment)
    (built,) = folder.iterdir()
    return built


def unpacked(sdist: Path, folder: Path) -> Path:
    """The tree inside ``sdist``, unpacked into ``folder``: nothing compiled is in it."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (tree,) = folder.iterdir()
    return tree


class Installed:
    """An empty environment with the wheel in it, and programs run there. Nothing of the checkout is on its path."""

    def __init__(self, folder: Path, wheel: Path, *extras: str) -> None:
        """Without network: the wheel comes in without its dependencies, and of the packages that the tests run with,
        those that it requires with ``extras`` (with what these require) are linked into a folder on the path."""
        self.folder, self._bin = folder, folder / "venv" / "bin"
        subprocess.run(
            [sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True, timeout=SECONDS
        )
        self.add(wheel)
        (self.packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
        self.requirements = folder / "requirements"
        _link_requirements(self.requirements, self.packages, extras)
        (self.packages / "requirements.pth").write_text(f"{folder / 'requirements'}\n")

    def add(self, wheel: Path) -> None:
        """Install ``wheel`` without its dependencies."""
        pip = [sys.executable, "-m", "pip", "--python", str(self._bin / "python"), "install", "--quiet"]
        alone = ["--disable-pip-version-check", "--no-index", "--no-deps", "--no-compile", str(wheel)]
        subprocess.run([*pip, *alone], check=True, timeout=SECONDS, capture_output=True)

    def size(self) -> int:
        """Bytes of Tacit and of what it requires here, without bytecode, as pip writes them into an empty folder."""
        files = [*self.packages.rglob("*"), *(file for top in self.requirements.iterdir() for file in _below(top))]
        return sum(file.stat().st_size for file in files if file.is_file() and file.suffix != ".pyc")

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.program("python")

    def program(self, name: str) -> Path:
        """The path of a program of the environment."""
        return self._bin / name

    def started(self, program: str, *arguments: str, **options: Any) -> AbstractContextManager[subprocess.Popen[Any]]:
        """A process of ``program``, in the same surroundings as those of ``run``."""
        home = self.folder / "home"
        options = {"cwd": home, "env": without_compiler(home), **options}
        return running([str(self.program(program)), *arguments], **options)

    def run(
        self, program: str, *arguments: str, environment: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """What ``program`` of the environment answered, run in an empty folder, without a compiler unless told."""
        home = self.folder / "home"
        environment = environment or without_compiler(home)
        return subprocess.run(
            [str(self._bin / program), *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
            cwd=home,
            env=environment,
        )


def _below(top: Path) -> Iterator[Path]:
    return top.resolve().rglob("*") if top.is_dir() else iter((top,))


def _link_requirements(folder: Path, packages: Path, extras: Sequence[str]) -> None:
    folder.mkdir()
    (tacit,) = distributions(name="tacit", path=[str(packages)])
    found: dict[tuple[str, str], Distribution] = {}
    todo = [("tacit", extra) for extra in ("", *extras)]
    while todo:
        name, extra = todo.pop()
        if (name, extra) in found:
            continue
        found[name, extra] = tacit if name == "tacit" else distribution(name)
        for requirement in map(Requirement, found[name, extra].requires or ()):
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                todo.extend((requirement.name, one) for one in ("", *requirement.extras))
    for one in (found[key] for key in found if key[0] != "tacit"):
        for top in {file.parts[0] for file in one.files or ()} - {"..", "__pycache__"}:
            if not (folder / top).exists():
                (folder / top).symlink_to(Path(str(one.locate_file(top))))


def interpreter(version: str) -> str | None:
    """The program ``python3.N`` of this machine, or None where it is missing or does not run."""
    program = shutil.which(f"python{version}")
    if program is None:
        return None
    done = subprocess.run([program, "--version"], capture_output=True, check=False, timeout=SECONDS)
    return program if done.returncode == 0 else None
