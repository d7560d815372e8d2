"""``tacit demo``: one question to many devices, with real data."""

from __future__ import annotations

import itertools
import math
import shlex
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from infra.authoring.survey_flags import edges_of
from infra.lab.commands.demo_learn import LEAST_ROUNDS, MOST_LIARS, MOST_ROUNDS
from infra.lab.commands.demo_learn import learn as train
from infra.lab.commands.demo_local import local
from infra.lab.commands.demo_played import played
from infra.lab.commands.demo_search import heavy_hitters as search
from infra.lab.commands.demo_shuffled import of_domain, shown_of_shuffled, shuffled
from infra.lab.commands.demo_watched import visits_of, watched, watching_of
from infra.views.terminal import notes
from tacit.errors import UsageError

if TYPE_CHECKING:
    from infra.lab.demo.dataset import Dataset
    from infra.lab.demo.proposed import Shown


MAIN, HITTERS, LEARN = "the main model", "--heavy-hitters", "--learn"
LOCAL, SHUFFLED = "local", "shuffled"
WATCHED = ("pan-private", "pan-private-single")
GOES_WITH = {
    **dict.fromkeys(("buckets", "categories", "missing"), (MAIN, SHUFFLED)),
    **dict.fromkeys(("statistic", "steps"), WATCHED),
    "top": (HITTERS, LOCAL),
    "epsilon": (HITTERS, LOCAL, LEARN),
    **dict.fromkeys(("rounds", "liars"), (LEARN,)),
    **dict.fromkeys(("variant", "domain"), (SHUFFLED,)),
    "engine": (LOCAL,),
    "through": (MAIN,),
    "no-value": (MAIN, SHUFFLED, HITTERS, LOCAL),
}
"""What each flag says something about."""
AS_CATEGORY = "category"
"""How a survey counts devices without a value unless it is told otherwise
(``tacit.recipe.writing.survey.CATEGORY``)."""
DEFAULT_DEVICES = 1500
DEVICES_HELP = (
    "Take the first N rows: at least 200; with --model pan-private or pan-private-single 60 to 2,000, with --model "
    "local or --heavy-hitters 1,000 to 100,000, with --learn 500 to 10,000."
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
    str | None,
    typer.Option(
        help="With --model pan-private or pan-private-single: count (default), histogram, or mean (one server)."
    ),
]
Epsilon = Annotated[
    str | None,
    typer.Option(
        help="With --model local: what one report may tell the analyzer (default: 4, with --engine paper 8); with "
        "--heavy-hitters: what all rounds may tell an aggregator that works with the relay (default: 2); with --learn: "
        "what all rounds may tell one aggregator (default: 2)."
    ),
]
Top = Annotated[
    int | None,
    typer.Option(min=1, max=1000, help="With --model local or --heavy-hitters: list at most so many texts."),
]
HeavyHitters = Annotated[
    bool, typer.Option("--heavy-hitters", help="Frequent texts, found in rounds of a series: no server sees a report.")
]
Learn = Annotated[
    bool, typer.Option("--learn", help="Train a model of handwritten digits: servers see sums of updates only.")
]
Rounds = Annotated[int | None, typer.Option(min=LEAST_ROUNDS, max=MOST_ROUNDS, help="With --learn: how many rounds.")]
Liars = Annotated[
    int | None,
    typer.Option(
        min=0, max=MOST_LIARS, help="With --learn: so many of the devices do as much harm as a proof lets through."
    ),
]
Variant = Annotated[
    str | None,
    typer.Option(help="With --model shuffled: zsum or hist (nothing that nobody has is shown), flipped or unbiased."),
]
Domain = Annotated[
    int | None, typer.Option(help="With --model shuffled: made-up answers among so many, few of them frequent.")
]
Through = Annotated[
    str, typer.Option(help="Without --model: shuffler, if one mixes the reports before the leader gets them.")
]
Steps = Annotated[int | None, typer.Option(help="With the same models: steps of the watched period, 1 to 500.")]
Missing = Annotated[str, typer.Option(help="Devices without a value: a category, or ignore, which biases the others.")]
NoValue = Annotated[
    str | None,
    typer.Option("--no-value", help="Texts in the file that mean that there is no value: NA,-,unknown"),
]
Devices = Annotated[int | None, typer.Option(min=1, help=DEVICES_HELP)]

