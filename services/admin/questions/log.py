"""Reads the log, and turns failures of other services into refusals that name the service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from services.admin.base.config import AdminConfig
from services.admin.base.problems import Problem, away, refuse
from tacit.answers import may_pass
from tacit.errors import REFUSAL_PREFIX, Abort, CryptoError, DecodeError, Refusal
from tacit.logview.contents import RememberedLog
from tacit.logview.live import LiveLog
from tacit.operations.calls import NoAnswerError, get_bytes
from tacit.ports import TransportError
from tacit.service.app import ServiceEnv, abort_of_refusal


class Log:
    """The log, verified with its pinned key and the policy's witnesses. Unchanged parts are not read again."""

    def __init__(self, config: AdminConfig, deps: ServiceEnv) -> None:
        self.url = config.log.url
        self.transport = deps.transport
        required = config.policy.log_policy(config.log.note_key(), deps.clock.now)
        self._log = RememberedLog(self._get, required, config.policy)
        self._reading = asyncio.Lock()

    async def live(self) -> LiveLog:
        """The log as of now. Raises ``Abort``: 503 if it does not answer, 502 if it does not verify."""
        async with blaming("log"), self._reading:
            try:
                return await self._log.read()
            except Refusal as refusal:
                words = f"{refusal.rule}: {refusal.detail}"
                raise refuse(Problem.LOG_UNVERIFIED, words) from refusal

    async def _get(self, path: str) -> bytes | None:
        try:
            return await get_bytes(self.transport, f"{self.url}{path}")
        except Abort as problem:
            if problem.status == 404:
                return None
            raise


@asynccontextmanager
async def blaming(peer: str) -> AsyncIterator[None]:
    """Turn a failure of the service ``peer`` in the block into an ``Abort`` that blames ``peer`` and not the caller:
    503 if it does not answer or is busy, 502 if its answer cannot be used. Refusals by a rule, and 404, stay as they
    are."""
    try:
        yield
    except NoAnswerError as error:
        raise away(peer, "it does not answer") from error
    except TransportError as error:
        raise away(peer, str(error)) from error
    except (DecodeError, CryptoError) as error:
        raise refuse(Problem.PEER_ANSWER, str(error)) from error
    except Abort as problem:
        if problem.type.startswith(REFUSAL_PREFIX):
            raise abort_of_refusal(Refusal(problem.type.removeprefix(REFUSAL_PREFIX), problem.detail)) from problem
        if problem.type == Problem.LOG_UNVERIFIED.uri or problem.status == 404:
            raise
        if may_pass(problem.status):
            raise away(peer, problem.detail or problem.title) from problem
        words = problem.detail or problem.title
        raise refuse(Problem.PEER_ANSWER, words) from problem
    except Refusal as refusal:
        raise abort_of_refusal(refusal) from refusal
