"""``tacit admin people`` and ``tacit admin keys``: manages people, their roles and their API keys."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from infra.commands.admin.access import Speaker, reaching
from infra.stacks.command_options import AsJson, checked_name
from infra.views.terminal import answers, plain_table, print_json
from tacit.client import Operator
from tacit.errors import UsageError
from tacit.time_format import format_utc

if TYPE_CHECKING:
    from tacit.client import Change, ConsentRule, Person


LEAST_ADMINISTRATORS = 2
"""How many administrators a change needs: one asks and another consents."""
people = typer.Typer(help="Add people, change their roles, and shut them out.", no_args_is_help=True)
keys = typer.Typer(help="Give people API keys, and take them away.", no_args_is_help=True)

Who = Annotated[str, typer.Argument(metavar="NAME|ID", help="The person's name or id.", show_default=False)]
KeyDigest = Annotated[
    str | None,
    typer.Option("--key-sha256", help="SHA-256 of a key that they made, as `tacit keys show` prints it."),
]
RoleName = Annotated[str, typer.Option("--role", help="viewer, analyst, approver or administrator.")]


@people.command("list")
@reaching(Speaker.ADMINISTRATOR)
def list_people(operator: Operator, as_json: AsJson = False) -> None:
    """List everybody with their role. Example: tacit admin people list"""
    found, rule = list(operator.people.all()), operator.people.changes().rule
    if as_json:
        print_json({"people": [one.document() for one in found], "rule": rule.document()})
        return
    answers().print(rule_words(rule), soft_wrap=True)
    table = plain_table("name", "role", "", "since", "id")
    for one in found:
        state = "shut out" if one.disabled else "has a password" if one.has_password else ""
        table.add_row(Text(one.name, style="bold"), one.role, state, format_utc(one.created), Text(one.id, style="dim"))
    answers(100).print(table)


@people.command("add")
@reaching(Speaker.ADMINISTRATOR)
def add(
    operator: Operator,
    name: Annotated[str, typer.Argument(help="Their name, such as an address.", show_default=False)],
    role: RoleName = "viewer",
    key_sha256: KeyDigest = None,
    as_json: AsJson = False,
) -> None:
    """Add a person, who then needs a key. An approver or administrator needs another administrator's consent too.

    Example: tacit admin people add carol --role analyst
    """
    tell_person(operator.people.add(checked_name(name), role, key_sha256=key_sha256), as_json=as_json)


@people.command("change")
@reaching(Speaker.ADMINISTRATOR)
def change(
    operator: Operator,
    who: Who,
    role: RoleName | None = None,
    disabled: Annotated[
        bool | None,
        typer.Option("--disable/--enable", help="Shut the person out, or let them in again.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Give a person another role, shut them out, or let them in again. Example: tacit admin people change carol --role
    viewer"""
    from infra.views.admin_view import person_of

    if role is None and disabled is None:
        raise typer.BadParameter("give --role, --disable or --enable")
    found = operator.people.change(person_of(operator, checked_name(who)), role=role, disabled=disabled)
    tell_person(found, as_json=as_json)


