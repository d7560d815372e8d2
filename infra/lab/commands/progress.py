"""The progress bar of commands that measure."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from infra.views.terminal import notes


@contextlib.contextmanager
def progress(what: str) -> Iterator[Callable[[float], None]]:
    """Show a progress bar on stderr; yields a function that sets the share done (0 to 1)."""
    columns = (TextColumn(what), BarColumn(), TextColumn("{task.percentage:>3.0f} %"), TimeRemainingColumn())
    with Progress(*columns, console=notes()) as shown:
        task = shown.add_task("", total=1.0)
        yield lambda share: shown.update(task, completed=share)
