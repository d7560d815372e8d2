"""The intruder's game in a process of its own, while the devices of the run live through their steps.

It needs the recipe's public keys alone: its devices are fresh ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

from client_agent.panprivate.watch import Plan
from infra.lab.devices.pool import deaf_to_interrupts
from infra.lab.intruder.game import GameResult, played
from infra.lab.kit.entropy import SeededEntropy
from tacit.errors import Fatal


@dataclass(frozen=True)
class Game:
    """``learning`` devices whose truth attackers know, and ``guessing`` others; ``seed`` makes all of them."""

    plan: Plan
    learning: int
    guessing: int
    seed: bytes = field(repr=False)


async def played_beside(game: Game, tick: Callable[[], None]) -> GameResult:
    """What came of the game; ``tick`` is that of ``played``. Raises ``Fatal`` where the process dies."""
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_play, args=(game, theirs), daemon=True)
    with deaf_to_interrupts():
        process.start()
    theirs.close()
    try:
        return await asyncio.to_thread(_result, mine, tick)
    finally:
        process.kill()
        process.join()
        process.close()


def _result(said: Connection, tick: Callable[[], None]) -> GameResult:
    with said:
        while True:
            try:
                word = said.recv()
            except EOFError as error:
                raise Fatal("the process of the intruder's game ended without a result") from error
            if isinstance(word, GameResult):
                return word
            tick()


def _play(game: Game, results: Connection) -> None:
    with results, contextlib.suppress(BrokenPipeError):
        entropy = SeededEntropy(game.seed)
        results.send(played(game.plan, game.learning, game.guessing, entropy, tick=lambda: results.send(None)))
