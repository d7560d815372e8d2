"""What the agents of one process have in common: connections, and what is made of files that are the same.

Nothing here takes part in a decision. What an agent trusts (pins, the log's tree, key sets and directories that it has
seen), its journal, its tokens and every time that it draws are its own, and each asks the log for itself, as a device
does that is alone: whoever serves agents of one process sees as many devices, at one address.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

from client_agent.config import AgentConfig
from tacit.adapters.http import HttpTransport
from tacit.adapters.tls import ClientTls
from tacit.errors import UsageError
from tacit.recipe.policy import Policy, parse_policy

MOST_POLICIES = 16
"""Policies that are remembered; hosts have one or two."""


class Common:
    """Use it with ``async with``, around the agents."""

    def __init__(self) -> None:
        self._transports: dict[tuple[Path | None, bool], HttpTransport] = {}
        self._policies: dict[bytes, Policy] = {}
        self._identities = set[bytes]()
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._stack.aclose()

    async def transport(self, config: AgentConfig) -> HttpTransport:
        """The connections of all agents that trust the same authorities. Raises ``UsageError``."""
        key = config.tls_ca, config.insecure_http
        if key not in self._transports:
            made = HttpTransport(tls=ClientTls(config.tls_ca), insecure_http=config.insecure_http)
            self._transports[key] = await self._stack.enter_async_context(made)
        return self._transports[key]

    @contextlib.contextmanager
    def alone_with(self, identity: bytes) -> Iterator[None]:
        """Hold an attestation identity, by a digest of it, until the block ends: a copy of a device is no other device.
        Raises ``UsageError`` where an agent of this process holds it."""
        if identity in self._identities:
            raise UsageError("an agent with the same identity is at work; every device needs one of its own")
        self._identities.add(identity)
        try:
            yield
        finally:
            self._identities.discard(identity)

    def policy(self, path: Path, read: Callable[[Path], bytes]) -> Policy:
        """The policy in the file ``path``, which ``read`` reads: the same object for the same bytes. Raises
        ``UsageError``."""
        content = read(path)
        if content not in self._policies:
            if len(self._policies) >= MOST_POLICIES:
                self._policies.clear()
            self._policies[content] = parse_policy(content, path.name)
        return self._policies[content]
