"""Recipe hashes that begin with a hyphen, as arguments of commands."""

from __future__ import annotations

from typing import Annotated

import pytest
import typer

from infra.cli import move_hashes_last, taking_hashes

HASH = "-hG_" + "x" * 39
VALUED = {"--state-dir", "--recipe"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["visits", "--json"], ["visits", "--json"]),
        ([HASH, "--json"], ["--json", "--", HASH]),
        (["--json", HASH], ["--json", "--", HASH]),
        (["--state-dir", "x", HASH], ["--state-dir", "x", "--", HASH]),
        (["--recipe", HASH, "--json"], ["--recipe", HASH, "--json"]),
        (["--json", "--", HASH], ["--json", "--", HASH]),
        (["-h"], ["-h"]),
        ([HASH[:-1]], [HASH[:-1]]),
    ],
)
def test_a_hash_is_moved_behind_the_options_unless_it_is_the_value_of_one(
    given: list[str], expected: list[str]
) -> None:
    assert move_hashes_last(given, VALUED) == expected


@pytest.mark.parametrize("arguments", [[HASH], [HASH, "--loud"], ["--loud", HASH], ["--of", HASH, "y"], ["y"]])
def test_a_command_takes_it_where_it_would_take_any_other_text(arguments: list[str]) -> None:
    seen: list[tuple[str, str, bool]] = []
    inner, app = typer.Typer(), typer.Typer()

    @inner.command()
    def show(
        name: str, of: Annotated[str, typer.Option("--of")] = "", loud: Annotated[bool, typer.Option("--loud")] = False
    ) -> None:
        seen.append((name, of, loud))

    @inner.command()
    def other() -> None:
        pass

    app.add_typer(inner, name="recipe")
    taking_hashes(app)(["recipe", "show", *arguments], standalone_mode=False)
    plain = [one for one in arguments if one != "--loud"]
    of = plain[1] if plain[0] == "--of" else ""
    assert seen == [(plain[-1], of, "--loud" in arguments)]
