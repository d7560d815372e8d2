"""What a device does about one recipe: verify it and its privacy cost, look for the token, read the datum and encode
it, charge the claim, toss the coin, and only then randomise and shard (P11, P21). A device that does not take part may
send a dummy instead (P20).

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
from collections.abc import Sequence
from dataclasses import dataclass, replace

from client_agent import audience, device_rules
from client_agent.coin import coin
from client_agent.config import AgentConfig
from client_agent.journal import AgentStore, Entry, Fact, SeriesDraw, State, note
from client_agent.pace import uniform
from client_agent.series import Participation
from client_agent.sources import DataSource, read
from client_agent.supervision import STORE_ERRORS, unusable
from client_agent.wallet import HeldToken, TokenWallet
from tacit.codec import b64url, unb64url
from tacit.errors import Refusal
from tacit.messages import REPORT_ID_SIZE, UploadRequest
from tacit.ports import Clock, Entropy, Transport
from tacit.randomizers.types import Answer, Measurement
from tacit.recipe import derive, rules
from tacit.recipe.encoder import MISSING, encoder_of
from tacit.recipe.live import LiveLog, LiveRecipe
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.roles.client import make_report
from tacit.task import Task

TAIL_SHARE, TAIL_SECONDS = 0.05, 60.0
"""How much before a recipe's end the last report is planned: a batch may be collected the moment it closes."""

DECIDING_SHARE = 0.25
"""How much of a recipe's interval is for deciding: a round of a series can be published only when the one before it is
over, and rounds follow each other without a gap."""
LATE = "met, or its token fetched, after the time for deciding"


@dataclass(frozen=True)
class Deps:
    """What an agent needs of the world."""

    clock: Clock
    entropy: Entropy
    transport: Transport


@dataclass(frozen=True)
class Decision:
    """What goes into the journal, together: the entry, what was drawn for the recipe's series, and whether the slot's
    token is spent."""

    entry: Entry
    draw: SeriesDraw | None = None
    spends: bool = False


class Decider:
    """Decides about recipes, one at a time; the journal is the caller's."""

    def __init__(
        self,
        config: AgentConfig,
        policy: Policy,
        deps: Deps,
        store: AgentStore,
        source: DataSource,
        wallet: TokenWallet,
    ) -> None:
        self._config = config
        self._policy = policy
        self._deps = deps
        self._store = store
        self._source = source
        self._wallet = wallet

    async def decision(self, log: LiveLog, live: LiveRecipe, entries: Sequence[Entry]) -> Decision | None:
        """What to write into the journal about ``live``, a recipe of ``log``; ``None``: nothing yet."""
        try:
            return await self._decision(log, live, entries)
        except Refusal as refusal:
            return Decision(self._entry(live, State.REFUSED, str(refusal)))
        except STORE_ERRORS:
            raise
        except Exception as error:
            return Decision(self._entry(live, State.REFUSED, unusable(error)))

    async def _decision(self, log: LiveLog, live: LiveRecipe, entries: Sequence[Entry]) -> Decision | None:
        refusals = self.refusals(log, live, entries)
        if refusals:
            if all(may_pass(refusal, log, live) for refusal in refusals):
                return None
            return Decision(self._entry(live, State.REFUSED, "; ".join(str(refusal) for refusal in refusals)))
        if self._deps.clock.now() > first_start(live.recipe):
            return Decision(self._entry(live, State.INELIGIBLE, LATE))
        if not audience.includes(live.recipe, self._config.attributes):
            return Decision(self._entry(live, State.INELIGIBLE, audience.OUTSIDE))
        part = await self._participation(log, live)
        if part.is_past:
            return Decision(self._entry(live, State.NOT_SAMPLED, part.draw_words(part.drawn)))
        return await self._asked(log, live, part)

    async def _participation(self, log: LiveLog, live: LiveRecipe) -> Participation:
        series = log.series_of(live.recipe)
        return Participation(live.recipe, series, None if series is None else await self._store.draw(series.hash))

    async def _asked(self, log: LiveLog, live: LiveRecipe, part: Participation) -> Decision | None:
        """What comes of an acceptable recipe: first of all whether there is a token."""
        recipe = live.recipe
        slot = derive.slot_of(recipe)
        held = await self._wallet.held(slot)
        if held is None:
            if await self._wallet.may_come(slot, first_start(recipe)):
                return None
            return Decision(self._entry(live, State.INELIGIBLE, "no token for the recipe's slot"))
        task = derive.task_of(recipe, slot_key(log, live, held))
        derive.randomizer_of(recipe)
        answer = await self._answer(recipe)
        try:
            return self._take_part(live, part, task, held, answer)
        except Exception as error:  # after the coin: nothing is sent, and it is charged as if it were
            return Decision(self._entry(live, State.REFUSED, unusable(error), part))

    async def _answer(self, recipe: Recipe) -> Answer | None:
        """The device's encoded answer, or ``MISSING``. What is wrong with the source is noted for its owner."""
        question = recipe.question
        reading = await read(lambda: audience.datum(question, self._config.attributes, self._source))
        await note(self._store, Fact.SOURCE_TROUBLE, reading.trouble, self._deps.clock.now())
        return encoder_of(question).encode(reading.value)

    def refusals(self, log: LiveLog, live: LiveRecipe, entries: Sequence[Entry]) -> list[Refusal]:
        """Every rule that refuses a recipe of ``log`` now, for a device whose journal holds ``entries``."""
        context = log.context(live, self._deps.clock.now())
        found = rules.check(live.recipe, self._policy, context)
        return found + device_rules.check(live.recipe, self._config, context, entries)

    def _take_part(
        self, live: LiveRecipe, part: Participation, task: Task, held: HeldToken, answer: Answer | None
    ) -> Decision:
        """Charge, toss the coins, and make the report, real or dummy, if they say so."""
        recipe = live.recipe
        chosen, draw = part.choice(self._deps.entropy, self._deps.clock.now())
        measurement, detail = drawn(recipe, answer, self._deps.entropy, chosen)
        if measurement is None:
            return Decision(self._entry(live, State.NOT_SAMPLED, detail or part.draw_words(draw), part), draw)
        send_at = uniform(self._deps.entropy, first_start(recipe), last_start(recipe))
        report = make_report(
            task,
            measurement,
            held.token,
            held.preimages,
            self._deps.entropy(REPORT_ID_SIZE),
            task.interval.start,
            self._deps.entropy,
        )
        scheduled = replace(
            self._entry(live, State.SCHEDULED, "", part),
            send_at=send_at,
            deadline=send_at + self._config.timing.late_seconds + self._config.timing.resume_seconds,
            url=upload_url(task),
            report=UploadRequest((report,)).encode(),
        )
        return Decision(scheduled, draw, spends=True)

    def _entry(self, live: LiveRecipe, state: State, detail: str, part: Participation | None = None) -> Entry:
        """``part``: of a device that is asked; what that costs is charged."""
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
        )


