"""What a device pays for state that tells an intruder nothing, and whether its time tells whether something happened.

A floor is what the group operations of an update cost alone. The timing test is dudect's (Reparaz, Balasch, Verbauwhede
2017): updates with and without the event in random order, Welch's t of their times, also without the slowest, which are
those that the system interrupted.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from infra.lab.bench.rows import Row, Subject, Timing, measured
from infra.lab.bench.targets import DECRYPT, UPDATE, UPDATE_TIMES
from tacit.adapters.system import OsEntropy
from tacit.panprivate.elgamal import PrivateKey, decode_ciphertext
from tacit.panprivate.ristretto import RISTRETTO255
from tacit.panprivate.single_server import NonZero, Occurrences
from tacit.panprivate.state import known_bit
from tacit.panprivate.stored import OneServer, StoredState, TwoServers
from tacit.panprivate.two_servers import SharedNonZero, SharedOccurrences, Sharing

K = 16
"""Largest count of the histograms."""
KEPT_TIMES = (1.0, 0.99, 0.9, 0.5)
"""Shares of the fastest updates over which t is computed."""
_UNITS = 64
_ENTROPY = OsEntropy()


def pan_private_rows(repetitions: int, samples: int) -> Iterator[Row]:
    """Updates of every state, decryption of a report, and the timing test with ``samples`` updates of each count's
    state."""
    key = PrivateKey.generate(_ENTROPY)
    for subject, path, stored in _states(key):
        state = stored.initial(_ENTROPY)
        floor = _operations(repetitions) * stored.size / (2 * RISTRETTO255.element_size)
        yield subject.row(UPDATE, "device", path, _updates(stored, state, repetitions), floor_us=floor)
    yield Subject("count").row(DECRYPT, "analyzer", "one server", _decrypts(key, repetitions))
    for subject, path, stored in _states(key):
        if not subject.parameters:
            yield _timing_row(subject, path, stored, samples)


def _states(key: PrivateKey) -> Iterator[tuple[Subject, str, StoredState]]:
    leader = key.public_key()
    sharing = Sharing(leader, PrivateKey.generate(_ENTROPY).public_key(), b"a task")
    count, histogram = Subject("count"), Subject("histogram", {"k": K})
    yield count, "one server", OneServer(NonZero(leader))
    yield histogram, "one server", OneServer(Occurrences(leader, K))
    yield count, "two servers", TwoServers(SharedNonZero(sharing))
    yield histogram, "two servers", TwoServers(SharedOccurrences(sharing, K))


def _updates(stored: StoredState, state: bytes, repetitions: int) -> Timing:
    units = max(2, _UNITS // (stored.size // 64))

    def call() -> None:
        kept = state
        for number in range(units):
            kept = stored.step(number & 1, kept, _ENTROPY)

    return measured(call, units, repetitions)


def _decrypts(key: PrivateKey, repetitions: int) -> Timing:
    public = key.public_key()
    reports = [public.rerandomise(known_bit(number & 1), _ENTROPY).encode() for number in range(_UNITS)]
    return measured(lambda: [key.decrypt_bit(decode_ciphertext(report)) for report in reports], _UNITS, repetitions)


def _operations(repetitions: int) -> float:
    """Microseconds of what rerandomises one ciphertext: two multiplications and two additions."""
    group, scalar = RISTRETTO255, RISTRETTO255.random_scalar(_ENTROPY)
    element = group.times_base(scalar)

    def call() -> None:
        for _ in range(_UNITS):
            group.times_base(scalar)
            group.times(scalar, element)
            group.add(element, element)
            group.add(element, element)

    return measured(call, _UNITS, repetitions).micro


def _timing_row(subject: Subject, path: str, stored: StoredState, samples: int) -> Row:
    events, nanoseconds = update_times(stored, samples)
    timing = Timing(float(np.median(nanoseconds)) / 1000, 0.0, samples)
    return subject.row(UPDATE_TIMES, "device", path, timing, ratio=largest_t(events, nanoseconds))


def update_times(stored: StoredState, samples: int) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """For ``samples`` updates in random order: whether the event happened in each, and wall nanoseconds."""
    drawn = np.frombuffer(_ENTROPY(samples), dtype=np.uint8) & 1
    nanoseconds = np.empty(samples, dtype=np.int64)
    state, clock = stored.initial(_ENTROPY), time.perf_counter_ns
    for number, event in enumerate(drawn.tolist()):
        start = clock()
        state = stored.step(event, state, _ENTROPY)
        nanoseconds[number] = clock() - start
    return drawn.astype(np.bool_), nanoseconds


def largest_t(events: NDArray[np.bool_], nanoseconds: NDArray[np.int64], kept: Sequence[float] = KEPT_TIMES) -> float:
    """The largest of |Welch's t| over the fastest shares ``kept`` of the times."""
    return max(_welch(events, nanoseconds, float(np.quantile(nanoseconds, share))) for share in kept)


def _welch(events: NDArray[np.bool_], nanoseconds: NDArray[np.int64], limit: float) -> float:
    fast = nanoseconds <= limit
    one, none = (nanoseconds[fast & chosen].astype(np.float64) for chosen in (events, ~events))
    spread = one.var(ddof=1) / len(one) + none.var(ddof=1) / len(none)
    return abs(float(one.mean() - none.mean())) / float(np.sqrt(spread)) if spread else 0.0
