"""``tacit bench``: what each stage costs on this machine, beside its floor."""

from __future__ import annotations

from typing import Annotated

import typer

from infra.bench import Row, document, kernel_rows, machine
from infra.places import AsJson
from infra.terminal import answers, notes, plain_table, print_json
from tacit.vdaf.native import level

app = typer.Typer(help="Measure what each stage costs, beside the floor of this machine.", no_args_is_help=True)


@app.callback()
def _nothing_in_common() -> None:
    """Measure what each stage costs, beside the floor of this machine."""


@app.command("kernels")
def kernels(
    as_json: AsJson = False,
    repetitions: Annotated[int, typer.Option("--repetitions", min=3, help="Repetitions of every measurement.")] = 15,
) -> None:
    """CPU time per report of the Prio3 kernels, for every VDAF, role and path that this processor runs.

    Medians; a floor is what the stage's Keccak permutations and field products alone would cost. Path "off" is pure
    Python. Example: tacit bench kernels --json
    """
    rows = []
    for row in kernel_rows(repetitions):
        rows.append(row)
        notes().print(f"{row.stage} {row.vdaf} {row.role} {row.path}", style="dim")
    if as_json:
        print_json(document(rows))
        return
    facts = machine()
    answers().print(f"{facts['cpu']}, {facts['cores']} cores, reports are verified on path {level()}")
    primitives = plain_table("primitive", "path", "ns", "spread")
    stages = plain_table("stage", "VDAF", "role", "path", "us per report", "floor", "ratio", "spread")
    for row in rows:
        if row.stage == "primitive":
            primitives.add_row(row.role, row.path, f"{1000 * row.us_per_report:.2f}", f"{row.spread:.0%}")
        else:
            stages.add_row(*_cells(row))
    answers().print(primitives)
    answers().print(stages)


def _cells(row: Row) -> list[str]:
    parameters = ", ".join(map(str, row.parameters.values()))
    name = f"{row.vdaf}({parameters})" if parameters else row.vdaf
    floor = "" if row.floor_us is None else f"{row.floor_us:.3f}"
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    return [row.stage, name, row.role, row.path, f"{row.us_per_report:.3f}", floor, ratio, f"{row.spread:.0%}"]
