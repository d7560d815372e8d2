"""The picture of ``tacit bench accuracy``: recall, errors of the oracle, errors of shuffled histograms."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from infra.lab.bench.accuracy.rows import RECALL, AccuracyRow
from tacit.adapters.disk.files import replacing

SERIES = ("o-", "s-", "D-", "^-", "v-", "P-")
PANELS = (
    (RECALL, "ε", "epsilon"),
    ("largest error of a share", "bits of an item", "domain_bits"),
    ("largest count error", "bits of an answer", "domain_bits"),
)
"""The beginning of the figures' name, the axis, and the member that it shows."""


def write(rows: Sequence[AccuracyRow], path: Path) -> None:
    """Draw a panel for each kind of figure among ``rows``, with 1.96 standard errors on either side; a peer's values
    are dotted. ``ValueError`` if there is nothing to draw."""
    from matplotlib.figure import Figure as Canvas

    panels = [(panel, mine) for panel in PANELS if (mine := [row for row in rows if row.metric.startswith(panel[0])])]
    if not panels:
        raise ValueError("these parts have no figure; take recall, oracle or shuffled")
    canvas = Canvas(figsize=(5.6 * len(panels), 4.6), layout="constrained")
    places = canvas.subplots(1, len(panels), squeeze=False)[0]
    for place, ((title, axis, member), mine) in zip(places, panels, strict=True):
        for style, (name, some) in zip(_styles(), _series(mine, member), strict=False):
            _draw(place, style, name, some, lambda row, of=member: getattr(row, of))  # type: ignore[misc]
        place.set(title=title, xlabel=axis, **({} if title == RECALL else {"yscale": "log"}))
        place.grid(visible=True, which="major", linewidth=0.4, alpha=0.5)
        place.legend(frameon=False, fontsize=8)
    with replacing(path) as draft:
        canvas.savefig(draft, dpi=130)


def _styles() -> Iterator[tuple[str, str]]:
    """Marker and colour of each series."""
    for at in range(100):
        yield SERIES[at % len(SERIES)], f"C{at % 10}"


def _series(rows: Sequence[AccuracyRow], member: str) -> Iterator[tuple[str, list[AccuracyRow]]]:
    """The rows that differ in nothing but ``member`` and what was measured, with a name."""
    found: dict[str, list[AccuracyRow]] = {}
    for row in rows:
        _, _, variant = row.metric.partition(", ")
        name = f"n = {row.n:,}" + (f", {variant}" if variant else "")
        found.setdefault(name if member == "epsilon" else f"{name}, ε = {row.epsilon:g}", []).append(row)
    yield from found.items()


def _draw(
    place: Any, style: tuple[str, str], name: str, rows: Sequence[AccuracyRow], at: Callable[[AccuracyRow], float]
) -> None:
    marker, colour = style
    errors = [1.96 * (row.stderr or 0.0) for row in rows]
    place.errorbar(
        [at(row) for row in rows], [row.value for row in rows], errors, fmt=marker, color=colour, capsize=3, label=name
    )
    peers = [row for row in rows if row.peer_value is not None]
    if peers:
        label = f"{peers[0].peer}, {name.partition(', ')[0]}"
        known = label in place.get_legend_handles_labels()[1]
        values = [row.peer_value for row in peers]
        place.plot([at(row) for row in peers], values, ":", color=colour, label=None if known else label)