Engine = Annotated[
    str | None, typer.Option(help="With --model local: tree (default), or paper, the histogram of 2015 (slow).")
]


def demo(
    input_file: Annotated[
        Path | None, typer.Option("--input", help="CSV file, or texts; one row is one device.")
    ] = None,
    column: Annotated[str | None, typer.Option(help="Column of the CSV file that the question asks for.")] = None,
    buckets: Edges = None,
    categories: Annotated[str | None, typer.Option(help="Exact category texts: red,green,blue")] = None,
    devices: Devices = None,
    model: Model = None,
    heavy_hitters: HeavyHitters = False,
    learn: Learn = False,
    rounds: Rounds = None,
    liars: Liars = None,
    statistic: Statistic = None,
    steps: Steps = None,
    epsilon: Epsilon = None,
    top: Top = None,
    engine: Engine = None,
    variant: Variant = None,
    domain: Domain = None,
    through: Through = "gateway",
    missing: Missing = AS_CATEGORY,
    no_value: NoValue = None,
    out: Annotated[Path, typer.Option(help="Folder for the picture and the report.")] = Path("demo-out"),
    json_output: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Run every party on this machine and answer one question about many devices.

    Example: tacit demo --input visits.csv --column visits --buckets 0,1,2,4
    """
    if through not in ("gateway", "shuffler"):
        raise typer.BadParameter("--through is gateway or shuffler")
    asked = _asked(model, heavy_hitters=heavy_hitters, learn=learn)
    given = {"buckets": buckets, "categories": categories, "statistic": statistic, "steps": steps, "epsilon": epsilon}
    given |= {"top": top, "engine": engine, "variant": variant, "domain": domain, "rounds": rounds}
    given |= {"no-value": no_value, "liars": liars}
    given |= {"missing": _unless(missing, AS_CATEGORY), "through": _unless(through, "gateway")}
    _check_flags(asked, given)
    nothing = () if no_value is None else tuple(one.strip() for one in no_value.split(","))
    if asked == LEARN:
        return train(input_file, column, devices, rounds, epsilon, liars, out, json_output=json_output)
    if asked == HITTERS:
        return search(input_file, column, devices, epsilon, top, out, nothing, json_output=json_output)
    if asked == LOCAL:
        return local(input_file, column, devices, epsilon, top, engine, out, nothing, json_output=json_output)
    if asked == SHUFFLED:
        shown = shown_of_shuffled(variant)
        made = _shuffled_data(input_file, column, buckets, categories, devices, domain, nothing, shown)
        if made.question.proposed:
            say_proposed(made, notes())
        _say_cells(made, notes())
        if domain is None:
            _say_shown(made, shown, notes())
        return shuffled(_with_missing(made, missing), variant, out, json_output=json_output)
    if asked in WATCHED:
        watching = watching_of(asked, statistic, steps)
        return watched(watching, visits_of(watching, input_file, column, devices), out, json_output=json_output)
    shown = _shown()
    made = _with_missing(_dataset(input_file, column, buckets, categories, devices, nothing, shown), missing)
    _say_shown(made, shown, notes())
    return _demo(made, through, out, json_output)


def _asked(model: str | None, *, heavy_hitters: bool, learn: bool) -> str:
    """What is asked for. Raises ``BadParameter`` for two things at once, and for an unknown model."""
    wanted = {"--model": model is not None, HITTERS: heavy_hitters, LEARN: learn}
    chosen = [name for name, is_wanted in wanted.items() if is_wanted]
    if len(chosen) > 1:
        raise typer.BadParameter(f"give either {' or '.join(chosen)}")
    models = (LOCAL, SHUFFLED, *WATCHED)
    if model not in (None, *models):
        raise typer.BadParameter(f"--model takes {', '.join(models)}; without it the demo uses the main model")
    return model or next(iter(chosen), MAIN)


def _unless(value: str, usual: str) -> str | None:
    return None if value == usual else value


def _check_flags(asked: str, given: Mapping[str, object]) -> None:
    """Raise ``BadParameter`` for a flag that says nothing about what is ``asked``."""
    for name, value in given.items():
        if value is not None and asked not in GOES_WITH[name]:
            kinds = [kind if kind in (MAIN, HITTERS, LEARN) else f"--model {kind}" for kind in GOES_WITH[name]]
            raise typer.BadParameter(f"--{name} goes with {' or '.join(kinds)}")


def _demo(dataset: Dataset, through: str, out: Path, json_output: bool) -> None:
    from infra.lab.demo.run import DemoRun

    _say_of(dataset, notes())
    played(lambda folder, stages: DemoRun(dataset, folder, stages, through=through).run(), out, json_output=json_output)


def _say_of(dataset: Dataset, progress: Console) -> None:
    from infra.lab.demo.run import MOST_AGENTS

    if dataset.question.proposed:
        say_proposed(dataset, progress)
    if dataset.missing:
        _say_missing(dataset, progress)
    _say_cells(dataset, progress)
    if len(dataset.values) > MOST_AGENTS:
        _say_crowd(len(dataset.values), progress)


def _dataset(
    input_file: Path | None,
    column: str | None,
    buckets: str | None,
    categories: str | None,
    devices: int | None,
    no_value: Collection[str],
    shown: Shown,
) -> Dataset:
    from infra.lab.demo.dataset import load_csv, load_randhie

    if input_file is None:
        if column or buckets or categories:
            raise typer.BadParameter("--column, --buckets and --categories go with --input")
        number = DEFAULT_DEVICES if devices is None else devices
        return load_randhie(number, shown if shown.asked or number < DEFAULT_DEVICES else None)
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
        no_value=no_value,
        shown=shown,
    )


def _shuffled_data(
    input_file: Path | None,
    column: str | None,
    buckets: str | None,
    categories: str | None,
    devices: int | None,
    domain: int | None,
    no_value: Collection[str],
    shown: Shown,
) -> Dataset:
    from infra.lab.commands.demo_shuffled import DEFAULT_DEVICES as FEW

    if domain is None:
        few = FEW if input_file is None and not devices else devices
        return _dataset(input_file, column, buckets, categories, few, no_value, shown)
    if input_file is not None or buckets or categories:
        raise typer.BadParameter("--domain makes answers up; leave out --input, --buckets and --categories")
    return of_domain(domain, devices)


def _shown() -> Shown:
    """What the demo of the main model shows."""
    from infra.lab.demo.proposed import Shown
    from infra.lab.demo.run import rate_of

    return Shown(rate_of)


def _say_shown(dataset: Dataset, shown: Shown, progress: Console) -> None:
    """Print that the question has more answers than the population can show, where it has."""
    asked = dataset.question.edges or dataset.question.categories or ()
    words = shown.words(len(dataset.values), len(asked)) if asked else ""
    if words:
        progress.print(words, highlight=False, style="yellow", soft_wrap=True)


def _with_missing(dataset: Dataset, missing: str) -> Dataset:
    """Return the data with ``missing`` as the treatment of empty cells. Raises ``BadParameter``."""
    from tacit.recipe.writing.survey import MISSING

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
        f"proposed from the file, as many as its rows can show: {flag}\n(in a real recipe these are public and fixed "
        "before any device is asked)",
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


def _say_cells(dataset: Dataset, progress: Console) -> None:
    """Print how cells are counted that may not mean what they say, as devices count them."""
    texts = ",".join(dataset.silent)
    words = []
    if dataset.question.edges is not None and texts:
        words.append(f"{texts} in the file stands for no value")
    elif texts:
        flag = f"--no-value {shlex.quote(texts)}"
        words.append(f"{texts} in the file is asked as an answer; if it means that there is none: {flag}")
    if dataset.below and dataset.question.edges is not None:
        first = dataset.question.edges[0]
        words.append(f"{dataset.below:,} numbers lie below the first edge {first}, and count in the first bucket")
    if dataset.between:
        words.append(
            f"{dataset.between:,} numbers lie between whole ones, and count in the bucket of the whole number below: "
            "9.5 in that of 9"
        )
    for one in words:
        progress.print(one, highlight=False, style="yellow", soft_wrap=True)


def _say_missing(dataset: Dataset, progress: Console) -> None:
    from tacit.recipe.writing.survey import NO_VALUE

    counted = f"counted as {NO_VALUE!r}" if dataset.question.missing == AS_CATEGORY else "spread over the answers"
    progress.print(
        f"{dataset.missing:,} of {len(dataset.values):,} cells hold no value: these devices take part, {counted}",
        highlight=False,
        style="yellow",
        soft_wrap=True,
    )