@people.command("invite")
@reaching(Speaker.ADMINISTRATOR)
def invite(
    operator: Operator,
    who: Who,
    out: Annotated[Path, typer.Option("--out", help="The file to make (mode 0600).", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Invite a person to bind their account at the sign-in provider. The invitation in the file is only for them.

    Example: tacit admin people invite carol --out carol.invitation
    """
    from infra.views.admin_view import person_of
    from tacit.client import Change
    from tacit.service.base.secret_files import write_secret

    if out.exists():
        raise UsageError(f"{out}: exists already")
    person = person_of(operator, checked_name(who))
    made = operator.people.invite(person)
    write_secret(out, f"{made.invitation}\n".encode())
    if as_json:
        print_json({**made.model_dump(mode="json", exclude={"invitation"}), "file": str(out)})
        return
    if isinstance(made, Change):
        tell_person(made, as_json=False)
    answers().print(f"invitation of {person.name}, until {format_utc(made.expires)}: {out}", soft_wrap=True)


@people.command("unbind")
@reaching(Speaker.ADMINISTRATOR)
def unbind(operator: Operator, who: Who, as_json: AsJson = False) -> None:
    """Unbind a person's account at the sign-in provider, and cancel an open invitation.

    Example: tacit admin people unbind carol
    """
    from infra.views.admin_view import person_of

    tell_person(operator.people.unbind(person_of(operator, checked_name(who))), as_json=as_json)


@keys.command("give")
@reaching(Speaker.ADMINISTRATOR)
def give(
    operator: Operator,
    who: Who,
    out: Annotated[Path | None, typer.Option("--out", help="The file to make (mode 0600).", show_default=False)] = None,
    key_sha256: KeyDigest = None,
    label: Annotated[str, typer.Option("--label", help="What the key is for.")] = "",
    expires: Annotated[
        int | None, typer.Option("--expires", min=0, help="POSIX second in which the key expires.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Give a person a key in a file, which holds its only copy. With --key-sha256, accept a key that the person made
    and nobody else sees; approvers and administrators can have no others.

    Example: tacit admin keys give carol --label laptop --out carol.key
    """
    from infra.views.admin_view import person_of
    from tacit.client import Change
    from tacit.service.base.secret_files import write_secret

    if (out is None) == (key_sha256 is None):
        raise typer.BadParameter("give either --out or --key-sha256")
    if out is not None and out.exists():
        raise UsageError(f"{out}: exists already")
    person = person_of(operator, checked_name(who))
    made = operator.people.give_key(person, label, expires, key_sha256)
    if isinstance(made, Change):
        tell_person(made, as_json=as_json)
        return
    if out is not None:
        write_secret(out, f"{made.key}\n".encode())
    if as_json:
        file = {} if out is None else {"file": str(out)}
        print_json({**made.model_dump(mode="json", exclude={"key"}), **file})
        return
    answers().print(f"key {made.id} of {person.name}{'' if out is None else f': {out}'}", soft_wrap=True)


@keys.command("list")
@reaching(Speaker.ADMINISTRATOR)
def list_keys(operator: Operator, who: Who, as_json: AsJson = False) -> None:
    """List a person's keys, without their text. Example: tacit admin keys list carol"""
    from infra.views.admin_view import person_of

    found = operator.people.keys(person_of(operator, checked_name(who)))
    if as_json:
        print_json({"keys": [one.document() for one in found]})
        return
    table = plain_table("label", "since", "until", "id")
    for one in found:
        until = "" if one.expires is None else format_utc(one.expires)
        table.add_row(Text(one.label, style="bold"), format_utc(one.created), until, Text(one.id, style="dim"))
    answers().print(table if found else "no keys")


@keys.command("take")
@reaching(Speaker.ADMINISTRATOR)
def take(
    operator: Operator,
    who: Who,
    key: Annotated[str, typer.Argument(metavar="LABEL|ID", help="The key's label or id.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Take a key away, so that it no longer works. Example: tacit admin keys take carol laptop"""
    from infra.views.admin_view import key_of, person_of

    person = person_of(operator, checked_name(who))
    taken = key_of(operator, person, checked_name(key))
    operator.people.take_key(person, taken)
    if as_json:
        print_json({"person": person.id, "taken": taken})
        return
    answers().print(f"key {taken} of {person.name} no longer works", soft_wrap=True)


def rule_words(rule: ConsentRule) -> str:
    """Return sentences on how many administrators a change needs, and what to do if there are too few."""
    if rule.persons == 1:
        return "One-person installation: one administrator alone can make an approver, and so be every person here."
    said = f"Changes of approvers and administrators need two administrators; they count {rule.approver_delay_seconds} "
    said += "s after the consent."
    if rule.until is not None:
        said += f" The operator configured a weaker rule, which holds from {format_utc(rule.until)} on."
    if rule.administrators < LEAST_ADMINISTRATORS:
        said += f" Administrators who can ask or consent now: {rule.administrators}. On the service's host, let in "
        said += "another one with: tacit admin people recover"
    return said


def tell_person(person: Person | Change, *, as_json: bool) -> None:
    """Print a person, or the change that waits for another administrator's consent."""
    from tacit.client import Change

    if as_json:
        print_json(person.document())
        return
    if isinstance(person, Change):
        until = format_utc(person.expires)
        answers().print(f"{person.name}: nothing has changed yet. Asked for: {person.words}", soft_wrap=True)
        answers().print(f"it waits until {until} for another administrator, who consents with:", soft_wrap=True)
        answers().print(f"tacit admin people consent {person.id}", soft_wrap=True)
        return
    state = ", shut out" if person.disabled else ""
    answers().print(f"{person.name}: {person.role}{state}")
    answers().print(f"id    {person.id}", soft_wrap=True)
