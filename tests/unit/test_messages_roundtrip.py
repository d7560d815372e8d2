"""Every struct: what is encoded decodes to itself, foreign bytes never do worse than ``DecodeError``."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit import messages
from tacit.errors import DecodeError
from tacit.messages import (
    AggregateShare,
    AggregateShareReq,
    AggregationJobContinueReq,
    AggregationJobExtension,
    AggregationJobInitReq,
    AggregationJobResp,
    BatchMode,
    BatchSelector,
    CollectionJobExtension,
    CollectionJobReq,
    CollectionJobResp,
    Extension,
    HpkeCiphertext,
    HpkeConfig,
    HpkeConfigList,
    InputShareAad,
    Interval,
    PlaintextInputShare,
    Query,
    Report,
    ReportMetadata,
    ReportShare,
    ReportUploadStatus,
    Struct,
    TaskConfiguration,
    TaskExtension,
    UploadErrors,
    UploadRequest,
    VerifyContinue,
    VerifyInit,
    VerifyResp,
)
from tacit.version import DAP_18


def uint(size: int) -> st.SearchStrategy[int]:
    return st.integers(0, (1 << (8 * size)) - 1)


def exactly(size: int) -> st.SearchStrategy[bytes]:
    return st.binary(min_size=size, max_size=size)


def few(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(strategy, max_size=3).map(tuple)


some = st.binary(min_size=1, max_size=40)
any_bytes = st.binary(max_size=40)
errors = st.sampled_from(sorted(DAP_18.report_codes))
intervals = st.builds(Interval, st.integers(0, 1 << 63), st.integers(0, (1 << 63) - 1))
extensions = st.builds(Extension, uint(2), any_bytes)
configs = st.builds(HpkeConfig, uint(1), uint(2), uint(2), uint(2), some)
config_lists = st.lists(configs, min_size=1, max_size=3, unique_by=lambda config: config.id).map(
    lambda found: HpkeConfigList(tuple(found))
)
ciphertexts = st.builds(HpkeCiphertext, uint(1), some, some)
metadata = st.builds(ReportMetadata, exactly(16), uint(8), few(extensions))
reports = st.builds(Report, metadata, any_bytes, ciphertexts, ciphertexts)
statuses = st.builds(ReportUploadStatus, exactly(16), errors)
task_extensions = st.lists(
    st.builds(TaskExtension, uint(2), any_bytes),
    max_size=3,
    unique_by=lambda extension: extension.extension_type,
).map(lambda found: tuple(sorted(found, key=lambda extension: extension.extension_type)))
urls = st.text(st.characters(min_codepoint=1, max_codepoint=127), min_size=1, max_size=30)
configurations = st.builds(
    TaskConfiguration,
    some,
    urls,
    urls,
    uint(8),
    uint(8),
    st.sampled_from(BatchMode),
    any_bytes,
    uint(4),
    any_bytes,
    task_extensions,
)
queries = st.one_of(st.builds(Query.time_interval, intervals), st.builds(Query.leader_selected))
selectors = st.one_of(
    st.builds(BatchSelector.time_interval, intervals), st.builds(BatchSelector.leader_selected, exactly(32))
)
requests = st.builds(CollectionJobReq, queries, any_bytes, few(st.builds(CollectionJobExtension, uint(2), any_bytes)))
shares = st.builds(ReportShare, metadata, any_bytes, ciphertexts)
inits = st.builds(VerifyInit, shares, some)
responses = st.one_of(
    st.builds(VerifyResp.continued, exactly(16), some),
    st.builds(VerifyResp.finished, exactly(16)),
    st.builds(VerifyResp.rejected, exactly(16), errors),
)
continues = st.builds(VerifyContinue, exactly(16), some)

STRUCTS: dict[type[Struct], st.SearchStrategy[Any]] = {
    Interval: intervals,
    Extension: extensions,
    TaskExtension: st.builds(TaskExtension, uint(2), any_bytes),
    AggregationJobExtension: st.builds(AggregationJobExtension, uint(2), any_bytes),
    CollectionJobExtension: st.builds(CollectionJobExtension, uint(2), any_bytes),
    HpkeConfig: configs,
    HpkeConfigList: config_lists,
    HpkeCiphertext: ciphertexts,
    TaskConfiguration: configurations,
    ReportMetadata: metadata,
    Report: reports,
    UploadRequest: st.builds(UploadRequest, few(reports)),
    ReportUploadStatus: statuses,
    UploadErrors: st.builds(UploadErrors, few(statuses)),
    PlaintextInputShare: st.builds(PlaintextInputShare, few(extensions), some),
    InputShareAad: st.builds(InputShareAad, exactly(32), configurations, metadata, any_bytes),
    ReportShare: shares,
    VerifyInit: inits,
    AggregationJobInitReq: st.builds(
        AggregationJobInitReq,
        uint(1),
        any_bytes,
        few(st.builds(AggregationJobExtension, uint(2), any_bytes)),
        few(inits),
    ),
    VerifyResp: responses,
    AggregationJobResp: st.builds(AggregationJobResp, few(responses)),
    VerifyContinue: continues,
    AggregationJobContinueReq: st.builds(AggregationJobContinueReq, uint(2), few(continues)),
    Query: queries,
    BatchSelector: selectors,
    CollectionJobReq: requests,
    CollectionJobResp: st.builds(CollectionJobResp, uint(8), intervals, ciphertexts, ciphertexts),
    AggregateShareReq: st.builds(AggregateShareReq, requests, selectors, uint(8), exactly(32)),
    AggregateShare: st.builds(AggregateShare, ciphertexts),
}

TO_THE_END = {
    UploadRequest,
    UploadErrors,
    AggregationJobInitReq,
    AggregationJobResp,
    AggregationJobContinueReq,
}

quick = settings(max_examples=25, deadline=None)
every_struct = pytest.mark.parametrize("kind", STRUCTS, ids=lambda kind: kind.__name__)


def test_the_table_above_holds_every_struct_of_the_package() -> None:
    public = {getattr(messages, name) for name in messages.__all__}
    structs = {kind for kind in public if isinstance(kind, type) and issubclass(kind, Struct)}
    assert structs - {Struct} == set(STRUCTS)


@every_struct
@quick
@given(data=st.data())
def test_encoded_struct_decodes_to_itself(kind: type[Struct], data: st.DataObject) -> None:
    value = data.draw(STRUCTS[kind])
    assert kind.decode(value.encode()) == value


@every_struct
@quick
@given(data=st.data())
def test_trailing_byte_is_refused(kind: type[Struct], data: st.DataObject) -> None:
    value = data.draw(STRUCTS[kind])
    with pytest.raises(DecodeError):
        kind.decode(value.encode() + b"\x00")


@every_struct
@quick
@given(data=st.data())
def test_truncated_struct_is_refused_or_is_a_shorter_list(kind: type[Struct], data: st.DataObject) -> None:
    encoded = data.draw(STRUCTS[kind]).encode()
    cut = encoded[: data.draw(st.integers(0, max(0, len(encoded) - 1)))]
    if cut == encoded:
        return
    if kind not in TO_THE_END:
        with pytest.raises(DecodeError):
            kind.decode(cut)
        return
    try:
        value = kind.decode(cut)
    except DecodeError:
        return
    assert value.encode() == cut


@every_struct
@quick
@given(junk=st.binary(max_size=200))
def test_arbitrary_bytes_give_a_value_with_that_encoding_or_a_decode_error(kind: type[Struct], junk: bytes) -> None:
    try:
        value = kind.decode(junk)
    except DecodeError:
        return
    assert value.encode() == junk


@every_struct
@quick
@given(data=st.data())
def test_changed_byte_gives_another_value_or_a_decode_error(kind: type[Struct], data: st.DataObject) -> None:
    value = data.draw(STRUCTS[kind])
    encoded = bytearray(value.encode())
    if not encoded:
        return
    encoded[data.draw(st.integers(0, len(encoded) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        other = kind.decode(bytes(encoded))
    except DecodeError:
        return
    assert other != value
    assert other.encode() == bytes(encoded)
