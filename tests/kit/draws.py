"""Tests whose outcome depends on a random draw say how often chance alone fails them, and are held to it.

``@pytest.mark.false_alarm(rate, why)`` states the probability with which a test fails although nothing is wrong, over
its draws from the system or over the choice of its seeds, and where that number comes from; 0 where it draws and no
assertion depends on the draw. ``runs`` bounds how often ``--runs`` repeats a test that takes long. The mark is one
of the function, not of a single parameter.

A test without the mark fails when it draws from the system what is no secret and no name: coins, noise, times,
orders, data. Draws are seen where Python asks the operating system, through ``os.urandom``, ``secrets`` and numpy's
generators without a seed, and where a process of ours is started that draws. Not seen are draws of OpenSSL (keys and
salts of signatures), of Python's ``random`` without a seed (the linter forbids it outside of tests), and those of a
background thread that outlives the test that started it, which count for whichever test runs.

``--runs N`` runs every marked test N times, each time with other seeds, prints failures and runs of each beside the
stated rate, and fails where the two do not go together.
"""

from __future__ import annotations

import os
import random
import re
import sys
from collections import defaultdict
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

from infra.lab.kit.entropy import SeededEntropy

MARK = "false_alarm"
LEVEL = 0.01
"""Chance of a complaint about any of the stated rates when all of them are right."""

OURS = {"tacit", "client_agent", "services", "relay", "attester", "recipe_server", "infra", "tests"}
PLUMBING = {"tacit.adapters.system", "tacit.uniform", "secrets", "random", __name__}
TEXT = {"token_hex", "token_urlsafe"}
"""Functions of ``secrets`` that make names and passwords."""
SECRETS = re.compile(
    r"(tacit\.(hpke|ohttp|signing|tokens|multibuffer|adapters|roles\.client|aggregator\.keys|service\.(app|base\.log|metrics)|backoff|panprivate\.ristretto)"
    r"|services\.(admin|gateway\.keys|leader\.workers|leader\.coordinator)|attester"
    r"|client_agent\.(wallet|deciding)|infra\.lab\.(bench|devices\.(contributions|tokens))"
    r"|infra\.(stacks\.(new_layout|options|service_configs)|backing\.(backing_servers|databases|mosquitto)|base\.certificates|commands\.keys))(\.|$)"
)
"""Modules that draw keys, nonces and identifiers, which nothing compares but for equality, lengths of pauses, how
metrics are rounded, and inputs of benchmarks."""
WHOLE, WHOLE_RUNS = ("tests/e2e/", "tests/scripts/"), 3
"""Folders whose tests run whole stacks, which draw for themselves: they promise a rate of 0 unless they state another,
and are repeated so often."""
DRAWING = {"up", "demo", "fleet", "agent", "figures"}
"""Commands that, as a process, draw what nobody sees here."""

_system = os.urandom
_drawn: set[str] = set()
_run = 0


def _drawer(frame: FrameType | None) -> str | None:
    """The module of ours that draws something on which an outcome may depend, if one does."""
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name == "secrets" and frame.f_code.co_name in TEXT:
            return None
        if name not in PLUMBING and not name.startswith("numpy."):
            return name if name.partition(".")[0] in OURS and not SECRETS.match(name) else None
        frame = frame.f_back
    return None


def _urandom(size: int, /) -> bytes:
    drawer = _drawer(sys._getframe(1))
    if drawer is not None:
        _drawn.add(drawer)
    return _system(size)


