"""Prints a recipe, and the verdicts of the rules on it, for a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console, Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from infra.views.audience_view import audience_lines
from infra.views.claim_words import adversary_text, delta_text
from infra.views.influence_words import influence_words
from infra.views.plain import visible
from infra.views.rules_view import rules_text
from infra.views.terminal import plain_table, span
from tacit.dp.claim import stated_epsilon
from tacit.errors import Refusal
from tacit.models.form import Cap
from tacit.models.forms import find_form, form_of
from tacit.operations.checking import Checked
from tacit.recipe.asking import asked_until
from tacit.recipe.claims import claim_of
from tacit.recipe.encoder import answer_label, labels
from tacit.recipe.encoder_specs import Occurrences, conjunction
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.recipe.randomised import RandomizerSpec, VdafSpec
from tacit.recipe.rounding import rounding_words
from tacit.time_format import format_utc

STATES = {
    "file": "a file; not published",
    "pending": "in the log; {any} has not opted in",
    "active": "active: {all} opted in",
    "over": "over: its interval has ended",
}
MOST_LABELS = 24


def show_recipe(recipe: Recipe, document: Mapping[str, Any], console: Console) -> None:
    """Print everything that matters about a recipe; ``document`` is the recipe server's answer."""
    facts = plain_table("", "")
    names = labels(recipe)
    shown = ", ".join(names[:MOST_LABELS]) + (", ..." if len(names) > MOST_LABELS else "")
    batch, randomizer = recipe.batch, recipe.randomizer
    for name, value in (
        ("question", recipe.question.text),
        ("state", _state(recipe, str(document.get("state")))),
        ("hash", recipe.hash_text),
        *_audience(recipe, document),
        *_metric_rows(recipe),
        *([("answers", shown)] if names else []),
        *([("rounding", rounded)] if (rounded := rounding_words(recipe.question)) else []),
        ("statistic", recipe.question.statistic),
        ("randomizer", _randomizer(randomizer, watched=isinstance(recipe.question.encoder, Occurrences))),
        *([("noise", f"{recipe.aggregator_flips} coin flips by each aggregator")] if recipe.aggregator_flips else []),
        *_proof(recipe.vdaf),
        *([("one lie", f"a dishonest device can {lie}")] if (lie := influence_words(recipe)) else []),
        *_sampling(recipe),
        *([("series", f"round {recipe.series.index} of {recipe.series.hash}")] if recipe.series else []),
        ("batch", f"at least B = {batch.min_batch_size}, about {batch.expected_contributions} expected, {batch.close}"),
        ("interval", span(recipe.interval.start, recipe.interval.end)),
        ("asks until", f"{format_utc(asked_until(recipe.interval))}; devices that read it later take no part"),
        ("token", f"{recipe.token.issuer}, epoch {recipe.token.epoch}, slot {recipe.token.slot}"),
    ):
        facts.add_row(Text(name, style="dim"), Text(visible(value)))
    title = Text(recipe.name, style="bold")
    console.print(Panel(facts, title=title, title_align="left"))
    console.print(Panel(_price(recipe), title="[bold]What it costs in privacy", title_align="left"))
    console.print(Panel(_parties(recipe), title="[bold]Who takes part", title_align="left"))


def _state(recipe: Recipe, state: str) -> str:
    form = find_form(recipe.model)
    roles = form.opting_in(recipe.parties) if form is not None else ("a server",)
    everybody = f"{' and '.join(roles)} {'has' if len(roles) == 1 else 'have'}"
    words = STATES.get(state)
    return state if words is None else words.format(any=" or ".join(roles), all=everybody)


def _metric_rows(recipe: Recipe) -> list[tuple[str, str]]:
    """Rows for the metric, or for the event with the steps in which it is watched."""
    spec = recipe.question.encoder
    if not isinstance(spec, Occurrences):
        return [("metric", recipe.question.metric)]
    steps = f"{spec.steps} steps of {spec.step_seconds} seconds"
    return [
        ("model", recipe.model),
        ("event", recipe.question.metric),
        ("watched", f"{span(spec.start, spec.end)}, {steps}; reports come after"),
    ]


def _proof(vdaf: VdafSpec | None) -> list[tuple[str, str]]:
    if vdaf is None:
        return []
    return [("proof", f"{vdaf.name}, length {vdaf.length}, chunks of {vdaf.chunk_length}")]


