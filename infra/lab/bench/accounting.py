"""The cost of accounting: one recipe's claim in a fresh interpreter, and a ledger of a thousand recipes.

A claim is computed in a fresh interpreter, and the processor time of that whole process is counted, less that of an
interpreter with nothing to do. ``claim alone`` loads ``tacit.dp`` and the method; ``read and claim`` also reads the
recipe, which loads its model and every type that a recipe has.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal

from infra.lab.bench.rows import Row, Subject, Timing, measured
from infra.lab.bench.targets import ALONE, CLAIM, LEDGER, READ
from infra.lab.kit.recipes import RecipeKit
from infra.lab.kit.scratch import scratch_folder
from tacit.accounting.accountants import require_library
from tacit.dp.reports import NoiseStep
from tacit.errors import Fatal
from tacit.ledger.account import Account, Charge, ChargeState, Cost
from tacit.ledger.balance import balance
from tacit.ledger.budget import judge, largest_epsilon
from tacit.methods.flips import Flips
from tacit.methods.krr import Krr
from tacit.methods.rappor import Rappor
from tacit.methods.rr import Rr

REPORTS, RECIPES = 10_000, 1000
DAY = 86_400
YEAR = 365 * DAY
_CLAIM = (
    "from decimal import Decimal; from tacit.dp.hidden_claim import Sample; from {module} import {kind}; "
    "from tacit.models.forms import form_of; form, reports = form_of('secure-aggregation'), {kind}({given}); "
    "[form.claim(reports, Sample({n}, 0.1), n=n, delta=1e-8) for n in ({n}, {n} // 2)]"
)
_RECIPE = (
    "import json; from tacit.recipe.model import Recipe; from tacit.recipe.claims import claim_of; "
    "recipe = Recipe.from_body(json.load(open({path!r}))); [claim_of(recipe, n) for n in ({n}, {n} // 2)]"
)
CODES = {
    name: _CLAIM.format(module=kind.__module__, kind=kind.__name__, given=given, n=REPORTS)
    for name, kind, given in (
        (Krr.NAME, Krr, "Decimal(2), 16"),
        (Rr.NAME, Rr, "Decimal(2)"),
        (Rappor.NAME, Rappor, "Decimal(2), 16, 16"),
        (Flips.NAME, NoiseStep, "12, 3, 1, 2"),
    )
}


def accounting_rows(repetitions: int) -> Iterator[Row]:
    """Measure a device's claims, then the ledger."""
    require_library()
    yield from _claims(repetitions)
    yield from _ledgers(repetitions)


def start_up(code: str, repetitions: int) -> Timing:
    """CPU time of a fresh interpreter that runs ``code``, less that of one that runs nothing; the first run of each is
    not measured. Raises ``Fatal`` if it fails."""
    for one in ("pass", code):
        _process(one)
    empty = statistics.median(_process("pass") for _ in range(repetitions))
    return Timing.of([max(0.0, _process(code) - empty) for _ in range(repetitions)])


def _process(code: str) -> float:
    pid = os.posix_spawn(sys.executable, [sys.executable, "-c", code], os.environ)
    _, status, used = os.wait4(pid, 0)
    if status:
        raise Fatal(f"an interpreter ended with status {os.waitstatus_to_exitcode(status)}")
    return used.ru_utime + used.ru_stime


def _claims(repetitions: int) -> Iterator[Row]:
    for name, code in CODES.items():
        yield Subject(name, {"n": REPORTS}).row(CLAIM, "device", ALONE, start_up(code, repetitions))
    with scratch_folder("tacit-bench-") as folder:
        path = folder / "recipe.json"
        path.write_text(json.dumps(RecipeKit().recipe(min_batch_size=REPORTS, population=10 * REPORTS).body()), "utf-8")
        timing = start_up(_RECIPE.format(path=str(path), n=REPORTS), repetitions)
    yield Subject(Krr.NAME, {"n": REPORTS}).row(CLAIM, "device", READ, timing)


def _ledgers(repetitions: int) -> Iterator[Row]:
    for days in (30, 365):
        timing = measured(ledger_work(days), 1, min(repetitions, 3))
        yield Subject("", {"days": days}).row(LEDGER, "everybody", "filter", timing)


def ledger_work(days: int) -> Callable[[], None]:
    """Return a function that queries the ledger of a year's recipes, in a full account with a window of ``days``: what
    is spent, whether one more recipe fits, and the largest epsilon that would."""
    charges = _charges()
    account = Account("default", Decimal(100), Decimal("0.00001"), days * DAY)
    full = (balance(charges, account, YEAR // 2).peak * Decimal("1.002")).quantize(Decimal("0.0001"))
    account = Account("default", full, account.delta, account.window_seconds)
    more = Charge("default", bytes(32), "one more", YEAR // 2, YEAR // 2 + 7 * DAY, Cost(Decimal("0.5"), _DELTA))

    def work() -> None:
        balance(charges, account, YEAR // 2)
        judge(more, charges, account)
        largest_epsilon(more, charges, account)

    return work


_DELTA = Decimal("0.000000001")


def _charges() -> list[Charge]:
    """Charges of different recipes of up to 30 days each, spread over a year."""
    draw = random.Random(RECIPES)  # noqa: S311
    charges = []
    for number in range(1, RECIPES + 1):
        start, cost = draw.randrange(YEAR), Cost(Decimal(draw.randrange(50, 2000)).scaleb(-4), _DELTA)
        end = start + draw.randrange(1, 31) * DAY
        charges.append(Charge("default", number.to_bytes(32, "big"), "", start, end, cost, ChargeState.ACTIVE))
    return charges
