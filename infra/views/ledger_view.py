"""Prints the budget ledger for a person: accounts, their burn-down, and whether a recipe fits."""

from __future__ import annotations

import datetime
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from infra.views.terminal import plain_table, span, style_word
from tacit.counting_words import plural
from tacit.ledger.balance import computed_epsilon
from tacit.operations.burn_down import BurnDown
from tacit.operations.ledger import Plan
from tacit.rules.budget import period_text
from tacit.time_format import format_utc

BAR = 30
MOST_RECIPES = 24
MOST_DAYS = 31


def show_ledger(document: dict[str, Any], console: Console) -> None:
    """Print every account with its recipes."""
    for account in document["accounts"]:
        title = Text(f"account {account['account']}", style="bold")
        parts: list[RenderableType] = [
            _figures(account) if account["in_policy"] else Text("not in the policy: nothing may be charged to it")
        ]
        if account["recipes"]:
            parts += [Text(), _recipes(account["recipes"])]
        console.print(Panel(Group(*parts), title=title, title_align="left"))
    if not document["accounts"]:
        console.print("no account: the policy lists none, and the log holds no recipe")
    relation = document["relation"]
    words = f"claim (a), with the relay (b), {relation} neighbours; an account holds what passes its filter"
    console.print(Text(words, "dim"))


def show_burn_down(found: BurnDown, console: Console) -> None:
    """Print how much of an account was spent day by day, and a forecast of when it is used up."""
    table = plain_table("day", "spent", "left")
    for day in found.days[-MOST_DAYS:]:
        one = day.document()
        bar = budget_bar(one["spent"], str(found.account.epsilon))
        table.add_row(format_utc(day.at), Text.assemble(bar, f"  ε {one['spent']}"), f"ε {one['left']}")
    console.print(Panel(table, title=Text(f"account {found.account.name}, by day", style="bold"), title_align="left"))
    console.print(Text(_forecast(found), style="dim"), soft_wrap=True)


def _forecast(found: BurnDown) -> str:
    if found.pace is None:
        return "nothing was charged lately: no forecast"
    if not found.has_forecast:
        began = period_text(found.pace.seconds) if found.pace.seconds else "no time"
        return f"{plural(found.pace.recipes, 'recipe')}, the first one {began} ago: too little for a forecast"
    of_late = f"{plural(found.pace.recipes, 'recipe')} in {period_text(found.pace.seconds)}"
    early = "" if found.earliest is None else f" (at the earliest {format_utc(found.earliest)})"
    if found.used_up_at is None:
        return f"at the rate of {of_late} the account lasts{early}"
    late = "" if found.latest is None else f", at the latest {format_utc(found.latest)}"
    return f"at the rate of {of_late} it is used up at {format_utc(found.used_up_at)}{early.removesuffix(')')}{late})"


def _figures(account: dict[str, Any]) -> Table:
    facts = plain_table("", "")
    period = period_text(account["window_seconds"]).removeprefix("1 ")
    spent = Text.assemble(budget_bar(account["spent"], account["epsilon"]), f"  ε {account['spent']}")
    spent.append(f" of {account['epsilon']}")
    for name, value in (
        ("budget", Text(f"ε {account['epsilon']} at δ {account['delta']} in any {period}")),
        ("spent", spent),
        ("δ of the claims", Text(f"{account['delta_spent']} of {account['delta_of_claims']}")),
        ("fullest period", Text(f"ε {account['peak']}")),
        ("with the relay", Text(_with_relay(account))),
        ("remaining", Text(f"ε {account['remaining']}", style="bold red" if account["over"] else "bold green")),
    ):
        facts.add_row(Text(name, style="dim"), value)
    if account["over"] or account["over_with_relay"]:
        facts.add_row("", Text("over budget", style="bold red"))
    return facts


def _with_relay(account: dict[str, Any]) -> str:
    limit = account["epsilon_with_relay"]
    return f"ε {account['spent_with_relay']}" + (", not limited" if limit is None else f" of {limit}")


def budget_bar(spent: str, budget: str) -> Text:
    """Return a bar for the share of the budget that is spent, in red if it is overspent."""
    share = float(spent) / float(budget)
    filled = BAR if share >= 1 else max(int(share * BAR), 1 if share > 0 else 0)
    style = "red" if share > 1 else "yellow" if share > 0.8 else "cyan"
    bar = Text()
    bar.append("━" * filled, style=style)
    bar.append("─" * (BAR - filled), style="dim")
    return bar


def _recipes(recipes: list[dict[str, Any]]) -> Table:
    table = plain_table("recipe", "state", "ε", "δ", "reports until (UTC)", "hash")
    table.columns[0].overflow = "ellipsis"
    for column in table.columns:
        column.no_wrap = True
    for one in recipes[-MOST_RECIPES:]:
        style = "" if one["charged"] else "dim strike"
        end = datetime.datetime.fromtimestamp(one["end"], datetime.UTC).strftime("%Y-%m-%d %H:%M")
        table.add_row(
            Text(one["name"], style="bold" if one["charged"] else "dim"),
            style_word(one["state"]),
            Text(one["epsilon"], style=style),
            Text(f"{float(one['delta']):.0e}", style=style),
            end,
            Text(one["hash"][:8], style="dim"),
        )
    hidden = len(recipes) - MOST_RECIPES
    if hidden > 0:
        table.caption = f"and {hidden} earlier ones; all with --json"
        table.caption_justify = "left"
    return table


def show_plan(plan: Plan, console: Console) -> None:
    """Print whether the planned recipe or series fits into its account, and the largest that would."""
    account, verdict, cost = plan.account, plan.verdict, plan.charge.cost
    facts = plain_table("", "")
    total = computed_epsilon(verdict.total)
    with_it = Text.assemble(budget_bar(total, str(account.epsilon)), f"  ε {total} of {account.epsilon:f}")
    largest = "nothing at this δ" if not plan.largest else f"ε {plan.largest:f} at δ {cost.delta:f}"
    if plan.largest and plan.cap is not None and plan.cap < plan.largest:
        largest = f"ε {plan.cap:f}, the policy's cap for one recipe; the account has room for {largest}"
    what, such = ("recipe", "such recipes") if plan.series is None else (f"series {plan.series}", "such series")
    rows = (
        (what, f"ε {cost.epsilon:f} at δ {cost.delta:f}, {span(plan.charge.start, plan.charge.end)}"),
        ("without it", f"{plural(len(verdict.others), 'recipe')}, ε {computed_epsilon(verdict.before)}"),
        ("with it", with_it),
        ("largest that fits", largest),
        (such, f"{plan.count} fit, this one included" if plan.count else "none fits"),
    )
    for name, value in rows:
        facts.add_row(Text(name, style="dim"), value)
    console.print(Panel(facts, title=Text(f"account {account.name}", style="bold"), title_align="left"))
    if plan.series is not None:
        console.print(Text(f"a round of {plan.series} costs nothing more: the series is charged once"))
    if plan.beside is not None:
        beside, limit = computed_epsilon(plan.beside.total), account.epsilon_with_relay
        console.print(Text(f"claims (b), with the relay: ε {beside} of {limit:f}", "dim"))
    verdict_text = "fits" if plan.fits else "does not fit: refused by rule budget-spent"
    console.print(Text(verdict_text, style="bold green" if plan.fits else "bold red"))
