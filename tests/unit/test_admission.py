"""Who is served next at a listener, on a clock of the test's own: shares, turns, room, deadlines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tacit.service.base.config import Limits
from tacit.service.http.admission import LARGE_RATE, LOOKS, Admission, ConnectionRecord, Phase, Source, source_of
from tacit.service.http.limits import ORDINARY_BODY

ATTACKER, HONEST = "198.51.100.1", "203.0.113.9"


@dataclass
class Client:
    """A connection; notes what it is told."""

    told: list[str] = field(default_factory=list)

    def cut(self) -> None:
        self.told.append("cut")

    def proceed(self, *, late: bool) -> None:
        self.told.append("late" if late else "proceed")

    def too_slow(self) -> None:
        self.told.append("too slow")


class Listener:
    """An ``Admission`` with a clock."""

    def __init__(self, connections: int = 8, **limits: Any) -> None:
        self.admission = Admission(
            Limits.model_validate({"requests": 8, "share": 4, "share_in_company": 4, **limits}), connections
        )
        self.now = 1000.0

    def arrive(self, address: str, *, known: bool = False) -> tuple[Client, ConnectionRecord | None]:
        client = Client()
        return client, self.admission.arrive(client, address, self.now, known=known)

    def connect(self, address: str, *, known: bool = False) -> tuple[Client, ConnectionRecord]:
        client, record = self.arrive(address, known=known)
        assert record is not None
        return client, record

    def send(self, record: ConnectionRecord, *, size: int = 100, whole: bool = True, headed: bool = True) -> bool:
        """Whether what came is read now."""
        if not self.admission.may_read(record, size, self.now):
            return False
        self.admission.was_read(record, self.now, headed=headed, complete=whole)
        return True

    def proceed(self, record: ConnectionRecord) -> None:
        """Read a whole request that waited."""
        self.admission.was_read(record, self.now, headed=True, complete=True)

    def answer(self, record: ConnectionRecord) -> None:
        self.admission.answered(record, self.now)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.admission.sweep(self.now)


def test_a_source_has_its_share_of_the_turns_and_the_next_source_has_one_at_once() -> None:
    listener = Listener(connections=100)
    flood = [listener.connect(ATTACKER) for _ in range(50)]
    assert [listener.send(record) for _, record in flood] == [True] * 2 + [False] * 48
    _, honest = listener.connect(HONEST)
    assert listener.send(honest)
    assert listener.admission.turns == 3
    listener.answer(flood[0][1])
    assert [client.told for client, _ in flood[:4]] == [[], [], ["proceed"], []], "in the order of arrival"


def test_when_all_turns_are_taken_sources_that_wait_have_one_each_in_turn() -> None:
    listener = Listener(connections=100, share_in_company=2)
    first, second = [listener.connect("192.0.2.1") for _ in range(8)], [listener.connect("192.0.2.2") for _ in range(8)]
    for _, record in (*first, *second):
        listener.send(record)
    honest, record = listener.connect(HONEST)
    assert not listener.send(record)
    listener.answer(first[0][1])
    listener.proceed(first[4][1])
    listener.answer(first[1][1])
    listener.answer(second[0][1])
    assert honest.told == ["proceed"]


def test_a_source_has_more_turns_while_nobody_else_is_connected() -> None:
    listener = Listener(connections=100, requests=32, share=4, share_in_company=16)
    flood = [listener.connect(ATTACKER)[1] for _ in range(20)]
    assert sum(listener.send(record) for record in flood) == 8
    _, honest = listener.connect(HONEST)
    for record in flood[:7]:
        listener.answer(record)
    assert listener.admission.turns == 2, "nothing more is given until the source is down to its share in company"
    assert listener.send(honest)
    listener.admission.depart(honest, listener.now)
    assert listener.admission.turns == 8


def test_a_request_that_is_not_whole_holds_no_turn() -> None:
    listener = Listener(connections=100)
    slow = [listener.connect(ATTACKER)[1] for _ in range(50)]
    assert all(listener.send(record, whole=False) for record in slow)
    assert listener.admission.turns == 0
    _, honest = listener.connect(ATTACKER)
    assert listener.send(honest), "from the same address, too"


def test_hanging_up_gives_the_turn_back_to_whoever_waits() -> None:
    listener = Listener(connections=100)
    flood = [listener.connect(ATTACKER) for _ in range(3)]
    for _, record in flood:
        listener.send(record)
    listener.admission.depart(flood[0][1], listener.now)
    assert flood[2][0].told == ["proceed"]
    listener.admission.depart(flood[0][1], listener.now)
    assert (len(listener.admission), listener.admission.turns) == (2, 2), "a connection ends once"


def test_known_peers_have_all_turns_and_are_not_cut() -> None:
    listener = Listener(connections=9)
    peers = [listener.connect("127.0.0.1", known=True) for _ in range(8)]
    assert all(listener.send(record) for _, record in peers)
    for _, record in peers:
        listener.answer(record)
    silent, _ = listener.connect(ATTACKER)
    listener.connect(HONEST)
    assert silent.told == ["cut"]
    assert all(not client.told for client, _ in peers)


def test_who_proves_who_it_is_leaves_the_share_of_its_address() -> None:
    listener = Listener(connections=100)
    records = [listener.connect(ATTACKER)[1] for _ in range(4)]
    assert [listener.send(record) for record in records[:3]] == [True, True, False]
    listener.admission.move(records[0], None, listener.now)
    assert listener.admission.turns == 3, "the one that waited has the turn that its address was given back"
    assert listener.send(listener.connect(HONEST)[1])


def test_who_proves_who_it_is_while_it_waits_has_the_next_turn() -> None:
    listener = Listener(connections=100)
    records = [listener.connect(ATTACKER) for _ in range(3)]
    assert [listener.send(record) for _, record in records] == [True, True, False]
    listener.admission.move(records[2][1], None, listener.now)
    assert records[2][0].told == ["proceed"], "known peers have no share"


def test_sources_that_hung_up_while_they_waited_are_not_in_the_way_of_others() -> None:
    listener = Listener(connections=100, requests=1, share=1)
    working = listener.connect(HONEST)[1]
    assert listener.send(working)
    gone = [listener.connect(f"192.0.2.{number}")[1] for number in range(5)]
    honest, record = listener.connect("198.51.100.2")
    assert not any(map(listener.send, [*gone, record]))
    for one in gone:
        listener.admission.depart(one, listener.now)
    listener.answer(working)
    assert honest.told == ["proceed"]
    listener.proceed(record)
    listener.answer(record)
    assert not listener.admission._queue


def test_the_source_with_most_connections_gives_one_up_idle_ones_first() -> None:
    listener = Listener(connections=6)
    working = listener.connect(ATTACKER)
    listener.send(working[1])
    dripping = listener.connect(ATTACKER)
    listener.send(dripping[1], whole=False)
    silent = [listener.connect(ATTACKER) for _ in range(2)]
    honest = [listener.connect(HONEST) for _ in range(2)]
    for expected in (silent[0][0], silent[1][0]):
        listener.connect("192.0.2.7")
        assert expected.told == ["cut"]
    assert not any(client.told for client, _ in (working, dripping, *honest))
    listener.connect(HONEST)
    assert honest[0][0].told == ["cut"], "by now it is the one with most, and its oldest idles"


def test_a_connection_whose_request_is_answered_is_never_cut_for_room() -> None:
    listener = Listener(connections=2, share=1)
    for _ in range(2):
        listener.send(listener.connect(HONEST)[1])
    assert listener.arrive(ATTACKER)[1] is None


def test_bytes_on_their_way_are_bounded_and_the_greediest_source_pays() -> None:
    listener = Listener(connections=100, receiving_bytes=1 << 16)
    honest, small = listener.connect(HONEST)
    listener.send(small, size=5000, whole=False)
    greedy = [listener.connect(ATTACKER) for _ in range(10)]
    for _, record in greedy:
        listener.send(record, size=10_000, whole=False)
    assert sum(client.told == ["cut"] for client, _ in greedy) == 4
    assert not honest.told
    assert listener.send(small, size=5000)


@pytest.mark.parametrize(("sent", "headed", "seconds"), [(False, False, 20), (True, False, 20)])
def test_a_head_that_does_not_come_ends_the_connection(sent: bool, headed: bool, seconds: float) -> None:
    listener = Listener()
    client, record = listener.connect(ATTACKER)
    if sent:
        listener.send(record, whole=False, headed=headed)
    listener.pass_time(seconds - 1)
    assert not client.told
    if sent:
        listener.send(record, whole=False, headed=headed)
    listener.pass_time(2)
    assert client.told == ["cut"]


def test_a_body_below_the_least_rate_is_told_so_and_then_cut() -> None:
    listener = Listener(least_rate=100)
    fast, slow = listener.connect(HONEST), listener.connect(ATTACKER)
    for _, record in (fast, slow):
        listener.send(record, size=500, whole=False)
    for _ in range(30):
        listener.send(fast[1], size=150, whole=False)
        listener.send(slow[1], size=10, whole=False)
        listener.pass_time(1)
        if slow[0].told:
            break
    assert (fast[0].told, slow[0].told) == ([], ["too slow"])
    listener.pass_time(6)
    assert slow[0].told == ["too slow", "cut"]


def test_what_a_large_body_has_beyond_an_ordinary_one_must_arrive_faster() -> None:
    listener = Listener(least_rate=1024, grace_seconds=10)
    (client, record), (large, last) = listener.connect(ATTACKER), listener.connect(HONEST)
    listener.send(record, size=ORDINARY_BODY, whole=False)
    listener.send(last, size=ORDINARY_BODY + (4 << 20), whole=False)
    listener.pass_time(10 + 256 - 1)
    assert (client.told, large.told) == ([], [])
    listener.pass_time(2)
    assert (client.told, large.told) == (["too slow"], [])
    listener.pass_time(4096 / LARGE_RATE - 2)
    assert large.told == []
    listener.pass_time(2)
    assert large.told == ["too slow"]


def test_time_that_a_request_waits_for_its_turn_is_not_its_senders() -> None:
    listener = Listener(connections=100, wait_seconds=1000)
    records = [listener.connect(ATTACKER) for _ in range(3)]
    client, last = records[2]
    listener.send(last, whole=False)
    for _, record in records[:2]:
        listener.send(record)
    listener.send(last, whole=False)
    listener.pass_time(500)
    listener.answer(records[0][1])
    listener.admission.was_read(last, listener.now, headed=True, complete=False)
    listener.pass_time(5)
    assert client.told == ["proceed"]


def test_who_waits_too_long_for_a_turn_is_told_to_come_back() -> None:
    listener = Listener(connections=100)
    records = [listener.connect(ATTACKER) for _ in range(3)]
    for _, record in records:
        listener.send(record)
    listener.pass_time(11)
    assert records[2][0].told == ["late"]


def test_an_answer_that_nobody_reads_ends_with_its_connection() -> None:
    listener = Listener()
    client, record = listener.connect(ATTACKER)
    listener.send(record)
    listener.admission.stalled(record, 100_000, listener.now)
    listener.pass_time(107)
    assert not client.told
    listener.pass_time(1)
    assert client.told == ["cut"]
    assert listener.admission.turns == 0


def test_an_idle_connection_ends_and_nothing_of_its_address_is_left() -> None:
    listener = Listener()
    client, record = listener.connect(HONEST)
    listener.send(record)
    assert record.phase is Phase.WORKING
    listener.answer(record)
    assert HONEST not in repr(record)
    listener.pass_time(76)
    assert client.told == ["cut"]
    assert not listener.admission._sources


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("2001:db8:1:2::9", "2001:db8:1:2::"),
        ("fe80::1%eth0", "fe80::"),
        ("", ""),
    ],
)
def test_a_source_is_an_address_or_the_64_of_an_ipv6_address(address: str, source: str) -> None:
    assert source_of(address) == source


def test_an_answer_that_waits_for_its_reader_holds_bytes_and_no_turn() -> None:
    listener = Listener(connections=100, requests=2, receiving_bytes=1 << 16)
    slow, honest = [listener.connect(ATTACKER) for _ in range(2)], listener.connect(HONEST)
    assert listener.send(slow[0][1])
    assert listener.send(honest[1])
    for _, record in (slow[0], honest):
        listener.admission.stalled(record, 1 << 15, listener.now)
    assert listener.admission.turns == 0
    assert listener.send(slow[1][1])
    listener.admission.stalled(slow[1][1], 1 << 14, listener.now)
    assert ([client.told for client, _ in slow], honest[0].told) == ([["cut"], []], []), "the source that holds most"
    listener.admission.flows(honest[1])
    listener.answer(honest[1])
    assert listener.send(honest[1])
    listener.pass_time(60)
    assert slow[1][0].told == ["cut"]


def test_whom_to_let_go_is_found_without_a_look_at_every_source(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0
    spared = Source.spared

    def counted(source: Source) -> Iterator[ConnectionRecord]:
        nonlocal looks
        looks += 1
        return spared(source)

    monkeypatch.setattr(Source, "spared", counted)
    listener = Listener(connections=1000, requests=4, share_in_company=4, receiving_bytes=1 << 20)
    for number in range(3000):
        _, record = listener.connect(f"10.{number >> 8}.{number & 255}.1")
        listener.send(record, size=2000, whole=number < 4)
    assert 500 < len(listener.admission) <= 1000
    assert looks <= 3000 * 2 * (LOOKS + 4)
