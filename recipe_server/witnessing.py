"""Has this log's checkpoints cosigned: one driver per witness, and which checkpoint readers are shown (P29).

All witnesses are asked for the same tree, the *candidate*. Once ``quorum`` of them have cosigned it, readers are shown
it, and the newest tree becomes the next candidate. So entries are stored and acknowledged whether a witness answers or
not, and readers are never shown a checkpoint that their policies would refuse while they would accept an older one.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

from recipe_server.config import WitnessConfig
from recipe_server.service import RecipeService
from tacit.backoff import LONGEST_PAUSE, Backoff
from tacit.errors import CryptoError, DecodeError, UsageError
from tacit.lines import lines_of
from tacit.ports import HttpResponse, TransportError
from tacit.problem import read_problem
from tacit.retry_after import retry_after
from tacit.service.app import ServiceEnv
from tacit.service.base.log import get_logger
from tacit.service.base.vouched import ASK_SECONDS
from tacit.tlog.checkpoint import Note, NoteKey, NoteSignature
from tacit.tlog.cosignature import MAX_SKEW_SECONDS, cosigned_at, witness_key
from tacit.tlog.witnessing import AddCheckpoint

ANSWER_SECONDS = 60.0
"""Seconds in which a witness reads what is new and answers."""
MAX_STEP = 4096
"""Most entries by which one request advances a witness: one that is far behind is advanced in steps."""
BACKOFF = Backoff(2.0, LONGEST_PAUSE)
_MAX_ANSWER = 4096
_SIZE = re.compile(rb"(0|[1-9][0-9]{0,18})\n?")


class Cosignatures:
    """The witnesses' cosignatures of one tree, the candidate. Once ``quorum`` of them are there, readers are shown the
    tree with all of them, and the next candidate may be taken."""

    def __init__(self, tree: RecipeService, quorum: int) -> None:
        self._tree = tree
        self._quorum = quorum
        self._lines: dict[str, NoteSignature] = {}
        self._size: int | None = None
        self._adding = asyncio.Lock()

    async def candidate(self) -> int:
        """The size of the tree that is to be cosigned now."""
        newest = await self._tree.newest()
        if self._size is None or (len(self._lines) >= self._quorum and newest > self._size):
            self._size, self._lines = newest, {}
        return self._size

    def has(self, witness: str, size: int) -> bool:
        """Whether the candidate has ``size`` entries and this witness has cosigned it."""
        return size == self._size and witness in self._lines

    async def add(self, size: int, line: NoteSignature) -> None:
        """Record that a witness cosigned the tree of ``size`` entries."""
        async with self._adding:
            if size != self._size:
                return
            self._lines[line.name] = line
            if len(self._lines) >= self._quorum:
                note = Note.decode(await self._tree.signed(size))
                lines = tuple(self._lines[name] for name in sorted(self._lines))
                await self._tree.show(size, Note(note.text, (*note.signatures, *lines)).encode())


class WitnessDriver:
    """Has one witness cosign each candidate, and again every ``fresh_seconds``, so that no reader finds its cosignature
    too old. A witness that does not answer is asked again at growing intervals."""

    def __init__(
        self,
        config: WitnessConfig,
        tree: RecipeService,
        cosignatures: Cosignatures,
        deps: ServiceEnv,
        fresh_seconds: float,
    ) -> None:
        """Raises ``UsageError`` for a malformed key."""
        self._url = config.url
        try:
            self._key: NoteKey = witness_key(config.key)
        except DecodeError as error:
            raise UsageError(f"witnesses: {error}") from error
        self._tree = tree
        self._cosignatures = cosignatures
        self._transport = deps.transport
        self._clock = deps.clock
        self._vouched = deps.vouched
        self._entropy = deps.entropy
        self._fresh_seconds = fresh_seconds
        self._known = 0
        self._made = 0.0
        self._failures = 0
        self._failed_at = self._next = 0.0
        self._conflicts = 0
        self._trouble = ""
        self._log = get_logger("recipe_server")

    @property
    def name(self) -> str:
        return self._key.name

    @property
    def cosigned(self) -> float:
        """When the witness last cosigned (POSIX seconds); 0 if it never did."""
        return self._made

    def trouble(self) -> str:
        """Why this witness failed more than once to cosign, in words fit for the public; else the empty string."""
        return self._trouble if self._failures > 1 else ""

    async def step(self) -> int:
        """Ask for a cosignature if one is due; returns 1 if the witness advanced, else 0."""
        now = self._clock.now()
        candidate = await self._cosignatures.candidate()
        # while the clock is in doubt the log takes no leaf, so nothing new would ever make a witness say the time again
        kept = min(self._fresh_seconds, ASK_SECONDS) if self._vouched.doubt() else self._fresh_seconds
        aged = not self._made <= now < self._made + kept
        waits = self._failed_at <= now < self._next  # before it: the clock was wrong then
        if (self._cosignatures.has(self.name, candidate) and not aged) or waits:
            return 0
        size = min(candidate, self._known + MAX_STEP) if self._known <= candidate else candidate
        try:
            return await self._ask(size)
        except (TransportError, TimeoutError, CryptoError, DecodeError) as error:
            asked = error.retry_after if isinstance(error, TransportError) else 0.0
            return self._failed(str(error) or "no answer in time", asked)

    async def _ask(self, size: int) -> int:
        old = min(self._known, size)
        note = await self._tree.signed(size)
        request = AddCheckpoint(old, await self._tree.extends(old, size), note)
        async with asyncio.timeout(ANSWER_SECONDS):
            answer = await self._transport.request(
                "POST",
                f"{self._url}/add-checkpoint",
                headers={"Content-Type": "text/plain; charset=utf-8"},
                body=request.encode(),
            )
        if len(answer.body) > _MAX_ANSWER:
            return self._failed("its answer is too long")
        if answer.status == 409:
            # the witness is at another size: continue from there, unless that is the very size that we named
            match = _SIZE.fullmatch(answer.body)
            self._conflicts += 1
            if match is None or int(match[1]) == old or self._conflicts > 2:
                return self._failed("it holds another tree of this log")
            self._known = int(match[1])
            return 1
        if answer.status != 200:
            return self._failed(answer_in_words(answer), retry_after(answer.headers, self._clock.now()))
        line = self._cosignature(Note.decode(note).text, answer.body)
        self._known, self._made, self._trouble = size, self._clock.now(), ""
        self._failures = self._conflicts = 0
        await self._cosignatures.add(size, line)
        return 1

    def _cosignature(self, text: str, body: bytes) -> NoteSignature:
        """This witness's verified line in its answer. Its time must be about now: readers would refuse one that is old
        or in the future, so it must not complete a quorum. Raises ``CryptoError`` or ``DecodeError``."""
        for found in lines_of(body.decode("utf-8", "replace")):
            line = NoteSignature.parse(found)
            if (line.name, line.key_id) == (self._key.name, self._key.key_id):
                made = cosigned_at(text, line, self._key)
                self._vouched.hear(f"witness {self._key.name}", made + 1.0)
                if abs(made - self._clock.now()) > MAX_SKEW_SECONDS:
                    raise CryptoError(f"its clock is off by more than {MAX_SKEW_SECONDS} s")
                return line
        raise CryptoError("the answer has no cosignature of the witness")

    def _failed(self, why: str, asked: float = 0.0) -> int:
        self._conflicts = 0
        self._failed_at = self._clock.now()
        self._next = self._failed_at + BACKOFF.pause(self._failures, self._entropy, asked)
        self._failures += 1
        self._trouble = f"witness {self.name}: {why}"
        self._log.warning("witness_failed", witness=self.name, why=why, failures=self._failures)
        return 0


def answer_in_words(answer: HttpResponse) -> str:
    """The text of a problem document, cut to one line."""
    text = "".join(char for char in read_problem(answer.body).detail if char.isprintable())[:200]
    return f"status {answer.status}" + (f", {text}" if text else "")


def drivers_of(
    configs: Sequence[WitnessConfig],
    quorum: int,
    tree: RecipeService,
    deps: ServiceEnv,
    fresh_seconds: float,
) -> list[WitnessDriver]:
    """A driver for each witness, all with one candidate. Raises ``UsageError``."""
    cosignatures = Cosignatures(tree, quorum)
    drivers = [WitnessDriver(config, tree, cosignatures, deps, fresh_seconds) for config in configs]
    if len({driver.name for driver in drivers}) != len(drivers):
        raise UsageError("witnesses: two of them have the same name")
    return drivers
