"""Pan-private reports at leader and helper, over HTTP: sums that are exact, and every bad report alone."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.lab.kit.aggregators import AggregatorPair, party_of
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.pan_private import Payloads, SharedReports, make_shared_kit
from infra.lab.kit.reports import BOTH, TaskKit, issuer_key, make_task_kit, token_source
from infra.lab.kit.watched import MOST, TWO, WatchingKit
from services.leader.coordinator import most_reports
from tacit import bhttp
from tacit.dap_errors import ReportRejected
from tacit.errors import Fatal, Refusal
from tacit.messages import Report, Role, UploadRequest
from tacit.messages.slices import UploadSlices, slice_job, slice_uploads
from tacit.methods.estimators.registry import estimator_of
from tacit.models.collectors import collector_side
from tacit.models.devices import device_side
from tacit.models.interfaces.device import Fate
from tacit.panprivate.elgamal import PrivateKey
from tacit.panprivate.ristretto import RISTRETTO255
from tacit.panprivate.state import known_bit
from tacit.panprivate.two_servers import SharedNonZero, SharedOccurrences, Sharing, sealed_shares
from tacit.recipe.derive import design_of, randomizer_of, task_of
from tacit.recipe.encoder import labels
from tacit.roles.aggregator import Party
from tacit.roles.jobs import encode_request, finish_leader, prepare_helper, prepare_leader
from tacit.roles.leader import check_upload
from tacit.task import Task
from tacit.vdaf.field import Field64
from tests.http.aggregator_pair import both_aggregators

B = 4
COUNT = make_shared_kit(1, min_batch_size=B, seed=b"count")
THREE = make_shared_kit(3, min_batch_size=B, seed=b"three")
OFF_GROUP = bytes.fromhex("26948d35ca62e643e26a83177332e6b6afeb9d08e4268b650f1f5bbd8d81d371")

Bad = Callable[[SharedReports], Report]


def pair_of(tmp_path: Path, kit: TaskKit) -> AggregatorPair:
    return both_aggregators(kit, tmp_path, storage="file")


async def totals(pair: AggregatorPair) -> tuple[int, tuple[int, ...]]:
    await pair.end_interval()
    answer = await pair.collect()
    assert answer.status == 200, answer.body
    result = pair.opened(answer)
    return result.report_count, result.values


async def test_what_devices_kept_for_many_steps_is_counted_exactly(tmp_path: Path) -> None:
    reports = SharedReports(COUNT, b"steps")
    machine = SharedNonZero(reports.sharing())
    async with pair_of(tmp_path, COUNT) as pair:
        for stream in ((0, 0, 0), (0, 1, 0), (1, 1, 1), (0, 0, 1), (0, 0, 0)):
            state = machine.initial(reports.entropy)
            for event in stream:
                state = machine.step(event, state, reports.entropy)
            payloads = dict(zip(BOTH, sealed_shares(state), strict=True))
            assert await pair.upload([reports.report(payloads)]) is None
        assert await totals(pair) == (5, (3,))
        assert (await pair.status(Role.LEADER))["rejected_by_cause"] == {}


async def test_a_histogram_comes_out_after_both_servers_were_restarted(tmp_path: Path) -> None:
    reports = SharedReports(THREE, b"histogram")
    machine = SharedOccurrences(reports.sharing(), 2)
    sent = []
    for times in (0, 1, 2, 3, 1):
        state = machine.initial(reports.entropy)
        for step in range(4):
            state = machine.step(int(step < times), state, reports.entropy)
        cells = (*state[:2], state[-1])
        sent.append(reports.report(dict(zip(BOTH, sealed_shares(cells), strict=True))))
    async with pair_of(tmp_path, THREE) as pair:
        assert await pair.upload(sent[:3]) is None
        await pair.work()
        await pair.start(Role.HELPER)
        assert await pair.upload(sent[3:]) is None
        await pair.start(Role.LEADER)
        assert await pair.upload(sent) is None  # the same bytes again
        assert await totals(pair) == (5, (1, 2, 2))


async def test_fewer_than_b_reports_are_released_to_nobody(tmp_path: Path) -> None:
    reports = SharedReports(COUNT, b"few")
    async with pair_of(tmp_path, COUNT) as pair:
        assert await pair.upload(reports.valid([1]) for _ in range(B - 1)) is None
        assert await pair.upload([garbage(reports)]) is None
        await pair.end_interval()
        answer = await pair.collect()
        assert answer.status != 200
        assert (await pair.status(Role.LEADER))["released"] == 0


def replaced(change: Callable[[SharedReports, Payloads], Payloads]) -> Bad:
    def made(reports: SharedReports) -> Report:
        payloads = reports.payloads([1, 0, 1][: reports.task.vdaf.flp.OUTPUT_LEN])
        return reports.report({**payloads, **change(reports, payloads)})

    return made


def share(change: Callable[[list[int]], list[int]]) -> Bad:
    """A bad Leader's chunk of the first cell: its element, then the elements of its proof."""

    def parts(chunk: bytes, seed: bytes) -> tuple[bytes, bytes]:
        numbers = change(Field64.decode_vec(chunk))
        return Field64.encode_vec([number % Field64.MODULUS for number in numbers]), seed

    return lambda reports: reports.of_shares(parts, [1, 0, 1])


