"""A fleet's report: on the terminal, and as JSON, pictures and one page that opens offline."""

from __future__ import annotations

import base64
import html
import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from infra.lab.devices.destination import Destination
from infra.lab.devices.metrics import Snapshot, edge_of
from infra.lab.fleet.oracle import Estimated, Verdict
from infra.lab.fleet.result import FleetResult
from infra.lab.fleet.run import Load
from infra.views.answer_table import AnswerRow, answers_table
from infra.views.page_style import STYLE
from infra.views.terminal import plain_table
from tacit.adapters.disk.files import replace_file
from tacit.methods.figures import MARGIN, form_of_errors, margin, number

MOST_ANSWERS, WIDTH = 24, 92
NUMBERS = ("estimate", MARGIN, "of all devices", "truth of all")
HUE, INK = "#0b7285", "#343a40"
DIRECT_REMARK = "tokens were signed with the local issuer's key (--tokens direct), not attested and issued"
SAMPLED_REMARK = "tokens were fetched by sampled devices only; real devices fetch theirs whatever their coin says"
CPU_REMARK = "CPU of the services covers the run and the release"


def remarks(result: FleetResult, load: Load) -> list[str]:
    """How the run differs from a deployment, and what was measured."""
    found = [CPU_REMARK] if result.services else []
    if load.prepared is not None:
        return [f"contributions were made beforehand by tacit fleet prepare ({load.prepared.name})", *found]
    return [DIRECT_REMARK if load.direct else SAMPLED_REMARK, *found]


def show(
    result: FleetResult, verdict: Verdict | None, load: Load, console: Console, written: Sequence[str] = ()
) -> None:
    """Print the result of a run, the oracle's verdict, remarks, and the paths in ``written``."""
    document = result.document()
    for title, rows in _sections(document, load):
        console.print(Panel(_rows(rows), title=f"[bold]{title}", title_align="left", width=WIDTH))
    if verdict is not None:
        console.print(Panel(_verdict_table(verdict), title=_verdict_title(verdict), title_align="left", width=WIDTH))
    if verdict is not None and verdict.answers:
        width = min(WIDTH, console.width)
        title = "[bold]Released answers beside what the devices know"
        console.print(Panel(_answers_table(verdict.answers, width), title=title, title_align="left", width=width))
    for remark in remarks(result, load):
        console.print(Text(remark, style="dim"), soft_wrap=True)
    for path in written:
        console.print(Text(path), soft_wrap=True)


def show_prepared(result: FleetResult, load: Load, out: Path, console: Console) -> None:
    """Print what ``tacit fleet prepare`` wrote to ``out``, and what it took."""
    wall, cpu = result.tokens_ms()
    rows = [
        ("devices", f"{result.devices:,}"),
        ("contributions", f"{result.prepared:,}"),
        ("without a token", f"{result.without_token:,}"),
        ("file", f"{out} ({out.stat().st_size / 2**20:,.1f} MiB)"),
        ("seconds", f"{result.seconds:,.1f}"),
        *((f"  {stage}", f"{seconds:,.1f}") for stage, seconds in result.timings.items()),
        ("per token", f"{wall:.2f} ms, of which simulator CPU {cpu:.2f} ms"),
    ]
    console.print(Panel(_rows(rows), title="[bold]Prepared", title_align="left", width=WIDTH))
    if load.direct:
        console.print(Text(DIRECT_REMARK, style="dim"), soft_wrap=True)


def _sections(document: dict[str, Any], load: Load) -> list[tuple[str, list[tuple[str, str]]]]:
    latency = document["latency_ms"]
    fleet = [
        ("devices", f"{document['devices']:,}"),
        ("sampled", f"{document['sampled']:,}"),
        *([("  dummies", f"{document['dummies']:,}")] if document["dummies"] else []),
        ("contributions", f"{document['contributions']:,}"),
        ("acknowledged", f"{document['acknowledged']:,} in {document['attempts']:,} tries"),
        ("profile", f"{load.profile}, " + (f"{load.rate:g} a second" if load.rate else "as fast as it goes")),
        *((f"injected: {name}", f"{count:,}") for name, count in document["injected"].items()),
        *((f"met: {cause}", f"{count:,}") for cause, count in document["problems"].items()),
    ]
    speed = [
        ("seconds", f"{document['seconds']:,.1f}"),
        *((f"  {stage}", f"{seconds:,.1f}") for stage, seconds in document["stages"].items()),
        ("acknowledged a second", f"{document['throughput']:,.0f}"),
        ("latency", ", ".join(f"{name} {value:,.1f} ms" for name, value in latency.items())),
    ]
    tokens = document["tokens"]
    if tokens["count"]:
        wall, cpu = tokens["wall_ms_per_token"], tokens["simulator_cpu_ms_per_token"]
        speed.append(("per token", f"{wall:.2f} ms, of which simulator CPU {cpu:.2f} ms"))
    cpu_rows = [(name, f"{value:,.0f} µs") for name, value in document["cpu_us_per_contribution"].items()]
    return [("Fleet", fleet), ("Speed", speed), ("CPU per contribution", cpu_rows)]


