"""What the agents of one process share: connections, and objects read from files with the same contents.

Nothing here takes part in a decision. What an agent trusts (pins, the log's tree, the key sets and directories that it
has seen), its journal, its tokens and every time that it draws are its own. Each agent asks the log for itself, as a
device on its own does: a server sees the agents of one process as as many devices, at one address.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

from client_agent.config import AgentConfig
from tacit.adapters.network.http import HttpTransport
from tacit.adapters.network.tls import ClientTls
from tacit.errors import UsageError
from tacit.recipe.policy import Policy, parse_policy

UPLOAD_RATE = 16 << 10
"""Bytes a second of the slowest connection over which a large report is sent; relays cut slower ones."""
MOST_POLICIES = 16
"""Number of policies that are cached; hosts have one or two."""


class Common:
    """Shared state of several agents. Use it with ``async with``, around the agents."""

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
        """A transport that all agents with the same trusted authorities share. Raises ``UsageError``."""
        key = config.tls_ca, config.insecure_http
        if key not in self._transports:
            tls = ClientTls(config.tls_ca)
            made = HttpTransport(tls=tls, insecure_http=config.insecure_http, upload_rate=UPLOAD_RATE)
            self._transports[key] = await self._stack.enter_async_context(made)
        return self._transports[key]

    @contextlib.contextmanager
    def alone_with(self, identity: bytes) -> Iterator[None]:
        """Hold an attestation identity, given by its digest, until the block ends: a copy of a device is not another
        device. Raises ``UsageError`` if another agent of this process holds it."""
        if identity in self._identities:
            raise UsageError("an agent with the same identity is at work; every device needs one of its own")
        self._identities.add(identity)
        try:
            yield
        finally:
            self._identities.discard(identity)

    def policy(self, path: Path, read: Callable[[Path], bytes]) -> Policy:
        """The policy in the file ``path``, read with ``read``: the same object for the same bytes. Raises
        ``UsageError``."""
        content = read(path)
        if content not in self._policies:
            if len(self._policies) >= MOST_POLICIES:
                self._policies.clear()
            self._policies[content] = parse_policy(content, path.name)
        return self._policies[content]
