"""``tacit privacy ledger`` and ``plan`` on a real small stack."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from rich.console import Console

from infra.authoring.recipe_names import hash_of
from infra.cli import run
from infra.commands.privacy_budget import _log
from infra.lab.kit.network import InProcessTransport
from infra.lab.kit.recipes import VISITS, survey_from
from infra.stacks.api import verified_log
from infra.stacks.command_options import policy_of
from infra.stacks.layout import Layout, load_layout, signing_key_of
from infra.stacks.local import LocalStack
from infra.stacks.new_layout import create_layout
from infra.stacks.options import StackOptions
from infra.views.ledger_view import show_ledger, show_plan
from tacit.adapters.network.http import HttpTransport
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.ledger.account import Account, Charge, ChargeState, Cost
from tacit.operations.calls import call
from tacit.operations.ledger import ledger_of, plan
from tacit.recipe.model import Recipe, TokenSlot
from tacit.recipe.writing.builder import propose
from tacit.tlog.leaves import LeafType, sign_leaf
from tests.scripts.live_stack import in_thread, step_until

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A stack without devices whose account bears one and a half of its recipes, in a thread of its own."""
    options = StackOptions(epoch_seconds=3600, slots_per_epoch=3, poll_seconds=0.2, account_epsilon="1.5")
    folder = tmp_path_factory.mktemp("stack")
    layout = create_layout(folder, options, OsEntropy(), SystemClock().now())
    with in_thread(partial(_live, layout)):
        yield folder


async def _live(layout: Layout, ready: threading.Event, ended: threading.Event) -> None:
    local = LocalStack(layout, SystemClock(), OsEntropy())
    async with local.running():
        await local.settle("issuer", "gateway", rounds=5)
        await publish(layout)
        ready.set()
        await step_until(ended, local)


