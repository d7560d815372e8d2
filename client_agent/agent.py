"""One device: follow the log, prefetch tokens, decide about every recipe once, and send what the coin chose.

The order inside a decision is the protocol's: verify the recipe and its privacy cost, look for the token and the datum,
charge the claim, toss the coin, and only then encode, randomise and shard. Coin, delay and the finished report are
durable before anything is sent (P11). A refusal is silent on the wire and explained in the journal. A log that showed
two histories is never trusted again: from then on the device does nothing at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace

from client_agent.answering import Data, KeptStates, Origins
from client_agent.config import AgentConfig
from client_agent.deciding import Decider, Decision, Deps, may_pass
from client_agent.directories import SeenDirectories
from client_agent.gateway_keys import GatewayKeys
from client_agent.journal import AgentStore, Entry, Fact, State, note
from client_agent.oblivious import KeysUnknownError, ObliviousClient
from client_agent.panprivate.watches import Watches
from client_agent.sources import DataSource
from client_agent.supervision import unusable, words_of
from client_agent.upload import Uploader
from client_agent.wallet import AttestedDevice, TokenWallet
from tacit import ohttp
from tacit.codec import b64url
from tacit.errors import Refusal
from tacit.pauses import NEVER, uniform
from tacit.ports import TransportError
from tacit.problem import party_of
from tacit.recipe.asking import LONGEST_SPREAD
from tacit.recipe.live import LeafSigners, LiveLog, LiveRecipe
from tacit.recipe.policy import Policy
from tacit.tlog.checkpoint import NoteKey
from tacit.tlog.client import Bundle, LogState, LogView, VerifiedEntry
from tacit.tlog.leaves import LeafType, SignedLeaf
from tacit.tlog.pages import KeySets, PagedReader, consistency

READ_WITHIN = 2 * 86_400.0
"""Seconds after the last reading of the log for which a device decides. A larger jump of the clock must first be
confirmed: by witnesses, if the policy demands their times, and by the issuer's directory of that time."""
SYNC_SECONDS = 300.0
"""Seconds for all pages of one poll: a log that serves them slowly must not delay reports for longer."""


