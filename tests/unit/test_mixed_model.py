"""A shuffler before leader and helper: what devices seal to it, what it can read, and what recipes say of it."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from typing import Any

import pytest
from rich.console import Console

from infra.commands.status import details
from infra.lab.kit.mixed import MixedDevices, MixedKit
from infra.lab.kit.recipes import NOW, RecipeKit, changed
from infra.lab.kit.reports import issuer_key
from infra.lab.kit.shuffled import ShuffledKit
from infra.views.recipe_view import show_recipe
from services.admin.pages.claims import claim_rows
from tacit import bhttp
from tacit.codec import b64url
from tacit.dap_errors import ReportError, ReportRejected
from tacit.errors import FieldError
from tacit.messages import Role, UploadRequest
from tacit.messages.one_server import OneServerReport
from tacit.models.devices import DEVICES, device_side
from tacit.models.forms import form_of
from tacit.models.interfaces.device import Fate
from tacit.models.servers import shuffler_side
from tacit.operations.status import TaskStatus
from tacit.recipe.charges import is_refundable
from tacit.recipe.context import Context, Stage
from tacit.recipe.derive import task_id, task_of
from tacit.recipe.model import Recipe
from tacit.recipe.writing.builder import propose
from tacit.roles.analyzer import AnalyzerParty, Counted, open_reports
from tacit.roles.client import report_size
from tacit.rules.table import check
from tacit.task.one_server import Contents
from tacit.task.onward import Receipt, ToLeader
from tacit.tlog.statements import OptIn
from tacit.tokens import binding
from tacit.tokens.binding import Preimages
from tacit.tokens.slots import TokenVerifier

KIT = MixedKit()
RECIPE = KIT.recipe()
SPKI = issuer_key().token_key.spki


def party(recipe: Recipe = RECIPE) -> AnalyzerParty:
    side = shuffler_side(recipe.model)
    task = side.task(recipe, SPKI)
    reading, onward = side.reading(recipe, None), side.onward(recipe, SPKI)
    key_pair, closes = KIT.shuffler_key.key_pair, float(task.end_seconds)
    return AnalyzerParty(task, key_pair, TokenVerifier(SPKI, task.slot), reading, closes, onward=onward)


def refused(recipe: Recipe, **found: Any) -> dict[str, str]:
    context = Context(Stage.DRAFT, float(NOW))
    return {one.rule: one.detail for one in check(recipe, KIT.policy, context, **found)}


def test_a_recipe_with_a_shuffler_passes_every_rule_and_costs_what_it_costs_without() -> None:
    assert refused(RECIPE) == {}
    assert Recipe.decode(RECIPE.encode()) == RECIPE
    assert RECIPE.privacy == RecipeKit().recipe().privacy


def test_a_recipe_without_one_has_the_bytes_that_it_had() -> None:
    recipe = RecipeKit().recipe()
    assert b"shuffler" not in recipe.encode()
    body = RECIPE.body()
    del body["parties"]["shuffler"]
    assert Recipe.from_body(body).parties.server("shuffler") is None
    assert KIT.recipe(through="gateway").encode() == Recipe.from_body(body).encode()


@pytest.mark.parametrize("other", ["leader", "helper", "analyst", "relay", "gateway", "attester", "issuer"])
def test_the_shuffler_is_none_of_the_other_parties(other: str) -> None:
    operator = RECIPE.parties.having("operator")[other]
    same = changed(RECIPE, "parties.shuffler.operator", operator)
    assert (
        f"{operator}; they must have different operators" in refused(same, only=("operators-equal",))["operators-equal"]
    )


def test_a_shuffler_has_an_address_and_keys_of_its_own() -> None:
    leader = RECIPE.parties.servers()["leader"]
    for member, rule in (
        ("url", "url-invalid"),
        ("hpke_config", "hpke-key-invalid"),
        ("signing_key", "signing-key-shared"),
    ):
        same = changed(RECIPE, f"parties.shuffler.{member}", getattr(leader, member))
        assert set(refused(same, only=(rule,))) == {rule}


def test_a_batch_behind_a_shuffler_closes_at_the_end() -> None:
    early = changed(changed(RECIPE, "batch.mode", "leader_selected"), "batch.close", "at_B")
    assert "behind a shuffler must close interval_end" in refused(early)["batch-mode"]
    with pytest.raises(FieldError, match="must be `interval_end`"):
        KIT.survey(close="at_B")


def test_a_shuffler_is_asked_for_only_where_there_is_one_and_a_leader() -> None:
    with pytest.raises(FieldError, match="name none"):
        propose(KIT.survey(), RecipeKit().parties())
    with pytest.raises(FieldError, match="has no leader"):
        KIT.survey(model="local", encoder={"kind": "categories", "categories": ["a", "b"]})


def test_everybody_waits_for_the_shufflers_opt_in() -> None:
    form, task = form_of(RECIPE.model), b64url(task_id(RECIPE))
    assert form.opting_in(RECIPE.parties) == ("leader", "helper", "shuffler")
    assert form.opting_in(RecipeKit().parties()) == ("leader", "helper")
    assert form_of("shuffled").opting_in(ShuffledKit().shuffled_parties()) == ("shuffler", "analyzer")
    ours = {role: KIT.opt_in(RECIPE, role) for role in ("leader", "helper")}
    shuffler = OptIn(recipe_hash=RECIPE.hash_text, task_id=RECIPE.hash_text, role="shuffler")
    confirming = KIT.opt_in(RECIPE, "helper").model_copy(update={"role": "shuffler", "task_id": RECIPE.hash_text})
    of_the_task = shuffler.model_copy(update={"task_id": task})
    rules = ("opt-in-missing", "opt-in-mismatch")

    def found(opt_ins: Mapping[str, OptIn]) -> list[str]:
        context = Context(Stage.ACTIVE, float(NOW), opt_ins=opt_ins)
        return [one.rule for one in check(RECIPE, KIT.policy, context, only=rules)]

    assert found(ours) == ["opt-in-missing"]
    assert found({**ours, "shuffler": shuffler}) == []
    for wrong in (confirming, of_the_task):
        assert found({**ours, "shuffler": wrong}) == ["opt-in-mismatch"]


def test_nothing_is_refunded_behind_a_shuffler() -> None:
    assert is_refundable(RecipeKit().recipe())
    assert not is_refundable(RECIPE)


def test_the_shuffler_opens_a_report_to_one_that_it_cannot_open() -> None:
    found, devices = party(), MixedDevices(RECIPE)
    token = devices.token()
    body = devices.report(3, token)
    (counted,) = open_reports(found, [found.task.report_in(body)])
    assert isinstance(counted, Counted)
    assert counted.numbers == (1,)
    (inner,) = UploadRequest.decode(counted.record).reports
    assert inner.report_metadata.report_id != OneServerReport.decode(body).report_id
    assert inner.report_metadata.time == task_of(RECIPE, SPKI).interval.start
    assert counted.nullifier == hashlib.sha256(token.token[:-256]).digest(), "the one that the leader computes"


def test_no_secret_of_the_token_reaches_gateway_or_shuffler() -> None:
    found, devices = party(), MixedDevices(RECIPE)
    token = devices.token()
    body = devices.report(3, token)
    (counted,) = open_reports(found, [found.task.report_in(body)])
    assert isinstance(counted, Counted)
    secrets = (token.preimages.r_leader, token.preimages.r_helper)
    digests = tuple(hashlib.sha256(one).digest() for one in secrets)
    assert not any(one in body for one in (*secrets, *digests, token.token, token.token[2:34]))
    assert not any(one in counted.record for one in (*secrets, *digests, token.token[2:34]))
    with pytest.raises(ValueError, match="secrets behind the token"):
        found.task.seal(bytes(16), Contents(token.token, token.preimages, counted.record), devices.entropy)


def test_a_shuffler_cannot_spend_a_token_that_it_saw_in_a_report_of_its_own() -> None:
    devices = MixedDevices(RECIPE)
    token, guessed = devices.token(), Preimages.draw(devices.entropy)
    verifier = TokenVerifier(SPKI, devices.channel.task.slot)
    for role in (Role.LEADER, Role.HELPER):
        own = binding.open_extension(guessed.extension(token.token, role), role)
        with pytest.raises(ReportRejected, match="token-binding"):
            binding.check(own, role, verifier)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"encoder": {"kind": "boolean"}, "statistic": None},
        {"randomizer": "rappor"},
        {"randomizer": "flips", "min_batch_size": 400, "population": 5000},
    ],
    ids=["histogram", "count", "rappor", "noise shares"],
)
def test_every_report_of_a_recipe_has_the_size_that_the_shuffler_expects(options: dict[str, Any]) -> None:
    recipe = KIT.recipe(**options)
    devices = MixedDevices(recipe)
    task = task_of(recipe, SPKI)
    sizes = {len(devices.report(answer)) for answer in (0, 1, 1)}
    assert sizes == {devices.channel.task.report_size}
    assert devices.channel.task.report_size == report_size(task) + 425


def test_a_device_remembers_who_takes_its_report() -> None:
    usual, mixed = (device_side(one.model).sends_as(one) for one in (RecipeKit().recipe(), RECIPE))
    assert (usual.name, mixed.name) == ("secure-aggregation", "through-shuffler")
    assert DEVICES[mixed.name].media_type == mixed.media_type != usual.media_type
    kept = mixed.verdict(bhttp.Response(201))
    assert (kept.fate, kept.detail) == (Fate.STORED, "durably stored")
    with pytest.raises(ValueError, match="side of the recipe's model"):
        mixed.channel(RECIPE, SPKI)


def test_what_a_leaders_answer_means_to_the_shuffler() -> None:
    onward = party().onward
    assert isinstance(onward, ToLeader)

    def errors(*codes: ReportError) -> bytes:
        return b"".join(bytes(16) + bytes([code]) for code in codes)

    final, early = ReportError.BATCH_COLLECTED, ReportError.REPORT_TOO_EARLY
    assert onward.receipt(200, b"") == Receipt(True)
    assert onward.receipt(200, errors(final, final)) == Receipt(True, 2)
    assert onward.receipt(200, errors(final, early)) == Receipt(False, 2), "the same request later"
    assert [onward.receipt(status, b"") for status in (401, 403, 404, 503)] == [Receipt(False)] * 4
    unreadable = b'{"type": "urn:ietf:params:ppm:dap:error:invalidMessage"}'
    assert onward.receipt(400, unreadable) == Receipt(False, is_refused=True)
    assert [onward.receipt(status, unreadable) for status in (408, 429, 502)] == [Receipt(False)] * 3
    assert onward.receipt(200, b"junk") == Receipt(False)


def test_the_status_of_a_recipe_says_how_many_reports_wait_at_the_shuffler() -> None:
    page = {"uploaded": 60, "rejected": 1, "aggregated": 59, "rejected_by_cause": {"token-spent": 1}, "released": 0}
    leader = {"uploaded": 0, "jobs": {}, "rejected": 0}
    told = [
        line.plain
        for one in (page, {**page, "rejected": 0, "released": 1})
        for line in details(TaskStatus("visits", "hash", "active", "", leader=leader, shuffler=one))
    ]
    assert told == [
        "shuffler: 59 waiting for the interval's end, rejected: 1 token-spent",
        "shuffler: 59 passed on",
    ]


def test_a_recipe_says_what_its_shuffler_adds_and_what_not() -> None:
    form = form_of(RECIPE.model)
    words = form.mixing_words(RECIPE.parties, RECIPE.batch.min_batch_size)
    assert "probability 1/200 at best" in words
    assert "with the relay it sees who takes part" in words
    assert form.mixing_words(RecipeKit().parties(), 200) == ""
    assert claim_rows(RECIPE)[-1]["note"] == words
    console = Console(file=io.StringIO(), width=2_000, highlight=False)
    show_recipe(RECIPE, {"state": "active"}, console)
    assert words in console.file.getvalue()  # type: ignore[attr-defined]
