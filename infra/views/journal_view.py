"""Shows a device's journal to its owner."""

from __future__ import annotations

from typing import Any

from rich.console import Group
from rich.panel import Panel
from rich.text import Text

from client_agent.journal import Entry, Fact
from infra.views.terminal import answers, plain_table, styled
from tacit.moments import when


def show_journal(document: dict[str, Any], entries: list[Entry]) -> None:
    """Print the journal ``entries``, and what ``document`` says of the device."""
    console = answers()
    table = plain_table("recipe", "decided", "decision", "ε charged", "tries", "detail")
    for entry in entries:
        table.add_row(
            Text(entry.name, style="bold"),
            when(entry.decided_at),
            styled(entry.state.value),
            entry.charged_epsilon or "0",
            str(entry.attempts),
            Text(_detail(entry)),
        )
    budget, slots = document["budget"], document["slots"]
    caption = Text(
        f"ε {budget['charged']} of {budget['epsilon']} (δ {budget['delta']}) charged in {budget['days']} days, "
        f"with the relay {budget['charged_with_relay']} of {budget['epsilon_with_relay']} · "
        f"tokens held for {slots['held']} of {slots['known']} slots · log of {document['log']['entries']} entries",
        style="dim",
    )
    body = table if entries else Text("nothing was decided yet")
    console.print(Panel(Group(body, caption), title="[bold]This device's journal", title_align="left"))
    if document["log"]["failure"]:
        said = f"{document['log']['failure']}\nThis device does not trust the log any more and does nothing."
        console.print(Panel(Text(said), title="[bold red]The log failed", title_align="left"))
    for name, trouble in document["troubles"].items():
        if name == Fact.LOG_TROUBLE.value and document["log"]["failure"]:
            continue
        console.print(Text(f"{name} since {when(trouble['since'])}: {trouble['detail']}", style="yellow"))


def _detail(entry: Entry) -> str:
    if entry.state.value == "scheduled" and not entry.attempts:
        return f"will be sent at {when(entry.send_at)}"
    return entry.detail