def over_modulus(chunk: bytes, seed: bytes) -> tuple[bytes, bytes]:
    return b"\xff" * 8 + chunk[8:], seed


garbage = replaced(lambda reports, found: {Role.LEADER: reports.entropy(len(found[Role.LEADER]))})
MALFORMED, HELPER_MALFORMED, PROOF = "share-malformed", "helper-invalid-message", "helper-vdaf-verify-error"
BAD: list[tuple[str, Bad, str]] = [
    ("garbage for the leader", garbage, MALFORMED),
    (
        "garbage for the helper",
        replaced(lambda reports, found: {Role.HELPER: reports.entropy(len(found[Role.HELPER]))}),
        HELPER_MALFORMED,
    ),
    ("short", replaced(lambda _, found: {Role.LEADER: found[Role.LEADER][:-1]}), MALFORMED),
    ("one byte", replaced(lambda _, found: {Role.HELPER: b"\0"}), HELPER_MALFORMED),
    ("a cell too many", replaced(lambda _, found: {Role.LEADER: found[Role.LEADER] * 2}), MALFORMED),
    ("off the group", replaced(lambda _, found: {Role.LEADER: OFF_GROUP + found[Role.LEADER][32:]}), MALFORMED),
    (
        "masked off the group",
        replaced(lambda _, found: {Role.HELPER: found[Role.HELPER][:32] + OFF_GROUP + found[Role.HELPER][64:]}),
        HELPER_MALFORMED,
    ),
    (
        "the identity",
        replaced(lambda _, found: {Role.LEADER: known_bit(1).encode() + found[Role.LEADER][64:]}),
        MALFORMED,
    ),
    (
        "two identities",
        replaced(lambda _, found: {Role.HELPER: bytes(64) + found[Role.HELPER][64:]}),
        HELPER_MALFORMED,
    ),
    (
        "shares to each other's server",
        replaced(lambda _, found: dict(zip(BOTH, reversed(found.values()), strict=True))),
        MALFORMED,
    ),
    (
        "the leader's share to both",
        replaced(lambda _, found: {Role.HELPER: found[Role.LEADER]}),
        HELPER_MALFORMED,
    ),
    ("another recipe's context", lambda reports: reports.report(reports.payloads([1, 0, 1], b"another task")), PROOF),
    ("a proof of nothing", share(lambda chunk: [*chunk[:-1], chunk[-1] + 1]), PROOF),
    ("two in a cell", share(lambda chunk: [chunk[0] + 1, *chunk[1:]]), PROOF),
    ("not below the modulus", lambda reports: reports.of_shares(over_modulus, [1, 0, 1]), MALFORMED),
]


