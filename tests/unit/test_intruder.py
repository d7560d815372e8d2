"""An intruder who sees everything of many devices is left to guess, and finds every planted mistake."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from client_agent.panprivate.watch import Plan, Schedule
from infra.lab.intruder.attackers import ATTACKERS, TIMING, LogisticRegression
from infra.lab.intruder.game import judged, played
from infra.lab.intruder.traces import TOGETHER, TWICE, Keeper, KeeperKind, Moment, Trace, devices, notes_reads
from infra.lab.kit.entropy import SeededEntropy
from tacit.panprivate.elgamal import PrivateKey
from tacit.panprivate.single_server import NonZero, Occurrences
from tacit.panprivate.stored import OneServer, StoredState, TwoServers
from tacit.panprivate.two_servers import SharedNonZero, Sharing
from tests.kit.leaks import LEAKS

SEED = SeededEntropy(b"intruder")
PUBLIC, OTHER = (PrivateKey.generate(SEED).public_key() for _ in range(2))
COUNT, HISTOGRAM = OneServer(NonZero(PUBLIC)), OneServer(Occurrences(PUBLIC, 2))
SHARED = TwoServers(SharedNonZero(Sharing(PUBLIC, OTHER, b"a task")))
SIGMAS = 5


def _plan(stored: StoredState) -> Plan:
    return Plan(bytes(32), stored, Schedule(1_000_000, 60, 4))


@pytest.mark.parametrize(
    ("stored", "guessing"),
    [
        pytest.param(COUNT, 300, marks=pytest.mark.slow, id="count"),
        pytest.param(HISTOGRAM, 80, marks=pytest.mark.slow, id="histogram"),
        pytest.param(COUNT, 60, id="count, fewer devices"),
        pytest.param(SHARED, 30, id="two servers, fewer devices"),
        pytest.param(SHARED, 60, marks=pytest.mark.slow, id="two servers"),
    ],
)
@pytest.mark.false_alarm(
    5 * 3e-7, "five attackers, each a coin's binomial more than five standard errors to one side", runs=2
)
def test_no_attacker_does_better_than_a_coin(stored: StoredState, guessing: int) -> None:
    outcome = played(_plan(stored), guessing, guessing, SEED.child(str(guessing)))
    assert outcome.snapshots == 2 * guessing * 2 * 5
    for one in outcome.attackers:
        assert one.advantage < SIGMAS * one.stderr, one


@pytest.mark.parametrize(
    ("stored", "guessing"),
    [
        pytest.param(COUNT, 200, marks=pytest.mark.slow, id="count"),
        pytest.param(COUNT, 50, id="count, fewer devices"),
        pytest.param(SHARED, 50, marks=pytest.mark.slow, id="two servers"),
    ],
)
@pytest.mark.false_alarm(
    5 * 3e-7, "five attackers, each a coin's binomial more than five standard errors to one side", runs=2
)
def test_one_look_between_an_event_and_its_tick_tells_nothing_and_a_second_one_tells(
    stored: StoredState, guessing: int
) -> None:
    own = SEED.child(f"told {guessing}")
    outcome = played(_plan(stored), guessing, guessing, own, moments=(Moment.TOLD,))
    assert outcome.snapshots == 2 * guessing * 2 * 4
    for one in outcome.attackers:
        assert one.advantage < SIGMAS * one.stderr, one
    assert played(_plan(stored), 20, 20, own, moments=TWICE).best.advantage == 1


class Works(Keeper):
    """Does other work where another device would record an event; the state has no part in it."""

    def happen(self) -> None:
        """Fill the processor's caches."""
        sorted(range(100_000, 0, -1))


@pytest.mark.parametrize(
    ("kind", "guessing"),
    [
        pytest.param(Works, 400, marks=pytest.mark.slow, id="other work"),
        pytest.param(Keeper, 2000, marks=pytest.mark.slow, id="events"),
    ],
)
@pytest.mark.false_alarm(3e-7, "a coin's binomial more than five standard errors to one side", runs=1)
def test_what_ran_before_an_update_does_not_show_in_its_cpu_time(kind: KeeperKind, guessing: int) -> None:
    """Were devices to live one after the other, other work would show (78 % right): it fills caches, and moves the
    scheduler's time slice. A game in which that shows cannot judge a device."""
    lives = list(devices(_plan(COUNT), 2 * guessing, SEED.child("large"), kind, together=TOGETHER))
    (one,) = judged(lives, guessing, [TIMING]).attackers
    assert one.advantage < SIGMAS * one.stderr, one


@pytest.mark.parametrize("leak", LEAKS)
def test_every_planted_mistake_is_found(leak: str, tmp_path: Path) -> None:
    if leak == "read on event" and not notes_reads(tmp_path):
        pytest.skip("the file system notes no reads")
    outcome = played(_plan(COUNT), 60, 60, SEED.child(leak), LEAKS[leak])
    assert outcome.best.advantage > 0.7, outcome


def test_a_classifier_learns_what_can_be_learnt() -> None:
    """That it finds nothing in ciphertexts is the ciphertexts' doing."""
    generator = np.random.default_rng(7)
    labels = generator.integers(0, 2, 300)
    tables = generator.integers(0, 256, (300, 64), dtype=np.uint8)
    tables[:, 9] = tables[:, 9] // 2 + 100 * labels
    traces = [Trace(memories=[row.tobytes()]) for row in tables]
    guess = LogisticRegression().learn(traces[:200], labels[:200])
    assert (guess(traces[200:]) == labels[200:]).mean() > 0.8


def test_a_device_with_events_and_one_without_are_seen_alike() -> None:
    traces = list(devices(_plan(COUNT), 12, SEED.child("alike"), Keeper))
    assert {label for _, label in traces} == {0, 1}
    assert len({trace.beside_bytes for trace, _ in traces}) == 1
    assert {one.name for one in ATTACKERS} == {"byte statistics", "classifier", "timing", "work", "file metadata"}
