"""Tasks: what is refused, what is derived, and what a sealed share is bound to."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from tacit import hpke
from tacit.dap_errors import ReportError, ReportRejected
from tacit.errors import CryptoError, Refusal
from tacit.messages import (
    BatchMode,
    CollectionJobReq,
    Extension,
    HpkeCiphertext,
    HpkeConfig,
    InputShareAad,
    Interval,
    PlaintextInputShare,
    Query,
    ReportMetadata,
    Role,
    TaskConfiguration,
    TaskExtension,
)
from tacit.task import (
    BatchClose,
    Task,
    open_aggregate_share,
    seal_aggregate_share,
    seal_input_share,
    task_id_of,
    verify_key_confirmation,
)
from tacit.tokens.slots import Slot
from tacit.version import DAP_18
from tests.kit.oracles.sealing import open_input_share

KEYS = {role: hpke.key_pair_from_private(bytes([role]) * 32) for role in (Role.COLLECTOR, Role.LEADER, Role.HELPER)}
CONFIGS = {role: HpkeConfig(10 + role, 0x0020, 1, 1, keys.public) for role, keys in KEYS.items()}
METADATA = ReportMetadata(bytes(range(16)), 1005)
PUBLIC_SHARE = b"public share"
PLAINTEXT = PlaintextInputShare((Extension(0xFF54, b"token"),), b"input share")
REQUEST = CollectionJobReq(Query.time_interval(Interval(1000, 10))).encode()
HISTOGRAM = (4).to_bytes(4, "big") + (2).to_bytes(4, "big")


def entropy(length: int) -> bytes:
    return bytes(range(1, length + 1))


def configuration(**changes: object) -> TaskConfiguration:
    base = TaskConfiguration(
        task_info=b"\x11" * 32,
        leader_aggregator_endpoint="https://leader.example",
        helper_aggregator_endpoint="https://helper.example",
        time_precision=60,
        min_batch_size=100,
        batch_mode=BatchMode.TIME_INTERVAL,
        batch_config=b"",
        vdaf_type=4,
        vdaf_configuration=HISTOGRAM,
        extensions=(TaskExtension.task_interval(Interval(1000, 10)),),
    )
    return dataclasses.replace(base, **changes)  # type: ignore[arg-type]


def make_task(
    config: TaskConfiguration | None = None,
    close: BatchClose = BatchClose.INTERVAL_END,
    leader: HpkeConfig = CONFIGS[Role.LEADER],
) -> Task:
    return Task.from_configuration(
        config or configuration(),
        leader_hpke_config=leader,
        helper_hpke_config=CONFIGS[Role.HELPER],
        collector_hpke_config=CONFIGS[Role.COLLECTOR],
        slot=Slot("issuer.example", 7, 3),
        token_key_spki=b"SECRETKEY",
        batch_close=close,
        expected_contributions=250,
    )


def test_task_of_a_configuration() -> None:
    task = make_task()
    assert task.task_id == task_id_of(task.configuration)
    assert task.recipe_hash == b"\x11" * 32
    assert task.ctx == b"dap-18" + task.task_id
    assert (task.min_batch_size, task.time_precision, task.batch_mode) == (100, 60, BatchMode.TIME_INTERVAL)
    assert task.interval == Interval(1000, 10)
    assert (task.start_seconds, task.end_seconds) == (60000, 60600)
    assert len(task.task_id_text) == 43
    assert task.vdaf.ID == 4
    assert [task.hpke_config(role).id for role in KEYS] == [10, 12, 13]


def test_report_time_is_the_unit_that_has_begun() -> None:
    task = make_task()
    assert [task.report_time(now) for now in (60000.0, 60059.9, 60060.0)] == [1000, 1000, 1001]
    assert [task.interval.contains(time) for time in (999, 1000, 1009, 1010)] == [False, True, True, False]
    assert not task.too_early(1005, 60000.0)
    assert task.too_early(1006, 60000.0)


@pytest.mark.parametrize(
    ("rule", "changes"),
    [
        ("task-extension", {"extensions": (TaskExtension(2, b""),)}),
        ("task-extension", {"extensions": (*configuration().extensions, TaskExtension(2, b""))}),
        ("task-interval", {"extensions": ()}),
        ("task-interval", {"extensions": (TaskExtension(1, bytes(15)),)}),
        ("task-interval", {"extensions": (TaskExtension.task_interval(Interval(1000, 0)),)}),
        ("task-vdaf", {"vdaf_type": 6, "vdaf_configuration": b"\x00\x10"}),
        ("task-vdaf", {"vdaf_configuration": HISTOGRAM + b"\x00"}),
        ("task-batch", {"batch_config": b"\x00"}),
        ("task-batch", {"batch_mode": BatchMode.LEADER_SELECTED}),
        ("task-batch", {"time_precision": 0}),
        ("task-batch", {"min_batch_size": 0}),
        ("task-recipe-hash", {"task_info": b"other"}),
    ],
)
def test_task_that_we_cannot_take_part_in_is_refused(rule: str, changes: dict[str, object]) -> None:
    with pytest.raises(Refusal) as refused:
        make_task(configuration(**changes))
    assert refused.value.rule == rule


@pytest.mark.parametrize(
    "config",
    [
        HpkeConfig(1, 0x0010, 1, 1, bytes(32)),
        HpkeConfig(1, 0x0020, 3, 1, bytes(32)),
        HpkeConfig(1, 0x0020, 1, 2, bytes(32)),
        HpkeConfig(1, 0x0020, 1, 1, bytes(31)),
    ],
)
def test_hpke_configuration_that_we_cannot_use_is_refused(config: HpkeConfig) -> None:
    with pytest.raises(Refusal) as refused:
        make_task(leader=config)
    assert refused.value.rule == "task-hpke"


def test_leader_selected_batches_close_at_b() -> None:
    task = make_task(configuration(batch_mode=BatchMode.LEADER_SELECTED), BatchClose.AT_B)
    assert task.batch_mode is BatchMode.LEADER_SELECTED
    with pytest.raises(Refusal):
        make_task(close=BatchClose.AT_B)


@pytest.mark.parametrize("role", [Role.LEADER, Role.HELPER])
def test_sealed_input_share_opens_for_its_aggregator(role: Role) -> None:
    task = make_task()
    sealed = seal_input_share(task, role, METADATA, PUBLIC_SHARE, PLAINTEXT, entropy)
    assert sealed.config_id == 10 + role
    assert open_input_share(task, role, KEYS[role], METADATA, PUBLIC_SHARE, sealed) == PLAINTEXT


def test_input_share_is_sealed_under_the_info_and_aad_of_the_draft() -> None:
    task = make_task()
    sealed = seal_input_share(task, Role.HELPER, METADATA, PUBLIC_SHARE, PLAINTEXT, entropy)
    aad = InputShareAad(task.task_id, task.configuration, METADATA, PUBLIC_SHARE).encode()
    info = b"dap-18 input share\x01\x03"
    opened = hpke.open_(hpke.DEFAULT_SUITE, KEYS[Role.HELPER], sealed.enc, info, aad, sealed.payload)
    assert opened == PLAINTEXT.encode()


@pytest.mark.parametrize(
    "open_otherwise",
    [
        lambda task, sealed: (task, Role.HELPER, METADATA, b"other public share", sealed),
        lambda task, sealed: (task, Role.HELPER, ReportMetadata(bytes(16), 1005), PUBLIC_SHARE, sealed),
        lambda task, sealed: (
            task,
            Role.HELPER,
            ReportMetadata(METADATA.report_id, 1004),
            PUBLIC_SHARE,
            sealed,
        ),
        lambda task, sealed: (
            task,
            Role.LEADER,
            METADATA,
            PUBLIC_SHARE,
            dataclasses.replace(sealed, config_id=12),
        ),
        lambda task, sealed: (
            task,
            Role.HELPER,
            METADATA,
            PUBLIC_SHARE,
            dataclasses.replace(sealed, config_id=12),
        ),
        lambda task, sealed: (
            task,
            Role.HELPER,
            METADATA,
            PUBLIC_SHARE,
            dataclasses.replace(sealed, enc=bytes(32)),
        ),
        lambda task, sealed: (
            task,
            Role.HELPER,
            METADATA,
            PUBLIC_SHARE,
            dataclasses.replace(sealed, enc=b"x"),
        ),
        lambda task, sealed: (
            task,
            Role.HELPER,
            METADATA,
            PUBLIC_SHARE,
            dataclasses.replace(sealed, payload=b"x"),
        ),
        lambda task, sealed: (
            make_task(configuration(min_batch_size=99)),
            Role.HELPER,
            METADATA,
            PUBLIC_SHARE,
            sealed,
        ),
    ],
    ids=[
        "public share",
        "report id",
        "time",
        "role",
        "config id",
        "low-order enc",
        "short enc",
        "short payload",
        "another minimum batch size",
    ],
)
def test_input_share_opens_under_nothing_else(
    open_otherwise: Callable[[Task, HpkeCiphertext], tuple[Task, Role, ReportMetadata, bytes, HpkeCiphertext]],
) -> None:
    sealed = seal_input_share(make_task(), Role.HELPER, METADATA, PUBLIC_SHARE, PLAINTEXT, entropy)
    task, role, metadata, public_share, ciphertext = open_otherwise(make_task(), sealed)
    with pytest.raises(ReportRejected) as refused:
        open_input_share(task, role, KEYS[role], metadata, public_share, ciphertext)
    assert refused.value.code is ReportError.HPKE_DECRYPT_ERROR


def test_malformed_plaintext_rejects_the_report() -> None:
    task = make_task()
    aad = InputShareAad(task.task_id, task.configuration, METADATA, PUBLIC_SHARE).encode()
    for plaintext in (PLAINTEXT.encode() + b"\x00", PLAINTEXT.encode()[:-1], b""):
        enc, payload = hpke.seal(
            hpke.DEFAULT_SUITE,
            KEYS[Role.LEADER].public,
            b"dap-18 input share\x01\x02",
            aad,
            plaintext,
            entropy,
        )
        with pytest.raises(ReportRejected) as refused:
            open_input_share(
                task, Role.LEADER, KEYS[Role.LEADER], METADATA, PUBLIC_SHARE, HpkeCiphertext(12, enc, payload)
            )
        assert (refused.value.code, refused.value.cause) == (ReportError.INVALID_MESSAGE, "share-malformed")


@pytest.mark.parametrize("role", [Role.LEADER, Role.HELPER])
def test_sealed_aggregate_share_opens_for_the_collector_of_this_request(role: Role) -> None:
    task = make_task()
    sealed = seal_aggregate_share(task, role, REQUEST, b"aggregate", entropy)
    keys = KEYS[Role.COLLECTOR]
    assert open_aggregate_share(task, role, keys, REQUEST, sealed) == b"aggregate"
    aad = task.task_id + task.configuration.encode() + REQUEST
    info = b"dap-18 aggregate share" + bytes([role, 0])
    assert hpke.open_(hpke.DEFAULT_SUITE, keys, sealed.enc, info, aad, sealed.payload) == b"aggregate"
    other = CollectionJobReq(Query.time_interval(Interval(1000, 9))).encode()
    for wrong in (
        (task, role, keys, other, sealed),
        (task, Role.LEADER if role is Role.HELPER else Role.HELPER, keys, REQUEST, sealed),
        (make_task(configuration(min_batch_size=99)), role, keys, REQUEST, sealed),
        (task, role, KEYS[Role.LEADER], REQUEST, sealed),
        (task, role, keys, REQUEST, dataclasses.replace(sealed, config_id=11)),
    ):
        with pytest.raises(CryptoError):
            open_aggregate_share(*wrong)


def test_tasks_are_equal_when_their_parameters_are() -> None:
    assert make_task() == make_task()
    assert make_task() != make_task(configuration(min_batch_size=99))


def test_no_key_shows_in_the_repr_of_a_task() -> None:
    assert "SECRETKEY" not in repr(make_task())


def test_version_holds_every_code_and_string_of_dap_18() -> None:
    assert {code: error.name for error, code in DAP_18.report_codes.items()} == {
        int(error): error.name for error in ReportError if error <= 11
    }
    assert DAP_18.upload_unknown_config is ReportError.OUTDATED_CONFIG
    assert DAP_18.vdaf_context(bytes(32)) == b"dap-18" + bytes(32)


def test_verify_key_confirmation_differs_per_key_and_is_not_the_key() -> None:
    confirmations = {verify_key_confirmation(key) for key in (bytes(32), b"\x01" * 32)}
    assert len(confirmations) == 2
    assert {len(confirmation) for confirmation in confirmations} == {32}
