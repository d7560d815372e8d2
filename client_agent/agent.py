"""One device: follow the log, prefetch tokens, decide about every recipe once, and send what the coin chose.

The order inside a decision is the protocol's: verify the recipe and its privacy cost, look for the token, draw up the
charge, read the datum, toss the coin, and only then encode, randomise and shard. Coin, delay and the finished report
are durable before anything is sent (P11). A refusal is silent on the wire and explained in the journal. A log that
showed two histories is never trusted again: from then on the device does nothing at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from client_agent.answering import AnswerSources, Data, KeptStates, RoundModels, Trains
from client_agent.config import AgentConfig
from client_agent.data.sources import DataSource
from client_agent.deciding import AgentEnv, Decider, Decision, may_pass
from client_agent.device_log import DeviceLog
from client_agent.journal import AgentStore, Entry, Fact, State, note
from client_agent.oblivious import ObliviousClient
from client_agent.resting import RestingTransport
from client_agent.seen_leaves import over_epoch
from client_agent.supervision import unusable, words_of
from client_agent.upload import Uploader
from client_agent.wallet import AttestedDevice, TokenWallet
from client_agent.watching import Watching, open_watches
from tacit import ohttp
from tacit.backoff import NEVER, Backoff, uniform
from tacit.codec import b64url
from tacit.errors import Refusal
from tacit.extension_points import MODEL_TRAINING
from tacit.logview.live import LiveLog, LiveRecipe
from tacit.ports import TransportError
from tacit.recipe.asking import LONGEST_SPREAD
from tacit.recipe.policy import Policy
from tacit.service.base.vouched import BOUND_SECONDS

READ_WITHIN = 2 * 86_400.0
"""Seconds after the last reading of the log for which a device decides. A larger jump of the clock must first be
confirmed: by witnesses, if the policy demands their times, and by the issuer's directory of that time."""

DECIDED_WITHIN = 86_400.0
"""Most seconds by which a device's clock may differ from the relay's for it to decide: what a clock that is days wrong
refuses as over, the right one could not decide again."""

_TRAINING = dict(MODEL_TRAINING)
"""Loaded with the agent, which uses it from the start: so it is among the lines of its process."""


