"""A model of other parties moves in: one server, no helper, no VDAF. Nothing of the product knows of it."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
from rich.console import Console

from client_agent.journal import State
from infra.lab.kit.recipes import NOW
from infra.views.recipe_view import show_check, show_recipe
from infra.views.result_view import price_rows
from tacit import bhttp
from tacit.codec import b64url
from tacit.dp.claim import Claim
from tacit.dp.hidden_claim import Sample
from tacit.dp.reports import Reports
from tacit.errors import DecodeError, Refusal
from tacit.hpke import KeyPair
from tacit.ledger.account import ChargeState
from tacit.logview.live import LiveLog, charges_of
from tacit.logview.signers import LeafSigners
from tacit.messages import Interval
from tacit.models.devices import DEVICES, device_side
from tacit.models.form import Adversary, Cap, Form
from tacit.models.forms import FORMS
from tacit.models.interfaces.collector import CollectorSide, Source
from tacit.models.interfaces.device import Channel, DeviceSide, Fate, Submission, Verdict
from tacit.models.parties import Analyst, Attester, Gateway, Issuer, Parties, Relay, Server, UnknownParties
from tacit.operations.checking import Checked, RuleVerdict
from tacit.ports import Entropy
from tacit.recipe.claims import claim_of
from tacit.recipe.context import Stage
from tacit.recipe.model import Recipe
from tacit.roles.collector import AggregateResult
from tacit.rules import table as rules
from tacit.tlog.leaves import LeafType, SignedLeaf, sign_leaf
from tacit.tlog.statements import OptIn, Void
from tacit.tokens.binding import Preimages
from tests.http.agent_world import ALWAYS, KIT, World, only

NAME = "counting-house"
OTHERS = tuple(FORMS)
"""The models that are known without it."""


class HouseParties(Parties):
    """The parties of the model that this test defines."""

    analyst: Analyst
    analyzer: Server
    relay: Relay
    gateway: Gateway
    attester: Attester
    issuer: Issuer


class HouseForm(Form):
    """One server that sees every randomised answer."""

    name: ClassVar[str] = NAME
    parties: ClassVar[type[Parties]] = HouseParties
    opts_in: ClassVar[tuple[str, ...]] = ("analyzer",)
    different_operators: ClassVar[tuple[tuple[str, str], ...]] = (("relay", "gateway"), ("attester", "analyzer"))
    proves: ClassVar[bool] = False
    adversaries: ClassVar[tuple[Adversary, ...]] = (
        Adversary("house", "the counting house", Cap.LOCAL, pure=True),
        Adversary("reader", "whoever reads a result of {n} answers", Cap.AGGREGATE),
    )
    charged: ClassVar[str] = "house"
    charged_with_relay: ClassVar[str] = "house"

    def claim(self, reports: Reports, sample: Sample, *, n: int, delta: float) -> Claim:
        told = {"house": reports.local_epsilon, "reader": reports.aggregate_epsilon(n, delta)}
        return Claim(told, "counted-alone", "replacement", n, reports.local_epsilon, delta)


@dataclass(frozen=True)
class HouseChannel(Channel):
    address: str

    @property
    def url(self) -> str:
        return self.address

    def submission(self, measurement: Any, token: bytes, preimages: Preimages, entropy: Entropy) -> Submission:
        return Submission(self.url, HouseDevice.media_type, f"counted {measurement}, {len(token)}".encode())


class HouseDevice(DeviceSide):
    name: ClassVar[str] = NAME
    media_type: ClassVar[str] = "text/plain"

    def channel(self, recipe: Recipe, slot_key: bytes) -> HouseChannel:
        return HouseChannel(f"{recipe.parties.servers()['analyzer'].url}/tasks/{recipe.hash_text}/reports")

    def verdict(self, response: bhttp.Response) -> Verdict:
        return Verdict(Fate.STORED if response.status == 200 else Fate.LATER, f"the house said {response.status}")


class HouseCollector(CollectorSide):
    party: ClassVar[str] = "analyzer"

    def sealed_to(self, recipe: Recipe) -> None:
        return None

    def source(self, recipe: Recipe, slot_key: bytes, key_pair: KeyPair | None) -> Source:
        raise NotImplementedError


def house_body() -> dict[str, Any]:
    """A recipe of that model, that asks as ``ALWAYS`` does; the leader's server is its analyzer."""
    body = ALWAYS.body()
    del body["vdaf"]
    parties = body["parties"]
    own = {name: parties[name] for name in ("analyst", "relay", "gateway", "attester", "issuer")}
    epsilon0 = body["randomizer"]["epsilon0"]
    told = {"house": epsilon0, "reader": ALWAYS.privacy.epsilon["aggregator_with_relay"]}
    privacy = {**body["privacy"], "mechanism": "counted-alone", "epsilon": told}
    return {**body, "model": NAME, "privacy": privacy, "parties": {**own, "analyzer": parties["leader"]}}


