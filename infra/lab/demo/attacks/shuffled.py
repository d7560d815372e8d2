"""Attacks on a staged recipe of the shuffled model: on the shuffler as a device, and on the analyzer as a shuffler."""

from __future__ import annotations

from collections.abc import Sequence

from infra.lab.demo.attacks.common import Attempt
from infra.lab.demo.attacks.watched import OneServerThief
from infra.lab.demo.results.result import StagedRefusal
from infra.lab.kit.reports import BoundToken
from tacit import media_types
from tacit.errors import Refusal
from tacit.messages.chunk import MessageChunk
from tacit.methods.randomisers.registry import device_randomiser_of
from tacit.models.one_server import ANALYZER
from tacit.ports import Transport
from tacit.problem import problem_type
from tacit.recipe.derive import randomizer_of
from tacit.task.shuffled import message_size


class ShuffledThief(OneServerThief):
    """The attacks of one device in the shuffled model; none is made with an invalid answer."""

    def _payload(self) -> bytes:
        return self.channel.payload(device_randomiser_of(randomizer_of(self.recipe)).dummy(self.entropy), self.entropy)

    def _invalid(self, tokens: Sequence[BoundToken]) -> list[Attempt]:
        del tokens
        return []

    def whole(self, token: BoundToken) -> bytes:
        """A valid report of a token that was not spent."""
        return self._sealed(token, self._payload()).encode()


async def as_shuffler(url: str, token: str, recipe_hash: str, transport: Transport) -> list[StagedRefusal]:
    """Forward messages to the analyzer at ``url`` as somebody else, and, of a recipe whose messages it has, as a
    shuffler (``token``) that repeats an index with others. Raises ``Refusal`` where one of them is taken."""
    address = f"{url}/recipes/{recipe_hash}/chunks"
    body = MessageChunk(0, 1, bytes(message_size(1))).encode()

    async def said(shown: str) -> tuple[int, str]:
        headers = {"authorization": f"Bearer {shown}", "content-type": media_types.MESSAGE_CHUNK}
        answer = await transport.request("POST", address, headers=headers, body=body)
        return answer.status, (problem_type(answer.body) or "").rpartition(":")[2]

    stranger, again = await said("nobody"), await said(token)
    if (stranger[0], again[0]) != (401, 422):
        raise Refusal("demo-staged", f"the analyzer answered {stranger[0]} and {again[0]} to forged messages")
    return [
        StagedRefusal("messages from somebody who is not the shuffler", ANALYZER, "401: no credential of a shuffler"),
        StagedRefusal("other messages under an index that was taken", ANALYZER, f"422: {again[1]}"),
    ]
