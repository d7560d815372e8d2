"""Makes blocking methods from asynchronous ones, which an event loop in a separate thread runs.

A separate thread is used instead of ``asyncio.run`` so that connections are kept from call to call, and so that a
notebook, which already runs an event loop, can call the methods, too.
"""

from __future__ import annotations

import asyncio
import functools
import threading
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator
from concurrent.futures import CancelledError
from typing import Any, Concatenate, ParamSpec, TypeVar

from tacit.errors import UsageError

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S")


class Loop:
    """An event loop in a thread. It runs until ``close``, or until the object is garbage-collected."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=_run, args=(self._loop,), name="tacit-client", daemon=True)
        self._thread.start()
        self._end = weakref.finalize(self, _stop, self._loop, self._thread)

    @property
    def open(self) -> bool:
        """True until ``close``."""
        return self._end.alive

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work`` and return its result; a keyboard interrupt cancels it. Raises ``UsageError`` if the loop is
        closed."""
        if not self.open:
            work.close()
            raise UsageError("this operator is closed")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except CancelledError as error:
            raise UsageError("this operator was closed during the call") from error
        except KeyboardInterrupt:
            future.cancel()
            raise

    def close(self) -> None:
        """Stop the loop. Closing it again has no effect."""
        self._end()


class Blocking:
    """An object whose methods run the methods of ``awaited`` in ``loop`` and wait for their results."""

    def __init__(self, awaited: Any, loop: Loop) -> None:
        self._awaited = awaited
        self._loop = loop


def blocking(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Any, P], T]:
    """Make a method of a ``Blocking`` that runs ``method`` and waits for its result."""

    def run(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        loop: Loop = self._loop
        return loop.run(method(self._awaited, *args, **kwargs))

    functools.update_wrapper(run, method)
    return run


def iterating(
    method: Callable[Concatenate[Any, P], AsyncIterator[T]],
) -> Callable[Concatenate[Any, P], Generator[T, None, None]]:
    """Make a method of a ``Blocking`` that is a generator over ``method``. It fetches only the items that are read, and
    ``close`` ends it."""

    def run(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Generator[T, None, None]:
        found = method(self._awaited, *args, **kwargs)

        async def following() -> T | None:
            return await anext(found, None)

        async def ended(generator: AsyncGenerator[T, None]) -> None:
            await generator.aclose()

        try:
            while (one := self._loop.run(following())) is not None:
                yield one
        finally:
            if isinstance(found, AsyncGenerator) and self._loop.open:
                self._loop.run(ended(found))

    functools.update_wrapper(run, method)
    return run


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    """Cancel all tasks, and end the thread."""

    async def cancelled() -> None:
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await loop.shutdown_asyncgens()

    if threading.current_thread() is thread:
        loop.call_soon(loop.stop)
        return
    asyncio.run_coroutine_threadsafe(cancelled(), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
