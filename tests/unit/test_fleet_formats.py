"""The fleet's two files: the journal and the prepared contributions. Round trips, damage, sizes, modes."""

from __future__ import annotations

import contextlib
import stat
from array import array
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from client_agent.journal import State
from infra.lab.devices import prepared as codec
from infra.lab.devices.additions import NUMBER
from infra.lab.devices.contributions import Contribution
from infra.lab.devices.faults import Fault
from infra.lab.devices.journal import LINE, FleetJournal, Header
from infra.lab.devices.prepared import (
    HEADER_SIZE,
    PreparedHeader,
    PreparedWriter,
    Totals,
    decode_contribution,
    encode_contribution,
    read_contributions,
    read_header,
    read_totals,
)
from tacit.errors import DecodeError, UsageError
from tests.kit.fleet_journal import decode_header, last_states, read_journal

HASH = bytes(range(32))
CELLS = st.sets(st.integers(0, 0xFFFF), max_size=20).map(lambda cells: tuple(sorted(cells)))
NUMBERS = st.lists(st.integers(0, 2**64 - 1), max_size=20).map(lambda numbers: array(NUMBER, numbers))
CONTRIBUTIONS = st.builds(
    Contribution,
    device=st.integers(0, 2**32 - 1),
    fault=st.sampled_from(Fault),
    adds=CELLS | NUMBERS,
    body=st.binary(min_size=1, max_size=300),
)
HEADERS = st.builds(
    PreparedHeader,
    recipe_hash=st.binary(min_size=32, max_size=32),
    first=st.integers(0, 2**31),
    devices=st.integers(0, 2**31),
    send_at=st.integers(0, 2**64 - 1),
    direct=st.booleans(),
)
IN_FOLDER = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def write(path: Path, contributions: Sequence[Contribution], totals: Totals | None = None) -> bytes:
    """A whole prepared file; returns its bytes."""
    path.unlink(missing_ok=True)
    with PreparedWriter(path) as writer:
        writer.header(PreparedHeader(HASH, 0, 100, 1_700_000_000, direct=True))
        writer.write(contributions)
        writer.finish(totals or Totals(len(contributions)))
    return path.read_bytes()


@given(HEADERS)
def test_prepared_headers_survive(header: PreparedHeader) -> None:
    assert PreparedHeader.decode(header.encode()) == header
    assert len(header.encode()) == HEADER_SIZE


@given(CONTRIBUTIONS)
def test_prepared_contributions_survive(contribution: Contribution) -> None:
    assert decode_contribution(encode_contribution(contribution)) == contribution


@given(CONTRIBUTIONS, st.data())
def test_a_damaged_contribution_is_an_error_or_another_contribution(
    contribution: Contribution, data: st.DataObject
) -> None:
    encoded = bytearray(encode_contribution(contribution))
    place = data.draw(st.integers(0, len(encoded) - 1))
    encoded[place] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(DecodeError):
        assert encode_contribution(decode_contribution(bytes(encoded))) == encoded


@IN_FOLDER
@given(contributions=st.lists(CONTRIBUTIONS, max_size=12), shards=st.integers(1, 4))
def test_shards_share_out_a_prepared_file(tmp_path: Path, contributions: list[Contribution], shards: int) -> None:
    path = tmp_path / "fleet"
    write(path, contributions, Totals(len(contributions), 3, 4))
    assert read_header(path).devices == 100
    assert read_totals(path) == Totals(len(contributions), 3, 4)
    assert list(read_contributions(path)) == contributions
    found = [list(read_contributions(path, shard, shards)) for shard in range(shards)]
    assert found == [contributions[shard::shards] for shard in range(shards)]


