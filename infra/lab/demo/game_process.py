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
from infra.lab.intruder.game import GameResult, judged
from infra.lab.intruder.traces import TOGETHER, Trace, devices
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
    """What came of the game; ``tick`` is called for every device, of those that live one after the other and of those
    side by side. Raises ``Fatal`` where the process dies."""
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
    entropy, number = SeededEntropy(game.seed), game.learning + game.guessing
    alone: list[tuple[Trace, int]] = []
    beside: list[tuple[Trace, int]] = []
    with results, contextlib.suppress(BrokenPipeError):
        for life in devices(game.plan, number, entropy):
            alone.append(life)
            results.send(None)
        for life in devices(game.plan, number, entropy.child("beside"), together=TOGETHER):
            beside.append(life)
            results.send(None)
        results.send(judged(alone, game.learning, beside=beside))
