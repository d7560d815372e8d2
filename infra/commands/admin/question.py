"""``tacit admin question``: takes a question from a draft through a second person's approval into the log."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from infra.authoring.survey_errors import ParsedFlags
from infra.authoring.survey_flags import SurveyFile, asking
from infra.commands.admin.access import Speaker, reaching
from infra.stacks.command_options import AsJson, checked_name, read_file, write_file
from infra.views.terminal import answers, json_text, notes, print_json
from tacit.client import Operator
from tacit.errors import UsageError

if TYPE_CHECKING:
    from tacit.client import Question


question = typer.Typer(help="Write, check, approve, publish and end questions.", no_args_is_help=True)

Asked = Annotated[str, typer.Argument(metavar="ID|NAME", help="The question's id, or its name.", show_default=False)]


FLAGS = (
    "name", "text", "metric", "buckets", "categories", "strings", "alphabet", "boolean", "population", "rate",
    "epsilon", "delta", "min_batch_size", "randomizer", "statistic", "mechanism", "low", "high", "unit", "length",
    "norm", "proof",
    "aggregator_flips", "importance_default", "importance_rate", "non_default_share", "dummies", "dummy_epsilon",
    "other_label", "outside_label", "missing", "missing_label", "attested_devices", "target", "start", "duration",
    "epoch", "slot",
    "close", "model", "event", "steps", "step_seconds", "most", "watch_start",
)  # fmt: skip
"""The flags that fill a survey, as in ``tacit recipe new``."""


@question.command("new")
@asking(*FLAGS)
@reaching(Speaker.ANALYST)
def new(said: ParsedFlags, operator: Operator, file: SurveyFile = None, as_json: AsJson = False) -> None:
    """Write a draft with the flags of `tacit recipe new`; what is missing can be added later.

    Example: tacit admin question new --name weekly --metric mdvis --buckets 0,1,2,4 --population 1000
    """
    survey = said.survey()
    draft = operator.questions.create(survey)
    _tell(draft, as_json=as_json)
    if survey.lacking:
        notes().print(f"still missing before it can be submitted: {', '.join(said.lacking(survey))}")


@question.command("edit")
@asking(*FLAGS)
@reaching(Speaker.ANALYST)
def edit(said: ParsedFlags, operator: Operator, asked: Asked, file: SurveyFile = None, as_json: AsJson = False) -> None:
    """Change members of a question or, with --file, all of it. It becomes a draft again and loses its approval.

    Example: tacit admin question edit weekly --text 'How many visits in a week?'
    """
    from infra.views.admin_view import question_of
    from tacit.recipe.writing.survey import Survey

    found = question_of(operator, checked_name(asked))
    if said.file is None and not said.flags:
        raise typer.BadParameter("say what changes: a flag of tacit admin question new, or --file")
    survey = said.survey() if said.file is not None else replace(said, file=Survey.from_body(found.survey)).survey()
    _tell(operator.questions.edit(found, survey), as_json=as_json)


@question.command("list")
@reaching(Speaker.ANALYST)
def list_questions(
    operator: Operator,
    state: Annotated[
        str | None, typer.Option("--state", help="draft, submitted, approved, published, ended or missed.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the questions of the organisation. Example: tacit admin question list"""
    from infra.views.admin_view import questions_table

    found = list(operator.questions.all(state))
    if as_json:
        print_json({"questions": [one.document() for one in found]})
    elif found:
        answers(120).print(questions_table(found))
    else:
        answers().print("there is no question; write one with: tacit admin question new")


@question.command("show")
@reaching(Speaker.ANALYST)
def show(operator: Operator, asked: Asked, as_json: AsJson = False) -> None:
    """Show a question with its state and recipe. Example: tacit admin question show weekly"""
    from infra.views.admin_view import question_of, show_question

    found = question_of(operator, checked_name(asked))
    if as_json:
        print_json(found.document())
        return
    show_question(found, answers())


@question.command("check")
@reaching(Speaker.ANALYST)
def check(operator: Operator, asked: Asked, as_json: AsJson = False) -> None:
    """Check the recipe that a question would become now by every rule; exits with 1 if a rule refuses it.

    Example: tacit admin question check weekly
    """
    from infra.views.admin_view import question_of, show_check

    found = operator.questions.check(question_of(operator, checked_name(asked)))
    if as_json:
        print_json(found.document())
    else:
        show_check(found, answers())
    if not found.accepted:
        raise typer.Exit(1)


@question.command("submit")
@reaching(Speaker.ANALYST)
def submit(operator: Operator, asked: Asked, as_json: AsJson = False) -> None:
    """Offer a complete question for approval. Example: tacit admin question submit weekly"""
    from infra.views.admin_view import question_of

    _tell(operator.questions.submit(question_of(operator, checked_name(asked))), as_json=as_json)


@question.command("approve")
@reaching(Speaker.APPROVER)
def approve(operator: Operator, asked: Asked, as_json: AsJson = False) -> None:
    """Approve another person's question as it is. Example: tacit admin question approve weekly"""
    from infra.views.admin_view import question_of

    _tell(operator.questions.approve(question_of(operator, checked_name(asked))), as_json=as_json)


@question.command("publish")
@reaching(Speaker.ANALYST)
def publish(
    operator: Operator,
    asked: Asked,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write the recipe here, to sign it where the analyst's key is.")
    ] = None,
    leaf: Annotated[
        Path | None, typer.Option("--leaf", help="The recipe's leaf, which `tacit recipe sign` wrote.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Put an approved question's recipe into the log. If the service has no signing key, --out writes the recipe to
    sign, and --leaf then publishes it.

    Example: tacit admin question publish weekly
    """
    from infra.views.admin_view import question_of
    from tacit.operations.publishing import read_leaf

    found = question_of(operator, checked_name(asked))
    if leaf is not None:
        signed = read_leaf(read_file(leaf), str(leaf))
        if signed is None:
            raise UsageError(f"{leaf}: not a signed leaf; make one with: tacit recipe sign")
        done = operator.questions.sign(found, signed)
    else:
        done = operator.questions.publish(found)
    if out is not None and done.recipe is not None:
        write_file(out, json_text(done.recipe).encode())
    _tell(done, as_json=as_json)
    if not done.signed:
        name = out or "FILE"
        notes().print(
            f"it waits for its signature: tacit recipe sign {name} --key KEY --out LEAF; then: tacit admin question "
            f"publish {asked} --leaf LEAF"
        )


@question.command("end")
@reaching(Speaker.ANALYST)
def end(operator: Operator, asked: Asked, as_json: AsJson = False) -> None:
    """End a published question, because nobody waits for it any more. Its entries in the log stay.

    Example: tacit admin question end weekly
    """
    from infra.views.admin_view import question_of

    _tell(operator.questions.end(question_of(operator, checked_name(asked))), as_json=as_json)


def _tell(found: Question, *, as_json: bool) -> None:
    """Print the question's state after a command."""
    if as_json:
        print_json(found.document())
        return
    where = "" if found.position is None else f", entry {found.position} of the log"
    name = found.survey.get("name") or "a question without a name"
    answers().print(f"{name}: {found.state}{where}")
    answers().print(f"id    {found.id}", soft_wrap=True)
    if found.hash:
        answers().print(f"hash  {found.hash}", soft_wrap=True)
