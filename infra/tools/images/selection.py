"""Which files an image holds: the modules that a domain's entry points reach, and the distributions that these import.

The imports are read from the source (``grimp``), including imports within functions and those by the tables of
``tacit.extension_points``. Distributions are those of this
environment; each of their files is checked against the digest that its installer recorded.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import importlib.metadata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import Distribution
from pathlib import Path
from typing import TYPE_CHECKING

import tacit
from infra.tools.images.domains import ELSEWHERE, OWN, Domain, foreign_to
from tacit.errors import Fatal, UsageError
from tacit.extension_points import tables
from tacit.extras import PARTS, missing_extra, require_extra

if TYPE_CHECKING:
    from grimp import ImportGraph

DRIVERS = {"sqlalchemy": ("aiosqlite", "asyncpg")}
"""Distributions that another one loads by the name in a database's URL."""
EXTRAS = ("backup", "postgres", *PARTS)
"""The extras of Tacit that an image has."""
SKIPPED = ("__pycache__",)
EXTENSION_POINTS = "tacit.extension_points"


@dataclass(frozen=True)
class Selection:
    """The contents of an image: own ``files`` by their path in it, and ``distributions`` by normalised name."""

    domain: Domain
    modules: frozenset[str]
    files: Mapping[str, Path]
    distributions: Mapping[str, Distribution]


def select(domain: Domain) -> Selection:
    """The contents of the image of ``domain``. Raises ``UsageError`` if a package is missing here, and ``Fatal`` if the
    code of ``domain`` imports another domain's."""
    require_extra("an image", "containers", "grimp", "packaging")
    graph = _graph()
    own = [name for package in domain.packages for name in (package, *graph.find_descendants(package))]
    found = _reachable_modules(graph, [*own, *domain.roots])
    foreign = sorted(name for name in found if _is_within(name, foreign_to(domain)))
    if foreign:
        raise Fatal(f"the image {domain.name} would hold {', '.join(foreign)}, which is another domain's")
    modules = frozenset(name for name in found if name.partition(".")[0] in OWN)
    return Selection(domain, modules, dict(_files(modules, domain.packages)), _distributions(found - modules))


@cache
def _graph() -> ImportGraph:
    import grimp

    return grimp.build_graph(
        OWN[0], *OWN[1:], include_external_packages=True, exclude_type_checking_imports=True, cache_dir=None
    )


def _reachable_modules(graph: ImportGraph, roots: Iterable[str]) -> frozenset[str]:
    """All modules that are imported with ``roots``; a module imports the packages above it, too."""
    found, waiting = set[str](), list(roots)
    while waiting:
        name = waiting.pop()
        if name in found or _is_within(name, ELSEWHERE):
            continue
        found.add(name)
        above = name.rpartition(".")[0]
        waiting += [above] if above else []
        imported = graph.find_modules_directly_imported_by(name) if name in graph.modules else set()
        waiting += imported
        waiting += _found_by_name(name) if EXTENSION_POINTS in imported else ()
    return frozenset(found)


def _found_by_name(module: str) -> set[str]:
    """The modules of the tables of extension points that ``module`` imports: it imports them once they are used."""
    asked = {
        name.name
        for node in ast.walk(ast.parse(_source(module).read_bytes()))
        if isinstance(node, ast.ImportFrom) and node.module == EXTENSION_POINTS
        for name in node.names
    }
    return {place.partition(":")[0] for name, table in tables().items() if name in asked for place in table.values()}


