"""One device of a simulation: a real agent, and a view of what it keeps to itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from client_agent.agent import Agent
from client_agent.journal import Entry, MemoryAgentStore, State
from tacit.messages import Report, UploadRequest
from tacit.recipe.model import Recipe
from tacit.tokens.attestation import SoftwareDevice


class JournalKeeper(MemoryAgentStore):
    """A device's store that also remembers the reports that were made, which the journal forgets once they are sent."""

    def __init__(self) -> None:
        super().__init__()
        self.made: dict[bytes, bytes] = {}

    async def decide(self, entry: Entry, spend: Any = None, draw: Any = None) -> bool:
        """Decide as ``AgentStore`` does, and note every report that is made."""
        if entry.report:
            self.made.setdefault(entry.recipe_hash, entry.report)
        return await super().decide(entry, spend, draw)


@dataclass
class Device:
    """One simulated device. ``data`` is metric -> value and may be changed; ``attributes`` are those of its
    configuration."""

    name: str
    agent: Agent
    store: JournalKeeper
    identity: SoftwareDevice
    data: dict[str, str]
    attributes: dict[str, str]

    async def entry(self, recipe: Recipe) -> Entry | None:
        """What the journal says about a recipe."""
        return next((entry for entry in await self.store.entries() if entry.recipe_hash == recipe.hash), None)

    async def state(self, recipe: Recipe) -> State | None:
        """The state of the entry of this recipe, or None."""
        entry = await self.entry(recipe)
        return None if entry is None else entry.state

    def report(self, recipe: Recipe) -> Report | None:
        """The report that this device made for a recipe, sent or not."""
        made = self.store.made.get(recipe.hash)
        return None if made is None else UploadRequest.decode(made).reports[0]
