"""The progress bar and the picture of commands that measure."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from infra.views.terminal import notes
from tacit.errors import UsageError


@contextlib.contextmanager
def progress(what: str) -> Iterator[Callable[[float], None]]:
    """Show a progress bar on stderr; yields a function that sets the share done (0 to 1)."""
    columns = (TextColumn(what), BarColumn(), TextColumn("{task.percentage:>3.0f} %"), TimeRemainingColumn())
    with Progress(*columns, console=notes()) as shown:
        task = shown.add_task("", total=1.0)
        yield lambda share: shown.update(task, completed=share)


def draw(write: Callable[[Path], None], flag: str, path: Path) -> None:
    """Write a picture to ``path``, which was given by ``flag``, and say so. Raises ``UsageError`` where it cannot be
    written or there is nothing to draw."""
    try:
        write(path)
    except (OSError, ValueError) as error:
        raise UsageError(f"{flag}: {path}: {error}") from error
    notes().print(f"drawn in {path}", soft_wrap=True)
