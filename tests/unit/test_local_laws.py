"""Model ``local`` by exact enumeration of the whole device path, from datum to message: each outcome of a device's
draws is run, and the message is what is sealed to the analyzer, its report id included."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from types import SimpleNamespace
from typing import Any, cast

import pytest

from client_agent import device_rules
from client_agent.answering import AnswerSources, Data, KeptStates
from client_agent.config import Budget, Timing
from client_agent.data.sources import CallableSource
from client_agent.deciding import AgentEnv, Decider, Decision
from client_agent.journal import Entry, MemoryAgentStore, State
from client_agent.panprivate.watches import Watches
from client_agent.wallet import HeldToken
from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.one_server import AnalyzerKit, claimed
from infra.lab.kit.recipes import NOW
from infra.lab.kit.reports import issuer_key, token_source
from tacit.ledger.account import ChargeState
from tacit.logview.live import LiveLog, charges_of
from tacit.methods.base.affine import PUBLIC_SIZE, levels_of
from tacit.methods.succinct_histogram.histogram import PaperHistogram
from tacit.recipe.derive import randomizer_of
from tacit.recipe.encoder import encoder_of
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.task.one_server import OneServerTask
from tacit.tlog.leaves import SignedLeaf
from tacit.tokens.slots import Slot
from tests.unit.device_path import Choice, Enumerated, Law, log_ratio, telling

KIT = AnalyzerKit()
SLACK = 1e-9
STRINGS = {"kind": "strings", "length": 4, "alphabet": "abcdefghijklmnopqrstuvwxyz'"}
"""20 bits: two levels of ten."""
CATEGORIES = {"kind": "categories", "categories": ["a", "b", "c"]}
TEXTS = ("ab", "zzzz", "a", None, "", "much too long", "UPPER", b"ab")
NAMES = ("a", "b", "c", None, "d", "")
PUBLICS = [(SeededEntropy(seed)(PUBLIC_SIZE), Fraction(1, 3)) for seed in range(3)]
"""Public bytes of both levels, in place of all that there are."""


def recipe_of(encoder: dict[str, Any], randomizer: dict[str, Any], rate: str = "1") -> Recipe:
    """A recipe of the local model; ``randomizer`` is complete but for what the tuned affine method adds."""
    body = KIT.recipe().body()
    del body["vdaf"], body["privacy"]
    parties = KIT.single_parties()
    del parties["analyzer"]["state_key"]
    statistic = "heavy-hitters" if encoder["kind"] == "strings" else "histogram"
    question = {"text": "Which?", "metric": "word", "statistic": statistic, "encoder": encoder}
    body |= {"model": "local", "parties": parties, "question": question, "randomizer": randomizer}
    return claimed({**body, "sampling": {"rate": rate}})


HASHED = recipe_of(STRINGS, {"name": "affine", "epsilon0": "1", "categories": 4})
SAMPLED = recipe_of(STRINGS, {"name": "affine", "epsilon0": "1", "categories": 4}, rate="0.5")
COUNTED = recipe_of({**STRINGS, "outside": "(does not fit)"}, {"name": "affine", "epsilon0": "1", "categories": 4})
"""Texts that are too long, or have other characters, are an item of their own."""
CATEGORY = recipe_of(CATEGORIES, {"name": "krr", "epsilon0": "0.5", "categories": 3})
LETTER = {"kind": "strings", "length": 1, "alphabet": "abcdefghijklmno"}
"""4 bits."""
BIT = recipe_of(LETTER, {"name": "succinct-histogram", "epsilon0": "8", "categories": 2, "reports": 1000})
LETTERS = ("a", "b", "o", None, "", "ab", "UPPER", b"ab")
KINDS = [(HASHED, TEXTS), (COUNTED, TEXTS), (SAMPLED, TEXTS), (CATEGORY, NAMES)]


class Draws(Enumerated):
    """A draw of 16 bytes that is compared with nothing is a report's public bytes, or its id."""

    def __init__(self, publics: Sequence[Choice] = PUBLICS) -> None:
        super().__init__()
        self._publics = publics

    def _choices(self, size: int) -> Sequence[Choice]:
        return self._publics if size == PUBLIC_SIZE and self._told is None else super()._choices(size)


