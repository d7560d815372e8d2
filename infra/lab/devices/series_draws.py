"""Which round of a series each device of a fleet takes part in: drawn once for all runs of the fleet, as a device keeps
its own draw (P26).

The draws lie in the fleet's folder, in one file per series and number of devices. A device that first sees a round in
the middle of a window has the next window, as in ``client_agent.series``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from infra.lab.devices.decisions import coins
from tacit.adapters.disk.files import replace_file
from tacit.errors import UsageError
from tacit.ports import Entropy
from tacit.recipe.series import Series

NO_ROUND = 2**16 - 1
"""Stands for the draw that named no round; a series has fewer rounds."""
_KIND = np.dtype("<u2")


def drawn_rounds(folder: Path, series: Series, devices: int, index: int, entropy: Entropy) -> NDArray[np.uint16] | None:
    """The round of each device, or ``NO_ROUND``; None for a series without donation, whose rounds have coins of their
    own. Drawn now if the fleet has not seen the series yet, where round ``index`` is the first one that it sees. Raises
    ``UsageError`` for a file of another length."""
    if series.donation is None:
        return None
    path = folder / f"draws-{series.hash.hex()[:16]}-{devices}.bin"
    if not path.exists():
        drawn = _draw(series, devices, index, entropy)
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(path, drawn.astype(_KIND).tobytes())
        return drawn
    data = path.read_bytes()
    if len(data) != devices * _KIND.itemsize:
        raise UsageError(f"{path}: does not hold one draw for each of {devices} devices; remove it")
    return np.frombuffer(data, dtype=_KIND).astype(np.uint16)


def _draw(series: Series, devices: int, index: int, entropy: Entropy) -> NDArray[np.uint16]:
    slots = 0 if series.donation is None else series.donation.slots
    begin = -(-index // slots) * slots
    drawn = np.full(devices, NO_ROUND, dtype=np.uint16)
    for round_ in range(begin, begin + slots):
        said = coins(series.probe.rate, devices, entropy) & (drawn == NO_ROUND)
        drawn[said] = round_
    drawn[drawn >= series.rounds] = NO_ROUND
    return drawn
