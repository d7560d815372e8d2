"""``tacit privacy ledger`` and ``plan``: show what the accounts have spent, and what still fits."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from infra.stacks.command_options import AsJson, StateDir, layout_of, policy_of, read_file
from infra.views.terminal import answers, print_json
from tacit.adapters.system import SystemClock
from tacit.errors import UsageError
from tacit.ledger.account import MAX_STATED_EPSILON, Charge, ChargeState, Cost

if TYPE_CHECKING:
    from tacit.logview.live import LiveLog
    from tacit.recipe.model import Recipe
    from tacit.recipe.policy import Policy
    from tacit.recipe.series import Series


def ledger(
    burn_down: Annotated[
        bool, typer.Option("--burn-down", help="Also show it day by day, and when it would be used up.")
    ] = False,
    state_dir: StateDir = None,
    as_json: AsJson = False,
) -> None:
    """Show what the log's recipes have spent of each account, and what is left; exits with 1 if one is over.

    Example: tacit privacy ledger --state-dir .tacit --burn-down
    """
    from infra.views.ledger_view import show_burn_down, show_ledger
    from tacit.operations.burn_down import burn_downs
    from tacit.operations.ledger import ledger_of

    log, policy = _log(state_dir)
    now = SystemClock().now()
    found, downs = ledger_of(log, policy, now), burn_downs(log, policy, now) if burn_down else []
    if as_json:
        more = {"burn_down": [one.document() for one in downs]} if burn_down else {}
        print_json({**found.document(), **more})
    else:
        show_ledger(found.document(), answers())
        for one in downs:
            show_burn_down(one, answers())
    if found.over:
        raise typer.Exit(1)


def plan_command(
    epsilon: Annotated[str | None, typer.Option("--epsilon", help="Claim (a) of the recipe.")] = None,
    delta: Annotated[str, typer.Option("--delta", help="Its failure probability.")] = "0.000001",
    account: Annotated[str, typer.Option("--account", help="The account that is charged.")] = "default",
    start: Annotated[
        int | None, typer.Option("--start", help="When reports begin, POSIX seconds (default: now).")
    ] = None,
    duration: Annotated[int, typer.Option("--duration", min=1, help="For how many seconds reports come.")] = 86400,
    recipe: Annotated[Path | None, typer.Option("--recipe", help="A recipe's file, instead of these options.")] = None,
    state_dir: StateDir = None,
    as_json: AsJson = False,
) -> None:
    """Show whether a recipe fits into its account, the largest epsilon that fits, and how many such recipes would.

    A round counts as its series, which is charged as a whole. Exits with 1 if it does not fit. Example:
    tacit privacy plan --epsilon 0.5
    """
    from infra.base.recipe_files import read_recipe
    from infra.views.ledger_view import show_plan
    from tacit.logview.live import charges_of
    from tacit.operations.ledger import plan
    from tacit.recipe.charges import charge_of, rightful, series_charge

    if (epsilon is None) == (recipe is None):
        raise typer.BadParameter("give either --epsilon or --recipe")
    asked = None if recipe is None else read_recipe(read_file(recipe), str(recipe))
    if asked is None:
        begin = int(SystemClock().now()) if start is None else start
        cost = Cost(_number(epsilon or "", "--epsilon", MAX_STATED_EPSILON), _number(delta, "--delta", 1))
        charge = Charge(account, b"", "planned", begin, begin + duration, cost)
    log, policy = _log(state_dir)
    series = None if asked is None else _series_of(asked, log)
    if asked is not None:
        pending = ChargeState.PENDING
        charge = charge_of(asked, pending) if series is None else series_charge(series, pending)
    limit = policy.account(charge.account)
    if limit is None:
        known = ", ".join(sorted(policy.accounts or {})) or "none"
        raise UsageError(f"the policy has no account {charge.account}; it has: {known}")
    charges = rightful(charges_of(log, SystemClock().now()), policy)
    share = policy.account_share(limit.name, charge.analyst) if asked is not None else limit
    if share is None:
        raise UsageError(f"{charge.analyst} may not charge account {limit.name}")
    if share != limit:
        charges = tuple(replace(one, account=share.name) for one in charges if one.analyst == charge.analyst)
        charge, limit = replace(charge, account=share.name), share
    cap = None if series is not None else Decimal(policy.max_epsilon_aggregator)
    found = plan(charge, charges, limit, None if series is None else series.name, cap)
    if as_json:
        print_json(found.document())
    else:
        show_plan(found, answers())
    if not found.fits:
        raise typer.Exit(1)


def _series_of(recipe: Recipe, log: LiveLog) -> Series | None:
    """The series that ``recipe`` is a round of, which is charged as a whole; None for a recipe by itself."""
    if recipe.series is None:
        return None
    series = log.series_of(recipe)
    if series is None:
        raise UsageError(
            f"{recipe.name} is a round of series {recipe.series.hash}, which is charged as a whole but is not in the "
            "log; publish it first: tacit series publish"
        )
    odd = series.mismatch(recipe)
    if odd is not None:
        raise UsageError(f"{recipe.name} is not a round of series {series.name}: {odd}")
    return series


def _number(text: str, flag: str, most: int) -> Decimal:
    try:
        number = Decimal(text)
    except InvalidOperation as error:
        raise typer.BadParameter(f"{flag} takes a number, not {text}") from error
    if not number.is_finite() or not 0 < number < most:
        raise typer.BadParameter(f"{flag} takes a number above 0 and below {most}")
    return number


def _log(state_dir: Path | None) -> tuple[LiveLog, Policy]:
    from infra.stacks.api import whole_log

    layout = layout_of(state_dir)
    policy = policy_of(layout.policy_path)

    async def read() -> LiveLog:
        async with layout.transport() as transport:
            return await whole_log(transport, layout, policy)

    return asyncio.run(read()), policy