def drawn(
    recipe: Recipe, answer: Answer | None, entropy: Entropy, chosen: bool | None = None
) -> tuple[Measurement | None, str]:
    """What an eligible device sends, and why nothing: its randomised answer (without one, ``MISSING``, a dummy: P27) if
    the coin of that answer's rate says so, or a series' draw has ``chosen``; where none comes of that, with the
    probability of dummies a dummy (P20). Nothing tells later that it was one."""
    randomizer, sampling, why = derive.randomizer_of(recipe), recipe.sampling, ""
    if coin(sampling.rate_of(answer), entropy) if chosen is None else chosen:
        measurement = randomizer.missing(entropy) if answer is MISSING else randomizer.randomise(answer, entropy)
        if measurement is not None:
            return measurement, ""
        why = "randomised beyond the bound"
    if sampling.dummies is not None and coin(sampling.dummy_rate, entropy):
        return randomizer.dummy(entropy), ""
    return None, why


def may_pass(refusal: Refusal, log: LiveLog, live: LiveRecipe) -> bool:
    """Whether leaves that are still to come may change the answer. A directory never changes (P8)."""
    token = live.recipe.token
    no_directory = log.directory(token.issuer, token.epoch) is None
    return refusal.rule in {"opt-in-missing", "series-missing"} or (refusal.rule == "slot-key-missing" and no_directory)


def slot_key(log: LiveLog, live: LiveRecipe, held: HeldToken) -> bytes:
    """The slot's key in the log, if the held token is under it. Refusal ``slot-key-changed``."""
    token = live.recipe.token
    directory = log.directory(token.issuer, token.epoch)
    spki = None if directory is None else directory.spki(token.slot)
    if spki is None or hashlib.sha256(spki).digest() != held.key_id:
        raise Refusal("slot-key-changed", "the log shows another key for the slot than the token was fetched under")
    return spki


def first_start(recipe: Recipe) -> float:
    """The moment until which devices decide, and from which on reports are planned."""
    return recipe.interval.start + DECIDING_SHARE * recipe.interval.duration


def last_start(recipe: Recipe) -> float:
    """The latest time for which a report is planned."""
    return recipe.interval.end - min(TAIL_SHARE * recipe.interval.duration, TAIL_SECONDS)


def upload_url(task: Task) -> str:
    """Where reports of ``task`` go."""
    return f"{task.configuration.leader_aggregator_endpoint}/tasks/{b64url(task.task_id)}/reports"
