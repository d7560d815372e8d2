"""How often an event happened on each device, and in which steps: the input of a demo of local pan-privacy.

A CSV column holds whole numbers from 0 on, one row a device. Without one there is a made-up library, the same in every
run: computers at which nobody, or several people, sat down. In which steps the events of a device happen is drawn at
random, every step as likely as the others.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from infra.lab.devices.columns import read_column, says_nothing
from tacit.counting_words import plural
from tacit.errors import UsageError
from tacit.ports import Entropy
from tacit.recipe.member_types import EVENT_PATTERN
from tacit.uniform import uniform_below

MIN_DEVICES, MAX_DEVICES = 60, 2000
"""Each is an agent of its own."""
MAX_STEPS = 500
MOST_PER_STEP = 16
"""On average over the steps of one device: recording an event is work."""
SYNTHETIC = "made-up data, the same in every run: computers of a public library"
EVENT = "visit"
_QUIET, _MEAN = 0.55, 2.0
_SEED = 20_260
_WHOLE = re.compile(r"\+?0*([0-9]{1,9})")


@dataclass(frozen=True)
class Visits:
    """``counts[i]``: how often the event happened on device ``i``; ``missing``: rows without a number, which are 0."""

    source: str
    event: str
    counts: tuple[int, ...]
    missing: int = 0


def made_up(devices: int) -> Visits:
    """Visits at the computers of a library. Raises ``UsageError`` for too few or too many devices."""
    import numpy as np

    _check_number(devices)
    rng = np.random.default_rng(_SEED)
    quiet, visits = rng.random(MAX_DEVICES) < _QUIET, 1 + rng.poisson(_MEAN - 1, MAX_DEVICES)
    return Visits(SYNTHETIC, EVENT, tuple(int(count) for count in np.where(quiet, 0, visits)[:devices]))


def load_visits(path: Path, column: str, steps: int, devices: int | None) -> Visits:
    """Read ``column`` of ``path``, the first ``devices`` rows of it. Raises ``UsageError`` with the first thing
    wrong."""
    if devices is not None:
        _check_number(devices)
    rows = list(itertools.islice(read_column(path, column), MAX_DEVICES + 1 if devices is None else devices))
    if len(rows) > MAX_DEVICES:
        raise UsageError(f"{path}: has more than {MAX_DEVICES:,} rows, each an agent here; take the first --devices N")
    if devices is not None and len(rows) < devices:
        raise UsageError(f"{path}: has {plural(len(rows), 'row')}, --devices asks for {devices}; ask for fewer")
    most = MOST_PER_STEP * steps
    counts = tuple(_count(f"{path}: line {line}, column {column}", text.strip(), most) for line, text in rows)
    if len(rows) < MIN_DEVICES:
        raise UsageError(f"{path}: {plural(len(rows), 'row')} below the header; the demo needs at least {MIN_DEVICES}")
    return Visits(
        str(path),
        column if re.fullmatch(EVENT_PATTERN, column) else EVENT,
        counts,
        sum(says_nothing(text) for _, text in rows),
    )


def steps_of(count: int, steps: int, entropy: Entropy) -> list[int]:
    """How many of ``count`` events happen in each step, every event in a step at random."""
    happened = [0] * steps
    for _ in range(count):
        happened[uniform_below(steps, entropy)] += 1
    return happened


def capped(counts: Sequence[int], most: int) -> list[int]:
    """The counts as a histogram or mean up to ``most`` counts them."""
    return [min(count, most) for count in counts]


def _count(where: str, text: str, most: int) -> int:
    if says_nothing(text):
        return 0
    whole = _WHOLE.fullmatch(text)
    if whole is None:
        raise UsageError(
            f"{where}: {text[:20]!r} is no whole number from 0 on; write how often the event happened on that device, "
            "or leave the cell empty where it never did"
        )
    if int(whole[1]) > most:
        raise UsageError(
            f"{where}: {text[:20]} events are more than {most:,}, {MOST_PER_STEP} a step; ask for more --steps, or "
            "write a smaller number"
        )
    return int(whole[1])


def _check_number(devices: int) -> None:
    if devices < MIN_DEVICES:
        raise UsageError(f"{devices} devices are too few to hide in; ask for at least {MIN_DEVICES}")
    if devices > MAX_DEVICES:
        raise UsageError(f"{devices:,} devices are too many, each is an agent here; ask for at most {MAX_DEVICES:,}")
