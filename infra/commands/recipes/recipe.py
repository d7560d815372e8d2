"""``tacit recipe``: writes, checks, signs, publishes and shows recipes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.text import Text

from infra.authoring.recipe_names import hash_of
from infra.authoring.recipe_options import (
    AnalystKey,
    Anyway,
    Insisted,
    KnownHash,
    LeafFile,
    Now,
    OutFile,
    PartiesFile,
    SigningKey,
)
from infra.authoring.survey_errors import ParsedFlags, complete_survey
from infra.authoring.survey_flags import SurveyFile, asking
from infra.base.token_options import Module, PinFile, Token, signer_of
from infra.commands.recipes.design import design
from infra.commands.results import RecipeName, collector_access
from infra.stacks.command_options import (
    HASH_ARGUMENT,
    AsJson,
    Server,
    StateDir,
    checked_name,
    layout_of,
    policy_of,
    read_file,
    server_of,
    transport_of,
)
from infra.stacks.layout import Layout
from infra.views.terminal import answers, plain_table, print_json, span, style_word
from tacit.adapters.disk.named_files import is_readable
from tacit.adapters.network.http import HttpTransport
from tacit.adapters.system import SystemClock
from tacit.errors import UsageError
from tacit.operations.calls import recipes_of
from tacit.time_format import format_utc

if TYPE_CHECKING:
    from tacit.recipe.context import Context, Stage
    from tacit.recipe.model import Recipe
    from tacit.recipe.policy import Policy

if TYPE_CHECKING:
    from tacit.operations.yields import Yield
    from tacit.recipe.model import Recipe


def show_yield(recipe: RecipeName, state_dir: StateDir = None, as_json: AsJson = False) -> None:
    """Show how far a recipe's batch is filled: in noisy tenths of B, updated five times, until it is released.

    Example: tacit recipe yield visits
    """
    found, filled = asyncio.run(_yield(state_dir, checked_name(recipe)))
    if as_json:
        print_json({"hash": found.hash_text, "name": found.name, **filled.document()})
        return
    for line in yield_lines(filled):
        answers().print(line, soft_wrap=True)


async def _yield(state_dir: Path | None, name: str) -> tuple[Recipe, Yield]:
    from tacit.operations.yields import yield_at

    layout = layout_of(state_dir)
    access = collector_access(layout)
    async with layout.transport() as transport:
        recipe_hash = await hash_of(transport, access.recipe_server, name)
        return await yield_at(transport, access, recipe_hash, SystemClock().now())


def yield_lines(found: Yield) -> list[str]:
    """A yield in sentences: the released count, or what is known of it now, when the next count comes, and what is
    expected."""
    size = found.min_batch_size
    if found.exact:
        return [f"released: {found.contributions:,} contributions, B = {size:,}"]
    lines = ["no count yet"]
    if found.at is not None:
        most = "" if found.most is None else f", at most {found.most:,}"
        bounds = f"at least {found.least:,}{most} with 95 %"
        lines = [f"about {found.contributions:,} of B = {size:,} contributions at {format_utc(found.at)}: {bounds}"]
    if found.next_at is not None:
        lines.append(f"the next count comes from {format_utc(found.next_at)} on")
    expected = found.forecast
    if expected is not None:
        lines.append(
            f"expected by the end: {expected.contributions:,} ({expected.least:,} to {expected.most:,} with 95 %), "
            f"B with probability {expected.chance:.0%}"
        )
        lines.append("B is not expected" if expected.at is None else f"B is expected at {format_utc(expected.at)}")
    return lines


@asking(
    "attribute", "population", "name", "text", "missing_label", "rate", "epsilon", "delta", "min_batch_size",
    "randomizer", "start", "duration", "epoch", "slot",
    attribute={"default": ...},
    population={"default": ...},
    name={"default": "census"},
    text={"default": "Which devices are there?"},
    missing_label={
        "default": "none of these",
        "help": "The category of devices with none of the counted conjunctions.",
    },
)  # fmt: skip
def census(
    said: ParsedFlags,
    parties: PartiesFile = None,
    state_dir: StateDir = None,
    out: OutFile = None,
    as_json: AsJson = False,
) -> None:
    """Write a census, which counts devices by attributes; recipes with --target need one in the log.

    Once it is released, leader and helper publish their shares, and everybody can add them up. Example:
    tacit recipe census --attribute os=linux,mac --population 200 --rate 1 --out census.json
    """
    from infra.authoring.recipe_writing import write_recipe

    write_recipe(complete_survey(said), parties, state_dir, out, as_json=as_json)


app = typer.Typer(help="Design, write, check, sign, publish and read recipes.", no_args_is_help=True)
app.command("design")(design)
app.command("census")(census)

RecipeFile = Annotated[Path, typer.Argument(metavar="FILE", help="A recipe as JSON.", show_default=False)]
LeafOrRecipe = Annotated[
    Path, typer.Argument(metavar="FILE", help="A recipe as JSON, or its signed leaf.", show_default=False)
]


@app.command("new")
@asking(
    "name", "text", "metric", "buckets", "categories", "strings", "prefixes", "alphabet",
    "prefix_levels", "candidates", "boolean", "population", "rate",
    "epsilon", "delta", "max_epsilon0", "min_batch_size", "randomizer", "statistic", "mechanism", "low", "high",
    "unit", "length", "norm", "proof",
    "aggregator_flips", "importance_default", "importance_rate", "non_default_share", "dummies", "dummy_epsilon",
    "other_label", "outside_label", "missing", "missing_label", "attested_devices", "target", "start", "duration",
    "epoch", "slot",
    "close", "model", "through", "dap_version", "event", "steps", "step_seconds", "most", "watch_start",
)  # fmt: skip
def new(
    said: ParsedFlags,
    parties: PartiesFile = None,
    file: SurveyFile = None,
    state_dir: StateDir = None,
    out: OutFile = None,
    as_json: AsJson = False,
) -> None:
    """Write a recipe with the largest local epsilon that the privacy target allows; asks for what is missing.

    With --mechanism flips, it has the least noise that keeps the target even if half of B are dishonest. With
    --importance-default, the target is epsilon against one aggregator: noise does not reduce what the relay sees, and a
    batch that does not fill tells less the more devices a census has attested (--attested-devices). A local stack
    provides the parties, the next epoch and a free slot. With --model pan-private (two servers) or pan-private-single
    (one server, which sees single reports: --epsilon is against it), devices watch an --event for --steps and report
    afterwards (docs/pan-privacy.md). With --through shuffler, an organisation of its own mixes all reports before
    leader and helper get them (docs/ways-to-ask.md). Example:
    tacit recipe new --name visits --metric mdvis --buckets 0,1,2,4 --population 1000 --out visits.json
    """
    from infra.authoring.recipe_writing import write_recipe

    write_recipe(complete_survey(said), parties, state_dir, out, as_json=as_json)


@app.command("check")
def check(
    file: RecipeFile,
    policy: Annotated[Path | None, typer.Option("--policy", help="Policy file (default: the stack's).")] = None,
    stage: Annotated[
        Literal["draft", "publish", "logged", "active"],
        typer.Option("--stage", case_sensitive=False, help="At which stage the recipe is."),
    ] = "draft",
    state_dir: StateDir = None,
    as_json: AsJson = False,
) -> None:
    """Check a recipe by every rule that the parties apply; exits with 1 if a rule refuses it.

    The stages after draft need a stack's log. Example: tacit recipe check visits.json --stage draft
    """
    from infra.base.recipe_files import read_recipe
    from infra.views.recipe_outlook import tell_warnings
    from infra.views.recipe_view import show_check
    from tacit.operations.checking import check_recipe
    from tacit.recipe.context import Context, Stage

    wanted = Stage[stage.upper()]
    recipe = read_recipe(read_file(file), str(file))
    asks_stack = wanted is not Stage.DRAFT or state_dir is not None
    applied = policy_of(policy) if policy else _stack_policy(state_dir, needed=asks_stack)
    context = asyncio.run(_context(recipe, layout_of(state_dir), applied, wanted)) if asks_stack else None
    found = check_recipe(recipe, applied, context or Context(Stage.DRAFT, SystemClock().now()))
    if as_json:
        print_json(found.document())
    else:
        show_check(found, applied, answers())
    tell_warnings(recipe)
    if not found.accepted:
        raise typer.Exit(1)


def _stack_policy(state_dir: Path | None, *, needed: bool) -> Policy:
    """The local stack's policy. Without a stack the default one, or ``UsageError`` if one is ``needed``."""
    from tacit.recipe.policy import Policy

    try:
        return policy_of(layout_of(state_dir).policy_path)
    except UsageError:
        if needed:
            raise
        return Policy()


