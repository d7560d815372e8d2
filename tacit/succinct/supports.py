"""How many reports support each item: for all strings of f bits below given prefixes, by one transform.

Theory. A report with value y and hash ``A x + c`` supports x if ``A x + c = y``. The indicator of that is the
average, over all 2^k subsets u of the rows of A, of the signs ``(-1)^(u.(A x + c + y))``. ``u.A`` is the exclusive or
of the rows in u, a vector w. For ``x = prefix || s`` the sign is that of ``w.(prefix || 0) + u.(c + y)``, a constant,
times that of ``w' . s`` with the last f bits of w. So a report adds 2^k signs to a spectrum of 2^f numbers, one
spectrum for each prefix, and its Walsh-Hadamard transform is 2^k times the number of supports of every s. A report
costs 2^k steps for all prefixes and all s together.
"""

from __future__ import annotations

import ctypes
import logging
import threading
from array import array
from collections.abc import Iterator, Sequence
from ctypes import c_char_p, c_int, c_size_t, c_uint, c_void_p
from dataclasses import dataclass, field
from functools import cache
from operator import add

from tacit.methods.base.affine import MAX_HASH_BITS, rows_of
from tacit.methods.base.statistics import MAX_ITEM_BITS
from tacit.native_build import BuildError, library_folders, open_library
from tacit.native_level import OFF, wanted_level
from tacit.succinct.native.build import SOURCES, compile_library, library_name

_log = logging.getLogger(__name__)
_loading = threading.Lock()

MAX_FREE_BITS = 20
LANES = 64
"""How many prefixes share one spectrum in the native library."""
MAX_SIGNS = 1 << 30
"""In one spectrum, so that none of its numbers passes 31 bits. More reports are counted in parts."""


@dataclass(slots=True)
class Reports:
    """Reports of one level: a 64-bit seed and a value of ``hash_bits`` bits each, nine bytes per report."""

    hash_bits: int
    seeds: array[int] = field(default_factory=lambda: array("Q"), repr=False)
    values: bytearray = field(default_factory=bytearray, repr=False)

    def __post_init__(self) -> None:
        if not 1 <= self.hash_bits <= MAX_HASH_BITS:
            raise ValueError(f"hash_bits must be from 1 to {MAX_HASH_BITS}")

    def __len__(self) -> int:
        return len(self.values)

    def add(self, seeds: array[int], values: bytes) -> None:
        """Keep reports. ``ValueError`` for a value that does not fit."""
        if len(seeds) != len(values) or max(values, default=0) >> self.hash_bits:
            raise ValueError(f"a report must have a seed and {self.hash_bits} bits")
        self.seeds += seeds
        self.values += values

    def parts(self) -> Iterator[Reports]:
        """The reports in as few parts as have a spectrum of their own; one of none if there are none."""
        size = MAX_SIGNS >> self.hash_bits
        for start in range(0, max(1, len(self)), size):
            end = start + size
            yield Reports(self.hash_bits, self.seeds[start:end], self.values[start:end])


def count_supports(reports: Reports, prefixes: Sequence[int], prefix_bits: int, free_bits: int) -> list[array[int]]:
    """For each prefix (an integer of ``prefix_bits`` bits) the number of reports that support each of its 2^free_bits
    extensions, by the extension's last ``free_bits`` bits. ``ValueError`` for lengths or prefixes out of range."""
    if not 0 <= free_bits <= MAX_FREE_BITS or not 0 <= prefix_bits <= MAX_ITEM_BITS - free_bits:
        raise ValueError(f"at most {MAX_FREE_BITS} free bits and {MAX_ITEM_BITS} bits in all can be counted")
    if any(not 0 <= prefix < 1 << prefix_bits for prefix in prefixes):
        raise ValueError(f"a prefix must have {prefix_bits} bits")
    first, *more = (_count_supports(part, prefixes, prefix_bits, free_bits) for part in reports.parts())
    for part in more:
        first = [array("i", map(add, row, other)) for row, other in zip(first, part, strict=True)]
    return first


