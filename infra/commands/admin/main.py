"""``tacit admin``: manages questions, results, people and the audit log of an organisation over its admin API."""

from __future__ import annotations

from typing import Annotated

import typer

from infra.commands.admin import consent as admin_consent
from infra.commands.admin.access import Speaker, reaching
from infra.commands.admin.audit import audit
from infra.commands.admin.people import keys
from infra.commands.admin.question import question
from infra.stacks.command_options import AsJson, checked_name
from infra.views.terminal import answers, notes, print_json
from tacit.client import Operator

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
