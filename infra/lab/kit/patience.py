"""What a demo does where a party of it is busy, or answers too late: ask again as devices do, and in the end say so.

Every try sends the same content. Pauses grow, are bounded and are drawn at random; they pass on this machine's clock
and not on the run's, which would carry everybody past the moment at which things are due.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from tacit.backoff import Backoff
from tacit.errors import Fatal, Refusal, TacitError
from tacit.ports import Entropy, HttpResponse, Transport, TransportError

T = TypeVar("T")

TRIES = 10
BACKOFF = Backoff(0.5, 8.0)
"""About 50 seconds from the first try to the last."""
BUSY = frozenset({408, 429, 502, 503, 504})
"""Statuses after which the same request may succeed later."""
ADVICE = "the machine may be too busy: run it again when it has less to do, or with fewer --devices"
Sleep = Callable[[float], Awaitable[None]]


def passing(error: BaseException) -> bool:
    """Whether the same may succeed later: somebody is busy, or witnesses have not cosigned yet after the run's clock
    went ahead."""
    return isinstance(error, TransportError) or (isinstance(error, Refusal) and error.rule == "log-checkpoint")


@dataclass(frozen=True)
class Patience:
    """Pauses between attempts, with the randomness that spreads them."""

    entropy: Entropy
    sleep: Sleep = asyncio.sleep

    async def pause(self, earlier: int) -> None:
        """Wait after a failure that ``earlier`` others came before."""
        await self.sleep(BACKOFF.pause(earlier, self.entropy))

    async def __call__(self, work: Callable[[], Awaitable[T]]) -> T:
        """What ``work`` returns, whose trouble is ``passing`` at every one of ``TRIES`` tries at the most. It must be
        safe to repeat."""
        for earlier in range(TRIES - 1):
            try:
                return await work()
            except (TransportError, Refusal) as error:
                if not passing(error):
                    raise
                await self.pause(earlier)
        return await work()


@dataclass(frozen=True)
class PatientTransport:
    """A transport for requests that may be repeated word for word: not for encapsulated ones, of which a gateway takes
    each once."""

    inner: Transport
    patience: Patience

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> HttpResponse:
        """As the protocol says; the last answer where the party stays busy."""
        last: list[HttpResponse] = []

        async def once() -> HttpResponse:
            last.clear()
            answer = await self.inner.request(method, url, headers=headers, body=body)
            if answer.status in BUSY:
                last.append(answer)
                raise TransportError(f"a service of the demo answered {answer.status}")
            return answer

        try:
            return await self.patience(once)
        except TransportError:
            if last:
                return last[0]
            raise


def first_of(error: BaseException) -> BaseException:
    """The first error of a group of tasks, or the error itself."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def in_a_line(error: Exception, stage: str) -> TacitError:
    """The one error of ours that says why a run ended and what to do; ``stage``: what was being done, if anything."""
    cause = first_of(error)
    where = f" at {stage!r}" if stage else ""
    if isinstance(cause, TransportError | TimeoutError | OSError):
        return Fatal(f"the demo stopped{where}: {str(cause) or type(cause).__name__}; {ADVICE}")
    if isinstance(cause, TacitError):
        return cause
    said = f"{type(cause).__name__}: {cause}"
    return Fatal(f"the demo stopped{where}: {said}; run it again, and if it stops there again, report this line")