def recipe_of(layout: Layout, name: str, slot: int) -> Recipe:
    epoch = int(SystemClock().now() // 3600) + 1
    return propose(
        survey_from(
            name=name,
            question=VISITS,
            population=1000,
            rate=Decimal("0.5"),
            token=TokenSlot(issuer=layout.parties.issuer.name, epoch=epoch, slot=slot),
            start=epoch * 3600,
            duration=3600,
        ),
        layout.parties,
    )


async def publish(layout: Layout) -> None:
    recipe = recipe_of(layout, "visits", 0)
    key = signing_key_of(layout)
    leaf = sign_leaf(LeafType.RECIPE, recipe.body(), recipe.parties.analyst.operator, key)
    async with HttpTransport() as transport:
        await call(transport, "POST", f"{layout.urls['recipe_server']}/v1/leaves", body=leaf.encode())
        live = await verified_log(transport, layout, policy_of(layout.policy_path))
        assert live.recipes


def output(capture: Capture, *words: str, status: int = 0) -> Any:
    assert run([*words, "--json"]) == status
    return json.loads(capture.readouterr().out)


def test_the_ledger_shows_budget_spent_and_what_is_left(stack: Path, capsys: Capture) -> None:
    document = output(capsys, "privacy", "ledger", "--state-dir", str(stack))
    assert document["relation"] == "replacement"
    (account,) = document["accounts"]
    (recipe,) = account["recipes"]
    assert (recipe["name"], recipe["charged"]) == ("visits", True)
    assert recipe["state"] in {"pending", "active"}
    spent, left = float(account["spent"]), float(account["remaining"])
    assert spent == pytest.approx(float(recipe["epsilon"]), rel=1e-3)
    assert spent + left == pytest.approx(1.5, abs=1e-3)
    assert (account["epsilon_with_relay"], account["over_with_relay"]) == ("3.0", False)
    assert float(account["spent_with_relay"]) == pytest.approx(float(recipe["epsilon_with_relay"]), rel=1e-3)
    assert float(account["spent_with_relay"]) > spent
    assert account["delta_of_claims"] == "0.000009"
    assert (account["over"], account["delta_spent"], account["delta"]) == (False, recipe["delta"], "0.00001")
    assert run(["privacy", "ledger", "--state-dir", str(stack)]) == 0
    shown = capsys.readouterr().out
    for words in ("account default", "spent", "remaining", "visits", "replacement neighbours"):
        assert words in shown
    (burnt,) = output(capsys, "privacy", "ledger", "--burn-down", "--state-dir", str(stack))["burn_down"]
    assert (burnt["days"][-1]["spent"], burnt["days"][-1]["left"]) == (account["spent"], account["remaining"])
    assert (burnt["account"], burnt["pace"]["recipes"]) == ("default", 1)
    assert burnt["used_up"]["at"] is None, "no forecast before a day has passed"
    assert run(["privacy", "ledger", "--burn-down", "--state-dir", str(stack)]) == 0
    assert "too little for a forecast" in " ".join(capsys.readouterr().out.split())


def test_a_plan_says_what_fits_and_how_often(stack: Path, capsys: Capture) -> None:
    small = output(capsys, "privacy", "plan", "--epsilon", "0.1", "--state-dir", str(stack))
    assert (small["fits"], small["beside"]) == (True, 1)
    assert small["such_recipes"] >= 6
    over = output(capsys, "privacy", "plan", "--epsilon", "0.9", "--state-dir", str(stack), status=1)
    assert (over["fits"], over["such_recipes"]) == (False, 0)
    assert 0.4 < float(over["largest_epsilon"]) < 0.9
    largest = ("--epsilon", over["largest_epsilon"])
    assert output(capsys, "privacy", "plan", *largest, "--state-dir", str(stack))["fits"]
    assert run(["privacy", "plan", "--epsilon", "0.9", "--state-dir", str(stack)]) == 1
    shown = capsys.readouterr().out
    assert "does not fit: refused by rule budget-spent" in shown
    assert over["largest_epsilon"] in shown


def test_a_plan_for_a_recipe_in_a_file_agrees_with_its_publication(
    stack: Path, tmp_path: Path, capsys: Capture
) -> None:
    layout = load_layout(stack)
    file = tmp_path / "second.json"
    file.write_text(json.dumps(recipe_of(layout, "second", 1).body()))
    assert run(["privacy", "plan", "--recipe", str(file), "--state-dir", str(stack)]) == 1
    assert run(["recipe", "publish", str(file), "--state-dir", str(stack)]) != 0
    assert "budget-spent" in capsys.readouterr().err


def test_mistakes_are_said_in_one_line(stack: Path, capsys: Capture) -> None:
    for words, status, told in (
        (["--epsilon", "much"], 2, "takes a number"),
        (["--epsilon", "-1"], 2, "above 0"),
        (["--epsilon", "nan"], 2, "above 0"),
        ([], 2, "either --epsilon or --recipe"),
        (["--epsilon", "1", "--account", "clinic"], 1, "no account clinic; it has: default"),
    ):
        assert run(["privacy", "plan", *words, "--state-dir", str(stack)]) in {1, 2}, status
        assert told in " ".join(capsys.readouterr().err.split())
    assert run(["privacy", "ledger", "--state-dir", str(stack / "nowhere")]) != 0
    assert "no stack here" in capsys.readouterr().err


def test_an_account_that_is_over_is_shown_and_gives_exit_code_1(stack: Path, capsys: Capture) -> None:
    path = stack / "policy.json"
    text = path.read_text()
    body = json.loads(text)
    body["accounts"]["default"]["epsilon"] = "0.5"
    body["accounts"]["clinic"] = {"epsilon": "1", "delta": "0.00001", "window_seconds": 86_400}
    path.write_text(json.dumps(body))
    try:
        clinic, default = output(capsys, "privacy", "ledger", "--state-dir", str(stack), status=1)["accounts"]
        assert (clinic["spent"], clinic["remaining"], clinic["recipes"], clinic["over"]) == ("0", "1", [], False)
        assert (default["over"], default["remaining"]) == (True, "0")
        assert run(["privacy", "ledger", "--state-dir", str(stack)]) == 1
        assert "over budget" in capsys.readouterr().out
    finally:
        path.write_text(text)


@pytest.mark.parametrize("width", [80, 120])
def test_tables_fit_the_terminal(stack: Path, width: int) -> None:
    log, policy = _log(stack)
    document = ledger_of(log, policy, SystemClock().now()).document()
    (account,) = document["accounts"]
    states = ("active", "pending", "void", "lapsed")
    account["recipes"] = [
        {**account["recipes"][0], "name": f"a-question-of-medium-length-{number}", "state": states[number % 4]}
        for number in range(40)
    ]
    shown = io.StringIO()
    console = Console(file=shown, width=width)
    show_ledger(document, console)
    cost = Cost(Decimal("0.5"), Decimal("0.000001"))
    charge = Charge("default", b"", "planned", 1_800_000_000, 1_800_086_400, cost, ChargeState.PENDING)
    show_plan(plan(charge, (), Account("default", Decimal("1.5"), Decimal("0.00001"), 86_400)), console)
    lines = shown.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert "and 16 earlier ones" in shown.getvalue()
    assert sum("a-question" in line for line in lines) == 24


def test_the_largest_epsilon_of_a_plan_is_not_above_what_the_policy_allows_one_recipe() -> None:
    cost = Cost(Decimal("0.5"), Decimal("0.000001"))
    charge = Charge("default", b"", "planned", 1_800_000_000, 1_800_086_400, cost, ChargeState.PENDING)
    account = Account("default", Decimal(64), Decimal("0.00001"), 86_400)
    for cap, expected in ((Decimal(1), "ε 1, the policy's cap for one recipe"), (None, "largest that fits ε 6")):
        file = io.StringIO()
        show_plan(plan(charge, (), account, cap=cap), Console(file=file, width=160))
        assert expected in " ".join(file.getvalue().split())


async def test_a_name_that_several_recipes_have_means_the_newest_and_a_person_is_told_which(capsys: Capture) -> None:
    rows = [{"name": "visits", "hash": digit * 43} for digit in "abc"]

    async def recipes(_request: web.Request) -> web.Response:
        return web.json_response({"recipes": rows, "next": None})

    app = web.Application()
    app.router.add_get("/v1/recipes", recipes)
    async with InProcessTransport({"http://127.0.0.1:8001": app}) as network:
        assert await hash_of(network, "http://127.0.0.1:8001", "visits") == "c" * 43
    said = " ".join(capsys.readouterr().err.split())
    assert "visits: using the newest recipe, cccccccc; 2 older with this name can be named by hash" in said
