"""The relay's work: one message in, one exchange with the gateway, one answer out.

Strict pass-through of RFC 9458 section 6. Only the media type and the body are forwarded, nothing about the client;
nothing is retried; and of the gateway's answer only status, media type, body and Retry-After are returned. With frames
(``tacit.message_frames``; not in RFC 9458, so the gateway must support them too) several messages share the exchange,
and the same holds for each; a message that would fill a frame by itself is sent alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from http import HTTPStatus

from relay.config import RelayConfig
from tacit.adapters.network.origins import require_secure_url
from tacit.errors import Abort, DecodeError, UsageError
from tacit.fast_paths import RELAYED
from tacit.media_types import OHTTP_REQ, OHTTP_REQ_FRAME, OHTTP_RES, OHTTP_RES_FRAME, PROBLEM_JSON
from tacit.message_frames import REQUEST_OVERHEAD, MessageAnswer, decode_answers, encode_requests
from tacit.ports import HttpResponse, TransportError
from tacit.service.app import ServiceEnv
from tacit.service.base.counters import TrafficCounters
from tacit.service.batcher import Batcher, FrameBounds
from tacit.service.http.limits import ORDINARY_BODY, UploadBudget, busy
from tacit.service.http.live_tokens import ShownToken

GATEWAY_UNREACHABLE = "urn:tacit:problem:gateway-unreachable"
_OK = 200
_PASSED_PROBLEMS = frozenset({400, 413, 415, 422, 429, 503})
_MAX_RETRY_AFTER_DIGITS = 6


class Relay:
    """Forwards encapsulated messages to one gateway; keeps counters and nothing else."""

    def __init__(self, config: RelayConfig, deps: ServiceEnv, credential: ShownToken) -> None:
        require_secure_url(config.gateway_url, insecure_http=config.insecure_http)
        framed = min(config.max_request, ORDINARY_BODY)
        if config.frames is not None and config.frames.max_bytes < framed + REQUEST_OVERHEAD:
            raise UsageError(f"frames.max_bytes must hold at least one message of {framed} bytes")
        self.config = config
        self.counters = TrafficCounters("relay", deps.clock, config.bucket_seconds)
        retry_after = (config.retry_after_least, config.retry_after_most)
        self.budget = UploadBudget(
            config.max_in_flight, deps.entropy, retry_after, largest=config.max_request, answer=config.max_response
        )
        self._deps = deps
        self._retry_after = retry_after
        self._url = f"{config.gateway_url}/gateway"
        self._credential = credential
        self._batcher: Batcher[bytes, MessageAnswer] | None = None
        if (frames := config.frames) is not None:
            bounds = FrameBounds(frames.max_messages, frames.max_bytes, frames.max_delay)
            self._batcher = Batcher(bounds, deps, self._send_frame)

    async def close(self) -> None:
        """Send the gathered messages and log the counters."""
        if self._batcher is not None:
            await self._batcher.close()
        self.counters.flush()

    async def forward(self, message: bytes, client_address: str) -> MessageAnswer:
        """Forward ``message`` once; returns the gateway's answer.

        Raises ``Abort``: 504 for a gateway that is late, 502 for one whose answer is not a gateway's.
        """
        self._deps.saw("relay", client_address=client_address, ciphertext_bytes=len(message))
        self.counters.add("forwarded")
        self.counters.add("forwarded_bytes", len(message))
        if self._batcher is None or len(message) > ORDINARY_BODY:
            return self._check_answer(_answer_of(await self._ask(self._url, OHTTP_REQ, message)))
        try:
            return self._check_answer(await self._batcher.submit(message, REQUEST_OVERHEAD + len(message)))
        except Abort as abort:  # a Retry-After of the whole frame: each of its clients gets a random one of its own
            retry = abort.status == HTTPStatus.SERVICE_UNAVAILABLE
            raise busy(self._deps.entropy, self._retry_after) if retry else _unreachable(abort.status) from abort

    async def _send_frame(self, messages: Sequence[bytes]) -> list[MessageAnswer]:
        """The gateway's answers to ``messages``. Raises ``Abort`` for all of them."""
        self.counters.add("frames")
        RELAYED.items += len(messages)
        RELAYED.fallbacks += len(messages) == 1
        response = await self._ask(f"{self._url}/frames", OHTTP_REQ_FRAME, encode_requests(messages))
        if response.status == HTTPStatus.SERVICE_UNAVAILABLE:
            raise busy(self._deps.entropy, self._retry_after)
        if response.status != _OK or not response.is_a(OHTTP_RES_FRAME):
            self.counters.add("gateway_answer_refused")
            raise _unreachable(502)
        try:
            return decode_answers(response.body, count=len(messages), max_body=self.config.max_response)
        except DecodeError as error:
            self.counters.add("gateway_answer_refused")
            raise _unreachable(502) from error

    async def _ask(self, url: str, media_type: str, body: bytes) -> HttpResponse:
        headers = {"Content-Type": media_type, **self._credential.headers()}
        try:
            async with asyncio.timeout(self.config.gateway_timeout):
                return await self._deps.transport.request("POST", url, headers=headers, body=body)
        except TimeoutError as error:
            raise _unreachable(504) from error
        except TransportError as error:
            raise _unreachable(504 if isinstance(error.__cause__, TimeoutError) else 502) from error

    def _check_answer(self, answer: MessageAnswer) -> MessageAnswer:
        """``answer``, if a gateway may give it. Raises ``Abort`` (502) otherwise."""
        is_message = answer.status == _OK and answer.content_type == OHTTP_RES
        is_problem = answer.status in _PASSED_PROBLEMS and answer.content_type == PROBLEM_JSON
        if not (is_message or is_problem) or len(answer.body) > self.config.max_response:
            self.counters.add("gateway_answer_refused")
            raise _unreachable(502)
        return answer


def _answer_of(response: HttpResponse) -> MessageAnswer:
    """The parts of the gateway's answer that may go to the client; its media type as we spell it, so that a proxy
    before the gateway cannot mark answers by their spelling."""
    content_type = next(filter(response.is_a, (OHTTP_RES, PROBLEM_JSON)), "")
    retry_after = response.headers.get("retry-after", "")
    known = retry_after.isdecimal() and len(retry_after) <= _MAX_RETRY_AFTER_DIGITS
    return MessageAnswer(response.status, content_type, response.body, int(retry_after) if known else None)


def _unreachable(status: int) -> Abort:
    return Abort(GATEWAY_UNREACHABLE, status=status, title="The gateway did not answer.")