class Wallet:
    """Holds a token of every slot."""

    def __init__(self) -> None:
        self._tokens = token_source(issuer_key(), SeededEntropy(b"wallet"))

    async def held(self, slot: Slot) -> HeldToken:
        """A token under the key that the log shows."""
        found = self._tokens(slot)
        return HeldToken(found.token, found.preimages, issuer_key().token_key.token_key_id)


WALLET = Wallet()


class LocalPath:
    """A device that accepts ``recipes``, and all that it seals."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *recipes: Recipe) -> None:
        self.sealed: list[tuple[bytes, bytes]] = []
        self.log = log_of(*(KIT.recipe_leaf(recipe) for recipe in recipes))
        self.epsilons = [float(recipe.privacy.epsilon.root["analyzer"]) for recipe in recipes]
        keeping = [
            f"tacit.{name}.bernoulli"
            for name in ("methods.randomisers.affine", "methods.randomisers.krr", "methods.succinct_histogram.one_bit")
        ]
        telling(monkeypatch, *keeping, of=lambda threshold: (threshold, 1))
        others = ["tacit.methods.randomisers.affine.uniform_below", "tacit.methods.randomisers.krr.uniform_below"]
        telling(monkeypatch, *others, of=lambda bound: (0, bound))
        telling(monkeypatch, "client_agent.answering.coin", of=lambda _: (1 << 127, 1))
        monkeypatch.setattr(Decider, "refusals", lambda *_: [])
        monkeypatch.setattr(OneServerTask, "seal", self._seal)

    def _seal(self, report_id: bytes, contents: Any, _entropy: Any) -> Any:
        self.sealed.append((report_id, contents.payload))
        return SimpleNamespace(encode=lambda: b"report")

    async def decide(self, value: Any, entropy: Any) -> tuple[tuple[bytes, bytes] | None, ...]:
        """What a fresh device with this value sends for each recipe, or None."""
        self.sealed.clear()
        clock, store = SimClock(float(NOW)), MemoryAgentStore()
        data = Data(CallableSource(lambda _metric: value), {}, store, clock)
        origins = AnswerSources(data, KeptStates(Watches(None, clock, entropy)))
        holder = SimpleNamespace(attributes={}, timing=Timing())
        parts: Any = (holder, KIT.policy, AgentEnv(clock, entropy, None), store, origins, WALLET)  # type: ignore[arg-type]
        made = await Decider(*parts).decisions(self.log, self.log.recipes, [])
        entries = [one.entry for one in made if isinstance(one, Decision)]
        assert {entry.state for entry in entries} <= {State.SCHEDULED, State.NOT_SAMPLED}
        assert [float(entry.charged_epsilon) for entry in entries] == self.epsilons, "whatever is sent"
        rest = iter(self.sealed)
        return tuple(next(rest) if entry.state is State.SCHEDULED else None for entry in entries)

    async def law(self, value: Any, publics: Sequence[Choice] = PUBLICS) -> Law:
        """The exact law of what is sent for all recipes together."""
        entropy, found = Draws(publics), defaultdict[Any, Fraction](Fraction)
        for _ in entropy.runs():
            found[await self.decide(value, entropy)] += entropy.weight
        assert sum(found.values()) == 1
        return dict(found)


def log_of(*leaves: SignedLeaf) -> LiveLog:
    return LiveLog.from_leaves(enumerate([KIT.directory_leaf(), *leaves]))


def marginal(law: Law) -> Law:
    """The law of the report ids alone, and of silence."""
    found: Law = defaultdict(Fraction)
    for sent, share in law.items():
        found[tuple(one and one[0] for one in sent)] += share
    return dict(found)


def test_the_public_bytes_that_are_tried_are_of_both_levels() -> None:
    assert levels_of(20) == (10, 20)
    assert {public[8] >> 7 for public, _ in PUBLICS} == {0, 1}


@pytest.mark.parametrize(
    ("recipe", "values"), KINDS, ids=["affine", "affine, others counted", "affine, sampled", "krr"]
)
async def test_a_message_with_its_id_or_silence_tells_no_more_than_the_claim(
    recipe: Recipe, values: Sequence[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = LocalPath(monkeypatch, recipe)
    laws = [await path.law(value) for value in values]
    ratios = [log_ratio(one, other) for one, other in itertools.permutations(laws, 2)]
    (epsilon,) = path.epsilons
    assert 0.99 * epsilon < max(ratios) <= epsilon + SLACK
    assert len({tuple(sorted(marginal(law).items(), key=str)) for law in laws}) == 1, "ids and silence tell nothing"
    sizes = {len(sent[0][1]) for law in laws for sent in law if sent[0] is not None}
    assert len(sizes) == 1


def telling_publics() -> list[Choice]:
    """Public bytes that "a" accepts as often as any item can and "b" as rarely, the other way round, and any."""
    one_bit, encoder = cast(PaperHistogram, randomizer_of(BIT)).one_bit, encoder_of(BIT.question)
    a, b = (encoder.encode(text) for text in ("a", "b"))
    assert isinstance(a, int)
    assert isinstance(b, int)
    drawn = [SeededEntropy(seed)(PUBLIC_SIZE) for seed in range(4_000)]
    ratios = [(one_bit.probability(public, a) / one_bit.probability(public, b), public) for public in drawn]
    return [(public, Fraction(1, 3)) for public in (max(ratios)[1], min(ratios)[1], drawn[0])]


async def test_one_bit_about_public_bytes_tells_no_more_than_the_claim_whatever_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path, publics = LocalPath(monkeypatch, BIT), telling_publics()
    laws = [await path.law(value, publics) for value in LETTERS]
    ratios = [log_ratio(one, other) for one, other in itertools.permutations(laws, 2)]
    assert 0.99 * 8 < max(ratios) <= 8 + SLACK
    assert len({tuple(sorted(marginal(law).items(), key=str)) for law in laws}) == 1, "ids and silence tell nothing"
    assert {len(sent[0][1]) for law in laws for sent in law if sent[0] is not None} == {PUBLIC_SIZE + 1}
    assert all(law == laws[3] for law in laws[4:]), "what is no value favours no item"


async def test_what_is_no_value_sends_the_law_that_favours_no_item(monkeypatch: pytest.MonkeyPatch) -> None:
    path = LocalPath(monkeypatch, HASHED)
    laws = [await path.law(value) for value in (None, "", "much too long", "UPPER", b"ab")]
    uniform = Fraction(1, len(PUBLICS) ** 2 * randomizer_of(HASHED).cells)
    assert all(law == laws[0] for law in laws)
    assert set(laws[0].values()) == {uniform}


@pytest.mark.slow
async def test_two_recipes_of_one_device_tell_no_more_than_their_claims_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of one datum, the text "a", "b" or none; in the second recipe it is a category."""
    path = LocalPath(monkeypatch, HASHED, CATEGORY)
    laws = [await path.law(value) for value in ("a", "b", None)]
    ratios = [log_ratio(one, other) for one, other in itertools.permutations(laws, 2)]
    assert 0.9 * sum(path.epsilons) < max(ratios) <= sum(path.epsilons) + SLACK


