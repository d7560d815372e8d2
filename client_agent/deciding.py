"""What a device does about one recipe: verify it and its privacy cost, look for the token, draw up the charge, read the
datum and encode it, toss the coin, and only then randomise and shard (P11, P21). A device that does not take part may
send a dummy instead (P20).

Where an answer comes from, a datum or the state of a watched event, is ``client_agent.answering``'s affair.

Nothing but the sampling of a recipe makes any of this depend on the datum (P27). All that may refuse or raise comes
before the datum is read; a datum that is missing, unreadable or of no category is an answer, ``MISSING``, for which the
same coin is tossed, the same is charged, and a dummy is sent.

Nor does the time of a report tell who made it (P28). The first quarter of a recipe's interval is for deciding, and no
report is sent in it; whoever meets the recipe later, or gets its token later, takes no part and is charged nothing. So
all who may send draw their time from one law, over the rest of the interval, and given the times of a batch's reports
every set of as many devices is equally likely to have sent them. A report carries the interval's beginning as its time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from client_agent import device_rules
from client_agent.answering import AnswerSources, Reply
from client_agent.config import AgentConfig
from client_agent.data import audience
from client_agent.data.sources import Learner
from client_agent.journal import AgentStore, Entry, SeriesDraw, State
from client_agent.series import Participation
from client_agent.supervision import unusable
from client_agent.wallet import HeldToken, TokenWallet
from tacit.backoff import uniform
from tacit.codec import unb64url
from tacit.errors import Refusal
from tacit.logview.live import LiveLog, LiveRecipe
from tacit.models.devices import device_side
from tacit.models.interfaces.device import Channel
from tacit.ports import Clock, Entropy, Transport
from tacit.recipe import asking, derive
from tacit.recipe.asking import DECIDING_SHARE, asked_until
from tacit.recipe.encoder_specs import Update
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.rules import table as rules

NO_SLOT_KEY = "slot-key-missing"


@dataclass(frozen=True)
class AgentEnv:
    """The clock, randomness and network that an agent uses, and what trains the models that only its application
    knows."""

    clock: Clock
    entropy: Entropy
    transport: Transport
    learner: Learner | None = None


@dataclass(frozen=True)
class Decision:
    """What is written into the journal together: the entry, the draw for the recipe's series, and whether the slot's
    token is spent."""

    entry: Entry
    draw: SeriesDraw | None = None
    spends: bool = False


@dataclass(frozen=True)
class Asked:
    """A recipe that is to be answered, before the datum is read: everything that does not depend on the datum.
    ``chosen``: the decision of its series' draw (``None``: the recipe's own coin decides); ``draw``: that draw, if it
    was made now. ``entry`` stands in the device's ledger for the decision to come."""

    live: LiveRecipe
    part: Participation
    channel: Channel
    held: HeldToken
    chosen: bool | None
    draw: SeriesDraw | None
    entry: Entry