def _is_within(name: str, packages: Iterable[str]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def _files(modules: Iterable[str], packages: Iterable[str]) -> Iterator[tuple[str, Path]]:
    """(path in the image, path here) of ``modules`` with the data of their packages, and of every file of
    ``packages``."""
    top = _top()
    for name in modules:
        source = _source(name)
        yield str(source.relative_to(top)), source
        if source.name == "__init__.py":
            yield from ((str(path.relative_to(top)), path) for path in _data(source.parent))
    for package in packages:
        folder = _source(package).parent
        yield from ((str(path.relative_to(top)), path) for path in _regular(folder))


def _source(name: str) -> Path:
    path = _top().joinpath(*name.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_name(f"{path.name}.py")


@cache
def _top() -> Path:
    """The folder that holds Tacit's own packages."""
    return Path(tacit.__file__).parent.parent


def _data(folder: Path) -> Iterator[Path]:
    """The data of a package: files that are not modules, and folders without modules of the package."""
    for path in folder.iterdir():
        if path.is_file() and path.suffix != ".py":
            yield path
        elif path.is_dir() and path.name not in SKIPPED and not any(path.rglob("__init__.py")):
            yield from _regular(path)


def _regular(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file() and not set(SKIPPED) & set(path.parts))


def _distributions(names: Iterable[str]) -> dict[str, Distribution]:
    """The distributions that provide the modules ``names``, and all their dependencies. A distribution that Tacit uses
    only if it happens to be installed, and does not require, is not among them."""
    extras = dict(_own_requirements())
    brought = {_normal(one) for name in names for one in _by_module().get(name, ())}
    waiting, found = sorted(brought & extras.keys()), dict[str, Distribution]()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = _find_distribution(name)
            waiting += [needed for needed, _ in _requirements(found[name], extras.get(name, ()))]
            waiting += DRIVERS.get(name, ())
    if unknown := sorted(brought - found.keys() - _ever_asked_for()):
        raise UsageError(f"{unknown[0]} is imported, but the installed Tacit does not require it; reinstall Tacit")
    return dict(sorted(found.items()))


@cache
def _own_requirements() -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple(_requirements(importlib.metadata.distribution("tacit"), EXTRAS))


@cache
def _ever_asked_for() -> frozenset[str]:
    """Everything that Tacit requires with any of its extras, and Tacit itself. An older installation may require
    less."""
    metadata = importlib.metadata.metadata("tacit")
    extras = metadata.get_all("Provides-Extra") or ()
    return frozenset({"tacit", *(name for name, _ in _requirements(importlib.metadata.distribution("tacit"), extras))})


@cache
def _by_module() -> Mapping[str, list[str]]:
    return importlib.metadata.packages_distributions()


def _requirements(distribution: Distribution, extras: Iterable[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What ``distribution`` with ``extras`` requires here: names, each with the extras that are wanted of it."""
    from packaging.requirements import Requirement

    for text in distribution.requires or ():
        needed = Requirement(text)
        wanted = [{"extra": extra} for extra in ("", *extras)]
        if needed.marker is None or any(needed.marker.evaluate(dict(one)) for one in wanted):
            yield _normal(needed.name), tuple(sorted(needed.extras))


def _normal(name: str) -> str:
    from packaging.utils import canonicalize_name

    return str(canonicalize_name(name))


def _find_distribution(name: str) -> Distribution:
    try:
        return importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError as error:
        raise missing_extra("an image", "backup,containers,postgres", name) from error


def distribution_files(distribution: Distribution) -> Iterator[tuple[str, Path]]:
    """The files of a distribution by their path among modules, without scripts and bytecode. Raises ``UsageError`` if
    one differs from what was installed."""
    name = distribution.name
    for entry in distribution.files or ():
        if entry.parts[0] == ".." or entry.suffix == ".pyc" or entry.is_absolute():
            continue
        path = Path(str(distribution.locate_file(entry)))
        if entry.hash is not None and _digest(path, name) != entry.hash.value:
            raise UsageError(f"{path}: not the file that was installed with {name}; reinstall {name}")
        yield str(entry), path


def _digest(path: Path, name: str) -> str:
    try:
        digest = hashlib.sha256(path.read_bytes()).digest()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}, a file of {name}; reinstall {name}") from error
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def needs_of(name: str, among: Iterable[str]) -> list[str]:
    """Those of ``among`` that the installed distribution ``name`` requires, with the extras that Tacit wants of it."""
    wanted = EXTRAS if name == "tacit" else dict(_own_requirements()).get(name, ())
    needed = {one for one, _ in _requirements(_find_distribution(name), wanted)} | set(DRIVERS.get(name, ()))
    return sorted(needed & set(among))
