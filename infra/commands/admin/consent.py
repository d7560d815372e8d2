"""Consent on the command line: waiting changes, a second administrator's decision, and the operator's recovery."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from infra.commands.admin.access import Speaker, reaching
from infra.commands.admin.people import people, rule_words
from infra.stacks.command_options import AsJson, checked_name
from infra.views.terminal import answers, plain_table, print_json
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.client import Operator
from tacit.errors import UsageError
from tacit.time_format import format_utc

if TYPE_CHECKING:
    from tacit.client import Change, Changes


Which = Annotated[str, typer.Argument(metavar="CHANGE", help="The change's id.", show_default=False)]
__all__ = ["people"]
DIGEST = re.compile(r"[0-9a-f]{64}")


@people.command("changes")
@reaching(Speaker.ADMINISTRATOR)
def changes(operator: Operator, as_json: AsJson = False) -> None:
    """List changes of approvers and administrators that wait for consent, or do not count yet.

    Example: tacit admin people changes
    """
    found = operator.people.changes()
    if as_json:
        print_json(found.document())
        return
    answers().print(rule_words(found.rule), soft_wrap=True)
    table = plain_table("person", "what changes", "asked by", "", "id")
    for one in found.changes:
        until = f"waits until {format_utc(one.expires)}" if one.state == "waiting" else f"counts from {_counts(one)}"
        by = one.asked_by_name or "nobody"
        table.add_row(Text(one.name, style="bold"), one.words, by, until, Text(one.id, style="dim"))
    answers(140).print(table if found.changes else "no change is waiting")


@people.command("consent")
@reaching(Speaker.ADMINISTRATOR)
def consent(operator: Operator, which: Which, as_json: AsJson = False) -> None:
    """Consent to a change that another administrator asked for. First ask the person whether the key is theirs.

    Example: tacit admin people consent 5f0e3c2b1a09f8e7d6c5b4a3
    """
    found = operator.people.consent(_waiting(operator.people.changes(), checked_name(which)))
    if as_json:
        print_json(found.document())
        return
    answers().print(f"{found.name}: {found.words}; counts from {_counts(found)}", soft_wrap=True)


@people.command("refuse")
@reaching(Speaker.ADMINISTRATOR)
def refuse(operator: Operator, which: Which, as_json: AsJson = False) -> None:
    """Refuse a waiting change. Example: tacit admin people refuse 5f0e3c2b1a09f8e7d6c5b4a3"""
    found = _waiting(operator.people.changes(), checked_name(which))
    operator.people.refuse(found)
    if as_json:
        print_json({"refused": found.id})
        return
    answers().print(f"{found.name}: {found.words}: refused", soft_wrap=True)


@people.command("recover")
def recover(
    name: Annotated[str, typer.Argument(help="The administrator's name, new or known.", show_default=False)],
    config: Annotated[Path, typer.Option("--config", help="Configuration of the stopped admin service.")],
    key_sha256: Annotated[
        str, typer.Option("--key-sha256", help="SHA-256 of the key that they made, as `tacit keys show` prints it.")
    ],
    as_json: AsJson = False,
) -> None:
    """Let an administrator in from the service's host, if too few are left to consent. The act is in the audit log and
    on the overview, and counts after the delay.

    Example: tacit admin people recover dave --config admin.toml --key-sha256 SHA256
    """
    from infra.backing.stopped_admin import let_in  # imports the database, which takes as long as all else

    if not DIGEST.fullmatch(key_sha256):
        raise UsageError("--key-sha256 takes 64 hexadecimal digits; make a key with: tacit keys generate bearer")
    person = asyncio.run(let_in(config, checked_name(name), key_sha256, SystemClock(), OsEntropy()))
    counts = "at once" if not person.counts_from else f"from {format_utc(person.counts_from)} on"
    if as_json:
        print_json({"id": person.id, "name": person.name, "counts_from": person.counts_from or None})
        return
    answers().print(f"{person.name}: administrator again; their consent counts {counts}", soft_wrap=True)


def _waiting(found: Changes, which: str) -> Change:
    for one in found.changes:
        if one.id == which and one.state == "waiting":
            return one
    raise UsageError(f"no change {which} is waiting; see: tacit admin people changes")


def _counts(change: Change) -> str:
    return "" if change.counts_from is None else format_utc(change.counts_from)