async def _context(recipe: Recipe, layout: Layout, policy: Policy, stage: Stage) -> Context:
    from infra.stacks.api import verified_log
    from tacit.operations.checking import context_at

    now = SystemClock().now()
    async with layout.transport() as transport:
        live = await verified_log(transport, layout, policy)
    return context_at(recipe, live, now, stage)


@app.command("sign")
def sign(
    file: RecipeFile,
    key: SigningKey,
    out: LeafFile,
    pkcs11: Module = None,
    token: Token = None,
    pin_file: PinFile = None,
    known_hash: KnownHash = None,
    as_json: AsJson = False,
) -> None:
    """Sign a recipe as its analyst, on any machine that has the key; the leaf is published as it is.
    The recipe is shown first, as JSON and in words. With --pkcs11, the key stays in a token (docs/operations.md).

    Example: tacit recipe sign visits.json --key .tacit/analyst/signing.key --out visits.leaf
    """
    from infra.authoring.publishing import Signing, sign_file
    from infra.base.recipe_files import read_recipe
    from infra.views.recipe_view import show_recipe

    apart = (Path(key) if pkcs11 is None else None, pin_file)
    asked = Signing(file, signer_of(key, pkcs11, token, pin_file), out, known_hash, apart)
    sign_file(asked, read_recipe, lambda found: show_recipe(found, {"state": "file"}, answers()), as_json=as_json)


