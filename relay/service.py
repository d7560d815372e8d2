"""What the relay does: one message in, one exchange with the gateway, one answer out.

Strict pass-through of RFC 9458 section 6: only the media type and the body travel on, nothing about the
client does, nothing is retried, and of the gateway's answer only status, media type, body and Retry-After
come back.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from relay.config import RelayConfig
from tacit.adapters.origins import require_secure_url
from tacit.errors import Abort
from tacit.media_types import OHTTP_REQ, OHTTP_RES, PROBLEM_JSON
from tacit.ports import HttpResponse, TransportError
from tacit.service.app import Deps
from tacit.service.counters import TrafficCounters
from tacit.service.limits import ByteBudget

GATEWAY_UNREACHABLE = "urn:tacit:problem:gateway-unreachable"
_PASSED_PROBLEMS = frozenset({400, 413, 415, 422, 429, 503})
_MAX_RETRY_AFTER_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes back to the client."""

    status: int
    content_type: str
    body: bytes = field(repr=False)
    retry_after: str | None = None


class Relay:
    """Forwards encapsulated messages to one gateway; keeps counters and nothing else."""

    def __init__(self, config: RelayConfig, deps: Deps, bearer: str | None) -> None:
        require_secure_url(config.gateway_url, insecure_http=config.insecure_http)
        self.config = config
        self.counters = TrafficCounters("relay", deps.clock, config.bucket_seconds)
        retry_after = (config.retry_after_least, config.retry_after_most)
        self.budget = ByteBudget(config.max_in_flight, deps.entropy, retry_after)
        self._deps = deps
        self._url = f"{config.gateway_url}/gateway"
        self._headers = {"Content-Type": OHTTP_REQ}
        if bearer is not None:
            self._headers["Authorization"] = f"Bearer {bearer}"

    async def forward(self, message: bytes, client_address: str) -> Answer:
        """Send ``message`` on, once.

        Raises ``Abort``: 504 for a gateway that is late, 502 for one that does not answer as a gateway does.
        """
        self._deps.saw("relay", client_address=client_address, ciphertext_bytes=len(message))
        self.counters.add("forwarded")
        self.counters.add("forwarded_bytes", len(message))
        try:
            async with asyncio.timeout(self.config.gateway_timeout):
                response = await self._deps.transport.request("POST", self._url, headers=self._headers, body=message)
        except TimeoutError as error:
            raise _unreachable(504) from error
        except TransportError as error:
            raise _unreachable(504 if isinstance(error.__cause__, TimeoutError) else 502) from error
        return self._answer(response)

    def _answer(self, response: HttpResponse) -> Answer:
        content_type = response.headers.get("content-type", "").strip().lower()
        is_message = response.status == 200 and content_type == OHTTP_RES
        is_problem = response.status in _PASSED_PROBLEMS and content_type == PROBLEM_JSON
        if not (is_message or is_problem) or len(response.body) > self.config.max_response:
            self.counters.add("gateway_answer_refused")
            raise _unreachable(502)
        retry_after = response.headers.get("retry-after", "")
        if not (retry_after.isdecimal() and len(retry_after) <= _MAX_RETRY_AFTER_DIGITS):
            retry_after = ""
        return Answer(response.status, content_type, response.body, retry_after or None)


def _unreachable(status: int) -> Abort:
    return Abort(GATEWAY_UNREACHABLE, status=status, title="The gateway did not answer.")
