"""The demo's report: one PNG and one HTML page that opens offline (picture and style inside)."""

from __future__ import annotations

import base64
import html
import io
import json
import tempfile
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path

from infra.lab.demo.results.learn_result import CURVE_TITLE, STEP_HEADINGS, LearnResult
from infra.lab.demo.results.learn_view import draw_learned
from infra.lab.demo.results.lettering import Lettering, lettering
from infra.lab.demo.results.result import DemoResult
from infra.lab.demo.results.search_result import ROUND_HEADINGS, ROUNDS_TITLE, SearchResult
from infra.lab.demo.results.watched_result import INTRUDER_TITLE, WatchedResult
from infra.views.claim_words import adversary_text, epsilon_text
from infra.views.page_style import STYLE
from tacit.adapters.disk.files import replace_file
from tacit.errors import UsageError
from tacit.extras import require_extra
from tacit.methods.figures import MARGIN, NORMAL_95

NUMBERED = "answer (by its place in the table, where no installed font has its letters)"


def prepare_report(folder: Path) -> None:
    """Raise ``UsageError`` now where ``write_report`` could not do its work in the end."""
    require_extra("the demo's picture", "demo", "matplotlib")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UsageError(
            f"{folder}: {error.strerror or 'cannot be written'}; choose another folder with --out"
        ) from error