@app.command("publish")
def publish(
    file: LeafOrRecipe,
    state_dir: StateDir = None,
    server: Server = None,
    key: AnalystKey = None,
    now: Now = False,
    anyway: Anyway = False,
    as_json: AsJson = False,
) -> None:
    """Sign a recipe as its analyst and put it into the log; leader and helper then opt in, or refuse. A leaf of
    `tacit recipe sign` is published as it is.

    For a local stack, it first says how many agents are at work, and asks for confirmation if they are too few for B or
    could not decide in time. A draft written without --start is moved to a time at which all of them can decide; FILE
    then holds it as published.

    Example: tacit recipe publish visits.json --state-dir .tacit
    """
    from infra.authoring.publishing import note_asked, publish_file, show_published
    from infra.base.recipe_files import read_recipe
    from tacit.recipe.model import Recipe

    recipe, url, index = publish_file(file, Recipe, read_recipe, state_dir, server, key, Insisted(now, anyway))
    where = f"{url}/v1/recipes/{recipe.hash_text}"
    note_asked(recipe)
    if as_json:
        print_json({"hash": recipe.hash_text, "name": recipe.name, "index": index, "url": where})
        return
    show_published(recipe, index)
    answers().print(f"where {where}", soft_wrap=True)


app.command("yield", context_settings=HASH_ARGUMENT)(show_yield)


@app.command("list")
def list_recipes(state_dir: StateDir = None, server: Server = None, as_json: AsJson = False) -> None:
    """List every recipe in the log. Example: tacit recipe list --state-dir .tacit"""
    found = asyncio.run(_list(server_of(state_dir, server), transport_of(state_dir, server)))
    if as_json:
        print_json({"recipes": found})
        return
    table = plain_table("recipe", "state", "B", "ε", "interval", "hash")
    for one in found:
        interval = one["interval"]
        table.add_row(
            Text(one["name"], style="bold"),
            style_word(one["state"]),
            str(one["min_batch_size"]),
            one["epsilon"],
            span(interval["start"], interval["start"] + interval["duration"]),
            Text(one["hash"][:12], style="dim"),
        )
    answers().print(table if found else "the log holds no recipe yet; write one with: tacit recipe new")


async def _list(server: str, client: HttpTransport) -> list[dict[str, Any]]:
    async with client as transport:
        return await recipes_of(transport, server)


@app.command("show", context_settings=HASH_ARGUMENT)
def show(
    recipe: Annotated[str, typer.Argument(metavar="HASH|NAME|FILE", help="A logged recipe, or a recipe in a file.")],
    state_dir: StateDir = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Show a recipe: its question, state, batch, parties, and privacy cost against each adversary.

    Example: tacit recipe show visits.json
    """
    from infra.base.recipe_files import read_recipe
    from infra.views.recipe_view import show_recipe
    from tacit.models.forms import find_form
    from tacit.operations.outlook import rounding_of

    path = Path(checked_name(recipe))
    if is_readable(path):
        found, document = read_recipe(read_file(path), str(path)), {"state": "file"}
    else:
        document, found = asyncio.run(
            _read_logged(server_of(state_dir, server), transport_of(state_dir, server), recipe)
        )
    audience = _audience(found, state_dir) if found.criteria and server is None else {}
    if as_json:
        body, form = found.body(), find_form(found.model)
        print_json(
            {
                **document,
                "hash": found.hash_text,
                **audience,
                **rounding_of(found).document(),
                "conditions": {} if form is None else form.conditions,
                "recipe": body,
            }
        )
    else:
        show_recipe(found, {**document, **audience}, answers())


def _audience(recipe: Recipe, state_dir: Path | None) -> dict[str, Any]:
    """What a local stack's log attests about the recipe's audience; empty if there is no stack."""
    try:
        layout = layout_of(state_dir)
    except UsageError:
        if state_dir is not None:
            raise
        return {}
    policy = policy_of(layout.policy_path)
    return asyncio.run(_attest_audience(recipe, layout, policy))


async def _attest_audience(recipe: Recipe, layout: Layout, policy: Policy) -> dict[str, Any]:
    from infra.views.audience_view import audience_document
    from tacit.recipe.context import Stage

    context = await _context(recipe, layout, policy, Stage.PUBLISH)
    return {"audience": audience_document(recipe, policy, context)}


async def _read_logged(server: str, client: HttpTransport, name: str) -> tuple[dict[str, Any], Recipe]:
    from tacit.operations.services import logged_recipe

    async with client as transport:
        return await logged_recipe(transport, server, await hash_of(transport, server, name))
