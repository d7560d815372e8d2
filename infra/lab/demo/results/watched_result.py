"""What a demo of local pan-privacy produced besides: how an intruder fared, and what a device's file looked like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from infra.lab.demo.results.result import DemoResult

if TYPE_CHECKING:
    from infra.lab.intruder.game import GameResult
    from infra.lab.intruder.verdict import Verdict

INTRUDER_TITLE = "What an intruder learns who reads a device"


@dataclass(frozen=True)
class Look:
    """The file of one device before and after a step in which the ``event`` happened ``events`` times: its size in
    bytes, and the beginning of the encrypted state in its newest slot."""

    event: str
    step: int
    events: int
    sizes: tuple[int, int]
    before: bytes
    after: bytes

    @property
    def words(self) -> str:
        return f"step {self.step}: " + (f"{self.events} × {self.event}" if self.events else f"no {self.event}")


def looks_of(files: Sequence[tuple[int, bytes]], event: str, events: Sequence[int]) -> tuple[Look, ...]:
    """The first step with events and the first one without any after it, or else before it. ``files``: size and
    beginning of the state, before the first step and after every one."""
    busy = next((step for step, times in enumerate(events) if times), None)
    calm = [step for step, times in enumerate(events) if not times]
    quiet = next((step for step in calm if busy is None or step > busy), calm[0] if calm else None)
    return tuple(
        Look(event, step + 1, events[step], (files[step][0], files[step + 1][0]), files[step][1], files[step + 1][1])
        for step in (busy, quiet)
        if step is not None
    )


@dataclass(frozen=True, kw_only=True)
class WatchedResult(DemoResult):
    """The whole run. ``steps``: T; ``events``: how often the event happened on all devices together; ``guessed`` and
    ``game_steps``: fresh devices in the intruder's game, and the steps of each."""

    steps: int
    step_seconds: int
    events: int
    intruder: GameResult
    guessed: int
    game_steps: int
    looks: tuple[Look, ...]

    @property
    def flags(self) -> str:
        return f"--model {self.recipe['model']} "

    @property
    def verdict(self) -> Verdict:
        """What the attackers' guesses prove."""
        return self.intruder.verdict

    @property
    def game_words(self) -> str:
        """The intruder's game in words: how often it looked and guessed."""
        return (
            f"{self.intruder.snapshots:,} looks at storage and memory of devices with and without events, before and "
            f"after each of {self.game_steps} steps; guesses for {self.guessed:,} fresh ones. Advantage = 2 (share of "
            "right guesses - 1/2): 0 by chance, 1 for who knows."
        )

    def document(self) -> dict[str, Any]:
        """As ``DemoResult.document``, with what the intruder saw in each step and how well it guessed."""
        attackers = [
            {
                "name": one.name,
                "right": one.right,
                "advantage": round(one.advantage, 4),
                "stderr": round(one.stderr, 4),
                "better_than_chance": one in self.verdict.found,
            }
            for one in self.intruder.attackers
        ]
        looks = [
            {
                "step": look.step,
                "events": look.events,
                "bytes": list(look.sizes),
                "before": look.before.hex(),
                "after": look.after.hex(),
            }
            for look in self.looks
        ]
        intruder = {
            "snapshots": self.intruder.snapshots,
            "attackers": attackers,
            "devices": self.guessed,
            "verdict": {
                "false_alarm": self.verdict.false_alarm,
                "least_advantage": round(self.verdict.least, 4),
                "most_advantage": round(self.verdict.most, 4),
                "words": self.verdict.words,
            },
            "steps": self.game_steps,
            "looks": looks,
        }
        return {**super().document(), "steps": self.steps, "intruder": intruder}