def _rows(rows: Iterable[tuple[str, str]]) -> Table:
    table = Table.grid(padding=(0, 3))
    for name, value in rows:
        table.add_row(Text(name, style="dim"), Text(value))
    return table


def _verdict_title(verdict: Verdict) -> str:
    return "[bold green]Oracle: everything agrees" if verdict.holds else "[bold red]Oracle: counts differ"


def _remarks(verdict: Verdict) -> list[str]:
    """What could not be compared, and whether devices were silent."""
    return [*verdict.remarks, *(f"warning: {one}" for one in verdict.warnings)]


def _verdict_table(verdict: Verdict) -> Table:
    table = plain_table("what", "sent", "found", "")
    for finding in verdict.findings:
        mark = Text("ok", style="green") if finding.holds else Text("differs", style="bold red")
        table.add_row(finding.what, f"{finding.expected:,}", f"{finding.found:,}", mark)
    for remark in _remarks(verdict):
        table.add_row(Text(remark, style="yellow"))
    return table


def _answers_table(rows: Sequence[Estimated], width: int) -> Group:
    """At most ``MOST_ANSWERS`` rows, and how many intervals hold the truth."""
    shown = rows[:MOST_ANSWERS]
    form = form_of_errors(one.stderr for one in shown)
    answers = [AnswerRow(one.label, one.estimate, one.stderr, _numbers(one, form), one.truth) for one in shown]
    table = answers_table(answers, "estimate ━ with 95 % interval ╌, truth ┃", NUMBERS, width)
    return Group(table, Text(_inside(rows), style="dim"))


def _numbers(one: Estimated, form: str) -> tuple[str, ...]:
    """The cells below the headings ``NUMBERS``."""
    whole = "-" if one.low is None or one.high is None else f"{number(one.low, form)} to {number(one.high, form)}"
    return number(one.estimate, form), margin(one.stderr, form), whole, number(one.truth, form)


def _inside(rows: Sequence[Estimated]) -> str:
    judged, more = [one.inside for one in rows if one.inside is not None], len(rows) - MOST_ANSWERS
    words = f"{sum(judged)} of {len(judged)} intervals of all devices hold the truth, silent devices included"
    if not judged:
        words = "estimates cover only the devices that answered; the truth next to them covers all devices"
    moved = sum(one.moved for one in rows)
    if moved:
        words += (
            f"; rounding and clipping by the recipe moved {moved} of the truths by more than a standard error: a finer "
            "unit or a wider range is needed"
        )
    return f"{more} more answers are not shown; {words}" if more > 0 else words


def write_report(
    result: FleetResult, verdict: Verdict | None, load: Load, target: Destination, folder: Path
) -> list[str]:
    """Write ``fleet.json``, three pictures and ``fleet.html`` into ``folder``; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    document = {
        "recipe": {"name": target.recipe.name, "hash": target.recipe.hash_text},
        "load": {
            "profile": str(load.profile),
            "rate": load.rate,
            "workers": load.workers,
            "in_flight": load.window,
            "faults": load.faults,
            "tokens": "direct" if load.direct else "issued",
            "prepared": load.prepared is not None,
        },
        **result.document(),
        "oracle": None if verdict is None else verdict.document(),
        "remarks": remarks(result, load),
    }
    pictures = {
        "latency.png": latency_picture(result.progress),
        "throughput.png": throughput_picture(result.progress),
        "cpu.png": cpu_picture(document["cpu_us_per_contribution"]),
    }
    files = {
        **pictures,
        "fleet.json": (json.dumps(document, indent=2) + "\n").encode(),
        "fleet.html": page(document, load, verdict, pictures).encode(),
    }
    for name, data in files.items():
        replace_file(folder / name, data)
    return [str(folder / name) for name in files]


def _drawn(draw: Any) -> bytes:
    """The PNG of what ``draw`` paints on one pair of axes."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), dpi=130, layout="constrained")
    axes = figure.subplots()
    draw(axes)
    axes.spines[["top", "right"]].set_visible(False)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def latency_picture(progress: Snapshot) -> bytes:
    """Histogram of the time from due to acknowledged."""
    places = sorted(progress.latencies)

    def draw(axes: Any) -> None:
        if places:
            span = range(places[0], places[-1] + 1)
            edges = [1000 * edge_of(place - 1) for place in (*span, span[-1] + 1)]
            axes.stairs([progress.latencies[place] for place in span], edges, fill=True, color=HUE)
            axes.set_xscale("log", subs=(2, 5))
            axes.xaxis.set_major_formatter("{x:g}")
            axes.xaxis.set_minor_formatter("{x:g}")
            for name, share, side in (("p50", 0.5, "right"), ("p99", 0.99, "left")):
                at = 1000 * progress.percentile(share)
                axes.axvline(at, color=INK, linewidth=0.9, linestyle="--")
                axes.text(at, axes.get_ylim()[1], f" {name} {at:,.1f} ms ", color=INK, va="top", ha=side, fontsize=9)
        axes.set_xlabel("milliseconds from due to acknowledged")
        axes.set_ylabel("contributions")
        axes.set_title("Latency")

    return _drawn(draw)