def entries_of(recipe: Recipe) -> list[Entry]:
    """The journal of a device that answered a recipe."""
    charged, delta = recipe.privacy.epsilon.root["analyzer"], recipe.privacy.delta
    until = float(recipe.interval.end)
    return [
        Entry(
            recipe.hash,
            recipe.name,
            State.SCHEDULED,
            float(NOW),
            charged_epsilon=charged,
            charged_delta=delta,
            charged_until=until,
        )
    ]


@pytest.mark.parametrize(("budget", "refused"), [("1.4", True), ("1.6", False)])
def test_a_void_leaf_gives_nothing_back_to_device_or_account(budget: str, refused: bool) -> None:
    """1 was spent on a recipe that its analyzer then closed; 0.5 more fits only where the sum does."""
    leaves = [
        KIT.recipe_leaf(HASHED),
        KIT.analyzer_opt_in(HASHED),
        KIT.analyzer_void(HASHED),
        KIT.recipe_leaf(CATEGORY),
    ]
    log = log_of(*leaves)
    states = [charge.state for charge in charges_of(log, NOW + 1e6)]
    assert ChargeState.UNREFUNDED in states
    assert ChargeState.VOID not in states
    live = next(one for one in log.recipes if one.recipe.hash == CATEGORY.hash)
    config: Any = SimpleNamespace(
        budget=Budget(epsilon=budget, delta="0.0001", days=1),
        relay_url=CATEGORY.parties.relay.url,
        issuer=SimpleNamespace(epoch_seconds=86_400),
    )
    found = device_rules.check(live.recipe, config, Policy(), log.context(live, float(NOW)), entries_of(HASHED))
    assert [one.rule for one in found] == (["budget-spent"] if refused else [])