class Decider:
    """Decides about recipes; the caller keeps the journal."""

    def __init__(
        self,
        config: AgentConfig,
        policy: Policy,
        deps: AgentEnv,
        store: AgentStore,
        origins: AnswerSources,
        wallet: TokenWallet,
    ) -> None:
        self._config = config
        self._policy = policy
        self._deps = deps
        self._store = store
        self._origins = origins
        self._wallet = wallet

    async def decisions(self, log: LiveLog, recipes: Sequence[LiveRecipe], entries: Sequence[Entry]) -> list[Decision]:
        """What to write about ``recipes`` of ``log`` into the journal, which holds ``entries``; nothing about recipes
        for which something is still to come.

        The time that a data source takes may depend on the datum. So it is settled for all recipes which are to be
        answered, by one time, before any reply is read; and all replies are there, or given up, before the first report
        may be sent.
        """
        now, known, made = self._deps.clock.now(), list(entries), list[Decision | Asked]()
        draws: dict[bytes, SeriesDraw] = {}
        for live in recipes:
            decision = await self._classify(log, live, known, now, draws)
            if decision is not None:
                known.append(decision.entry)
                made.append(decision)
        asked = [one.live.recipe for one in made if isinstance(one, Asked)]
        within = min((first_start(recipe) for recipe in asked), default=now) - now
        replies = iter(await self._origins.replies(asked, within))
        return [self._decide_with_reply(one, next(replies)) if isinstance(one, Asked) else one for one in made]

    async def _classify(
        self,
        log: LiveLog,
        live: LiveRecipe,
        entries: Sequence[Entry],
        now: float,
        draws: dict[bytes, SeriesDraw],
    ) -> Decision | Asked | None:
        """Whether ``live``, seen at ``now``, is to be answered, or why not; ``None`` while that is open. ``draws``:
        those of series, made since the journal was read."""
        try:
            try:
                return await self._evaluate(log, live, entries, now, draws)
            except Refusal as refusal:
                return Decision(self._entry(live, State.REFUSED, str(refusal)))
        except self._store.errors:
            raise
        except Exception as error:
            return Decision(Entry(live.recipe.hash, live.recipe.name, State.REFUSED, now, unusable(error)))

    async def _evaluate(
        self,
        log: LiveLog,
        live: LiveRecipe,
        entries: Sequence[Entry],
        now: float,
        draws: dict[bytes, SeriesDraw],
    ) -> Decision | Asked | None:
        if live.is_void:
            raise Refusal("recipe-void", "its servers have closed it without a result")
        origin, refusals = self._origins.of(live.recipe), self.refusals(log, live, entries)
        is_included = audience.includes(live.recipe, self._config.attributes)
        if refusals:
            if not all(may_pass(refusal, log, live) for refusal in refusals):
                return Decision(self._entry(live, State.REFUSED, "; ".join(str(refusal) for refusal in refusals)))
            if is_included and {refusal.rule for refusal in refusals} == {NO_SLOT_KEY}:
                origin.expect(live.recipe)  # the steps may begin epochs before the epoch of the interval's tokens
            return None
        if now > first_start(live.recipe):
            return Decision(self._entry(live, State.INELIGIBLE, late_words(live.recipe)))
        if not is_included:
            return Decision(self._entry(live, State.INELIGIBLE, audience.OUTSIDE))
        if not origin.ready(live.recipe, now):
            origin.expect(live.recipe)
            return None
        part = await self._participation(log, live, draws)
        if part.is_past:
            return Decision(self._entry(live, State.NOT_SAMPLED, part.draw_words(part.drawn)))
        return await self._decide_acceptable(log, live, part, draws)

    async def _participation(self, log: LiveLog, live: LiveRecipe, draws: Mapping[bytes, SeriesDraw]) -> Participation:
        series = log.series_of(live.recipe)
        if series is None:
            return Participation(live.recipe)
        drawn = draws.get(series.hash) or await self._store.draw(series.hash)
        return Participation(live.recipe, series, drawn)

    async def _decide_acceptable(
        self, log: LiveLog, live: LiveRecipe, part: Participation, draws: dict[bytes, SeriesDraw]
    ) -> Decision | Asked | None:
        """Decide about an acceptable recipe: first whether there is a token, then the draw of its series."""
        recipe = live.recipe
        slot = derive.slot_of(recipe)
        held = await self._wallet.held(slot)
        if held is None:
            if await self._wallet.may_come(slot, first_start(recipe)):
                return None
            return Decision(self._entry(live, State.INELIGIBLE, "no token for the recipe's slot"))
        channel = device_side(recipe.model).channel(recipe, slot_key(log, live, held))
        self._origins.of(recipe).check(recipe)
        chosen, draw = part.choice(self._deps.entropy, self._deps.clock.now())
        if draw is not None:
            draws[draw.series_hash] = draw
        return Asked(live, part, channel, held, chosen, draw, self._entry(live, State.NOT_SAMPLED, "", part))

    def _decide_with_reply(self, asked: Asked, reply: Reply) -> Decision:
        """The decision with ``reply``, including the draw for the series whatever the reply is."""
        try:
            return self._take_part(asked, reply)
        except Exception as error:  # from here on nothing is sent, and the recipe is charged as if it were
            return Decision(replace(asked.entry, state=State.REFUSED, detail=unusable(error)), asked.draw)

    def refusals(self, log: LiveLog, live: LiveRecipe, entries: Sequence[Entry]) -> list[Refusal]:
        """Every rule that now refuses a recipe of ``log``, for a device whose journal holds ``entries``."""
        context = log.context(live, self._deps.clock.now())
        refusals = rules.check(live.recipe, self._policy, context)
        has_learner = self._deps.learner is not None
        return refusals + device_rules.check(
            live.recipe, self._config, self._policy, context, entries, has_learner=has_learner
        )

    def _take_part(self, asked: Asked, reply: Reply) -> Decision:
        """Charge the recipe, toss the coin, and make the report, real or dummy, if it says so."""
        live, part, held, draw = asked.live, asked.part, asked.held, asked.draw
        recipe = live.recipe
        measurement, detail = reply.drawn(self._deps.entropy, asked.chosen)
        if measurement is None:
            return Decision(self._entry(live, State.NOT_SAMPLED, detail or part.draw_words(draw), part), draw)
        send_at = uniform(self._deps.entropy, first_start(recipe), last_start(recipe))
        sent = asked.channel.submission(measurement, held.token, held.preimages, self._deps.entropy)
        scheduled = replace(
            self._entry(live, State.SCHEDULED, "", part),
            send_at=send_at,
            deadline=send_at + self._config.timing.late_seconds + self._config.timing.resume_seconds,
            url=sent.url,
            model=device_side(recipe.model).sends_as(recipe).name,
            report=sent.body,
        )
        return Decision(scheduled, draw, spends=True)

    def _entry(self, live: LiveRecipe, state: State, detail: str, part: Participation | None = None) -> Entry:
        """A journal entry. ``part`` is given for a device that takes part, and its cost is charged."""
        recipe, cost = live.recipe, None if part is None else part.cost
        return Entry(
            recipe.hash,
            recipe.name,
            state,
            self._deps.clock.now(),
            detail,
            "" if cost is None else f"{cost.epsilon:f}",
            slot=derive.slot_of(recipe),
            charged_delta="" if cost is None else f"{cost.delta:f}",
            charged_with_relay="" if part is None or part.with_relay is None else f"{part.with_relay:f}",
            charged_until=0.0 if part is None or cost is None else float(part.charged_until),
            series_hash=b"" if recipe.series is None else unb64url(recipe.series.hash),
            series_index=None if recipe.series is None else recipe.series.index,
            analyst=recipe.parties.analyst.operator,
        )


