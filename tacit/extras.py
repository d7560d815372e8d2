"""Packages that only some commands need, and how to install them.

Tacit is on no package index; the ``tacit`` there is another project. So nobody is ever told to install it by name, but
from the checkout or the wheel from which this installation came (PEP 610 records which that was).
"""

from __future__ import annotations

import importlib.util
import json
import shlex
import sys
from urllib.parse import unquote, urlsplit

from tacit.errors import UsageError

UNKNOWN_SOURCE = "/path/to/the/wheel/of/tacit.whl"


def require_extra(what: str, extra: str, *packages: str) -> None:
    """Raise ``UsageError`` where one of ``packages``, which ``what`` needs, is not installed; ``extra`` provides
    them."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        raise missing_extra(what, extra, *missing)


def missing_extra(what: str, extra: str, *packages: str) -> UsageError:
    """The error that ``what`` needs ``packages``, with the command that installs the extras (``extra``: names with
    commas)."""
    return UsageError(f"{what} needs {', '.join(packages)}; install it with: {install_command(extra)}")


def install_command(extra: str) -> str:
    """The shell command that adds the extras to this installation."""
    source, editable = _source()
    words = [sys.executable, "-m", "pip", "install", *(["--editable"] if editable else []), f"{source}[{extra}]"]
    return shlex.join(words)


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