def write_report(result: DemoResult, folder: Path) -> list[str]:
    """Write ``result.png``, ``report.html`` and ``result.json`` into ``folder``; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    picture = draw(result)
    written = {
        "result.png": picture,
        "report.html": page(result, picture).encode(),
        "result.json": (json.dumps(result.document(), indent=2) + "\n").encode(),
    }
    for name, data in written.items():
        replace_file(folder / name, data)
    return [str(folder / name) for name in written]


def draw(result: DemoResult) -> bytes:
    """PNG: estimate with 95 % interval beside the truth, per bucket; of a training run its losses."""
    import matplotlib as mpl

    mpl.use("Agg")
    if isinstance(result, LearnResult):
        return draw_learned(result)
    letters = lettering([bucket.label for bucket in result.buckets], result.question)
    with mpl.rc_context({"font.family": letters.families}):
        return _drawn(result, letters)


def _drawn(result: DemoResult, letters: Lettering) -> bytes:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.8), dpi=130, layout="constrained")
    axes = figure.subplots()
    places = range(len(result.buckets))
    axes.bar(
        [p - 0.2 for p in places],
        [b.truth for b in result.buckets],
        width=0.4,
        color="#ced4da",
        label="truth (only the demo knows it)",
    )
    axes.bar(
        [p + 0.2 for p in places],
        [b.estimate for b in result.buckets],
        width=0.4,
        color="#0b7285",
        label="private estimate, 95 % interval",
        yerr=[NORMAL_95 * b.stderr for b in result.buckets],
        capsize=3,
        ecolor="#343a40",
    )
    axes.set_xticks(list(places), letters.labels, parse_math=False)
    for label in axes.get_xticklabels() if letters.slanted else ():
        label.set(rotation=35, horizontalalignment="right", rotation_mode="anchor")
    axes.axhline(0, color="#343a40", linewidth=0.8)
    axes.set_ylabel("devices" if all(bucket.is_whole for bucket in result.buckets) else "times on a device")
    axes.set_xlabel(NUMBERED if letters.numbered else "answer")
    axes.set_title(
        f"{letters.title}\n{result.accepted:,} contributions from {result.devices:,} devices, "
        f"ε = {float(result.privacy['epsilon']):.3f} at δ = {float(result.privacy['delta']):g}".strip(),
        parse_math=False,
    )
    axes.spines[["top", "right"]].set_visible(False)
    for words in result.warnings:
        axes.annotate(
            textwrap.fill(f"Warning: {words}.", 110),
            (0.5, 0.97),
            xycoords="axes fraction",
            horizontalalignment="center",
            verticalalignment="top",
            color="#d9480f",
            parse_math=False,
        )
    figure.legend(frameon=False, loc="outside lower center", ncols=2)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def page(result: DemoResult, picture: bytes) -> str:
    """One HTML page that needs no other file; ``picture``: a PNG, which is embedded."""
    body = [
        f"<h1>{_text(result.question)}</h1>",
        f'<div class="soft">{_text(result.source)}</div>',
        _figures(result),
        *(f'<p class="warning"><b>Warning:</b> {_text(words)}.</p>' for words in result.warnings),
        f'<section><img alt="{_text(_pictured(result))}" '
        f'src="data:image/png;base64,{base64.b64encode(picture).decode()}"></section>',
        *_sections(result),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>Tacit: {_text(result.question)}</title><style>{STYLE}</style></head>"
        f"<body><main>{''.join(body)}</main></body></html>"
    )


def _pictured(result: DemoResult) -> str:
    return "Loss per round" if isinstance(result, LearnResult) else "Estimate and truth per answer"


def _sections(result: DemoResult) -> list[str]:
    recipe = result.recipe
    estimates = [(b.label, *b.numbers) for b in result.buckets]
    sightings = [(s.party, s.operator, s.text(), s.never) for s in result.sightings]
    refusals = [(r.attempt, r.refused_by, r.reason) for r in result.refusals]
    return [
        _section(CURVE_TITLE, _learned(result))
        if isinstance(result, LearnResult)
        else _section("Answer", _table(("answer", "estimate", MARGIN, "truth"), estimates, numbers_from=1)),
        _section("What it costs in privacy", _price(result)),
        _section(
            "What each party saw of one contribution",
            _table(("party", "operator", "could read", "never"), sightings),
        ),
        _section("What was tried and refused", _table(("tried", "refused by", "because"), refusals)),
        *([_section(ROUNDS_TITLE, _rounds(result))] if isinstance(result, SearchResult) else []),
        *([_section(INTRUDER_TITLE, _intruder(result))] if isinstance(result, WatchedResult) else []),
        _section(
            "Recipe",
            f"<p>{_text(str(recipe['name']))}, hash <code>{_text(str(recipe['hash']))}</code></p>"
            f"<pre><code>{_text(json.dumps(dict(recipe), indent=2))}</code></pre>",
        ),
    ]


def _figures(result: DemoResult) -> str:
    figures = [
        (f"{result.devices:,}", "devices asked"),
        (f"{result.sampled:,}", "drawn by their own coin"),
        (f"{result.accepted:,}", "contributions counted"),
        (f"{float(result.privacy['epsilon']):.3f}", f"ε at δ = {float(result.privacy['delta']):g}"),
        (f"{result.seconds:.1f} s", "from start to answer"),
    ]
    return '<div class="figures">' + "".join(f"<div><b>{v}</b>{_text(n)}</div>" for v, n in figures) + "</div>"


def _price(result: DemoResult) -> str:
    privacy = result.privacy
    rows = [(adversary_text(k, privacy["n"]), epsilon_text(v)) for k, v in privacy["by_adversary"].items()]
    return (
        _table(("who might look at your contribution", "ε"), rows, numbers_from=1)
        + f'<p class="soft">{_text(privacy["mechanism"])}, {_text(privacy["relation"])} neighbours, at n = '
        f"{privacy['n']:,} contributions; each device adds ε₀ = {epsilon_text(privacy['epsilon0'], 3)} itself.</p>"
    )


def _learned(result: LearnResult) -> str:
    steps = [step.cells(number) for number, step in enumerate(result.steps, 1)]
    lines = [(line.words, f"{line.losses[-1]:.3f}", f"{line.accuracy:.1%}") for line in result.lines]
    beside = _table(("training", "loss in the end", "accuracy in the end"), lines, numbers_from=1)
    return _table(STEP_HEADINGS, steps, numbers_from=0) + beside + f"<p>{_text(result.found_words)}</p>"


def _rounds(result: SearchResult) -> str:
    rows = [(best, *numbers) for *numbers, best in (one.cells for one in result.rounds)]
    return _table((ROUND_HEADINGS[-1], *ROUND_HEADINGS[:-1]), rows, numbers_from=1)


def _intruder(result: WatchedResult) -> str:
    looks = [(look.words, *map(str, look.sizes), look.before.hex(), look.after.hex()) for look in result.looks]
    attackers = [
        (one.name, f"{one.right:,} of {one.guesses:,}", f"{one.advantage:.2f}") for one in result.intruder.attackers
    ]
    verdict = result.verdict
    return (
        _table(("the state file", "bytes before", "bytes after", "state begins", "and then"), looks)
        + _table(("attacker", "right guesses", "advantage"), attackers, numbers_from=1)
        + f"<p><b>{_text(verdict.words)}</b></p><p>{_text(verdict.bound_words)}</p>"
        + f'<p class="soft">{_text(result.game_words)}</p>'
    )


def _section(title: str, content: str) -> str:
    return f"<section><h2>{_text(title)}</h2>{content}</section>"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers_from: int = 99) -> str:
    def cells(tag: str, row: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{' class=n' if at >= numbers_from else ''}>{_text(cell)}</{tag}>" for at, cell in enumerate(row)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<table><thead><tr>{cells('th', head)}</tr></thead><tbody>{body}</tbody></table>"


def _text(value: str) -> str:
    return html.escape(value)
