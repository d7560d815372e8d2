"""Remembers which backing servers a stack has, and enters them in the services' configurations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tacit.adapters.disk.files import replace_file

MARKER = "stack.json"


def has_server(folder: Path) -> bool:
    """Whether the stack has the server of ``folder``, be it its own or an operator's."""
    return (folder / MARKER).exists()


def own_port(folder: Path) -> int | None:
    """Return the port of the stack's own server; None if an operator runs it."""
    port: int | None = json.loads((folder / MARKER).read_text("utf-8"))["port"]
    return port


def remember(folder: Path, port: int | None) -> None:
    """Record that the stack has the server of ``folder``; ``port`` is None if an operator runs it."""
    folder.mkdir(mode=0o700, exist_ok=True)
    replace_file(folder / MARKER, json.dumps({"port": port}).encode())


def amend_config(path: Path, **changes: Any) -> None:
    """Set members of a service's configuration file, and remove those whose new value is None."""
    body = {**json.loads(path.read_text("utf-8")), **changes}
    members = {name: value for name, value in body.items() if value is not None}
    replace_file(path, json.dumps(members, indent=1).encode())
