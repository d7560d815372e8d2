"""Prints answers of the admin API for a person, and finds questions, people and keys by name or id."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from infra.views.plain import visible
from infra.views.rules_view import rules_text
from infra.views.terminal import notes, plain_table, style_word
from tacit.client import Act, Check, Fleet, Operator, Person, Question
from tacit.errors import UsageError
from tacit.time_format import format_utc


def question_of(operator: Operator, name: str) -> Question:
    """Return the question with this id, or else the newest with this name. Raises ``UsageError`` if there is none."""
    named = [one for one in operator.questions.all() if name in {one.id, one.survey.get("name")}]
    if not named:
        raise UsageError(f"there is no question {name}; see: tacit admin question list")
    exact = [one for one in named if one.id == name]
    found = exact[0] if exact else named[-1]
    if len(named) > 1 and not exact:
        notes().print(f"{name}: using the newest, {found.id}; {len(named) - 1} older can be named by id")
    return operator.questions.get(found.id)


def person_of(operator: Operator, name: str) -> Person:
    """Return the person with this id or name. Raises ``UsageError`` if there is none."""
    for one in operator.people.all():
        if name in {one.id, one.name}:
            return one
    raise UsageError(f"there is nobody called {name}; see: tacit admin people list")


def questions_table(questions: Sequence[Question]) -> Table:
    table = plain_table("question", "state", "authors", "approver", "changed", "id")
    for one in questions:
        table.add_row(
            Text(str(one.survey.get("name") or ""), style="bold"),
            style_word(_state(one)),
            ", ".join(one.authors),
            one.approver or "",
            format_utc(one.changed),
            Text(one.id, style="dim"),
        )
    return table


def _state(question: Question) -> str:
    """The state of a question, or of its recipe once that is over."""
    return "over" if question.over else question.state


def _format_member(value: object) -> str:
    """A member of a survey as text; objects and lists are written as JSON, as in a survey's file."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list | tuple) else str(value)


def show_question(question: Question, console: Console) -> None:
    """Print everything known about one question."""
    facts = plain_table("", "")
    survey = [(name, _format_member(one)) for name, one in question.survey.items() if name not in {"name", "text"}]
    rows: list[tuple[str, str | Text]] = [
        ("state", style_word(_state(question))),
        ("question", str(question.survey.get("text") or "")),
        ("authors", ", ".join(question.authors)),
        ("approver", question.approver or ""),
        ("changed", format_utc(question.changed)),
        ("recipe", "" if question.hash is None else question.hash + ("" if question.signed else ", not signed")),
        ("in the log", "" if question.position is None else f"entry {question.position}"),
        *survey,
    ]
    for name, value in rows:
        if str(value):
            facts.add_row(Text(name, style="dim"), value if isinstance(value, Text) else Text(visible(value)))
    console.print(Text(f"{question.survey.get('name') or 'no name yet'} ({question.id})", style="bold"))
    console.print(facts)


def show_check(check: Check, console: Console) -> None:
    """Print every rule's verdict, what would pass instead, and the total."""
    console.print(rules_text(check.rules))
    refused = sum(not one["passed"] for one in check.rules)
    words = f"refused by {refused} of {len(check.rules)} rules" if refused else "accepted by all rules"
    console.print(Text(words, style="bold green" if check.accepted else "bold red"))


def show_fleet(fleet: Fleet, console: Console) -> None:
    """Print how many devices exist and how many are at work, and the last report on each recipe."""
    for trouble in fleet.troubles:
        console.print(Text(trouble, style="bold red"))
    if (devices := fleet.devices) is not None:
        console.print(
            f"{devices['working']} of {devices['devices']} devices at work, {devices['failed']} failed; "
            f"tokens held for {devices['slots_held']} of {devices['slots_known']} slots; as of "
            f"{format_utc(devices['at'])}"
        )
    elif not fleet.troubles:
        console.print("no report yet; tacit staging up sends reports while it runs")
    if (report := fleet.report) is not None:
        table = plain_table("recipe", "journalled as sent", "released")
        for row in report["recipes"]:
            released = "" if row["released"] is None else str(row["released"])
            table.add_row(row["recipe"], str(row["journalled"].get("sent", 0)), released)
        console.print(table)
        console.print(f"report of {format_utc(report['at'])}: {len(report['mismatches'])} kinds of mismatch")


def acts_table(acts: Sequence[Act]) -> Table:
    """Return a table with one row per act of the audit log."""
    table = plain_table("", "when", "who", "what", "target", "outcome", "detail")
    for one in acts:
        outcome = style_word(one.outcome) if one.outcome == "done" else Text(one.outcome, style="yellow")
        table.add_row(
            str(one.number), format_utc(one.at), Text(one.who), one.what, Text(one.target), outcome, Text(one.detail)
        )
    return table


def key_of(operator: Operator, person: Person, name: str) -> str:
    """Return the id of the person's key with this id or label. Raises ``UsageError`` unless exactly one matches."""
    meant = [one for one in operator.people.keys(person) if name in {one.id, one.label}]
    if len(meant) != 1:
        words = "several keys" if meant else "no key"
        raise UsageError(f"{person.name} has {words} called {name}; see: tacit admin keys list {person.name}")
    return meant[0].id
