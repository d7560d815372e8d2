"""The log as one device reads it: live entries, through the relay, held against what earlier readings have shown."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace

from client_agent.config import AgentConfig
from client_agent.journal import AgentStore, Fact
from client_agent.oblivious import KeysUnknownError, ObliviousClient
from client_agent.seen_leaves import GatewayKeys, SeenDirectories
from tacit.errors import Refusal
from tacit.logview.live import LiveLog
from tacit.logview.log_source import consistency
from tacit.logview.paged import PagedReader
from tacit.logview.signers import LeafSigners
from tacit.logview.view import Bundle, LogState, LogView, VerifiedEntry
from tacit.ports import Clock, Transport, TransportError
from tacit.problem import party_of
from tacit.recipe.policy import Policy
from tacit.retry_after import make_unanswered
from tacit.tlog.checkpoint import NoteKey
from tacit.tlog.key_sets import KeySets
from tacit.tlog.leaves import LeafType, SignedLeaf

SYNC_SECONDS = 300.0
"""Seconds for all pages of one poll: a log that serves them slowly must not delay reports for longer."""

Follow = Callable[[LiveLog], Awaitable[None]]
"""What a device does with the log's live entries once they are verified."""


class DeviceLog:
    """Reads the log for one device, and stores what it has seen before anything is done with it."""

    def __init__(
        self,
        config: AgentConfig,
        policy: Policy,
        store: AgentStore,
        client: ObliviousClient,
        transport: Transport,
        clock: Clock,
    ) -> None:
        """``client`` asks the log, under the gateway's keys of the time; ``transport`` asks the relay itself. Raises
        ``DecodeError`` if a pinned key is malformed."""
        self._config = config
        self._policy = policy
        self._store = store
        self._client = client
        self._transport = transport
        self._clock = clock
        self._keys = GatewayKeys(config.gateway)
        self._directories = SeenDirectories(config.issuer)
        self._required = policy.log_policy(NoteKey.decode(config.log_key), clock.now)
        self._view: LogView | None = None
        self._pages = PagedReader(self._get)
        self._shown = LiveLog()
        self._key_sets: list[SignedLeaf] = []

    async def open(self) -> LogView:
        """The log as it was last stored, with the gateway's keys for the current time."""
        if self._view is None:
            state = await self._store.fact(Fact.LOG_STATE)
            self._keys.restore(await self._store.fact(Fact.GATEWAY_KEYS))
            self._directories.restore(await self._store.fact(Fact.DIRECTORIES))
            self._view = LogView(self._required, LogState.decode(state) if state else None)
        self._client.use(self._keys.current(self._clock.now()))
        return self._view

    async def trusted(self) -> bool:
        """Whether the log has never shown two histories, or two leaves in one place, to this device."""
        return not (await self.open()).state.failure

    async def sync(self, follow: Follow) -> str:
        """Fetch the live entries, verify them against everything seen before, store the result, and ``follow`` it.
        Returns why the first left-out leaf was left out; empty if none was.

        Raises ``TransportError``, ``DecodeError``, or ``Refusal`` if the log misbehaves (permanently if it showed two
        histories: then the log is not even asked).
        """
        view = await self.open()
        view.check_trusted()
        try:
            async with asyncio.timeout(SYNC_SECONDS):
                try:
                    entries = await self._read(view)
                except KeysUnknownError:
                    await self._recover(view)
                    entries = await self._read(view)
                if entries is not None:
                    self._shown = LiveLog.from_entries(entries)
                    self._key_sets = [entry.leaf for entry in entries if entry.leaf.type is LeafType.OHTTP_CONFIG]
                    await self._note_directories(entry.leaf for entry in entries)
                await follow(self._shown)
                await self._confirm(view)
        except TimeoutError as error:
            raise TransportError("the log's pages did not come in time") from error
        strange = [str(one) for one in view.left_out]
        strange += [f"leaf {index}: {why}" for index, why in self._shown.unreadable]
        return strange[0] if strange else ""

    async def _note_directories(self, leaves: Iterable[SignedLeaf]) -> None:
        """Store the issuer's directories, before any token is requested under one."""
        before = self._directories.encode()
        self._directories.learn(leaves, self._clock.now())
        kept = self._directories.encode()
        if kept != before:
            await self._store.keep({Fact.DIRECTORIES: kept})

    async def _confirm(self, view: LogView) -> None:
        """Store the log's new key sets, once the relay, which shows the same to everybody, has shown them too. A log
        that shows each device a different key set would have to get one of them past the relay. A relay that serves no
        key sets is no obstacle."""
        new = self._keys.unknown(self._key_sets, self._clock.now())
        if not new:
            return
        try:
            key_sets = await self._relays_key_sets()
        except TransportError:
            return  # not again until the next poll
        if key_sets is not None:
            await self._open_checkpoint(view, key_sets)
            shown = {
                leaf.body_bytes() for leaf in await self._verify_leaves(view, key_sets, [*self._keys.leaves, *new])
            }
            new = [leaf for leaf in new if leaf.body_bytes() in shown]
        # store the key sets that the log shows, permanently, before any is used
        self._keys.learn(new, self._clock.now())
        kept = self._keys.encode()
        if kept != await self._store.fact(Fact.GATEWAY_KEYS):
            await self._store.keep({Fact.GATEWAY_KEYS: kept})
        self._client.use(self._keys.current(self._clock.now()))

    async def _relays_key_sets(self) -> KeySets | None:
        """The key sets that the relay serves to everybody, or None if it serves none. Raises ``TransportError``."""
        answer = await self._transport.request("GET", f"{self._config.relay_url}/key-sets")
        if answer.status == 404:
            return None
        if answer.status != 200:
            words = f"the relay has no key sets; it answered {answer.status}"
            raise make_unanswered(words, answer.headers, self._clock.now())
        return KeySets.decode(answer.body)

    async def _open_checkpoint(self, view: LogView, found: KeySets) -> int:
        """The size of the tree that the relay shows. Raises ``Refusal``."""
        try:
            return view.opened(found.checkpoint).size
        finally:
            if view.state.failure:
                await self._store.keep({Fact.LOG_STATE: view.state.encode()})

    async def _verify_leaves(self, view: LogView, found: KeySets, known: Sequence[SignedLeaf]) -> list[SignedLeaf]:
        """The leaves of ``found``, after checking that they are in a tree that the log signed, are signed by the
        gateway, and do not contradict a leaf in ``known``. Raises ``Refusal``."""
        probe = LogView(self._required)
        try:
            entries = probe.accept(Bundle(found.checkpoint, (), found.entries), LeafSigners(self._policy), known)
        except Refusal:
            if probe.state.failure:
                state = replace(view.state, failure=probe.state.failure, evidence=probe.state.evidence)
                await self._store.keep({Fact.LOG_STATE: state.encode()})
                self._view = LogView(self._required, state)
            raise
        return [entry.leaf for entry in entries]

    async def _read(self, view: LogView) -> list[VerifiedEntry] | None:
        before = view.state
        try:
            known = [*self._keys.leaves, *self._directories.leaves]
            signers = LeafSigners(self._policy, (), self._required.log_key.public)
            return await self._pages.read(view, signers, known)
        finally:
            if view.state != before:
                await self._store.keep({Fact.LOG_STATE: view.state.encode()})

    async def _recover(self, view: LogView) -> None:
        """Get the gateway's key sets from the relay (P3): signed by the gateway, in a tree that the log signed and that
        extends the last tree that this device saw. Nothing of them is stored before all of that is proved."""
        now = self._clock.now()
        key_sets = await self._relays_key_sets()
        if key_sets is None:
            raise TransportError("this device has no key of the gateway for this time, and its relay serves none")
        size = await self._open_checkpoint(view, key_sets)
        if size < view.state.size:
            raise Refusal("log-rollback", f"the relay shows {size} entries of the log, it had {view.state.size}")
        keys = self._keys.with_learned(await self._verify_leaves(view, key_sets, self._keys.leaves), now)
        before = view.state
        self._client.use(keys.current(now))
        try:
            view.advance(key_sets.checkpoint, await consistency(self._get, before.size, size))
        finally:
            self._client.use(self._keys.current(now))
            if view.state.failure:
                await self._store.keep({Fact.LOG_STATE: view.state.encode()})
        self._keys = keys
        await self._store.keep({Fact.LOG_STATE: view.state.encode(), Fact.GATEWAY_KEYS: keys.encode()})
        self._client.use(keys.current(now))

    async def _get(self, path: str) -> bytes | None:
        """The log's answer for ``path``, fetched through the relay; None if it has none."""
        response = await self._client.request("GET", f"{self._config.recipe_server_url}{path}")
        if response.status == 404:
            return None
        if response.status != 200:
            party = party_of(response.content, "the recipe server")
            raise make_unanswered(f"{party} answered {response.status}", dict(response.fields), self._clock.now())
        return response.content
