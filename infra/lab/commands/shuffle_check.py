"""``tacit privacy shuffle-check``: what a randomizer of one message tells, locally and through a shuffler."""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer

from infra.lab.shuffled.randomizers import Factor, FiniteRandomizer, epsilon_of
from infra.stacks.command_options import AsJson, read_file
from infra.views.terminal import answers, plain_table, print_json
from tacit.errors import UsageError

WIDTH = 110
MOST_INPUTS, MOST_MESSAGES, MOST_DIGITS = 64, 256, 40
MOST_BITS = 80
"""Of a fraction that is shown as one, in numerator and denominator together."""
_PROBABILITY = re.compile(r"[0-9]+(/[0-9]+|(\.[0-9]+)?([eE]-?[0-9]{1,2})?)", re.ASCII)
FORM = 'a list of rows such as [["3/4", "1/4"], [0.25, 0.75]]'


def shuffle_check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="JSON: a row of probabilities for each input.")],
    users: Annotated[int, typer.Option("--n", min=1, max=1000, help="Users whose messages are shuffled.")] = 2,
    delta: Annotated[str, typer.Option("--delta", help="Failure probability of the shuffled messages.")] = "0.000001",
    as_json: AsJson = False,
) -> None:
    """Compute exactly what one message for each user tells, alone and shuffled with those of others.

    FILE has a row for each input and in it the probability of each message, as a decimal or a fraction; for randomised
    response that tells the truth three times in four:

    [["3/4", "1/4"], [0.25, 0.75]]

    All values of all users are enumerated. At a delta of 0 shuffling adds nothing, whatever the randomizer (Balcer and
    Cheu, 2020, Theorem 4.1).

    Example: tacit privacy shuffle-check randomizer.json --n 4 --delta 0.01
    """
    randomizer = _randomizer(file)
    allowed = _delta(delta)
    try:
        pure, found = (randomizer.shuffled_factor(users, some) for some in (Fraction(0), allowed))
    except ValueError as error:
        most = randomizer.most_users()
        fitting = f"--n {most} works" if most else "give one with fewer inputs or messages"
        raise UsageError(f"{error}; {fitting}") from error
    local = randomizer.local_factor()
    rows = {"local": (0.0, local), "shuffled_pure": (0.0, pure), "shuffled": (float(allowed), found)}
    if as_json:
        print_json(
            {
                "inputs": len(randomizer.laws),
                "messages": randomizer.messages,
                "n": users,
                **{name: _document(at, factor) for name, (at, factor) in rows.items()},
                "shuffling_adds_at_delta_0": pure != local,
            }
        )
        return
    _show(users, rows)


def _show(users: int, rows: dict[str, tuple[float, Factor]]) -> None:
    names = {
        "local": "one message",
        "shuffled_pure": f"{users} users, shuffled",
        "shuffled": f"{users} users, shuffled",
    }
    table = plain_table("what is seen", "delta", "epsilon", "e^epsilon")
    for name, (delta, factor) in rows.items():
        table.add_row(names[name], f"{delta:g}", f"{epsilon_of(factor):.7g}", _format_factor(factor))
    console = answers(WIDTH)
    console.print("neighbours by replacement of one user's value")
    console.print(table)
    console.print("At delta 0 shuffling adds nothing to one message for each user (Theorem 4.1).", soft_wrap=True)


def _format_factor(factor: Factor) -> str:
    """A factor as a fraction, or rounded where that is long."""
    if factor is None:
        return "infinite"
    short = (factor.numerator * factor.denominator).bit_length() <= MOST_BITS
    return str(factor) if short else f"{math.exp(epsilon_of(factor)):.7g}"


def _document(delta: float, factor: Factor) -> dict[str, Any]:
    epsilon = epsilon_of(factor)
    return {"delta": delta, "epsilon": epsilon if math.isfinite(epsilon) else None, "factor": _format_factor(factor)}


def _delta(text: str) -> Fraction:
    try:
        number = Decimal(text)
    except InvalidOperation as error:
        raise UsageError(f"--delta {text}: give a decimal from 0 up to 1") from error
    if not number.is_finite() or not 0 <= number < 1 or int(number.as_tuple().exponent) < -MOST_DIGITS:
        raise UsageError(f"--delta {text}: give a decimal from 0 up to 1, of at most {MOST_DIGITS} digits")
    return Fraction(number)


def _randomizer(path: Path) -> FiniteRandomizer:
    """The randomizer in a file. Raises ``UsageError``, in one line that names the row."""
    try:
        rows = json.loads(read_file(path), parse_float=str, parse_int=str, parse_constant=str)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not JSON; give {FORM}") from error
    if not isinstance(rows, list) or not 2 <= len(rows) <= MOST_INPUTS:
        raise UsageError(f"{path}: give {FORM}, from 2 to {MOST_INPUTS} of them")
    matrix = [_row(path, number, row) for number, row in enumerate(rows, start=1)]
    for number, row in enumerate(matrix, start=1):
        if len(row) != len(matrix[0]):
            raise UsageError(f"{path}: row {number} has {len(row)} probabilities, row 1 has {len(matrix[0])}")
    return FiniteRandomizer.single_message(matrix)


def _row(path: Path, number: int, row: Any) -> list[Fraction]:
    if not isinstance(row, list) or not 1 <= len(row) <= MOST_MESSAGES:
        raise UsageError(f"{path}: row {number} must be a list of 1 to {MOST_MESSAGES} probabilities")
    found = []
    for place, entry in enumerate(row, start=1):
        if not isinstance(entry, str) or len(entry) > MOST_DIGITS or not _PROBABILITY.fullmatch(entry):
            raise UsageError(f"{path}: row {number}, entry {place} must be a probability such as 0.25 or 1/4")
        if int(entry.partition("/")[2] or 1) == 0:
            raise UsageError(f"{path}: row {number}, entry {place} divides by 0")
        found.append(Fraction(entry))
    if (total := sum(found, start=Fraction(0))) != 1:
        raise UsageError(f"{path}: row {number} sums to {_format_factor(total)}, not to 1")
    return found