@pytest.fixture
def house(monkeypatch: pytest.MonkeyPatch) -> Recipe:
    """The model is registered: the two lines that adding one takes."""
    monkeypatch.setitem(FORMS, NAME, HouseForm())
    monkeypatch.setitem(DEVICES, NAME, HouseDevice())
    return Recipe.from_body(house_body())


def leaves(recipe: Recipe, *more: SignedLeaf) -> list[SignedLeaf]:
    named = {"recipe_hash": recipe.hash_text, "task_id": b64url(recipe.hash), "role": "analyzer"}
    opt_in = sign_leaf(LeafType.OPT_IN, OptIn.model_validate(named), "leader.example", KIT.keys["leader"])
    return [KIT.recipe_leaf(recipe), KIT.directory_leaf(), opt_in, *more]


def void(recipe: Recipe) -> SignedLeaf:
    body = Void(recipe_hash=recipe.hash_text, task_id=b64url(recipe.hash), role="analyzer")
    return sign_leaf(LeafType.VOID, body, "leader.example", KIT.keys["leader"])


def read(*found: SignedLeaf) -> LiveLog:
    assert None not in LeafSigners(KIT.policy).keys_of(found)
    return LiveLog.from_leaves(enumerate(found))


def test_its_canonical_bytes_go_round_and_hold_its_own_members_alone(house: Recipe) -> None:
    assert Recipe.decode(house.encode()).hash == house.hash
    assert house.body() == house_body()
    assert list(house.parties.by_role()) == ["analyst", "analyzer", "relay", "gateway", "attester", "issuer"]
    for path, value, words in (
        ("vdaf", ALWAYS.body()["vdaf"], "vdaf: .* has none"),
        ("parties", ALWAYS.body()["parties"], "parties.analyzer: is missing"),
        ("privacy", ALWAYS.body()["privacy"], "privacy: epsilon.house: is missing"),
    ):
        with pytest.raises(DecodeError, match=words):
            Recipe.from_body({**house_body(), path: value})
    with pytest.raises(DecodeError, match="vdaf: is missing"):
        Recipe.from_body({**house_body(), "model": "secure-aggregation"})


def test_every_rule_passes_and_its_adversaries_are_held_to_their_caps(house: Recipe) -> None:
    log = read(*leaves(house))
    (live,) = log.recipes
    assert live.opted_in
    assert rules.check(house, KIT.policy, log.context(live, float(NOW))) == []
    assert claim_of(house)["house"] == float(house.epsilon0)
    without = replace(log.context(live, float(NOW)), opt_ins={})
    assert [one.rule for one in rules.check(house, KIT.policy, without)] == ["opt-in-missing"]
    strict = KIT.policy.model_copy(update={"max_epsilon_local": "0.5", "max_epsilon_half_batch": "0.1"})
    context = log.context(live, float(NOW), Stage.DRAFT)
    assert {one.rule for one in rules.check(house, strict, context)} == {"claim-cap", "claim-half-batch"}
    stated = {**house_body()["privacy"], "epsilon": {"house": "0.1", "reader": "9"}}
    low = Recipe.from_body({**house_body(), "privacy": stated})
    assert [one.rule for one in rules.check(low, KIT.policy, context)] == ["claim-understated", "claim-cap"]


