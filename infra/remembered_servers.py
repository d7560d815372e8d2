"""What a stack remembers of a server of its own, and how a service is told of one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

MARKER = "stack.json"


def has_server(folder: Path) -> bool:
    """Whether this stack has begun with a server in ``folder``, or with an operator's."""
    return (folder / MARKER).exists()


def own_port(folder: Path) -> int | None:
    """The port of the stack's own server; None where the operator runs it."""
    port: int | None = json.loads((folder / MARKER).read_text())["port"]
    return port


def remember(folder: Path, port: int | None) -> None:
    """From now on this stack has this server."""
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / MARKER).write_text(json.dumps({"port": port}))


def amend_config(path: Path, **changes: Any) -> None:
    """Set members of a service's configuration; those that are None go."""
    body = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({name: value for name, value in body.items() if value is not None}, indent=1))
