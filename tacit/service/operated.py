"""What a service offers its own operator: its keys with their ends, and jobs that can be retried."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from aiohttp import web

from tacit.service.http.live_tokens import Accepted, AcceptedTokens
from tacit.service.readiness import Steps


@dataclass(frozen=True, slots=True)
class HeldKey:
    """A key that the service holds: its use, its public name, and the POSIX second in which it ends (``None``: when the
    operator replaces it)."""

    use: str
    name: str
    ends: int | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """A job of a service. ``about``: what it is for, in words or as a recipe's hash; ``stuck``: whether it does not
    progress by itself as it should, ``None`` where that would reveal something about single devices; ``detail``: why.
    """

    id: str
    kind: str
    about: str
    state: str
    stuck: bool | None
    detail: str = ""
    next_attempt: int | None = None


class Jobs(Protocol):
    """Jobs of one kind. No single device changes which jobs there are or their state."""

    async def jobs(self) -> Sequence[Job]:
        """All jobs, in a stable order."""
        ...

    async def retry(self, job_id: str) -> bool:
        """Retry a job now instead of later; False where no job of this kind has this id."""
        ...


@dataclass(slots=True)
class Operated:
    """What one application offers its operator. ``tokens``: the operator's; without them nothing is shown."""

    tokens: Accepted | None = field(default=None, repr=False)
    held: Callable[[], Iterable[HeldKey]] = tuple
    jobs: list[Jobs] = field(default_factory=list)

    def trouble(self) -> str:
        """What is wrong with the file of the operator's tokens."""
        return "" if self.tokens is None else self.tokens.trouble()


BACKGROUND = "background"
"""The kind of jobs that are background work of the service itself."""
OPERATED = web.AppKey("operated", Operated)


def let_operate(app: web.Application, token: Path | None) -> None:
    """Give the holder of a token in this file operator access to ``app``. Raises ``UsageError``."""
    if token is not None:
        app[OPERATED].tokens = AcceptedTokens(token)


def background_work(steps: Steps) -> dict[str, str]:
    """Descriptions of the background work, by job id."""
    return {f"{BACKGROUND}.{re.sub('[^a-z0-9]+', '-', doing.lower()).strip('-')}": doing for doing in steps.work()}


def background_jobs(steps: Steps) -> list[Job]:
    """The background work as jobs; a job is stuck while its work fails."""
    failing = steps.work()
    return [
        Job(name, BACKGROUND, doing, "failing" if failing[doing] else "working", bool(failing[doing]), failing[doing])
        for name, doing in background_work(steps).items()
    ]