def test_an_account_keeps_the_charge_of_a_void_recipe_unless_its_model_says_that_nobody_has_seen_a_report(
    house: Recipe,
) -> None:
    (charge,) = charges_of(read(*leaves(house)), float(NOW))
    assert (charge.state, str(charge.cost.epsilon)) == (ChargeState.ACTIVE, house.privacy.epsilon["house"])
    (charge,) = charges_of(read(*leaves(house, void(house))), float(NOW))
    assert charge.state is ChargeState.UNREFUNDED


async def test_a_device_sends_its_submission_and_reads_its_verdict(house: Recipe, world: World) -> None:
    world.log.add(*leaves(house))
    agent, store = await world.device()
    await agent.step()
    entry = await only(store)
    assert (entry.state, entry.model, entry.detail) == (State.SCHEDULED, NAME, "")
    assert entry.charged_epsilon == house.privacy.epsilon["house"]
    await world.clock.advance(entry.send_at - world.clock.now())
    await agent.send_due()
    assert world.uploads == [entry.report]
    assert entry.report.startswith(b"counted ")
    after = await only(store)
    assert (after.state, after.detail) == (State.SENT, "the house said 200")


def test_its_release_becomes_a_result_that_people_read(house: Recipe) -> None:
    counts = [400, *[40] * (house.randomizer.categories - 1)]
    aggregate = AggregateResult(sum(counts), Interval(0, 1), tuple(counts))
    document = HouseCollector().release(house, "batch", 0, aggregate, float(NOW))
    assert document["privacy"]["by_adversary"].keys() == {"house", "reader"}
    assert document["privacy"]["epsilon"] == float(house.privacy.epsilon["house"])
    rows = {row[0]: row for row in price_rows(document)}
    assert rows["the counting house"][2] == "0"
    assert f"whoever reads a result of {house.batch.min_batch_size} answers" in rows
    console = Console(file=io.StringIO(), width=200)
    show_recipe(house, {"state": "file"}, console)
    show_check(Checked(house, Stage.DRAFT, (RuleVerdict("claim-cap", None),)), KIT.policy, console)
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert "the counting house" in said
    assert "leader.example" in said


async def test_a_device_that_does_not_know_a_model_refuses_its_recipes_by_name(world: World) -> None:
    recipe = Recipe.from_body(house_body())
    assert recipe.body() == house_body()
    assert isinstance(recipe.parties, UnknownParties)
    world.log.add(*leaves(recipe))
    agent, store = await world.device()
    await agent.step()
    entry = await only(store)
    assert entry.state is State.REFUSED
    assert (
        entry.detail
        == f"model-unsupported: model {NAME} is not supported; {', '.join(OTHERS[:-1])} and {OTHERS[-1]} are"
    )
    assert entry.charged_epsilon == ""
    for ask in (claim_of, lambda one: device_side(one.model)):
        with pytest.raises(Refusal, match="model-unsupported"):
            ask(recipe)


def test_a_reader_of_a_log_charges_a_model_that_it_does_not_know_with_all_that_is_stated() -> None:
    recipe = Recipe.from_body(house_body())
    (charge,) = charges_of(read(*leaves(recipe)), float(NOW))
    assert str(charge.cost.epsilon) == str(charge.epsilon_with_relay) == recipe.privacy.epsilon["house"]
    assert charge.state is ChargeState.ACTIVE
    body = house_body()
    body["privacy"]["epsilon"]["reader"] = "unbounded"
    (charge,) = charges_of(read(KIT.recipe_leaf(Recipe.from_body(body))), float(NOW))
    assert not charge.cost.is_bounded
