"""What the agent asks of the states that a device keeps of watched events; where its version watches none, nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Set
from pathlib import Path
from typing import Final, Protocol

from tacit.errors import Refusal
from tacit.extension_points import WATCHED_STATE
from tacit.ports import Clock, Entropy
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy


class Watching(Protocol):
    """The states of one device (``client_agent.panprivate.watches.Watches``). ``is_over``: whether a time (POSIX
    seconds) is over by others' clocks too."""

    is_over: Callable[[float], bool]

    def __len__(self) -> int: ...

    @property
    def trouble(self) -> str:
        """What the owner should know about the kept states, never about events; empty if nothing."""
        ...

    def expect(self, recipe: Recipe) -> None:
        """Watch for the recipe from now on, unless that is done already."""
        ...

    def state(self, recipe: Recipe) -> bytes:
        """The state from which the recipe's answer is made: the kept one, or that before the first step."""
        ...

    def record(self, event: str, times: int = 1) -> bool:
        """Record that the event happened ``times`` times just now; returns whether any recipe watches it."""
        ...

    def tick(self) -> None:
        """Replace all state in memory, and write the states whose step has ended."""
        ...

    def forget(self, recipes: Set[bytes]) -> None:
        """Erase the states of ``recipes`` (hashes), which are decided on."""
        ...

    def keep_only(self, recipes: Collection[bytes]) -> None:
        """Erase the states of all other recipes."""
        ...

    def close(self) -> None:
        """Release the files."""
        ...


class Unwatched:
    """The states of a device whose version has no feature that watches: there are never any, and a recipe that asks
    for one is refused."""

    trouble: Final = ""

    def __init__(self) -> None:
        self.is_over: Callable[[float], bool] = lambda _until: True

    def __len__(self) -> int:
        return 0

    def expect(self, recipe: Recipe) -> None:
        """Raises refusal ``model-unsupported``."""
        raise Refusal("model-unsupported", f"this device watches no events, as model {recipe.model} asks")

    def state(self, recipe: Recipe) -> bytes:
        """Raises as ``expect``."""
        raise Refusal("model-unsupported", f"this device watches no events, as model {recipe.model} asks")

    def record(self, _event: str, _times: int = 1) -> bool:
        """False: no recipe watches it."""
        return False

    def tick(self) -> None:
        """No state is in memory that could be replaced."""

    def forget(self, recipes: Set[bytes]) -> None:
        """No state is kept of any of ``recipes``."""

    def keep_only(self, recipes: Collection[bytes]) -> None:
        """No state is kept of any other recipe."""

    def close(self) -> None:
        """No file is open."""


_WATCHES = WATCHED_STATE.get("watches")
"""Loaded with the agent, which uses it from the start: so it is among the lines of its process."""


def open_watches(folder: Path | None, clock: Clock, entropy: Entropy, policy: Policy) -> Watching:
    """The states of a device in files below ``folder``, the agent's own, or only in memory (None)."""
    if _WATCHES is None:
        return Unwatched()
    below = None if folder is None else folder / WATCHED_STATE["folder"]
    watches: Watching = _WATCHES(below, clock, entropy, work=policy.max_watch_work, policy=policy)
    return watches
