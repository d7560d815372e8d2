"""What pan-private state costs a device, and whether the time of an update reveals whether an event happened.

A floor is the cost of an update's group operations alone. The timing test is dudect's (Reparaz, Balasch, Verbauwhede
2017): updates with and without the event run in random order, and Welch's t compares their times, also without the
slowest ones, which the system interrupted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from infra.lab.bench.rows import Row, Subject, Timing, measured
from infra.lab.bench.targets import CHOICE_TIMES, DECRYPT, DECRYPT_SHARE, UPDATE, UPDATE_TIMES, VERIFY_CELLS
from tacit.adapters.system import OsEntropy
from tacit.panprivate.elgamal import PrivateKey
from tacit.panprivate.ristretto import RISTRETTO255
from tacit.panprivate.single_server import NonZero, Occurrences
from tacit.panprivate.state import chosen, known_bit
from tacit.panprivate.stored import OneServer, StoredState, TwoServers
from tacit.panprivate.two_servers import SharedNonZero, SharedOccurrences, Sharing, opened_share, sealed_shares
from tacit.vdaf.count_vec import Prio3CountVec
from tacit.vdaf.native.batch import BatchVerifier

K = 16
"""Largest count of the histograms."""
KEPT_TIMES = (1.0, 0.99, 0.9, 0.5)
"""Shares of the fastest updates over which t is computed."""
_UNITS = 64
_ENTROPY = OsEntropy()


def pan_private_rows(repetitions: int, samples: int) -> Iterator[Row]:
    """Measure updates of every state and decryption of a report; then run the timing test on ``samples`` updates of
    each count's state, and on as many of the choice within an update."""
    key = PrivateKey.generate(_ENTROPY)
    for subject, path, stored in _states(key):
        state = stored.initial(_ENTROPY)
        floor = _operations(repetitions) * stored.size / (2 * RISTRETTO255.element_size)
        yield subject.row(UPDATE, "device", path, _updates(stored, state, repetitions), floor_us=floor)
    floor = _multiplication(repetitions)
    yield Subject("count").row(DECRYPT, "analyzer", "one server", _decrypts(key, repetitions), floor_us=floor)
    for subject, cells in ((Subject("count"), 1), (Subject("histogram", {"k": K}), K + 1)):
        yield from _aggregating(subject, cells, repetitions)
    for subject, path, stored in _states(key):
        if not subject.parameters:
            yield _timing_row(UPDATE_TIMES, subject, path, updating(stored), samples)
    yield _timing_row(CHOICE_TIMES, Subject("count"), "every state", choosing(key), samples)


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
    return measured(lambda: list(map(key.open_bit, reports)), _UNITS, repetitions)


def _aggregating(subject: Subject, cells: int, repetitions: int) -> Iterator[Row]:
    """Measure what leader and helper do with a report of ``cells`` kept cells beyond their work on every report."""
    keys, context, nonce = [PrivateKey.generate(_ENTROPY) for _ in range(2)], b"a task", _ENTROPY(16)
    sharing = Sharing(keys[0].public_key(), keys[1].public_key(), context)
    kept = [sharing.rerandomised(sharing.made(1, _ENTROPY), _ENTROPY) for _ in range(cells)]
    sealed, units = sealed_shares(kept), max(1, _UNITS // cells)
    verifier = BatchVerifier(Prio3CountVec(2, cells), _ENTROPY(32), context)
    shares = [opened_share(key, agg_id, cells, sealed[agg_id]) for agg_id, key in enumerate(keys)]
    (started,) = verifier.leader([nonce], [b""], [shares[0]]).outbounds
    calls: dict[str, Callable[[], object]] = {
        "leader": lambda: verifier.leader([nonce], [b""], [shares[0]]),
        "helper": lambda: verifier.helper([nonce], [b""], [shares[1]], [started]),
    }
    for agg_id, (name, call) in enumerate(calls.items()):
        opening = partial(opened_share, keys[agg_id], agg_id, cells, sealed[agg_id])
        for operation, one in ((DECRYPT_SHARE, opening), (VERIFY_CELLS, call)):
            yield subject.row(operation, name, "two servers", measured(partial(_times, one, units), units, repetitions))


def _times(call: Callable[[], object], units: int) -> None:
    for _ in range(units):
        call()


def _operations(repetitions: int) -> float:
    """Measure the operations that rerandomise one ciphertext, two multiplications and two additions: microseconds."""
    group, scalar = RISTRETTO255, RISTRETTO255.random_scalar(_ENTROPY)
    element = group.times_base(scalar)

    def call() -> None:
        for _ in range(_UNITS):
            group.times_base(scalar)
            group.times(scalar, element)
            group.add(element, element)
            group.add(element, element)

    return measured(call, _UNITS, repetitions).micro


def _multiplication(repetitions: int) -> float:
    """Measure the least work that opens one ciphertext, one multiplication of an element: microseconds."""
    group, scalar = RISTRETTO255, RISTRETTO255.random_scalar(_ENTROPY)
    element = group.times_base(scalar)
    return measured(lambda: [group.times(scalar, element) for _ in range(_UNITS)], _UNITS, repetitions).micro


def _timing_row(stage: str, subject: Subject, path: str, work: Callable[[int], object], samples: int) -> Row:
    events, nanoseconds = work_times(work, samples)
    timing = Timing(float(np.median(nanoseconds)) / 1000, 0.0, samples)
    return subject.row(stage, "device", path, timing, ratio=largest_t(events, nanoseconds))


def updating(stored: StoredState) -> Callable[[int], None]:
    """Return a function that updates one state, with an event (1) or without (0)."""
    state = stored.initial(_ENTROPY)

    def step(event: int) -> None:
        nonlocal state
        state = stored.step(event, state, _ENTROPY)

    return step


def choosing(key: PrivateKey) -> Callable[[int], object]:
    """Return a function that only makes the choice that an update makes by its event. This is a hundredth of its work,
    so that the group operations do not hide a difference of nanoseconds."""
    public = key.public_key()
    one, zero = (public.rerandomise(known_bit(bit), _ENTROPY) for bit in (1, 0))
    return lambda event: chosen(event, one, zero)


def work_times(work: Callable[[int], object], samples: int) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Call ``work`` ``samples`` times, with and without an event in random order. Returns whether each call had an
    event, and its wall nanoseconds."""
    drawn = np.frombuffer(_ENTROPY(samples), dtype=np.uint8) & 1
    nanoseconds = np.empty(samples, dtype=np.int64)
    clock = time.perf_counter_ns
    for number, event in enumerate(drawn.tolist()):
        start = clock()
        work(event)
        nanoseconds[number] = clock() - start
    return drawn.astype(np.bool_), nanoseconds


def largest_t(events: NDArray[np.bool_], nanoseconds: NDArray[np.int64], kept: Sequence[float] = KEPT_TIMES) -> float:
    """Return the largest |Welch's t| over the fastest times, for each of the shares ``kept``."""
    return max(_welch(events, nanoseconds, float(np.quantile(nanoseconds, share))) for share in kept)


def _welch(events: NDArray[np.bool_], nanoseconds: NDArray[np.int64], limit: float) -> float:
    fast = nanoseconds <= limit
    one, none = (nanoseconds[fast & chosen].astype(np.float64) for chosen in (events, ~events))
    spread = one.var(ddof=1) / len(one) + none.var(ddof=1) / len(none)
    return abs(float(one.mean() - none.mean())) / float(np.sqrt(spread)) if spread else 0.0