def verdict(kit: TaskKit, report: Report) -> str:
    """Why both aggregators together refuse a report, or nothing."""
    now = float(kit.task.start_seconds)
    led, rejected = prepare_leader(party_of(kit, Role.LEADER), [report.encode()], now)
    if not rejected:
        request = slice_job(encode_request(kit.task, led, None), kit.task.version)
        helped = prepare_helper(party_of(kit, Role.HELPER), request.reports, now)
        _, rejected = finish_leader(led, helped.respond({}, kit.task.version), kit.task.version)
    assert all(one.nullifier is not None for one in rejected), "a good token stays spent"
    return "".join(one.cause for one in rejected)


@pytest.mark.parametrize(("bad", "cause"), [(bad, cause) for _, bad, cause in BAD], ids=[name for name, _, _ in BAD])
def test_every_bad_report_is_refused_by_name(bad: Bad, cause: str) -> None:
    assert verdict(THREE, bad(SharedReports(THREE, b"bad"))) == cause


@given(st.sampled_from(BOTH), st.integers(0, 3 * 128 - 1), st.integers(1, 255))
@settings(max_examples=25, deadline=None)
def test_no_changed_byte_of_a_payload_passes_both_servers(role: Role, at: int, change: int) -> None:
    reports = SharedReports(THREE, b"bytes")
    payloads = reports.payloads([1, 0, 1])
    payload = bytearray(payloads[role])
    payload[at] ^= change
    expected = {PROOF, MALFORMED if role is Role.LEADER else HELPER_MALFORMED}
    assert verdict(THREE, reports.report({**payloads, role: bytes(payload)})) in expected


