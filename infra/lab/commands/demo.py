"""``tacit demo``: one question to many devices, with real data."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from infra.authoring.survey_flags import edges_of
from infra.lab.commands.demo_local import local
from infra.lab.commands.demo_shuffled import of_domain, shuffled
from infra.lab.commands.demo_watched import in_a_fresh_folder, visits_of, watched, watching_of
from infra.views.terminal import answers, notes, print_json
from tacit.errors import UsageError

if TYPE_CHECKING:
    from infra.lab.demo.dataset import Dataset


LOCAL, SHUFFLED = "local", "shuffled"
AS_CATEGORY = "category"
"""How a survey counts devices without a value unless it is told otherwise (``tacit.recipe.survey.CATEGORY``)."""
DEFAULT_DEVICES = 1500
DEVICES_HELP = (
    "Take the first N rows: at least 200; with --model pan-private or pan-private-single 60 to 2,000, with --model "
    "local 1,000 to 100,000."
)
AGENTS_SECONDS, CONTRIBUTION_SECONDS = 20.0, 0.007
"""About what a run with a crowd takes on two cores: its agents and the parties, and each further contribution."""
Edges = Annotated[str | None, typer.Option(help="Lower bucket edges, the last one open: 0,1,2,4 or 0,0.25,0.5")]
Model = Annotated[
    str | None,
    typer.Option(
        help="Devices that many people use watch an event: pan-private or pan-private-single; frequent texts of a "
        "large domain: local; a histogram behind a shuffler: shuffled."
    ),
]
Statistic = Annotated[
    str | None, typer.Option(help="With --model: count (default), histogram, or mean (one server only).")
]
Epsilon = Annotated[
    str | None,
    typer.Option(help="With --model local: what one report may tell the analyzer (default: 4, with --engine paper 8)."),
]
Top = Annotated[int | None, typer.Option(min=1, max=1000, help="With --model local: list at most so many texts.")]
Variant = Annotated[
    str | None,
    typer.Option(help="With --model shuffled: zsum or hist (nothing that nobody has is shown), or unbiased."),
]
Domain = Annotated[
    int | None, typer.Option(help="With --model shuffled: made-up answers among so many, few of them frequent.")
]
Through = Annotated[
    str, typer.Option(help="Without --model: shuffler, if one mixes the reports before the leader gets them.")
]
Devices = Annotated[int | None, typer.Option(min=1, help=DEVICES_HELP)]

Engine = Annotated[
    str | None, typer.Option(help="With --model local: tree (default), or paper, the histogram of 2015 (slow).")
]


def demo(
    input_file: Annotated[Path | None, typer.Option("--input", help="CSV file; one row is one device.")] = None,
    column: Annotated[str | None, typer.Option(help="Column of the CSV file that the question asks for.")] = None,
    buckets: Edges = None,
    categories: Annotated[str | None, typer.Option(help="Exact category texts: red,green,blue")] = None,
    devices: Devices = None,
    model: Model = None,
    statistic: Statistic = None,
    steps: Annotated[int | None, typer.Option(help="With --model: steps of the watched period, 1 to 500.")] = None,
    epsilon: Epsilon = None,
    top: Top = None,
    engine: Engine = None,
    variant: Variant = None,
    domain: Domain = None,
    through: Through = "gateway",
    missing: Annotated[
        str, typer.Option(help="Devices without a value: a category, or ignore, which biases the others.")
    ] = AS_CATEGORY,
    out: Annotated[Path, typer.Option(help="Folder for the picture and the report.")] = Path("demo-out"),
    json_output: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Run every party on this machine and answer one question about many devices.

    Example: tacit demo --input visits.csv --column visits --buckets 0,1,2,4
    """
    if through not in ("gateway", "shuffler") or (model is not None and through != "gateway"):
        raise typer.BadParameter("--through is gateway or shuffler, and goes with no --model")
    if model != SHUFFLED and (variant is not None or domain is not None):
        raise typer.BadParameter("--variant and --domain go with --model shuffled")
    if model == LOCAL:
        return local(input_file, column, devices, epsilon, top, engine, out, json_output=json_output)
    if epsilon is not None or top is not None or engine is not None:
        raise typer.BadParameter("--epsilon, --top and --engine go with --model local")
    if model == SHUFFLED:
        if statistic is not None or steps is not None:
            raise typer.BadParameter("--statistic and --steps do not go with --model shuffled")
        made = _shuffled_data(input_file, column, buckets, categories, devices, domain)
        return shuffled(_with_missing(made, missing), variant, out, json_output=json_output)
    if model is not None:
        asked = watching_of(model, statistic, steps, of_answers=bool(buckets or categories))
        return watched(asked, visits_of(asked, input_file, column, devices), out, json_output=json_output)
    if statistic is not None or steps is not None:
        raise typer.BadParameter("--statistic and --steps go with --model pan-private or pan-private-single")
    made = _with_missing(_dataset(input_file, column, buckets, categories, devices), missing)
    _demo(made, through, out, json_output)
    return None