class Agent:
    """A device's agent. ``step`` does everything that is due; ``poll``, ``fetch_models``, ``prefetch`` and ``work`` are
    its parts, for a runner that schedules them separately."""

    def __init__(
        self,
        config: AgentConfig,
        policy: Policy,
        deps: AgentEnv,
        store: AgentStore,
        source: DataSource,
        device: AttestedDevice,
        watches: Watching | None = None,
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
        self._deps = deps = replace(deps, transport=RestingTransport(deps.transport, deps.clock, deps.entropy))
        self._store = store
        largest = policy.max_upload
        self._client = ObliviousClient(deps.transport, config.relay_url, (), deps.clock, deps.entropy, largest=largest)
        self._uploader = Uploader(store, self._client, deps.clock, deps.entropy, config.timing)
        self._wallet = TokenWallet(
            store, deps.transport, config.attester_url, device, deps.clock, deps.entropy, config.timing
        )
        self._watches = open_watches(None, deps.clock, deps.entropy, policy) if watches is None else watches
        self._watches.is_over = self._client.vouched.is_over
        self._models: RoundModels | None = None
        trainer: Trains | None = None
        if _TRAINING:
            has_learner = deps.learner is not None
            self._models = _TRAINING["model-files"](config, self._policy, self._client, has_learner=has_learner)
            trainer = _TRAINING["trainer"](self._models, deps.entropy, deps.learner)
        data = Data(source, config.attributes, store, deps.clock, trainer)
        origins = AnswerSources(data, KeptStates(self._watches))
        self._decider = Decider(config, self._policy, deps, store, origins, self._wallet)
        self._log = DeviceLog(config, self._policy, store, self._client, deps.transport, deps.clock)
        self._live = LiveLog()
        self._next_poll = 0.0
        self._rest = 0.0, 0.0
        """From when until when the log is not read, because its server or the relay asked for that; a clock that goes
        back before it ends the rest."""
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
    def models(self) -> RoundModels | None:
        """The models of the rounds that devices like this one train; None where devices train nothing."""
        return self._models

    @property
    def watches(self) -> Watching:
        """The states of watched events, for the code that drives them by the clock (``panprivate.listening``)."""
        return self._watches

    @property
    def gateway_keys(self) -> tuple[ohttp.KeyConfig, ...]:
        """The gateway keys that this device last used, the active one first."""
        return self._client.configs

    async def step(self) -> float:
        """Poll, prefetch, decide and send what is due; returns when to call again (POSIX seconds)."""
        self.tick()
        due = min(await self.poll(), await self.prefetch(), await self.work())
        return min(due, await self.work()) if await self.fetch_models() else due

    def record(self, event: str, times: int = 1) -> bool:
        """The event happened ``times`` times (0 to 256); returns whether a recipe watches it. It is folded into
        encrypted state at once, and written when the recipe's step ends."""
        return self._watches.record(event, times)

    def tick(self) -> None:
        """Replace the encrypted state of watched events; due about every second, whether or not an event happened."""
        self._watches.tick()

    async def poll(self) -> float:
        """Read the log if it is time, and record what went wrong; returns when it is time again (POSIX seconds)."""
        now = self._deps.clock.now()
        if not await self._log.trusted():
            return NEVER
        begun, until = self._rest
        if begun <= now < until:
            return until
        if self._next_poll - LONGEST_SPREAD * self._config.timing.poll_seconds <= now < self._next_poll:
            return self._next_poll  # the plan lies too far ahead: the clock was wrong then, and is right now
        spread = uniform(self._deps.entropy, 0.75, LONGEST_SPREAD) * self._config.timing.poll_seconds
        self._next_poll = now + spread
        try:
            strange = await self._log.sync(self._follow) or self._clock_trouble()
        except self._store.errors:
            raise
        except Exception as error:  # of whatever the log answered
            self._next_poll = now + min(spread, self._config.timing.retry_limit_seconds)
            if isinstance(error, TransportError) and error.retry_after:
                now = self._deps.clock.now()
                self._rest = now, now + Backoff.spread(error.retry_after, self._deps.entropy)
                self._next_poll = max(self._next_poll, self._rest[1])
            await note(self._store, Fact.LOG_TROUBLE, words_of(error), self._deps.clock.now())
        else:
            await note(self._store, Fact.LOG_TROUBLE, strange, self._deps.clock.now())
        return self._next_poll if await self._log.trusted() else NEVER

    def _clock_trouble(self) -> str:
        """How this device's clock contradicts the issuer's newest directory and the relay's clock."""
        issuer, now = self._config.issuer, self._deps.clock.now()
        differs = self._client.vouched.differs_by(BOUND_SECONDS)
        return self._live.clock_trouble(issuer.name, issuer.epoch_seconds, now) if differs else ""

    def poll_within(self, within: float) -> None:
        """Plan the next poll at a random moment of the coming ``within`` seconds, unless it is due sooner. However
        often this is called, it adds at most one poll per ``within`` seconds."""
        begin = max(self._deps.clock.now(), self._calm_until)
        planned = uniform(self._deps.entropy, begin, begin + within)
        if planned < self._next_poll:
            self._next_poll, self._calm_until = planned, begin + within

    async def sync(self) -> str:
        """Read the log now, act on it, and fetch the models of its rounds; see ``DeviceLog.sync`` for what this returns
        and raises."""
        left_out = await self._log.sync(self._follow)
        await self.fetch_models()
        return left_out

    async def fetch_models(self) -> bool:
        """Ask, once after each reading of the log, for the models of rounds that are not here; returns whether one
        came, so that there is more to decide about. What does not come is recorded."""
        if self._models is None or not self._models.due or not await self._log.trusted():
            return False
        came = await self._models.fetch()
        await note(self._store, Fact.MODEL_TROUBLE, self._models.trouble, self._deps.clock.now())
        return came

    async def _follow(self, live: LiveLog) -> None:
        """Act on a verified log: its recipes, their models and the issuer's directories."""
        self._read_at = self._deps.clock.now()
        issuer = self._config.issuer
        ours = (d for d in live.directories if (d.issuer, d.epoch_seconds) == (issuer.name, issuer.epoch_seconds))
        self._live = replace(live, directories=tuple(ours))
        if self._models is not None:
            self._models.follow(self._live, self._read_at)
        await self._wallet.plan(self._live.directories)
        shown = [one.epoch for one in self._live.directories]
        await self._store.forget(over_epoch(int(self._read_at // issuer.epoch_seconds), shown))

    async def prefetch(self) -> float:
        """Fetch the tokens that are due; returns when the next one is due (POSIX seconds)."""
        return await self._wallet.step() if await self._log.trusted() else NEVER

    async def work(self) -> float:
        """Send what is due, decide, and send again: no report waits for a datum. Returns when more is due."""
        await self.send_due()
        await self.consider()
        return await self.send_due()

    async def consider(self) -> None:
        """Decide about every recipe that this device has not decided about yet. Keep watched states only for recipes
        that it is still going to decide about."""
        if not await self._log.trusted():
            self._watches.keep_only(())
            return
        async with self._deciding:
            entries = await self._store.entries()
            decided = {entry.recipe_hash for entry in entries}
            self._watches.forget(decided)  # a crash may have come between a journal entry and this step
            if self._deps.clock.now() - self._read_at > READ_WITHIN or self._client.vouched.differs_by(DECIDED_WITHIN):
                return
            log = self._live
            new = [live for live in log.recipes if live.recipe.hash not in decided]
            await self._keep_all(await self._decider.decisions(log, new, entries))
            self._watches.keep_only({live.recipe.hash for live in new})
            if self._watches.trouble != self._told:
                self._told = self._watches.trouble
                await note(self._store, Fact.STATE_TROUBLE, self._told, self._deps.clock.now())

    async def send_due(self) -> float:
        """Try to send every report that is due; returns when the next one is due (POSIX seconds)."""
        if not await self._log.trusted():
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

    def refusals(self, live: LiveRecipe, entries: Sequence[Entry]) -> list[Refusal]:
        """Every rule that refuses a recipe of the log now, for a device whose journal holds ``entries``."""
        return self._decider.refusals(self._live, live, entries)

    def may_pass(self, refusal: Refusal, live: LiveRecipe) -> bool:
        """Whether leaves that may still be published can change the answer."""
        return may_pass(refusal, self._live, live)

    async def _keep_all(self, decisions: Sequence[Decision]) -> None:
        """Write decisions into the journal. Where that with the draw of a series cannot be kept, later rounds of it are
        left to be decided about again, under another draw."""
        undrawn = set[bytes]()
        for made in decisions:
            if made.entry.answers_round and made.entry.series_hash in undrawn:
                continue
            if not await self._keep(made) and made.draw is not None:
                undrawn.add(made.draw.series_hash)
            self._watches.forget({made.entry.recipe_hash})

    async def _keep(self, made: Decision) -> bool:
        """Write a decision into the journal; False where it is refused instead. Whatever the recipe contains, it costs
        the device only this one entry."""
        entry = made.entry
        try:
            await self._store.decide(entry, entry.slot if made.spends else None, made.draw)
        except self._store.errors:
            raise
        except Exception as error:
            detail = unusable(error)
            await self._store.decide(Entry(entry.recipe_hash, entry.name, State.REFUSED, entry.decided_at, detail))
            return False
        return True


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
