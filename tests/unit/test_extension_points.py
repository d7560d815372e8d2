"""The table of extension points: every name leads to what it says, a party's table to that party's side alone, and
nothing is imported before it is asked for."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tacit import extension_points
from tacit.accounting.model_ways import WAYS
from tacit.errors import Unavailable
from tacit.extension_points import FEATURE_RULES, OUTLOOK_LINES, OUTLOOKS, ByName
from tacit.methods.estimators.registry import ESTIMATORS
from tacit.methods.planners.registry import PLANNERS
from tacit.methods.randomisers.registry import RANDOMISERS
from tacit.methods.registry import METHODS
from tacit.models.collectors import COLLECTORS
from tacit.models.devices import DEVICES
from tacit.models.forms import FORMS
from tacit.models.servers import SERVERS, SHUFFLERS
from tacit.rules.table import RULES

SIDES = {
    "DEVICE_SIDES": r"tacit\.models\.(\w+\.device|\w+\.mixed)",
    "COLLECTOR_SIDES": r"tacit\.models\.\w+\.collector",
    "SERVER_SIDES": r"tacit\.models\.\w+\.server",
    "SHUFFLER_SIDES": r"tacit\.models\.\w+\.server",
    "FORMS": r"tacit\.models\.\w+\.form",
    "FEATURE_RULES": r"tacit\.rules\.\w+",
    "OUTLOOKS": r"tacit\.operations\.\w+",
    "OUTLOOK_LINES": r"infra\.views\.\w+",
    "ADMIN_TEXTS": r"services\.admin\.questions\.\w+",
    "ADMIN_ROUTES": r"services\.admin\.handlers\.\w+",
    "ADMIN_EXAMPLES": r"services\.admin\.api\.\w+",
    "ADMIN_PAGES": r"services\.admin\.pages\.(\w+\.)?\w+",
    "WAYS": r"tacit\.accounting\.\w+",
    "METHODS": r"tacit\.methods\.(base\.|succinct_histogram\.)?(?!randomisers|estimators|planners)\w+",
    "RANDOMISERS": r"tacit\.methods\.randomisers\.\w+",
    "ESTIMATORS": r"tacit\.methods\.estimators\.\w+",
    "PLANNERS": r"tacit\.methods\.planners\.\w+",
}
"""Where the entries of each table may lie: the import contracts forbid these modules what their party must not know,
but cannot see an import by name."""


@pytest.mark.parametrize("table", SIDES)
def test_a_partys_table_leads_to_that_partys_modules_alone(table: str) -> None:
    for place in extension_points.tables()[table].values():
        assert re.fullmatch(SIDES[table], place.partition(":")[0]), place


def test_every_method_form_and_side_is_found_by_its_own_name() -> None:
    assert {name: method.NAME for name, method in METHODS.items()} == {name: name for name in METHODS}
    assert {name: form.name for name, form in FORMS.items()} == {name: name for name in FORMS}
    assert {name: side.name for name, side in DEVICES.items()} == {name: name for name in DEVICES}


def test_every_method_has_its_randomiser_its_estimator_and_its_planner() -> None:
    assert list(RANDOMISERS) == list(ESTIMATORS) == list(PLANNERS) == list(METHODS)
    assert all([*RANDOMISERS.values(), *ESTIMATORS.values(), *PLANNERS.values()])


def test_every_model_has_a_device_and_a_collector_and_servers_only_models_that_exist() -> None:
    assert set(DEVICES) >= set(FORMS)
    assert set(COLLECTORS) == set(FORMS)
    assert set(SERVERS) | set(SHUFFLERS) <= set(FORMS)
    assert all(
        [
            *COLLECTORS.values(),
            *SERVERS.values(),
            *SHUFFLERS.values(),
            *extension_points.PAN_PRIVACY.values(),
            *extension_points.STATE_KEYS.values(),
            *extension_points.WATCHED_STATE.values(),
            *extension_points.MODEL_TRAINING.values(),
            *extension_points.OUTLOOKS.values(),
            *WAYS.values(),
        ]
    )


def test_every_rule_of_a_feature_has_its_place_in_the_table_and_every_outlook_its_sentences() -> None:
    assert {rule.name: rule.check for rule in RULES if rule.name in FEATURE_RULES} == dict(FEATURE_RULES)
    assert list(OUTLOOK_LINES) == list(OUTLOOKS)
    assert all(OUTLOOK_LINES.values())


def test_a_party_that_knows_the_names_has_imported_no_method_and_no_side() -> None:
    code = (
        "import sys; from tacit.methods.registry import METHODS; from tacit.models.devices import DEVICES\n"
        "assert 'rappor' in METHODS and list(METHODS)[0] == 'krr' and 'local' in DEVICES\n"
        "assert METHODS['krr'].NAME == 'krr'\n"
        "print(*(name for name in sys.modules if name.startswith('tacit.')))"
    )
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)
    imported = set(printed.stdout.split())
    assert {"tacit.methods.registry", "tacit.models.devices", "tacit.methods.krr"} <= imported
    assert not imported & {"tacit.methods.rappor", "tacit.methods.flips", "tacit.models.local.device"}
    folders = ("tacit.methods.randomisers", "tacit.methods.estimators", "tacit.methods.planners")
    assert not any(name.startswith(folders) for name in imported)


def test_a_further_entry_is_used_like_the_others_and_can_be_taken_away() -> None:
    table: ByName[str] = ByName({"fold": "textwrap:fill"}, lambda function: str(function.__name__))
    table["own"] = "mine"
    assert dict(table) == {"fold": "fill", "own": "mine"}
    del table["own"]
    assert list(table) == ["fold"]
    with pytest.raises(KeyError):
        table["own"]


def test_what_cannot_be_loaded_now_is_an_outage_and_is_found_once_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    table: ByName[str] = ByName({"fold": "textwrap:fill"}, lambda function: str(function.__name__))
    with monkeypatch.context() as broken:
        broken.setitem(sys.modules, "textwrap", None)  # the import machinery then says that there is no such module
        with pytest.raises(Unavailable, match="textwrap cannot be loaded now"):
            table["fold"]
    assert table["fold"] == "fill"
