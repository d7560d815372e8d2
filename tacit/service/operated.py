"""What a service has for its own operator: keys with their ends, and work that can be told to try again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from aiohttp import web

from tacit.codec import b64url
from tacit.service.live_tokens import Accepted, AcceptedTokens
from tacit.service.readiness import Steps
from tacit.signing import SigningKey


@dataclass(frozen=True, slots=True)
class HeldKey:
    """A key that the service holds: what for, its public name, and the POSIX second in which it ends (``None``: when
    the operator replaces it)."""

    use: str
    name: str
    ends: int | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """Work of a service. ``about``: what it is for, in words or as a recipe's hash; ``stuck``: whether it does not go
    on by itself as it should, ``None`` where that would tell of single devices; ``detail``: why."""

    id: str
    kind: str
    about: str
    state: str
    stuck: bool | None
    detail: str = ""
    next_attempt: int | None = None


class Jobs(Protocol):
    """Jobs of one kind. What they are and how they stand, no device moves alone."""

    async def jobs(self) -> Sequence[Job]:
        """All of them, in an order that stays."""
        ...

    async def retry(self, job_id: str) -> bool:
        """Have one tried again now instead of later; False where none of this kind has this id."""
        ...


@dataclass(slots=True)
class Operated:
    """What one application has for its operator. ``tokens``: the operator's; without them nothing is told."""

    tokens: Accepted | None = field(default=None, repr=False)
    held: Callable[[], Iterable[HeldKey]] = tuple
    jobs: list[Jobs] = field(default_factory=list)

    def trouble(self) -> str:
        """What is wrong with the file of the operator's tokens."""
        return "" if self.tokens is None else self.tokens.trouble()


BACKGROUND = "background"
"""The kind of jobs that are work of the service itself."""
OPERATED = web.AppKey("operated", Operated)


def let_operate(app: web.Application, token: Path | None) -> None:
    """Let whoever shows a token of this file operate ``app``. Raises ``UsageError``."""
    if token is not None:
        app[OPERATED].tokens = AcceptedTokens(token)


def signing_key(use: str, key: SigningKey) -> HeldKey:
    """An Ed25519 key, by its public half."""
    return HeldKey(use, b64url(key.public))


def background_work(steps: Steps) -> dict[str, str]:
    """What the background work does, by the id that it has as a job."""
    return {f"{BACKGROUND}.{re.sub('[^a-z0-9]+', '-', doing.lower()).strip('-')}": doing for doing in steps.work()}


def background_jobs(steps: Steps) -> list[Job]:
    """The background work as jobs: stuck while it fails."""
    failing = steps.work()
    return [
        Job(name, BACKGROUND, doing, "failing" if failing[doing] else "working", bool(failing[doing]), failing[doing])
        for name, doing in background_work(steps).items()
    ]
