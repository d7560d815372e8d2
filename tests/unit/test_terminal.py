"""What commands print: text that came from outside is shown as it is."""

from __future__ import annotations

import pytest
import typer

from infra import cli
from infra.views.terminal import answers, notes, plain_table

ODD = "[/out] [bold]no[/bold] :smile: [red"


def test_brackets_and_colons_in_names_and_paths_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    answers(200).print(f"written: {ODD}")
    notes().print(ODD)
    table = plain_table("name", title=ODD)
    table.add_row(ODD)
    answers(200).print(table)
    shown = capsys.readouterr()
    assert shown.out.count(ODD) == 3
    assert ODD in shown.err


@pytest.mark.parametrize("as_json", [False, True])
def test_a_command_that_is_interrupted_says_so(
    as_json: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = typer.Typer()

    @app.command()
    def wait(json: bool = False) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "build", lambda *_wanted: app)
    assert cli.run(["--json" if as_json else "--no-json"]) == 130
    shown = capsys.readouterr()
    assert shown.err == "tacit: interrupted\n"
    assert ("interrupted" in shown.out) == as_json
