"""Prints a series for a person: what it asks, when and how many devices, and what it costs in total."""

from __future__ import annotations

import importlib.util
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from infra.views.claim_words import adversary_text, epsilon_text
from infra.views.plain import visible
from infra.views.terminal import plain_table, span
from tacit.dp.claim import UNBOUNDED, Claim
from tacit.errors import Refusal
from tacit.models.form import Cap
from tacit.models.forms import form_of
from tacit.recipe.charges import with_relay_of
from tacit.recipe.claims import claim_of, independent_claim, total_claim
from tacit.recipe.derive import randomizer_of
from tacit.recipe.series import Series
from tacit.recipe.writing.series_builder import expected_contributions, population_of, share_taking_part

MOST_ROUNDS = 12


def series_document(series: Series) -> dict[str, Any]:
    """Return the series as JSON, with its recomputed claim beside the claims of one round and of as many independent
    recipes, the expected contributions of each round, and the share of devices that ever take part."""
    one, total = claim_of(series.probe), total_claim(series)
    many = _many(series)
    document: dict[str, Any] = {
        "hash": series.hash_text,
        "series": series.body(),
        "claim": {
            "one_round": {"delta": one.delta, "epsilon": one.stated()},
            "series": {"delta": total.delta, "epsilon": total.stated(), "mechanism": total.mechanism},
            "independent_recipes": {"delta": many.delta, "epsilon": many.stated()},
            "conditions": form_of(series.probe.model).conditions,
        },
        "expected_contributions": expected_contributions(series, population_of(series.probe)),
        "share_taking_part": share_taking_part(series),
    }
    gaussian = _gaussian(series)
    return document if gaussian is None else {**document, "gaussian_analog": gaussian}


def show_series(series: Series, state: str, console: Console) -> None:
    """Print everything that matters about a series."""
    document = series_document(series)
    title = Text(series.name, style="bold")
    console.print(Panel(_facts(series, state), title=title, title_align="left"))
    parts: list[RenderableType] = [_price(series, document["claim"])]
    parts += [Text(line, style="dim") for line in _remarks(series, document)]
    console.print(Panel(Group(*parts), title="[bold]What it costs in privacy", title_align="left"))
    console.print(Panel(_yield(series, document), title="[bold]Who is expected to take part", title_align="left"))


def _many(series: Series) -> Claim:
    """The claim of as many independent recipes like one round; its delta is the sum of theirs, and one more."""
    return independent_claim(series.probe, series.rounds, (series.rounds + 1) * float(series.probe.delta))


def _gaussian(series: Series) -> dict[str, float] | None:
    """The operator's accountant's result for the same slots, if each round's noise were Gaussian and batch sizes were
    hidden; None if that does not apply."""
    if series.donation is None or randomizer_of(series.probe).noise_share is None:
        return None
    if importlib.util.find_spec("dp_accounting") is None:
        return None
    from tacit.accounting.mechanisms import explain

    epsilon, delta = float(with_relay_of(series.probe)), float(series.probe.delta)
    try:
        found = explain("donation", {"epsilon": epsilon, "delta": delta, "m": series.donation.slots})
    except (Refusal, ValueError):
        return None
    return {"epsilon": found["epsilon"], "delta": found["delta"]}


def _facts(series: Series, state: str) -> Table:
    probe, slots = series.probe, series.slots
    facts = plain_table("", "")
    rounds = f"at most {series.rounds}"
    if series.donation is not None:
        rounds += f", {series.donation.window_seconds} s each, "
        rounds += f"{series.donation.pause} s apart" if series.donation.pause else "back to back"
    rows = [
        ("question", probe.question.text),
        ("state", state),
        ("hash", series.hash_text),
        ("metric", probe.question.metric),
        ("rounds", rounds),
        ("participation", _participation(series)),
        ("batch", f"at least B = {probe.batch.min_batch_size} in each round, {probe.batch.close}"),
        ("time", span(series.interval.start, series.interval.end)),
        ("tokens", f"{slots.issuer}, from epoch {slots.epoch}, slot {slots.slot}; {slots.per_epoch} per epoch"),
        ("account", f"{probe.privacy.account}, charged once for all rounds"),
    ]
    for name, value in rows:
        facts.add_row(Text(name, style="dim"), Text(visible(value)))
    return facts


def _participation(series: Series) -> str:
    rate = f"{float(series.probe.rate):.4g}"
    if series.donation is None:
        return f"an independent coin of q = {rate} in every round"
    return f"one round at most: the first of {series.donation.slots} slots whose coin of {rate} says yes"


def _price(series: Series, claims: dict[str, Any]) -> Table:
    columns = {
        "one round": claims["one_round"],
        f"{series.rounds} independent recipes": claims["independent_recipes"],
        "this series": claims["series"],
    }
    table = plain_table("ε against", *columns, "stated", "δ")
    for row in form_of(series.probe.model).adversaries:
        name, stated = row.name, series.claim.epsilon[row.name]
        computed = [epsilon_text(claim["epsilon"][name]) for claim in columns.values()]
        pure = series.donation is not None and row.pure
        shown = "" if stated == UNBOUNDED else "0" if pure else f"{float(series.claim.delta):g}"
        table.add_row(adversary_text(name, series.probe.privacy.n), *computed, Text(stated, style="bold"), shown)
    return table


def _remarks(series: Series, document: dict[str, Any]) -> list[str]:
    claims = document["claim"]
    one, many = (f"{claims[name]['delta']:.3g}" for name in ("one_round", "independent_recipes"))
    mechanism, reports = claims["series"]["mechanism"], series.probe.privacy.n
    lines = [
        f"{mechanism}, replacement neighbours, at n = {reports} contributions a round",
        f"one round is at delta {one}, the independent recipes together at {many}",
    ]
    if series.donation is None and form_of(series.probe.model).capped(Cap.AGGREGATE_WITH_RELAY):
        lines.append(
            "with the relay, which sees who takes part, no sampling counts and every round adds; "
            "max_series_epsilon_with_relay and max_series_epsilon_local of a policy cap these totals"
        )
    gaussian = document.get("gaussian_analog")
    if gaussian is not None:
        lines.append(
            f"if the noise were Gaussian and batch sizes hidden, the operator's accountant (PLD) would say "
            f"{gaussian['epsilon']:.4f} at delta {gaussian['delta']:.3g}; devices use the bound above"
        )
    return lines


def _yield(series: Series, document: dict[str, Any]) -> Group:
    expected = document["expected_contributions"]
    shown = ", ".join(f"{number:,}" for number in expected[:MOST_ROUNDS]) + (
        ", ..." if len(expected) > MOST_ROUNDS else ""
    )
    share = document["share_taking_part"]
    lines = [
        f"about {population_of(series.probe):,} devices, all eligible from the first round: {shown} contributions",
        f"{share:.1%} of them ever take part, {1 - share:.1%} never",
    ]
    poor = [at for at, number in enumerate(expected) if number < series.probe.batch.min_batch_size]
    if poor:
        which = f"{len(poor)} of {len(expected)} rounds, from round {poor[0]} on,"
        lines.append(f"{which} expect fewer than B unless new devices come")
    return Group(*(Text(line, style="yellow" if "fewer than B" in line else "") for line in lines))