def _heard(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "subprocess.Popen":
        return
    words = [os.fsdecode(word) for word in arguments[1]] if isinstance(arguments[1], list | tuple) else []
    if any("infra.cli" in word or Path(word).name == "tacit" for word in words):
        _drawn.update(f"the process tacit {word}" for word in words if word in DRAWING)


def watch() -> None:
    """Record every draw from now on."""
    os.urandom = _urandom
    random._urandom = _urandom  # type: ignore[attr-defined]
    sys.addaudithook(_heard)


def reseed() -> None:
    """Seeds are other ones in every run but the first."""
    original, generator = SeededEntropy.__init__, np.random.default_rng

    def seeded(self: SeededEntropy, seed: bytes | int = 0) -> None:
        own = seed if isinstance(seed, bytes) else b"int:%d" % seed
        original(self, b"run %d " % _run + own if _run else seed)

    def numbers(seed: Any = None) -> np.random.Generator:
        return generator([_run, seed] if _run and isinstance(seed, int) else seed)

    SeededEntropy.__init__ = seeded  # type: ignore[method-assign]
    np.random.default_rng = numbers


def stated(item: pytest.Item) -> tuple[float, int | None] | None:
    """The rate that ``item`` states, and the most runs that it wants: without a mark the promise of ``WHOLE``, or None.
    Raises ``UsageError`` for a mark without a rate from 0 to 1 or without a reason."""
    mark = item.get_closest_marker(MARK)
    if mark is None:
        return (0.0, WHOLE_RUNS) if item.nodeid.startswith(WHOLE) else None
    rate, why = mark.args if len(mark.args) == 2 else (None, None)
    if not isinstance(rate, int | float) or not 0 <= rate < 1 or not isinstance(why, str) or not why:
        raise pytest.UsageError(f"{item.nodeid}: {MARK} takes a rate from 0 to 1 and a reason")
    return float(rate), mark.kwargs.get("runs")


@dataclass
class Tally:
    """What happened to one test."""

    rate: float
    runs: int = 0
    failed: set[str] = field(default_factory=set)

    @property
    def chance(self) -> float:
        """The probability of as many failures if the rate is right."""
        from scipy.stats import binom  # takes seconds to import

        return float(binom.sf(len(self.failed) - 1, self.runs, self.rate)) if self.failed else 1.0

    @property
    def highest(self) -> float:
        """What the rate is below with 95 % confidence (Clopper and Pearson)."""
        count = len(self.failed)
        from scipy.stats import beta

        return 1.0 if count == self.runs else float(beta.ppf(0.95, count + 1, self.runs - count))


class Watch:
    """Refuses tests that draw and do not say how often chance fails them."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None]:
        """Begin to watch a new test."""
        global _run  # noqa: PLW0603 - the seeds of what a test makes know of no item
        _drawn.clear()
        _run = item.callspec.params.get("run_number", 0) if hasattr(item, "callspec") else 0
        rate = stated(item)
        if rate is not None:
            item.user_properties.append((MARK, rate[0]))
        yield

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None]:
        """Check the draws of the test that ended."""
        yield
        if _drawn and stated(item) is None:
            pytest.fail(
                f"draws from the system ({', '.join(sorted(_drawn))}): give it a seed, or state with"
                f" @pytest.mark.{MARK}(rate, why) how often chance alone fails this test",
                pytrace=False,
            )


class Repeats:
    """Runs marked tests many times and compares."""

    def __init__(self, runs: int) -> None:
        self._runs = runs
        self._tallies: dict[str, Tally] = {}
        self._others: dict[str, int] = defaultdict(int)

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Only tests that state a rate."""
        others = [item for item in items if stated(item) is None]
        items[:] = [item for item in items if stated(item) is not None]
        config.hook.pytest_deselected(items=others)

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """One more parameter: the number of the run."""
        found = stated(metafunc.definition)
        if found is not None:
            metafunc.fixturenames.append("run_number")
            runs = range(min(self._runs, found[1] or self._runs))
            metafunc.parametrize("run_number", runs, ids=[f"run{number}" for number in runs])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count, in the process that is asked for the result."""
        rate = dict(report.user_properties).get(MARK)
        if not isinstance(rate, float):
            self._others[report.outcome] += 1
            return
        tally = self._tallies.setdefault(
            re.sub(r"\[run\d+\]|-run\d+(?=\])|(?<=\[)run\d+-", "", report.nodeid), Tally(rate)
        )
        tally.runs += report.when == "call" and report.outcome != "skipped"
        if report.failed:
            tally.failed.add(report.nodeid)

    def wrong(self) -> list[str]:
        """Tests whose stated rate does not go with what happened."""
        count = len(self._tallies)
        return [name for name, tally in self._tallies.items() if tally.chance < LEVEL / count]

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Failures that agree with the stated rates do not count."""
        if session.exitstatus == pytest.ExitCode.TESTS_FAILED and not self._others["failed"]:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED if self.wrong() else pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the table of failures, the worst first."""
        wrong = self.wrong()
        terminalreporter.section("failures and stated false-alarm rates")
        terminalreporter.line("failures  runs   stated  is below  verdict   test")
        for name, tally in sorted(self._tallies.items(), key=lambda one: (one[1].chance, one[0])):
            verdict = "TOO OFTEN" if name in wrong else "fits"
            numbers = f"{len(tally.failed):8}  {tally.runs:4}  {tally.rate:7.1g}  {tally.highest:8.2g}"
            terminalreporter.line(f"{numbers}  {verdict:9} {name}")
        terminalreporter.line(f"{len(self._tallies)} tests, {len(wrong)} of them fail more often than they state")
