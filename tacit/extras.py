"""Packages that only some commands need, and how to install them: extras, and the laboratory (``tacit demo`` and
``bench``, for example), which is a distribution of its own.

Tacit is on no package index; the ``tacit`` there is another project. So nobody is ever told to install it by name, but
from the checkout or the wheel from which this installation came (PEP 610 records which that was).
"""

from __future__ import annotations

import importlib.util
import json
import shlex
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tacit import __version__
from tacit.errors import UsageError

UNKNOWN_SOURCE = "/path/to/the/wheel/of/tacit.whl"
LABORATORY = "infra.lab"
"""The laboratory's package; its folder in a checkout is of the same name."""
PARTS = {
    "cli": ("aiohttp", "rich", "typer"),
    "server": (
        "aiosqlite", "alembic", "Crypto", "gmpy2", "prometheus_client", "sqlalchemy", "uvloop",
    ),
    "admin": ("argon2", "fido2", "jinja2", "joserfc"),
    "messaging": ("aiomqtt", "redis"),
}  # fmt: skip
"""The extras that make a stack of what a device installs, and the modules by which one notices that they are missing.
They are imported as if they were there; ``missing_module`` says what a failed import means."""
FLEET, FLEET_PACKAGES = "fleet", ("matplotlib", "numpy", "psutil")
"""The extra of ``tacit fleet``, and the packages of it."""


def require_extra(what: str, extra: str, *packages: str) -> None:
    """Raise ``UsageError`` where one of ``packages``, which ``what`` needs, is not installed; ``extra`` provides
    them."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        raise missing_extra(what, extra, *missing)


def require_fleet(what: str) -> None:
    """Raise ``UsageError`` where the laboratory or a package that ``tacit fleet run`` needs is not installed."""
    if importlib.util.find_spec(LABORATORY) is None:
        raise missing_laboratory(what)
    require_extra(what, FLEET, *FLEET_PACKAGES)


def missing_extra(what: str, extra: str, *packages: str) -> UsageError:
    """The error that ``what`` needs ``packages``, with the command that installs the extras (``extra``: names with
    commas)."""
    return UsageError(f"{what} needs {', '.join(packages)}; install it with: {install_command(extra)}")


def missing_module(what: str, error: ModuleNotFoundError) -> UsageError | None:
    """The error that ``what`` needs the part of Tacit to which the module belongs; None for any other module."""
    module = (error.name or "").partition(".")[0]
    return next((missing_extra(what, extra, module) for extra, modules in PARTS.items() if module in modules), None)


def install_command(extra: str) -> str:
    """The shell command that adds ``extra`` (names with commas) to this installation, editable if this one is."""
    source, editable = _source()
    return _install(*(["--editable"] if editable else []), f"{source}[{extra}]")


def missing_laboratory(what: str) -> UsageError:
    """The error that ``what`` needs the laboratory, with the command that installs it: from its folder in the checkout,
    or from its wheel beside that of Tacit."""
    source = Path(_source()[0])
    beside = source.with_name(f"tacit_lab-{__version__}-py3-none-any.whl")
    place = beside if source.suffix == ".whl" else source / LABORATORY.replace(".", "/")
    return UsageError(f"{what} needs the laboratory; install it with: {_install(str(place))}")


def _install(*words: str) -> str:
    return shlex.join([sys.executable, "-m", "pip", "install", *words])


def _source() -> tuple[str, bool]:
    """Where this installation came from, and whether it still works from there."""
    import importlib.metadata

    try:
        origin = json.loads(importlib.metadata.distribution("tacit").read_text("direct_url.json") or "{}")
    except (importlib.metadata.PackageNotFoundError, ValueError):
        origin = {}
    url = urlsplit(origin.get("url", ""))
    path = unquote(url.path) if url.scheme == "file" else UNKNOWN_SOURCE
    return path, bool(origin.get("dir_info", {}).get("editable"))