def throughput_picture(progress: Snapshot) -> bytes:
    """Acknowledgements per second over the run."""
    first = min(progress.seconds, default=0)
    span = range(first, max(progress.seconds, default=-1) + 1)

    def draw(axes: Any) -> None:
        values = [progress.seconds[second] for second in span]
        axes.stairs(values, [second - first for second in (*span, span.stop)], fill=True, color=HUE)
        axes.set_xlabel("seconds since the first acknowledgement")
        axes.set_ylabel("acknowledged a second")
        axes.set_ylim(bottom=0)
        axes.set_title("Throughput")

    return _drawn(draw)


def cpu_picture(microseconds: dict[str, float]) -> bytes:
    """A bar chart (PNG) of CPU microseconds per contribution by service."""
    names = sorted(microseconds, key=lambda name: microseconds[name])

    def draw(axes: Any) -> None:
        bars = axes.barh(names, [microseconds[name] for name in names], color=HUE)
        axes.bar_label(bars, [f"{microseconds[name]:,.0f}" for name in names], padding=4, color=INK)
        axes.set_xlabel("CPU microseconds per contribution")
        axes.margins(x=0.12)
        axes.set_title("CPU by service")

    return _drawn(draw)


def page(document: dict[str, Any], load: Load, verdict: Verdict | None, pictures: dict[str, bytes]) -> str:
    """Return the report as one HTML page that contains its pictures and style."""
    name = document["recipe"]["name"]
    parts = [
        f"<h1>Fleet: {_text(name)}</h1>",
        f'<div class="soft">{_text(document["recipe"]["hash"])}</div>',
        '<div class="figures">'
        + "".join(
            f"<div><b>{value}</b>{label}</div>"
            for label, value in (
                ("devices", f"{document['devices']:,}"),
                ("contributions", f"{document['contributions']:,}"),
                ("acknowledged a second", f"{document['throughput']:,.0f}"),
                ("p99 latency", f"{document['latency_ms']['p99']:,.1f} ms"),
            )
        )
        + "</div>",
    ]
    for title, rows in _sections(document, load):
        body = "".join(f'<tr><td>{_text(left)}</td><td class="n">{_text(right)}</td></tr>' for left, right in rows)
        parts.append(f"<section><h2>{_text(title)}</h2><table>{body}</table></section>")
    for picture, data in pictures.items():
        encoded = base64.b64encode(data).decode()
        parts.append(f'<section><img alt="{_text(picture)}" src="data:image/png;base64,{encoded}"></section>')
    if verdict is not None:
        parts.append(_verdict_section(verdict))
    if verdict is not None and verdict.answers:
        parts.append(_answers_section(verdict.answers))
    parts += [f'<p class="soft">{_text(remark)}.</p>' for remark in document["remarks"]]
    head = f'<meta charset="utf-8"><title>Fleet: {_text(name)}</title><style>{STYLE}</style>'
    head += '<meta name="viewport" content="width=device-width">'
    return f'<!doctype html><html lang="en"><head>{head}</head><body><main>{"".join(parts)}</main></body></html>\n'


def _verdict_section(verdict: Verdict) -> str:
    rows = "".join(
        f'<tr><td>{_text(one.what)}</td><td class="n">{one.expected:,}</td><td class="n">{one.found:,}</td>'
        f"<td>{'ok' if one.holds else '<b>differs</b>'}</td></tr>"
        for one in verdict.findings
    )
    title = "Oracle: everything agrees" if verdict.holds else "Oracle: counts differ"
    head = '<tr><th>what</th><th class="n">sent</th><th class="n">found</th><th></th></tr>'
    notes = "".join(f'<p class="soft">{_text(remark)}.</p>' for remark in _remarks(verdict))
    return f"<section><h2>{title}</h2><table>{head}{rows}</table>{notes}</section>"


def _answers_section(rows: Sequence[Estimated]) -> str:
    form = form_of_errors(one.stderr for one in rows)

    def row(one: Estimated) -> str:
        cells = "".join(f'<td class="n">{text}</td>' for text in _numbers(one, form))
        return f"<tr><td>{_text(one.label)}</td>{cells}</tr>"

    body = "".join(map(row, rows))
    heads = "".join(f'<th class="n">{name}</th>' for name in NUMBERS)
    table = f"<table><tr><th>answer</th>{heads}</tr>{body}</table>"
    title = "Released answers beside what the devices know"
    return f'<section><h2>{title}</h2>{table}<p class="soft">{_text(_inside(rows))}.</p></section>'


def _text(value: object) -> str:
    return html.escape(str(value))