def _demo(dataset: Dataset, through: str, out: Path, json_output: bool) -> None:
    from infra.lab.demo.report import prepare_report, write_report
    from infra.lab.demo.run import DemoRun
    from infra.lab.demo.view import Stages, show

    if not json_output:
        prepare_report(out)
    progress = notes()
    _say_of(dataset, progress)
    stages = Stages(progress)
    result = in_a_fresh_folder(stages, lambda folder: DemoRun(dataset, folder, stages, through=through).run())
    if json_output:
        print_json(result.document())
        return
    outputs = write_report(result, out)
    show(result, answers(), outputs)


def _say_of(dataset: Dataset, progress: Console) -> None:
    from infra.lab.demo.run import MOST_AGENTS

    if dataset.question.proposed:
        say_proposed(dataset, progress)
    if dataset.missing:
        _say_missing(dataset, progress)
    if len(dataset.values) > MOST_AGENTS:
        _say_crowd(len(dataset.values), progress)


def _dataset(
    input_file: Path | None, column: str | None, buckets: str | None, categories: str | None, devices: int | None
) -> Dataset:
    from infra.lab.demo.dataset import load_csv, load_randhie

    if input_file is None:
        if column or buckets or categories:
            raise typer.BadParameter("--column, --buckets and --categories go with --input")
        return load_randhie(DEFAULT_DEVICES if devices is None else devices)
    if column is None:
        raise typer.BadParameter("--input needs --column NAME")
    if buckets and categories:
        raise typer.BadParameter("give either --buckets or --categories")
    return load_csv(
        input_file,
        column,
        edges=None if buckets is None else _edges(buckets),
        categories=None if categories is None else _categories(categories),
        devices=devices,
    )


def _shuffled_data(
    input_file: Path | None,
    column: str | None,
    buckets: str | None,
    categories: str | None,
    devices: int | None,
    domain: int | None,
) -> Dataset:
    from infra.lab.commands.demo_shuffled import DEFAULT_DEVICES as FEW

    if domain is None:
        return _dataset(input_file, column, buckets, categories, FEW if input_file is None and not devices else devices)
    if input_file is not None or buckets or categories:
        raise typer.BadParameter("--domain makes answers up; leave out --input, --buckets and --categories")
    return of_domain(domain, devices)


def _with_missing(dataset: Dataset, missing: str) -> Dataset:
    """Return the data with ``missing`` as the treatment of empty cells. Raises ``BadParameter``."""
    from tacit.recipe.survey import MISSING

    if missing not in MISSING:
        raise typer.BadParameter(f"--missing is {' or '.join(MISSING)}")
    return replace(dataset, question=replace(dataset.question, missing=missing))


def _edges(text: str) -> list[int | str]:
    from tacit.recipe.quantity import exact

    try:
        edges = edges_of(text)
    except ValueError as error:
        raise typer.BadParameter(f"--buckets: {error}") from error
    if len(edges) < 2 or any(exact(low) >= exact(high) for low, high in itertools.pairwise(edges)):
        raise typer.BadParameter("--buckets takes at least two edges, each larger than the one before")
    return edges


def _categories(text: str) -> list[str]:
    names = text.split(",")
    if len(names) < 2 or len(set(names)) != len(names) or not all(names):
        raise typer.BadParameter("--categories takes at least two different texts with commas between")
    return names


def say_proposed(dataset: Dataset, progress: Console) -> None:
    """Print the flag that states the question which was proposed from the file."""
    question = dataset.question
    if question.edges is not None:
        flag = f"--buckets {','.join(map(str, question.edges))}"
    elif question.categories is not None:
        flag = f"--categories {','.join(question.categories)}"
    else:
        raise UsageError("the question has neither buckets nor categories")
    progress.print(
        f"proposed from the file: {flag}\n(in a real recipe these are public and fixed before any device is asked)",
        highlight=False,
        style="yellow",
        soft_wrap=True,
    )


def _say_crowd(devices: int, progress: Console) -> None:
    from infra.lab.demo.run import AGENTS_OF_A_CROWD, rate_of

    taking_part = round(rate_of(devices) * devices)
    seconds = 10 * math.ceil((AGENTS_SECONDS + CONTRIBUTION_SECONDS * taking_part) / 10)
    progress.print(
        f"{devices:,} devices, about {taking_part:,} of which take part: {AGENTS_OF_A_CROWD} run as agents of their "
        f"own, the others in batches, as in tacit fleet. This takes about {seconds} s on two free cores.",
        highlight=False,
        style="dim",
        soft_wrap=True,
    )


def _say_missing(dataset: Dataset, progress: Console) -> None:
    from tacit.recipe.survey import NO_VALUE

    counted = f"counted as {NO_VALUE!r}" if dataset.question.missing == AS_CATEGORY else "spread over the answers"
    progress.print(
        f"{dataset.missing:,} of {len(dataset.values):,} cells are empty: these devices take part, {counted}",
        highlight=False,
        style="yellow",
        soft_wrap=True,
    )