@IN_FOLDER
@given(cut=st.integers(0, 400))
def test_a_prepared_file_that_was_cut_off_is_refused(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "fleet"
    whole = write(path, [Contribution(n, Fault.NONE, (n,), bytes(90)) for n in range(1, 4)])
    path.write_bytes(whole[: min(cut, len(whole) - 1)])
    with pytest.raises(DecodeError):
        read_totals(path)
    with pytest.raises(DecodeError):
        list(read_contributions(path))


def test_a_frame_that_claims_too_much_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "fleet"
    whole = write(path, [])
    path.write_bytes(whole[:HEADER_SIZE] + (codec.MAX_FRAME + 1).to_bytes(4, "big") + b"\x01")
    with pytest.raises(DecodeError, match="malformed"):
        list(read_contributions(path))
    with pytest.raises(ValueError, match="too large"):
        write(tmp_path / "other", [Contribution(1, Fault.NONE, (), bytes(codec.MAX_FRAME))])


def test_totals_that_do_not_fit_the_frames_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "fleet"
    write(path, [Contribution(1, Fault.NONE, (), b"x")], Totals(2))
    with pytest.raises(DecodeError, match="cut off"):
        read_totals(path)
    path.write_bytes(path.read_bytes() + b"\x00\x00\x00\x02\x01\x00")
    with pytest.raises(DecodeError, match="goes on"):
        read_totals(path)


def test_a_prepared_file_is_its_owners_and_never_replaces_another(tmp_path: Path) -> None:
    path = tmp_path / "fleet"
    write(path, [])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(UsageError, match="fleet: File exists"):
        PreparedWriter(path)
    with pytest.raises(UsageError, match="No such file"):
        read_header(tmp_path / "absent")


@given(
    st.builds(
        Header,
        recipe_hash=st.binary(min_size=32, max_size=32),
        began=st.floats(0, 1e10),
        first=st.integers(0, 2**31),
        devices=st.integers(0, 2**31),
    )
)
def test_journal_headers_survive(header: Header) -> None:
    assert decode_header(header.encode()) == header


def journal_of(folder: Path) -> Path:
    """Ten devices from number 5: three sampled, of which one was sent, one failed, one still waits."""
    path = folder / "journal.bin"
    path.unlink(missing_ok=True)
    with FleetJournal(path, Header(HASH, 1000.0, 5, 10)) as journal:
        journal.decided(5, 10, np.array([6, 9, 14], dtype=np.uint32), 1001.0)
        journal.changed([(6, State.SCHEDULED, 1), (9, State.FAILED, 1)], 1002.0)
        journal.changed([(6, State.SENT, 300)], 1003.5)
        journal.changed([], 1004.0)
    return path


def test_every_device_has_a_line_and_its_last_one_counts(tmp_path: Path) -> None:
    path = journal_of(tmp_path)
    header, lines = read_journal(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (header.first, header.devices) == (5, 10)
    assert set(lines["device"].tolist()) == set(range(5, 15))
    assert last_states(lines) == {
        State.NOT_SAMPLED: 7,
        State.SCHEDULED: 1,
        State.SENT: 1,
        State.FAILED: 1,
    }
    assert (lines[-1]["at"], lines[-1]["attempts"]) == (3.5, 255)
    with pytest.raises(UsageError, match="File exists"):
        FleetJournal(path, header)


@IN_FOLDER
@given(place=st.integers(0, 71 + 13 * LINE.itemsize), change=st.integers(1, 255))
def test_a_damaged_journal_is_an_error_or_another_journal(tmp_path: Path, place: int, change: int) -> None:
    path = journal_of(tmp_path)
    damaged = bytearray(path.read_bytes())
    damaged[place] ^= change
    path.write_bytes(damaged)
    with contextlib.suppress(DecodeError):
        _, lines = read_journal(path)
        assert len(lines) == 13
        last_states(lines)


@pytest.mark.parametrize("size", [0, 71, 73, 72 + LINE.itemsize + 1])
def test_a_journal_that_was_cut_off_is_refused(tmp_path: Path, size: int) -> None:
    path = journal_of(tmp_path)
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(DecodeError):
        read_journal(path)


def test_a_device_that_ends_twice_or_changes_after_its_end_is_refused(tmp_path: Path) -> None:
    for number, after in enumerate((State.FAILED, State.SCHEDULED)):
        path = tmp_path / str(number)
        with FleetJournal(path, Header(HASH, 0.0, 0, 2)) as journal:
            journal.changed([(0, State.SENT, 1), (0, after, 1)], 1.0)
        with pytest.raises(DecodeError, match="after its end"):
            last_states(read_journal(path)[1])


def test_a_journal_with_more_lines_than_devices_can_make_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "long"
    with FleetJournal(path, Header(HASH, 0.0, 0, 1)) as journal:
        journal.changed([(0, State.SCHEDULED, 1)] * 65, 1.0)
    with pytest.raises(DecodeError, match="too long"):
        read_journal(path)
