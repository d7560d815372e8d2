"""When garbage is looked for: not during imports, and later not among what a service was started with."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

YOUNGEST = 2000
"""Objects made and not freed after which the youngest are searched for garbage (700 by default)."""


@contextmanager
def no_collection() -> Iterator[None]:
    """Suspend garbage collection while the block imports modules. Imported objects stay, and the collector would scan
    them again and again (an eighth of a service's start)."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def spare_what_is_here() -> None:
    """Search for garbage once; what is left then is no longer looked at. To be called by a service before it listens:
    its modules and settings stay, and to search them again took up to a fifth of its processor time under load. What
    clients made by then would stay too."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNGEST, *gc.get_threshold()[1:])
