"""``tacit admin``: manages questions, results, people and the audit log of an organisation over its admin API."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from infra.commands.admin import consent as admin_consent
from infra.commands.admin.access import AdminUrl, KeyFile, Speaker, operator_of, reaching
from infra.commands.admin.people import keys
from infra.commands.admin.question import question
from infra.stacks.command_options import AsJson, StateDir, checked_name
from infra.views.terminal import answers, notes, print_json
from tacit.client import Operator
from tacit.codec import unb64url
from tacit.errors import DecodeError, UsageError

audit = typer.Typer(help="Read and check the log of every act.", no_args_is_help=True)

LAST = 50
Config = Annotated[
    Path | None, typer.Option("--config", help="Read the database of the stopped service with this configuration.")
]
Holds = Annotated[
    str | None, typer.Option("--holds", help="The newest hash from an earlier check; it must still be in the chain.")
]


@audit.command("list")
@reaching(Speaker.ADMINISTRATOR)
def list_acts(
    operator: Operator,
    last: Annotated[int, typer.Option("--last", min=1, help="List only this many acts, the newest.")] = LAST,
    as_json: AsJson = False,
) -> None:
    """List who did what and when, with the outcome. Example: tacit admin audit list --last 20"""
    from infra.views.admin_view import acts_table

    found = operator.audit.newest(last)
    if as_json:
        print_json({"acts": [one.document() for one in found]})
        return
    answers(120).print(acts_table(found))


@audit.command("verify")
def verify(
    url: AdminUrl = None,
    key_file: KeyFile = None,
    state_dir: StateDir = None,
    config: Config = None,
    holds: Holds = None,
    as_json: AsJson = False,
) -> None:
    """Recompute the hash chain of all acts, which shows whether any was changed or removed.

    Only --holds reveals acts that were cut off at the end. Exits with 1 if the chain is broken.
    Example: tacit admin audit verify --state-dir .tacit
    """
    if config is not None and (url, key_file, state_dir) != (None, None, None):
        raise typer.BadParameter("give one of --state-dir, --config, and --url with --key-file")
    if holds is not None:
        _digest(holds)
    if config is not None:
        from infra.backing.stopped_admin import stored_chain  # imports the database, which takes as long as all else

        chain = asyncio.run(stored_chain(config, holds))
    else:
        with operator_of(url, key_file, state_dir, Speaker.ADMINISTRATOR) as operator:
            chain = operator.audit.verify(holds)
    if as_json:
        document = {"rows": chain.rows, "newest": chain.newest, "broken": chain.broken}
        print_json({**document, **({} if holds is None else {"holds": chain.holds})})
    elif chain.broken is not None:
        answers().print(f"act {chain.broken} does not follow from the {chain.rows} before it", style="red")
    else:
        answers().print(f"{chain.rows} acts, each follows from those before it\nnewest {chain.newest}", soft_wrap=True)
    if chain.holds is False and not as_json:
        answers().print("the hash of the earlier check is not in the chain: acts are missing", style="red")
    if not chain.whole:
        raise typer.Exit(1)


def _digest(text: str) -> bytes:
    try:
        return unb64url(text, length=32, what="--holds")
    except DecodeError as error:
        raise UsageError(str(error)) from error


app = typer.Typer(help="Manage questions, results, people and the audit log over an admin API.", no_args_is_help=True)
app.add_typer(question, name="question")


@app.command("results")
@reaching(Speaker.ANALYST)
def results(
    operator: Operator,
    asked: Annotated[
        str | None, typer.Argument(metavar="[ID|NAME]", help="Only this question's results.", show_default=False)
    ] = None,
    wait: Annotated[
        float,
        typer.Option("--wait", min=0, metavar="SECONDS", help="Collect its batch, and wait up to this long for it."),
    ] = 0.0,
    as_json: AsJson = False,
) -> None:
    """Show released results of one question or of all; with --wait, collect the question's batch first.

    Exits with 1 where the question is not released. Example: tacit admin results --json
    """
    from infra.views.admin_view import question_of
    from infra.views.result_view import show_result
    from tacit.client import Results

    if wait and asked is None:
        raise typer.BadParameter("--wait needs the name of a question")
    one = None if asked is None else question_of(operator, checked_name(asked))
    if wait and one is not None:
        with notes().status("waiting for the release"):
            found = operator.recipes.wait_for_release(one, wait)
    else:
        found = operator.recipes.results(one) if one is None or one.hash else Results()
    if as_json:
        print_json({"results": list(found)})
    else:
        for document in found:
            show_result(document, answers())
    if not found:
        words = "nothing has been released yet" if asked is None else f"{asked} is not released"
        notes().print(f"{words}; collect with: tacit admin results {asked or 'NAME'} --wait 60", soft_wrap=True)
    if not found and asked is not None:
        raise typer.Exit(1)


@app.command("fleet")
@reaching(Speaker.ANALYST)
def fleet(operator: Operator, as_json: AsJson = False) -> None:
    """Show how many devices of a staging deployment are at work or failed. Outside staging, no service knows this.

    Example: tacit admin fleet --state-dir .tacit-staging
    """
    from infra.views.admin_view import show_fleet

    found = operator.fleet()
    if as_json:
        print_json(found.document())
    else:
        show_fleet(found, answers())


app.add_typer(admin_consent.people, name="people")
app.add_typer(keys, name="keys")
app.add_typer(audit, name="audit")