def test_a_report_of_many_cells_may_be_uploaded_and_a_job_holds_fewer_of_them() -> None:
    now = float(COUNT.task.start_seconds)

    def upload_of(report: Report) -> UploadSlices:
        (upload,) = slice_uploads(UploadRequest((report,)).encode())
        return upload

    for cells, most in ((1, 12 * 2**20 // (3 * 2048 + 128 + 32)), (17, 2**14 // 17), (257, 2**14 // 257)):
        kit = make_shared_kit(cells)
        report = SharedReports(kit).valid([0] * cells)
        check_upload(kit.task, upload_of(report), now)
        assert most_reports(kit.task, 1 << 30) == most
        longer = dataclasses.replace(report.helper_encrypted_input_share, payload=bytes(128 * cells + 2048))
        with pytest.raises(ReportRejected, match="share-oversized"):
            check_upload(kit.task, upload_of(dataclasses.replace(report, helper_encrypted_input_share=longer)), now)


async def test_bad_reports_cost_no_good_one_its_place(tmp_path: Path) -> None:
    reports = SharedReports(THREE, b"batch")
    sent = [bad(reports) for _, bad, _ in BAD]
    sent[3:3] = [reports.valid([1, 1, 0]) for _ in range(B)]
    async with pair_of(tmp_path, THREE) as pair:
        assert await pair.upload(sent) is None
        assert await totals(pair) == (B, (B, B, 0))
        assert (await pair.status(Role.LEADER))["rejected_by_cause"] == Counter(cause for _, _, cause in BAD)
        assert (await pair.status(Role.HELPER))["rejected"] == sum(cause != MALFORMED for _, _, cause in BAD)


async def test_a_token_behind_a_bad_share_stays_spent(tmp_path: Path) -> None:
    reports = SharedReports(COUNT, b"spent")
    async with pair_of(tmp_path, COUNT) as pair:
        bad = garbage(reports)
        assert await pair.upload([bad]) is None
        await pair.work()
        assert await pair.upload([bad]) is None  # its verdict is known
        assert (await pair.status(Role.LEADER))["rejected_by_cause"] == {MALFORMED: 1}


def test_an_aggregator_takes_part_with_the_tasks_own_state_key_alone() -> None:
    party = party_of(THREE, Role.LEADER)
    others = {"none": None, "the helper's": THREE.state_keys[Role.HELPER]}
    for key in others.values():
        with pytest.raises(Fatal, match="state key"):
            Party(THREE.task, Role.LEADER, party.verify_key, party.key_pair, party.verifier, 0.0, key)
    plain = make_task_kit()
    with pytest.raises(Fatal, match="state key"):
        Party(plain.task, Role.LEADER, plain.verify_key, party.key_pair, None, 0.0, THREE.state_keys[Role.LEADER])


def test_state_keys_belong_to_both_aggregators_and_to_cells_proved_one_by_one() -> None:
    leader, helper = (THREE.state_keys[role].public_key().element for role in BOTH)
    for kit, keys, words in (
        (make_task_kit(), (leader, helper), "require Prio3CountVec"),
        (THREE, (leader, None), "key of their own"),
        (THREE, (None, helper), "key of their own"),
        (THREE, (leader, leader), "key of their own"),
    ):
        task, configs = kit.task, {role: kit.task.hpke_config(role) for role in kit.key_pairs}
        with pytest.raises(Refusal, match=words):
            Task.from_configuration(
                task.configuration,
                leader_hpke_config=configs[Role.LEADER],
                helper_hpke_config=configs[Role.HELPER],
                collector_hpke_config=configs[Role.COLLECTOR],
                slot=task.slot,
                token_key_spki=task.token_key_spki,
                batch_close=task.batch_close,
                expected_contributions=task.expected_contributions,
                leader_state_key=keys[0],
                helper_state_key=keys[1],
            )


def test_neither_keys_nor_shares_are_shown() -> None:
    shown = repr(party_of(THREE, Role.LEADER)) + repr(THREE) + repr(SharedReports(THREE).valid([1, 0, 1]))
    for key in THREE.state_keys.values():
        assert key.scalar.hex() not in shown
        assert repr(key.scalar)[2:-1] not in shown
    assert repr(PrivateKey(RISTRETTO255.scalar(5))) == "PrivateKey()"


@pytest.mark.parametrize("statistic", ["count", "histogram"])
async def test_a_recipe_goes_from_kept_state_through_both_servers_to_its_result(tmp_path: Path, statistic: str) -> None:
    cast, draw = WatchingKit(3), SeededEntropy(statistic.encode())
    recipe = cast.watched_recipe(TWO, statistic, min_batch_size=8)
    task = task_of(recipe, issuer_key().token_key.spki)
    keys = {role: cast.state_keys[role.name.lower()] for role in BOTH}
    kit = TaskKit(task, cast.key_pairs, cast.verify_key_seed, issuer_key(), keys)
    model, tokens = device_side(recipe.model), token_source(issuer_key(), draw)
    channel = model.channel(recipe, task.token_key_spki)
    sharing = Sharing(keys[Role.LEADER].public_key(), keys[Role.HELPER].public_key(), task.ctx)
    machine = SharedNonZero(sharing) if statistic == "count" else SharedOccurrences(sharing, MOST)
    async with pair_of(tmp_path, kit) as pair:
        for device in range(8):
            state = machine.initial(draw)
            for step in range(2):
                state = machine.step(int(step < device % 3), state, draw)
            bound = tokens(task.slot)
            answer = machine.answer(state, recipe.epsilon0, draw)
            sent = channel.submission(answer, bound.token, bound.preimages, draw)
            response = await pair.post_reports(sent.body)
            verdict = model.verdict(bhttp.Response(response.status, (), response.body))
            assert verdict.fate is Fate.STORED
        await pair.end_interval()
        result = pair.opened(await pair.collect())
    assert result.report_count == 8
    document = collector_side(recipe.model).release(recipe, "batch", 0, result, float(task.end_seconds))
    assert [bucket["label"] for bucket in document["buckets"]] == list(labels(recipe))
    assert [bucket["count"] for bucket in document["buckets"]] == list(result.values)
    estimate = estimator_of(randomizer_of(recipe)).estimate(result.values, 8, design_of(recipe))
    assert [bucket["estimate"] for bucket in document["buckets"]] == list(estimate.values)
    assert document["privacy"]["by_adversary"]["intruder"] == 0.0