class Agent:
    """A device's agent. ``step`` does everything that is due; ``poll``, ``prefetch`` and ``work`` are its parts, for a
    runner that schedules them separately."""

    def __init__(
        self,
        config: AgentConfig,
        policy: Policy,
        deps: Deps,
        store: AgentStore,
        source: DataSource,
        device: AttestedDevice,
        watches: Watches | None = None,
    ) -> None:
        """``watches`` keeps the states of watched events (None: in memory only). Raises ``DecodeError`` if a pinned key
        is malformed."""
        self._config = config
        self._policy = policy.model_copy(
            update={
                "issuers": {config.issuer.name: config.issuer.signing_key},
                "gateways": {config.gateway.name: config.gateway.signing_key},
            }
        )
        self._deps = deps
        self._store = store
        self._keys = GatewayKeys(config.gateway)
        self._directories = SeenDirectories(config.issuer)
        self._client = ObliviousClient(deps.transport, config.relay_url, (), deps.clock, deps.entropy)
        self._uploader = Uploader(store, self._client, deps.clock, deps.entropy, config.timing)
        self._wallet = TokenWallet(
            store, deps.transport, config.attester_url, device, deps.clock, deps.entropy, config.timing
        )
        in_memory = Watches(None, deps.clock, deps.entropy, work=policy.max_watch_work)
        self._watches = in_memory if watches is None else watches
        origins = Origins(Data(source, config.attributes, store, deps.clock), KeptStates(self._watches))
        self._decider = Decider(config, self._policy, deps, store, origins, self._wallet)
        self._log = self._policy.log_policy(NoteKey.decode(config.log_key), deps.clock.now)
        self._view: LogView | None = None
        self._pages = PagedReader(self._get)
        self._shown = self._live = LiveLog()
        self._key_sets: list[SignedLeaf] = []
        self._next_poll = 0.0
        self._read_at = -READ_WITHIN
        self._calm_until = 0.0
        self._told: str | None = None
        self._deciding = asyncio.Lock()
        self._sending = asyncio.Lock()

    @property
    def live(self) -> LiveLog:
        """The log as this device last saw and verified it."""
        return self._live

    @property
    def watches(self) -> Watches:
        """The states of watched events, for the code that drives them by the clock (``panprivate.listening``)."""
        return self._watches

    @property
    def gateway_keys(self) -> tuple[ohttp.KeyConfig, ...]:
        """The gateway keys that this device last used, the active one first."""
        return self._client.configs

    async def step(self) -> float:
        """Poll, prefetch, decide and send what is due; returns when to call again (POSIX seconds)."""
        self.tick()
        return min(await self.poll(), await self.prefetch(), await self.work())

    def record(self, event: str, times: int = 1) -> bool:
        """The event happened ``times`` times (0 to 256); returns whether a recipe watches it. It is folded into
        encrypted state at once, and written when the recipe's step ends."""
        return self._watches.record(event, times)

    def tick(self) -> None:
        """Replace the encrypted state of watched events; due about every second, whether or not an event happened."""
        self._watches.tick()

    async def poll(self) -> float:
        """Run ``sync`` if it is time, and record what went wrong; returns when it is time again (POSIX seconds)."""
        now = self._deps.clock.now()
        if not await self._trusted():
            return NEVER
        if self._next_poll - LONGEST_SPREAD * self._config.timing.poll_seconds <= now < self._next_poll:
            return self._next_poll  # the plan lies too far ahead: the clock was wrong then, and is right now
        spread = uniform(self._deps.entropy, 0.75, LONGEST_SPREAD) * self._config.timing.poll_seconds
        self._next_poll = now + spread
        try:
            left_out = await self.sync()
        except self._store.errors:
            raise
        except Exception as error:  # of whatever the log answered
            self._next_poll = now + min(spread, self._config.timing.retry_limit_seconds)
            await note(self._store, Fact.LOG_TROUBLE, words_of(error), self._deps.clock.now())
        else:
            await note(self._store, Fact.LOG_TROUBLE, left_out, self._deps.clock.now())
        return self._next_poll if await self._trusted() else NEVER

    def hasten(self, within: float) -> None:
        """Plan the next poll at a random moment of the coming ``within`` seconds, unless it is due sooner. However
        often this is called, it adds at most one poll per ``within`` seconds."""
        begin = max(self._deps.clock.now(), self._calm_until)
        planned = uniform(self._deps.entropy, begin, begin + within)
        if planned < self._next_poll:
            self._next_poll, self._calm_until = planned, begin + within

    async def sync(self) -> str:
        """Fetch the live entries through the relay, verify them against everything seen before, and store the result.
        Returns why the first left-out leaf was left out; empty if none was.

        Raises ``TransportError``, ``DecodeError``, or ``Refusal`` if the log misbehaves (permanently if it showed two
        histories: then the log is not even asked).
        """
        view = await self._open_view()
        if view.state.failure:
            rule, _, detail = view.state.failure.partition(": ")
            raise Refusal(rule, detail)
        try:
            async with asyncio.timeout(SYNC_SECONDS):
                await self._sync(view)
        except TimeoutError as error:
            raise TransportError("the log's pages did not come in time") from error
        strange = [str(one) for one in view.left_out]
        strange += [f"leaf {index}: {why}" for index, why in self._shown.unreadable]
        return strange[0] if strange else ""

    async def _sync(self, view: LogView) -> None:
        """Read the log. If there is no key with which to ask it, first get one from the relay, once."""
        try:
            entries = await self._read(view)
        except KeysUnknownError:
            await self._recover(view)
            entries = await self._read(view)
        if entries is not None:
            self._shown = LiveLog.from_entries(entries)
            self._key_sets = [entry.leaf for entry in entries if entry.leaf.type is LeafType.OHTTP_CONFIG]
            await self._note_directories(entry.leaf for entry in entries)
        self._read_at = self._deps.clock.now()
        await self._follow(self._shown)
        await self._confirm(view)

    async def _note_directories(self, leaves: Iterable[SignedLeaf]) -> None:
        """Store the issuer's directories, before any token is requested under one."""
        before = self._directories.encode()
        self._directories.learn(leaves, self._deps.clock.now())
        kept = self._directories.encode()
        if kept != before:
            await self._store.keep({Fact.DIRECTORIES: kept})

    async def _confirm(self, view: LogView) -> None:
        """Store the log's new key sets, once the relay, which shows the same to everybody, has shown them too. A log
        that shows each device a different key set would have to get one of them past the relay. A relay that serves no
        key sets is no obstacle."""
        new = self._keys.unknown(self._key_sets, self._deps.clock.now())
        if not new:
            return
        try:
            found = await self._relays_key_sets()
        except TransportError:
            return  # not again until the next poll
        if found is not None:
            await self._opened(view, found)
            shown = {leaf.body_bytes() for leaf in await self._verified(view, found, [*self._keys.leaves, *new])}
            new = [leaf for leaf in new if leaf.body_bytes() in shown]
        await self._learn_gateway_keys(new)

    async def _relays_key_sets(self) -> KeySets | None:
        """The key sets that the relay serves to everybody, or None if it serves none. Raises ``TransportError``."""
        answer = await self._deps.transport.request("GET", f"{self._config.relay_url}/key-sets")
        if answer.status == 404:
            return None
        if answer.status != 200:
            raise TransportError(f"the relay has no key sets; it answered {answer.status}")
        return KeySets.decode(answer.body)

    async def _opened(self, view: LogView, found: KeySets) -> int:
        """The size of the tree that the relay shows. Raises ``Refusal``."""
        try:
            return view.opened(found.checkpoint).size
        finally:
            if view.state.failure:
                await self._store.keep({Fact.LOG_STATE: view.state.encode()})

    async def _verified(self, view: LogView, found: KeySets, known: Sequence[SignedLeaf]) -> list[SignedLeaf]:
        """The leaves of ``found``, after checking that they are in a tree that the log signed, are signed by the
        gateway, and do not contradict a leaf in ``known``. Raises ``Refusal``."""
        probe = LogView(self._log)
        try:
            entries = probe.accept(Bundle(found.checkpoint, (), found.entries), LeafSigners(self._policy), known)
        except Refusal:
            if probe.state.failure:
                await self._end_trust(replace(view.state, failure=probe.state.failure, evidence=probe.state.evidence))
            raise
        return [entry.leaf for entry in entries]

    async def _read(self, view: LogView) -> list[VerifiedEntry] | None:
        before = view.state
        try:
            known = [*self._keys.leaves, *self._directories.leaves]
            return await self._pages.read(view, LeafSigners(self._policy), known)
        finally:
            if view.state != before:
                await self._store.keep({Fact.LOG_STATE: view.state.encode()})

    async def _recover(self, view: LogView) -> None:
        """Get the gateway's key sets from the relay (P3): signed by the gateway, in a tree that the log signed and that
        extends the last tree that this device saw. Nothing of them is stored before all of that is proved."""
        now = self._deps.clock.now()
        found = await self._relays_key_sets()
        if found is None:
            raise TransportError("this device has no key of the gateway for this time, and its relay serves none")
        size = await self._opened(view, found)
        if size < view.state.size:
            raise Refusal("log-rollback", f"the relay shows {size} entries of the log, it had {view.state.size}")
        keys = self._keys.with_learned(await self._verified(view, found, self._keys.leaves), now)
        before = view.state
        self._client.use(keys.current(now))
        try:
            view.advance(found.checkpoint, await consistency(self._get, before.size, size))
        finally:
            self._client.use(self._keys.current(now))
            if view.state.failure:
                await self._store.keep({Fact.LOG_STATE: view.state.encode()})
        self._keys = keys
        await self._store.keep({Fact.LOG_STATE: view.state.encode(), Fact.GATEWAY_KEYS: keys.encode()})
        self._client.use(keys.current(now))

    async def _end_trust(self, state: LogState) -> None:
        await self._store.keep({Fact.LOG_STATE: state.encode()})
        self._view = LogView(self._log, state)

    async def _get(self, path: str) -> bytes | None:
        """The log's answer for ``path``, fetched through the relay; None if it has none."""
        response = await self._client.request("GET", f"{self._config.recipe_server_url}{path}")
        if response.status == 404:
            return None
        if response.status != 200:
            party = party_of(response.content, "the recipe server")
            raise TransportError(f"{party} answered {response.status}")
        return response.content

    async def _follow(self, live: LiveLog) -> None:
        """Act on a verified log: its recipes and the issuer's directories."""
        issuer = self._config.issuer
        ours = (d for d in live.directories if (d.issuer, d.epoch_seconds) == (issuer.name, issuer.epoch_seconds))
        self._live = replace(live, directories=tuple(ours))
        await self._wallet.plan(self._live.directories)
        await self._store.forget(int(self._deps.clock.now() // issuer.epoch_seconds) - 1)

    async def prefetch(self) -> float:
        """Fetch the tokens that are due; returns when the next one is due (POSIX seconds)."""
        return await self._wallet.step() if await self._trusted() else NEVER

    async def work(self) -> float:
        """Send what is due, decide, and send again: no report waits for a datum. Returns when more is due."""
        await self.send_due()
        await self.consider()
        return await self.send_due()

    async def consider(self) -> None:
        """Decide about every recipe that this device has not decided about yet. Keep watched states only for recipes
        that it is still going to decide about."""
        if not await self._trusted():
            self._watches.keep_only(())
            return
        async with self._deciding:
            entries = await self._store.entries()
            decided = {entry.recipe_hash for entry in entries}
            self._watches.forget(decided)  # a crash may have come between a journal entry and this step
            if self._deps.clock.now() - self._read_at > READ_WITHIN:
                return
            log = self._live
            new = [live for live in log.recipes if live.recipe.hash not in decided]
            for made in await self._decider.decisions(log, new, entries):
                await self._keep(made)
                self._watches.forget({made.entry.recipe_hash})
            self._watches.keep_only({live.recipe.hash for live in new})
            await self._note_watches()

    async def _note_watches(self) -> None:
        if self._watches.trouble != self._told:
            self._told = self._watches.trouble
            await note(self._store, Fact.STATE_TROUBLE, self._told, self._deps.clock.now())

    async def send_due(self) -> float:
        """Try to send every report that is due; returns when the next one is due (POSIX seconds)."""
        if not await self._trusted():
            return NEVER
        async with self._sending:
            now, due_next = self._deps.clock.now(), NEVER
            for entry in await self._store.entries():
                if entry.state is not State.SCHEDULED:
                    continue
                after = await self._uploader.due(entry) if entry.send_at <= now else entry
                if after.state is State.SCHEDULED:
                    due_next = min(due_next, after.send_at)
            return due_next

    async def _open_view(self) -> LogView:
        """The log as it was last stored, with the gateway's keys for the current time."""
        if self._view is None:
            state = await self._store.fact(Fact.LOG_STATE)
            self._keys.restore(await self._store.fact(Fact.GATEWAY_KEYS))
            self._directories.restore(await self._store.fact(Fact.DIRECTORIES))
            self._view = LogView(self._log, LogState.decode(state) if state else None)
        self._client.use(self._keys.current(self._deps.clock.now()))
        return self._view

    async def _trusted(self) -> bool:
        return not (await self._open_view()).state.failure

    async def _learn_gateway_keys(self, leaves: Iterable[SignedLeaf]) -> None:
        """Store the key sets that the log shows, permanently, before any is used."""
        self._keys.learn(leaves, self._deps.clock.now())
        kept = self._keys.encode()
        if kept != await self._store.fact(Fact.GATEWAY_KEYS):
            await self._store.keep({Fact.GATEWAY_KEYS: kept})
        self._client.use(self._keys.current(self._deps.clock.now()))

    def refusals(self, live: LiveRecipe, entries: Sequence[Entry]) -> list[Refusal]:
        """Every rule that refuses a recipe of the log now, for a device whose journal holds ``entries``."""
        return self._decider.refusals(self._live, live, entries)

    def may_pass(self, refusal: Refusal, live: LiveRecipe) -> bool:
        """Whether leaves that may still be published can change the answer."""
        return may_pass(refusal, self._live, live)

    async def _keep(self, made: Decision) -> None:
        """Write a decision into the journal. Whatever the recipe contains, it costs the device only this one entry."""
        entry = made.entry
        try:
            await self._store.decide(entry, entry.slot if made.spends else None, made.draw)
        except self._store.errors:
            raise
        except Exception as error:
            detail = unusable(error)
            await self._store.decide(Entry(entry.recipe_hash, entry.name, State.REFUSED, entry.decided_at, detail))


def journal_table(entries: Sequence[Entry]) -> list[dict[str, str | float | int]]:
    """The journal as plain rows for a person or a program; holds no report bytes."""
    return [
        {
            "recipe": entry.name,
            "hash": b64url(entry.recipe_hash),
            "state": entry.state.value,
            "decided_at": entry.decided_at,
            "charged_epsilon": entry.charged_epsilon,
            "attempts": entry.attempts,
            "detail": entry.detail,
        }
        for entry in entries
    ]
