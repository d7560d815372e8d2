"""How full a recipe's batch is: asks the recipe's server and passes its answer on."""

from __future__ import annotations

from http import HTTPStatus

from services.collector.service import Subjects
from tacit.aggregator.batch_yield import BatchYield, read_batch_yield
from tacit.errors import Abort, DecodeError
from tacit.models.one_server import ANALYZER
from tacit.models.secure_aggregation.collector import LEADER
from tacit.ports import Transport
from tacit.service.http.live_tokens import ShownToken


class BatchYields:
    """Asks with the bearer tokens that the Leader and the analyzer expect."""

    def __init__(self, recipes: Subjects, transport: Transport, leader: ShownToken, analyzer: ShownToken) -> None:
        self._recipes = recipes
        self._transport = transport
        self._tokens = {LEADER: leader, ANALYZER: analyzer}

    async def of(self, recipe_hash: bytes) -> BatchYield:
        """How full the recipe's batch is now. Raises ``Abort``: 404 for a recipe that the log does not show or that its
        server does not serve, 502 for a server whose answer cannot be read; ``Refusal`` for a recipe that cannot be
        collected; and ``TransportError``."""
        known = self._recipes.find(recipe_hash)
        if known is None:
            await self._recipes.step()
            known = self._recipes.find(recipe_hash)
        if known is None:
            raise _abort(HTTPStatus.NOT_FOUND, "the log shows no recipe with this hash")
        source = known.active()
        party = source.party
        answer = await self._transport.request("GET", source.yield_url, headers=self._tokens[party].headers())
        if answer.status == HTTPStatus.NOT_FOUND:
            raise _abort(HTTPStatus.NOT_FOUND, f"the {party} does not serve this recipe: not yet, or no longer")
        if answer.status != HTTPStatus.OK:
            raise _abort(HTTPStatus.BAD_GATEWAY, f"the {party} answered with status {answer.status}")
        try:
            return read_batch_yield(answer.body)
        except DecodeError as error:
            raise _abort(HTTPStatus.BAD_GATEWAY, f"{party}: {error}") from error


def _abort(status: HTTPStatus, detail: str) -> Abort:
    return Abort("about:blank", detail, status=status, title=status.phrase)