def _count_supports(reports: Reports, prefixes: Sequence[int], prefix_bits: int, free_bits: int) -> list[array[int]]:
    found: list[array[int]] = []
    for start in range(0, len(prefixes), LANES):
        chosen = prefixes[start : start + LANES]
        counted = _native(reports, chosen, prefix_bits, free_bits)
        found += counted if counted is not None else _pure(reports, chosen, prefix_bits, free_bits)
    return found


def _native(reports: Reports, prefixes: Sequence[int], prefix_bits: int, free_bits: int) -> list[array[int]] | None:
    library = load()
    if library is None:
        return None
    lanes = 1 if len(prefixes) == 1 else LANES
    columns = (ctypes.c_uint64 * MAX_ITEM_BITS)()
    for bit in range(prefix_bits):
        columns[bit] = sum((prefix >> bit & 1) << lane for lane, prefix in enumerate(prefixes))
    spectrum = (ctypes.c_int32 * (lanes << free_bits))()
    supports = (ctypes.c_int32 * (len(prefixes) << free_bits))()
    seeds, values, many = reports.seeds.tobytes(), bytes(reports.values), len(reports)
    failed = library.succinct_add(
        *(seeds, values, many, reports.hash_bits), *(columns, prefix_bits, free_bits, lanes, spectrum)
    ) or library.succinct_finish(spectrum, free_bits, lanes, len(prefixes), many, reports.hash_bits, supports)
    if failed:
        raise ValueError("the kernel refused the lengths, or has no memory for them")
    rows = [array("i") for _ in prefixes]
    for row, at in zip(rows, range(0, ctypes.sizeof(supports), 4 << free_bits), strict=True):
        row.frombytes(memoryview(supports).cast("B")[at : at + (4 << free_bits)])
    return rows


def _pure(reports: Reports, prefixes: Sequence[int], prefix_bits: int, free_bits: int) -> list[array[int]]:
    spectra = [[0] * (1 << free_bits) for _ in prefixes]
    mask, heads = (1 << free_bits) - 1, [prefix << free_bits for prefix in prefixes]
    for seed, value in zip(reports.seeds, reports.values, strict=True):
        rows, offset = rows_of(seed, prefix_bits + free_bits, reports.hash_bits)
        for subset in range(1, 1 << reports.hash_bits):
            combined, sign = 0, (subset & (offset ^ value)).bit_count()
            for at, row in enumerate(rows):
                combined ^= row if subset >> at & 1 else 0
            for spectrum, head in zip(spectra, heads, strict=True):
                spectrum[combined & mask] += 1 - 2 * ((sign + (combined & head).bit_count()) & 1)
    for spectrum in spectra:
        _transform(spectrum)
    # the empty subset of rows adds one for each report
    return [array("i", [(value + len(reports)) >> reports.hash_bits for value in spectrum]) for spectrum in spectra]


def _transform(spectrum: list[int]) -> None:
    """The Walsh-Hadamard transform in place, without scaling."""
    half = 1
    while half < len(spectrum):
        for block in range(0, len(spectrum), 2 * half):
            for at in range(block, block + half):
                one, other = spectrum[at], spectrum[at + half]
                spectrum[at], spectrum[at + half] = one + other, one - other
        half *= 2


def load() -> ctypes.CDLL | None:
    """The shared object, or None where pure Python is wanted, or where the object neither exists nor can be compiled
    (reported once in the log)."""
    if wanted_level() == OFF:
        return None
    with _loading:
        return _load()


@cache
def _load() -> ctypes.CDLL | None:
    try:
        library = open_library(library_name(), library_folders(SOURCES), compile_library)
    except BuildError as error:
        _log.warning("the kernel of local hashing is not available (%s); supports are counted in pure Python", error)
        return None
    library.succinct_add.argtypes = (
        *(c_char_p, c_char_p, c_size_t, c_uint),
        *(c_void_p, c_uint, c_uint, c_uint, c_void_p),
    )
    library.succinct_add.restype = c_int
    library.succinct_finish.argtypes = (c_void_p, c_uint, c_uint, c_uint, c_size_t, c_uint, c_void_p)
    library.succinct_finish.restype = c_int
    return library