def _sampling(recipe: Recipe) -> list[tuple[str, str]]:
    importance, dummies = recipe.sampling.importance, recipe.sampling.dummies
    rows = [("sampling", f"q = {recipe.sampling.rate}")]
    if importance is not None:
        usual = answer_label(recipe.question, importance.default)
        rows = [("sampling", f"q = {importance.default_rate} for {usual}, {recipe.sampling.rate} for any other answer")]
    if dummies is not None:
        words = f"{dummies.intensity} expected among {dummies.population} devices, counted in the batch"
        rows.append(("dummies", words))
    return rows


def _audience(recipe: Recipe, document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Rows on whom a census or a recipe with criteria asks, and what the log attests about them, if known."""
    if recipe.is_census:
        return [("audience", "everybody; a census: leader and helper publish what they release")]
    if not recipe.criteria:
        return []
    lines = audience_lines(document["audience"]) if "audience" in document else []
    return [("audience", f"devices with {conjunction(recipe.criteria)}"), *(("", line) for line in lines)]


def _price(recipe: Recipe) -> Group:
    table = plain_table("who might look at your contribution", "ε", "δ")
    for name, stated in recipe.privacy.epsilon.root.items():
        words = adversary_text(name, recipe.privacy.n)
        table.add_row(words, stated, delta_text(name, stated, recipe.privacy.delta))
    privacy = recipe.privacy
    caption = f"{privacy.mechanism}, {privacy.relation} neighbours, at n = {privacy.n} contributions"
    form = find_form(recipe.model)
    mixing = "" if form is None else form.mixing_words(recipe.parties, recipe.batch.min_batch_size)
    return Group(table, Text(caption, style="dim"), *([Text(mixing)] if mixing else []))


def _randomizer(spec: RandomizerSpec, *, watched: bool) -> str:
    if spec.noise_rate is not None:
        often = f"1 - {spec.noise_rate}" if spec.max_weight is None else spec.noise_rate
        bound = "" if spec.max_weight is None else f" (at most {spec.max_weight} of them)"
        noise = f"one of noise in each of {spec.categories} cells with probability {often}{bound}"
        return f"{spec.name}: a message for the answer, and {noise}; hidden among others once shuffled"
    if spec.epsilon0 is None:
        where = f" in each of {spec.categories} numbers" if spec.categories > 1 else ""
        share = f"{spec.scale} times the value + {spec.flips} coin flips{where}"
        alone = "the noise of one device is all that hides it" if watched else "no local guarantee"
        return f"{spec.name}: {share}; {alone}"
    return f"{spec.name}, ε₀ = {spec.epsilon0}, {spec.categories} categories"


def _parties(recipe: Recipe) -> Table:
    table = plain_table("party", "operator", "address")
    for name, operator in recipe.parties.having("operator").items():
        party = recipe.parties.by_role()[name]
        table.add_row(Text(name, style="bold"), operator, Text(getattr(party, "url", ""), style="dim"))
    return table


def show_check(found: Checked, policy: Policy, console: Console) -> None:
    """Print every rule's verdict, and the stated claim beside the one recomputed from the parameters."""
    recipe, verdicts = found.recipe, found.verdicts
    console.print(rules_text([one.document() for one in verdicts]))
    console.print(_claim(recipe, policy))
    refused = sum(not one.passed for one in verdicts)
    verdict = f"refused by {refused} of {len(verdicts)} rules" if refused else f"accepted by all {len(verdicts)} rules"
    console.print(Text(f"{recipe.name}: {verdict}", style="bold red" if refused else "bold green"))


def _claim(recipe: Recipe, policy: Policy) -> Table | Text:
    try:
        form = form_of(recipe.model)
        computed = claim_of(recipe)
        half = claim_of(recipe, recipe.batch.min_batch_size // 2)
    except (Refusal, ValueError) as error:
        return Text(f"the claim cannot be recomputed: {error}", style="red")
    table = plain_table(
        f"ε at δ = {recipe.privacy.delta}, n = B = {recipe.batch.min_batch_size}", "stated", "recomputed", "cap"
    )
    for one in form.adversaries:
        words = adversary_text(one.name, recipe.batch.min_batch_size)
        stated, true = recipe.privacy.epsilon[one.name], stated_epsilon(computed[one.name])
        table.add_row(words, stated, true, policy.cap(one.cap) or "none")
    for one in form.capped(Cap.AGGREGATE):
        who = one.words.partition(",")[0]
        table.add_row(f"{who}, at B/2", "", f"{half[one.name]:.6f}", policy.cap_at_half(one.cap) or "none")
    return table