def may_pass(refusal: Refusal, log: LiveLog, live: LiveRecipe) -> bool:
    """Whether leaves that may still be published can change the answer. A directory never changes (P8)."""
    token = live.recipe.token
    no_directory = log.directory(token.issuer, token.epoch) is None
    return refusal.rule in {"opt-in-missing", "series-missing"} or (refusal.rule == NO_SLOT_KEY and no_directory)


def slot_key(log: LiveLog, live: LiveRecipe, held: HeldToken) -> bytes:
    """The slot's key (SPKI) in the log, if the held token is under it. Raises ``Refusal`` ``slot-key-changed``."""
    token = live.recipe.token
    directory = log.directory(token.issuer, token.epoch)
    spki = None if directory is None else directory.spki(token.slot)
    if spki is None or hashlib.sha256(spki).digest() != held.key_id:
        raise Refusal("slot-key-changed", "the log shows another key for the slot than the token was fetched under")
    return spki


def first_start(recipe: Recipe) -> float:
    """The time (POSIX seconds) until which devices decide, and from which reports are planned."""
    return asked_until(recipe.interval)


def late_words(recipe: Recipe) -> str:
    """The journal's text for a recipe that was seen after ``first_start``."""
    needed = "token or model" if isinstance(recipe.question.encoder, Update) else "token"
    share, left = f"{DECIDING_SHARE:.0%}", first_start(recipe) - recipe.interval.start
    return (
        f"met, or its {needed} fetched, after the first {share} of its interval ({left:g} seconds), when no "
        "device is asked any more; nothing was charged"
    )


def last_start(recipe: Recipe) -> float:
    """The latest time (POSIX seconds) for which a report is planned."""
    return asking.last_start(recipe.interval)
