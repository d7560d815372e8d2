"""The client of the admin API for asynchronous programs."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Self

from tacit.adapters.network.http import HttpTransport
from tacit.adapters.network.http_stream import Streams
from tacit.adapters.network.origins import require_secure_url
from tacit.adapters.network.tls import ClientTls
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.client.audit import AsyncAudit
from tacit.client.caller import Caller
from tacit.client.documents import Fleet, Session, read
from tacit.client.events import Event, listen
from tacit.client.jobs import AsyncJobs
from tacit.client.learning import AsyncRuns
from tacit.client.log import AsyncLog, AsyncSeries
from tacit.client.people import AsyncPeople
from tacit.client.questions import AsyncQuestions
from tacit.client.recipes import AsyncRecipes
from tacit.errors import UsageError
from tacit.ports import Clock, Entropy, Transport
from tacit.service.base.secret_files import read_secret

_KEY = re.compile(r"[!-~]{1,256}")


class AsyncOperator:
    """A client of the admin service at ``url``, for the person whose API key is in the 0600 file ``key_file`` or is
    ``key``. Close it, or use ``async with``.

    * ``timeout``: seconds for one exchange; ``patience``: for how many seconds a request is repeated while nothing
      answers or the service asks for a pause. A call takes no longer than both together, unless it waits for a result.
    * ``tls``: further authorities to trust beside the system's, and the client certificate to show; ``insecure_http``:
      allow plain HTTP to other hosts than loopback.
    * ``transport``: another transport, which is then not closed here; ``clock`` and ``entropy``: for pauses and for
      ``Idempotency-Key``.

    Raises ``UsageError`` for a URL, key or file that cannot be used.
    """

    def __init__(
        self,
        url: str,
        *,
        key_file: Path | str | None = None,
        key: str | None = None,
        timeout: float = 30.0,
        patience: float = 30.0,
        tls: ClientTls | None = None,
        insecure_http: bool = False,
        transport: Transport | None = None,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        require_secure_url(url, insecure_http=insecure_http)
        if "?" in url or "#" in url:
            raise UsageError("the URL of an admin service must not have a query or a fragment")
        self.url = url.rstrip("/")
        self._own = None
        if transport is None:
            transport = self._own = HttpTransport(
                timeout=timeout, tls=tls, insecure_http=insecure_http, repeat_posts=True
            )
        self._streams = Streams(tls, insecure_http=insecure_http)
        person = _key(key_file, key)
        caller = Caller(self.url, transport, clock or SystemClock(), entropy or OsEntropy(), patience, person)
        self._caller = caller
        self.questions = AsyncQuestions(caller)
        """Questions, from draft to end."""
        self.recipes = AsyncRecipes(caller)
        """Recipes of the log, their batches and results."""
        self.series = AsyncSeries(caller)
        """Series and censuses of the log."""
        self.runs = AsyncRuns(caller)
        """Training runs: their plans, rounds and models."""
        self.jobs = AsyncJobs(caller)
        """Jobs of the service and of the collector, and which of them are stuck."""
        self.log = AsyncLog(caller)
        """Calls that read the log and the privacy accounts."""
        self.people = AsyncPeople(caller)
        """Calls that manage people and their API keys."""
        self.audit = AsyncAudit(caller)
        """Calls that read the audit log."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections that this client opened itself."""
        if self._own is not None:
            await self._own.close()

    async def session(self) -> Session:
        """The person who owns the key, and their permissions."""
        return read(Session, await self._caller.get("/v1/session"))

    async def fleet(self) -> Fleet:
        """Counts of a staging deployment's devices. Raises ``NotFoundError`` for any other deployment."""
        return read(Fleet, await self._caller.get("/v1/fleet"))

    def events(self) -> AsyncIterator[Event]:
        """Changes from now on, without end: states of questions, and yields of recipes. The first event, also after a
        stream that broke off, is ``listening``: then read the present state of what you follow."""
        return listen(self._caller, self._streams)

    async def description(self) -> dict[str, Any]:
        """The service's OpenAPI document."""
        return dict(await self._caller.get("/openapi.json"))


def _key(key_file: Path | str | None, key: str | None) -> str:
    if (key_file is None) == (key is None):
        raise UsageError("give either a key or a key file")
    text = key if key_file is None else read_secret(Path(key_file)).decode("ascii", "replace").strip()
    if text is None or not _KEY.fullmatch(text):
        raise UsageError("a key must be one line of visible ASCII characters")
    return text
