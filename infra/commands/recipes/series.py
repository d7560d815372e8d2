"""``tacit series``: asks one recipe in several rounds that are charged once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from infra.authoring.recipe_options import AnalystKey, Insisted, KnownHash, LeafFile, Now, SigningKey
from infra.base.token_options import Module, PinFile, Token, signer_of
from infra.commands.recipes.series_end import end
from infra.commands.recipes.series_rounds import next_round, run
from infra.stacks.command_options import (
    HASH_ARGUMENT,
    AsJson,
    Server,
    StateDir,
    checked_name,
    policy_of,
    read_file,
    write_file,
)
from infra.views.terminal import answers, json_text, notes, print_json, span
from tacit.adapters.disk.named_files import is_readable
from tacit.adapters.system import SystemClock
from tacit.counting_words import plural
from tacit.errors import DecodeError, UsageError

if TYPE_CHECKING:
    from tacit.recipe.model import Recipe
    from tacit.recipe.series import Series


app = typer.Typer(help="Ask one recipe in several rounds that are charged once.", no_args_is_help=True)

app.command("next")(next_round)
app.command("run")(run)

SeriesFile = Annotated[Path, typer.Argument(metavar="FILE", help="A series as JSON.", show_default=False)]
LeafOrSeries = Annotated[
    Path, typer.Argument(metavar="FILE", help="A series as JSON, or its signed leaf.", show_default=False)
]
Source = Annotated[Path, typer.Option("--from", help="The recipe that every round asks.")]
Rounds = Annotated[
    int | None, typer.Option("--rounds", min=1, help="How many rounds there may be (a search of texts: one a level).")
]
Pause = Annotated[
    int, typer.Option("--pause", min=0, help="Seconds between two rounds, with --donation-slots: to collect the first.")
]
DonationSlots = Annotated[
    int | None, typer.Option("--donation-slots", min=1, help="A device takes part in at most one of this many rounds.")
]
Window = Annotated[
    int | None, typer.Option("--window", min=1, help="Length of a round in seconds (default: the recipe's).")
]
SlotsPerEpoch = Annotated[
    int | None, typer.Option("--slots-per-epoch", min=1, help="Rounds that spend tokens of one epoch.")
]
MinBatchSize = Annotated[
    int | None, typer.Option("--min-batch-size", min=1, help="B of a round (default: 0.8 of the last slot's yield).")
]
TotalEpsilon = Annotated[
    str | None,
    typer.Option(
        "--total-epsilon", help="Noise for so much in all rounds, against an aggregator (flips, no donation)."
    ),
]
TERMINAL_WIDTH = 120


@app.command("new")
def new(
    source: Source,
    rounds: Rounds = None,
    donation_slots: DonationSlots = None,
    window: Window = None,
    pause: Pause = 0,
    slots_per_epoch: SlotsPerEpoch = None,
    min_batch_size: MinBatchSize = None,
    total_epsilon: TotalEpsilon = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write the series here (default: stdout).")] = None,
    state_dir: StateDir = None,
    as_json: AsJson = False,
) -> None:
    """Make a series of a recipe: its rate is spread over the slots, and B, noise and the total claim follow.

    The series as a whole has the recipe's delta, and slots of its own if the recipe's is taken. A search for frequent
    texts (--prefixes) has a round for each level and as many donation slots. Example:
    tacit series new --from visits.json --rounds 10 --donation-slots 10 --out training.json
    """
    from infra.authoring.recipe_writing import tell_refusals
    from infra.authoring.series_form import on_free_slots, shape_of, stack_if_any, total_of
    from infra.base.recipe_files import read_recipe
    from infra.views.series_view import series_document, show_series
    from tacit.operations.drafting import refusals_document
    from tacit.recipe.writing.series_builder import propose_series
    from tacit.rules import series_table as series_rules

    recipe = read_recipe(read_file(source), str(source))
    layout, refusals = stack_if_any(state_dir), []
    shape = shape_of(recipe, layout, (rounds, donation_slots), window, pause, slots_per_epoch)
    placed, total = on_free_slots(recipe, shape, layout), total_of(total_epsilon)
    series = propose_series(placed, shape, min_batch_size=min_batch_size, total_epsilon=total)
    if layout is not None:
        refusals = series_rules.check(series, policy_of(layout.policy_path), SystemClock().now())
    tell_refusals(refusals)
    body, file = json_text(series.body()), None if out is None else str(out)
    if out is not None:
        write_file(out, body.encode())
    if as_json:
        print_json({"file": file, **series_document(series), "refusals": refusals_document(refusals)})
    elif out is None:
        print(body, end="")
    else:
        show_series(series, "a file; not published", answers(TERMINAL_WIDTH))
    if refusals:
        raise typer.Exit(1)
    if out is not None:
        _note_next(series, out, state_dir)


def _note_next(series: Series, out: Path, state_dir: Path | None) -> None:
    """Print what follows on a series in the file ``out``."""
    from tacit.recipe.encoder_specs import Prefixes

    stack = "" if state_dir is None else f" --state-dir {state_dir}"
    searches = isinstance(series.probe.question.encoder, Prefixes)
    first = f"series next {series.name}{stack}" if searches else f"series round {out} --index 0 --out round-0.json"
    notes().print(f"next: tacit series publish {out}{stack}; tacit {first}", style="dim")


@app.command("sign")
def sign(
    file: SeriesFile,
    key: SigningKey,
    out: LeafFile,
    pkcs11: Module = None,
    token: Token = None,
    pin_file: PinFile = None,
    known_hash: KnownHash = None,
    as_json: AsJson = False,
) -> None:
    """Sign a series as its analyst, on any machine that has the key; the leaf is published as it is.
    The series is shown first, as JSON and in words. With --pkcs11, the key stays in a token (docs/operations.md).

    Example: tacit series sign training.json --key .tacit/analyst/signing.key --out training.leaf
    """
    from infra.authoring.publishing import Signing, sign_file
    from infra.authoring.series_form import read_series
    from infra.views.series_view import show_series

    apart = (Path(key) if pkcs11 is None else None, pin_file)
    asked = Signing(file, signer_of(key, pkcs11, token, pin_file), out, known_hash, apart)
    sign_file(
        asked,
        read_series,
        lambda found: show_series(found, "a file; not published", answers(TERMINAL_WIDTH)),
        as_json=as_json,
    )


@app.command("publish")
def publish(
    file: LeafOrSeries,
    state_dir: StateDir = None,
    server: Server = None,
    key: AnalystKey = None,
    now: Now = False,
    as_json: AsJson = False,
) -> None:
    """Sign a series as its analyst and put it into the log, before any of its rounds; it is charged from then on. A
    leaf of `tacit series sign` is published as it is.

    Example: tacit series publish training.json --state-dir .tacit
    """
    from infra.authoring.publishing import publish_file, show_published
    from infra.authoring.series_form import read_series
    from tacit.recipe.series import Series

    series, _, index = publish_file(file, Series, read_series, state_dir, server, key, Insisted(now=now))
    if as_json:
        print_json({"hash": series.hash_text, "name": series.name, "index": index})
    else:
        show_published(series, index)


@app.command("round")
def round_command(
    file: SeriesFile,
    index: Annotated[int, typer.Option("--index", min=0, help="Which round, from 0.")],
    round_input: Annotated[
        str | None, typer.Option("--round-input", help="What this round asks about, for the devices' data sources.")
    ] = None,
    round_input_file: Annotated[
        Path | None, typer.Option("--round-input-file", help="The round input from a file of UTF-8 text.")
    ] = None,
    start: Annotated[int | None, typer.Option("--start", help="POSIX second in which reports begin.")] = None,
    duration: Annotated[
        int | None, typer.Option("--duration", min=1, help="For how many seconds reports come.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write the recipe here (default: stdout).")] = None,
    as_json: AsJson = False,
) -> None:
    """Write the recipe of one round, to be published with: tacit recipe publish.

    By default, round i gets the i-th equal part of the series' time; with donation, no other is allowed. Example:
    tacit series round training.json --index 0 --round-input-file weights.txt --out round-0.json
    """
    if round_input is not None and round_input_file is not None:
        raise typer.BadParameter("give either --round-input or --round-input-file")
    if (start is None) != (duration is None):
        raise typer.BadParameter("--start and --duration go together")
    times = None if start is None else (start, duration or 0)
    given = _text(round_input_file) if round_input_file is not None else round_input
    recipe = _round(file, index, times, given)
    body = json_text(recipe.body())
    if out is not None:
        write_file(out, body.encode())
    if as_json:
        print_json({"hash": recipe.hash_text, "name": recipe.name, "recipe": recipe.body()})
    elif out is None:
        print(body, end="")
    if out is not None:
        notes().print(f"next: tacit recipe publish {out}, with --state-dir as for the series", style="dim")
    reports = span(recipe.interval.start, recipe.interval.end)
    notes().print(f"recipe {recipe.name}, hash {recipe.hash_text}, reports {reports}", style="dim")


def _round(file: Path, index: int, times: tuple[int, int] | None, given: str | None) -> Recipe:
    """The recipe of a round; ``times``: its start and duration (POSIX seconds, seconds), unless the series says."""
    from infra.authoring.series_form import read_series
    from tacit.recipe.model import Interval

    series = read_series(read_file(file), str(file))
    if index >= series.rounds:
        raise typer.BadParameter(f"the series has {series.rounds} rounds, from 0 to {series.rounds - 1}")
    if times is not None and series.donation is not None:
        raise typer.BadParameter("with donation the time of every round is fixed")
    interval = series.window(index) if times is None else Interval(start=times[0], duration=times[1])
    try:
        return series.round(index, interval, given)
    except DecodeError as error:
        raise UsageError(str(error)) from error


def _text(path: Path) -> str:
    from tacit.recipe.model import MAX_ROUND_INPUT

    try:
        text = read_file(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 text") from error
    if not 1 <= len(text) <= MAX_ROUND_INPUT:
        raise UsageError(f"{path}: {plural(len(text), 'character')}; a round input has 1 to {MAX_ROUND_INPUT}")
    return text


@app.command("show", context_settings=HASH_ARGUMENT)
def show(
    series: Annotated[str, typer.Argument(metavar="HASH|NAME|FILE", help="A series in the stack's log, or in a file.")],
    state_dir: StateDir = None,
    as_json: AsJson = False,
) -> None:
    """Show a series: rounds, expected participation, and privacy cost beside that of independent recipes.

    Example: tacit series show training.json
    """
    from infra.authoring.series_form import logged_series, read_series
    from infra.views.series_view import series_document, show_series

    path = Path(checked_name(series))
    if is_readable(path):
        found, state = read_series(read_file(path), str(path)), "a file; not published"
    else:
        logged = asyncio.run(logged_series(series, state_dir))
        found, state = logged.series, f"entry {logged.index} of the log"
        if logged.ended is not None:
            state = f"{state}; ended by entry {logged.ended.index}"
    if as_json:
        print_json({"state": state, **series_document(found)})
    else:
        show_series(found, state, answers(TERMINAL_WIDTH))


app.command("end", context_settings=HASH_ARGUMENT)(end)
