"""The peer of heavy hitters in the local model: the prefix-extending method of the package ``pure-ldp``, with optimised
local hashing as its oracle.

The package's own server of that oracle keeps a number for each of the 2^32 items, and updates all of them with every
report. ``_lazy_server`` makes one that keeps the reports, and counts their supports of those prefixes only that the
method asks for: the same numbers. Devices are the package's own.

Lengths of prefixes and how many are kept were chosen in the peer's favour (``docs/models.md``): wide steps leave few
groups among which the devices are split. The packages need NumPy before 2.3 and xxhash before 4.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import struct
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from infra.lab.devices.vectorised import Words
from tacit.extras import install_command

NAME = "pure-ldp PEM + OLH"
START, STEP, KEEP = 8, 8, 48
Numbers = NDArray[np.uint32]
_WORD = 0xFFFFFFFF
_PRIMES = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)


def why_not() -> str | None:
    """Why the peer cannot be measured here and what to do about it, in words; None if it can be."""
    if importlib.util.find_spec("pure_ldp") is None:
        return f"{NAME} is not installed, and its columns are empty; install it with: {install_command('peers')}"
    try:
        most_frequent_by_peer(np.arange(16, dtype=np.uint64), 1.0, 16, 1)
    except (TypeError, ImportError) as error:
        return f"{NAME} fails with the packages that are installed ({error}); reinstall: {install_command('peers')}"
    return None


def most_frequent_by_peer(
    items: Words, epsilon: float, bits: int, top: int, start: int = START, step: int = STEP, keep: int = KEEP
) -> list[int]:
    """The ``top`` most frequent items that the peer finds, one report from each device with one of ``items``, of
    ``bits`` bits. Its first prefixes have ``start`` + ``step`` bits, each further one ``step`` more."""
    method: Any = importlib.import_module("pure_ldp.heavy_hitters.prefix_extending")
    client = method.PEMClient(epsilon, start, bits, step)
    server = method.PEMServer(epsilon, start, bits, step, fo_server=_lazy_server(epsilon))
    for item in items.tolist():
        server.aggregate(client.privatise(f"{item:0{bits}b}"))
    found, _ = server.find_heavy_hitters(k=keep)
    return [int(text, 2) for text in found[:top]]


def _lazy_server(epsilon: float) -> Any:
    """A server of optimised local hashing that counts the supports of what it is asked for."""
    package: Any = importlib.import_module("pure_ldp.frequency_oracles.local_hashing")

    class LazyServer(package.LHServer):  # type: ignore[misc]
        def update_params(
            self, epsilon: Any = None, use_olh: Any = None, g: Any = None, index_mapper: Any = None, **_: Any
        ) -> None:
            super().update_params(epsilon=epsilon, use_olh=use_olh, g=g, index_mapper=index_mapper)

        def reset(self) -> None:
            self.reports: list[tuple[int, int]] = []
            self.n = 0

        def aggregate(self, priv_data: tuple[int, int]) -> None:
            self.reports.append(priv_data)
            self.n += 1

        def estimate_all(self, data_list: Iterable[str], **_: Any) -> Any:
            values, seeds = zip(*self.reports, strict=True)
            self.aggregated_data = supports(
                [self.index_mapper(one) for one in data_list],
                np.array(seeds, np.uint64).astype(np.uint32),
                np.array(values, np.uint32),
                self.g,
            )
            return self._update_estimates()

    return LazyServer(epsilon, 0, use_olh=True)


def supports(items: Sequence[int], seeds: Numbers, values: Numbers, count: int) -> NDArray[np.int64]:
    """How many reports have the hash, among ``count`` values, of each item under their seed. Items whose texts begin
    alike are hashed together as far as that goes."""
    found, texts = np.zeros(len(items), np.int64), [str(item).encode() for item in items]
    order = sorted(range(len(texts)), key=lambda at: (len(texts[at]), texts[at]))
    divisor = np.uint32(count)
    for (length, words), places in itertools.groupby(order, lambda at: (len(texts[at]), _words_of(texts[at]))):
        begun = _begun(words, length, seeds)
        for at in places:
            hashed = _ended(begun, texts[at][len(words) :])
            found[at] = np.count_nonzero(hashed - hashed // divisor * divisor == values)
    return found


def hashes(data: bytes, seeds: Numbers) -> Numbers:
    """XXH32 of fewer than 16 bytes under each seed (Y. Collet, "xxHash fast digest algorithm")."""
    words = _words_of(data)
    return _ended(_begun(words, len(data), seeds), data[len(words) :])


def _words_of(data: bytes) -> bytes:
    """As much of it as words of four bytes fill."""
    return data[: len(data) // 4 * 4]


def _begun(words: bytes, length: int, seeds: Numbers) -> Numbers:
    found = seeds + np.uint32(_PRIMES[4] + length)
    for word in struct.unpack(f"<{len(words) // 4}I", words):
        found = _turned(found + np.uint32(word * _PRIMES[2] & _WORD), 17) * np.uint32(_PRIMES[3])
    return found


def _ended(begun: Numbers, rest: bytes) -> Numbers:
    found = begun.copy()
    for byte in rest:
        found = _turned(found + np.uint32(byte * _PRIMES[4] & _WORD), 11) * np.uint32(_PRIMES[0])
    found ^= found >> np.uint32(15)
    found *= np.uint32(_PRIMES[1])
    found ^= found >> np.uint32(13)
    found *= np.uint32(_PRIMES[2])
    found ^= found >> np.uint32(16)
    return found


def _turned(words: Numbers, by: int) -> Numbers:
    return (words << np.uint32(by)) | (words >> np.uint32(32 - by))
