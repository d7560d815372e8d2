"""The folder that an image is built from: a Containerfile, Tacit's files for that domain, the distributions that they
need, and the bill of materials.

The files are those of this installation. They are compiled here, so that a container with a read-only root does not
compile them at each start; the base must have the same version of Python as the bytecode.
"""

from __future__ import annotations

import compileall
import hashlib
import os
import re
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import Distribution
from importlib.resources import files
from pathlib import Path
from py_compile import PycInvalidationMode

from infra.tools.images.bill import FILE, bill_of
from infra.tools.images.domains import Domain
from infra.tools.images.selection import Selection, distribution_files, select
from tacit import __version__

HOME = "/opt/tacit"
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
DEFAULT_BASE = f"docker.io/library/python:{PYTHON}-slim"
POOL = "files"
"""The folder of everything that the images share, next to their own folders."""
REPOSITORY = "localhost/tacit-{}"
DIGEST_LENGTH = 12


def is_pinned(image: str) -> bool:
    """Whether ``image`` is named by the SHA-256 digest of its contents."""
    return re.search(r"@sha256:[0-9a-f]{64}$", image) is not None


@dataclass(frozen=True)
class Context:
    """What is put into one image, from the code and packages that are installed here."""

    selection: Selection

    @classmethod
    def of(cls, domain: Domain) -> Context:
        """Raises ``UsageError`` if a package is missing here."""
        return cls(select(domain))

    @cached_property
    def digest(self) -> str:
        """Hexadecimal SHA-256 of everything in the image except the base."""
        found = hashlib.sha256(f"{PYTHON}\n{containerfile()}".encode())
        for name, path in sorted(self.selection.files.items()):
            found.update(f"{name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
        for name, one in self.selection.distributions.items():
            record = hashlib.sha256((one.read_text("RECORD") or "").encode()).hexdigest()
            found.update(f"{name} {record}\n".encode())
        return found.hexdigest()

    def image(self, base: str) -> str:
        """The name of the image on ``base``, which changes with the contents and with the base."""
        mark = hashlib.sha256(f"{self.digest} {base}".encode()).hexdigest()[:DIGEST_LENGTH]
        return f"{REPOSITORY.format(self.selection.domain.name)}:{__version__}-{mark}"

    def write(self, folder: Path) -> Path:
        """Write the folder to build from, below ``folder``; an existing one is replaced. Files are links into a pool
        that all contexts of ``folder`` share. Raises ``UsageError``."""
        pool, made = folder / POOL, folder / self.selection.domain.name
        shutil.rmtree(made, ignore_errors=True)
        for part in ("app", "lib", "etc"):
            (made / part).mkdir(parents=True)
        _link(_pool(pool / "app", "tacit", self.selection.files.items()), made / "app")
        for one in self.selection.distributions.values():
            _link(_distribution(pool / "lib", one), made / "lib")
        (made / "Containerfile").write_text(containerfile(), "utf-8")
        (made / FILE).write_text(bill_of(self.selection, self.digest), "utf-8")
        return made


def containerfile() -> str:
    return (files("infra.tools.images") / "Containerfile").read_text("utf-8")


def _distribution(pool: Path, one: Distribution) -> Iterable[tuple[str, Path]]:
    return _pool(pool / f"{one.name}-{one.version}", one.name, distribution_files(one))


def _pool(folder: Path, name: str, wanted: Iterable[tuple[str, Path]]) -> Iterable[tuple[str, Path]]:
    """``wanted`` in ``folder``, compiled there unless that was done before; paths with the files."""
    found = list(wanted)
    missing = [(place, path) for place, path in found if not (folder / place).exists()]
    for place, path in missing:
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        target.chmod(0o755 if os.access(path, os.X_OK) else 0o644)
        if target.suffix == ".py":
            part = "app" if name == "tacit" else "lib"
            compileall.compile_file(
                target, quiet=2, stripdir=folder, prependdir=f"{HOME}/{part}",
                invalidation_mode=PycInvalidationMode.UNCHECKED_HASH,
            )  # fmt: skip
    for place, _ in found:
        target = folder / place
        yield place, target
        if target.suffix == ".py" and (compiled := _bytecode(target)).exists():
            yield str(Path(place).parent / compiled.parent.name / compiled.name), compiled


def _bytecode(source: Path) -> Path:
    return source.parent / "__pycache__" / f"{source.stem}.{sys.implementation.cache_tag}.pyc"


def _link(found: Iterable[tuple[str, Path]], folder: Path) -> None:
    for place, path in found:
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        os.link(path, target)
