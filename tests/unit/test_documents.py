"""What foreign implementations are written from says what the code does: schemas, rule table, problem table."""

from __future__ import annotations

import ast
import functools
import importlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError
from jsonschema.exceptions import best_match

from infra.base.service_calls import SERVICE_CALLS
from infra.base.service_names import MODULES, kind_of, witness_name
from infra.lab.kit.bundles import paged, signed_bundle
from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.network import InProcessTransport
from infra.lab.kit.recipes import NOW, RecipeKit, bad_recipes
from infra.stacks.agents import provision_agents
from infra.stacks.layout import Layout
from infra.stacks.new_layout import create_layout
from infra.stacks.options import StackOptions
from infra.tools.documents.configuration import configurations
from infra.tools.documents.problems import MORE, problems_page
from infra.tools.documents.resources import PEOPLE, RESOURCES
from infra.tools.documents.schemas import SCHEMAS, member_notes, schema_of
from infra.tools.documents.stored import DATABASES, tables_page
from infra.tools.documents.tables import PAGES, findings_page
from infra.tools.documents.writing import schema_files
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.codec import b64url
from tacit.dap_errors import DapAbort, DapProblem
from tacit.errors import DecodeError, UsageError
from tacit.messages import Interval
from tacit.models.secure_aggregation.collector import SecureAggregationCollector
from tacit.monitor.findings import KINDS
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy, parse_policy
from tacit.roles.collector import AggregateResult
from tacit.rules.table import RULES
from tacit.service.app import ServiceEnv, own_fault
from tacit.service.base.config_files import load_config
from tacit.service.http.problems import problem_response
from tacit.tlog.log import MemoryTree
from tacit.tlog.pages import Head
from tacit.tokens.attestation import Evidence, token_request_body
from tacit.tokens.structures import TokenRequest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("tacit", "services", "relay", "attester", "recipe_server", "client_agent")
WITH_MIGRATIONS = [
    ".".join(module.relative_to(ROOT).with_suffix("").parts)
    for package in PACKAGES
    for module in sorted((ROOT / package).rglob("*.py"))
    if re.search(r"^MIGRATIONS = ", module.read_text(), flags=re.MULTILINE)
]
"""The modules that declare a database."""
KIT = RecipeKit()
SERVICE_ENV = ServiceEnv(SimClock(NOW), SeededEntropy(), InProcessTransport())
PREFIXES = {"urn:tacit:refusal:", "urn:tacit:problem:"}
"""To which a rule's name is added, or by which ours are told from others."""


@pytest.mark.parametrize(("page", "at_least"), [("architecture.md", 30), ("extending.md", 40)])
def test_the_map_of_the_house_names_files_that_are_there(page: str, at_least: int) -> None:
    """Whoever follows a path or a list of these pages finds every file and folder of it."""
    text = (ROOT / "docs" / page).read_text()
    named = set(re.findall(r"`([a-z0-9_]+(?:/[a-z0-9_.]+)+)`", text))
    assert len(named) > at_least
    assert [one for one in sorted(named) if not (ROOT / one).exists()] == []


def sources() -> list[Path]:
    return [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


@functools.cache
def validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(schema_of(name))


def problem_table() -> list[list[str]]:
    page = problems_page()
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("| `")]


def test_the_schemas_and_their_pages_are_those_of_the_models() -> None:
    kept = {path.name: path.read_bytes() for path in (ROOT / "docs" / "schemas").iterdir()}
    made = schema_files()
    assert sorted(kept) == sorted(made)
    assert [name for name in made if made[name] != kept[name]] == [], "run: make documents"
    assert {name for name in made if name.endswith(".md")} == {"README.md", *PAGES}


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_one_and_says_what_its_document_is(name: str) -> None:
    schema = schema_of(name)
    Draft202012Validator.check_schema(schema)
    assert schema["description"] or schema["$defs"]


def test_every_rule_is_in_the_table_with_what_it_asks() -> None:
    page = (ROOT / "docs" / "schemas" / "rules.md").read_text()
    rows = dict(re.findall(r"^\| `([a-z-]+)` \| [a-z -]+ \| (.+) \|$", page, flags=re.MULTILINE))
    assert {rule.name for rule in RULES} <= set(rows)
    assert all(len(text) > 20 for text in rows.values())


def test_every_rule_that_code_or_a_document_names_by_number_is_in_the_glossary() -> None:
    glossary = ROOT / "docs" / "glossary.md"
    explained = re.findall(r"^\| (P[0-9].*?) \|", glossary.read_text(), flags=re.MULTILINE)
    texts = [*sources(), *(set((ROOT / "docs").glob("*.md")) - {glossary})]
    named = {rule for path in texts for rule in re.findall(r"\bP[1-9][0-9]?b?\b", path.read_text())}
    assert named == {rule for row in explained for rule in row.split(", ")}


def test_the_problem_table_holds_the_types_that_the_code_can_answer_with_and_no_others() -> None:
    found = set()
    for text in (path.read_text() for path in sources()):
        if not re.search(r"urn:tacit:|https://iana\.org/", text):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found |= set(re.findall(r"^(?:urn:tacit:\S+|https://iana\.org/\S+)$", node.value))
    listed = {row[0].strip("`") for row in problem_table()}
    assert found - PREFIXES == listed - {"urn:tacit:refusal:<rule>"}


def test_every_problem_that_a_device_can_meet_is_named_with_its_status() -> None:
    statuses = {row[0].strip("`"): row[1] for row in problem_table()}
    assert all(re.fullmatch(r"[45]\d\d(, [45]\d\d)*", status) for status in statuses.values())


def test_what_the_title_of_a_problem_leaves_out_is_not_the_title_again() -> None:
    page = problems_page()
    for problem, more in MORE.items():
        assert more not in problem.value[2]
        assert f"{problem.value[2]} {more} |" in page


def test_every_finding_of_a_monitor_has_its_row() -> None:
    calls = [
        node
        for path in (ROOT / "tacit" / "monitor").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Finding"
    ]
    kinds = {call.args[0].value for call in calls if isinstance(call.args[0], ast.Constant)}
    assert len(kinds) > 8
    assert kinds <= set(KINDS)
    assert all(f"| `{kind}` | " in findings_page() for kind in KINDS)


def test_every_table_of_every_database_says_what_it_holds_and_for_how_long() -> None:
    rows = [line.split(" | ") for line in tables_page().splitlines() if line.startswith("| `")]
    for party, metadata in DATABASES.items():
        for one in metadata.tables.values():
            assert set(one.info) == {"holds", "kept"}, (party, one.name)
            found = [row for row in rows if row[0] == f"| `{one.name}`" and row[3] == one.info["holds"]]
            assert any(all(f"`{column.name}`" in row[1] + row[2] for column in one.columns) for row in found)
    shown = {id(metadata) for metadata in DATABASES.values()}
    assert {id(importlib.import_module(name).METADATA) for name in WITH_MIGRATIONS} == shown


def test_every_well_formed_recipe_fits_the_schema_whatever_the_rules_say_of_it() -> None:
    check = validator("recipe")
    for rule, recipe in [("", KIT.recipe()), ("", KIT.census()), *bad_recipes(KIT)]:
        error = best_match(check.iter_errors(recipe.body()))
        assert error is None, (rule, error)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("version", 2),
        ("name", "Doctor visits"),
        ("batch.min_batch_size", 0),
        ("batch.min_batch_size", "200"),
        ("batch.time_precision", 60.5),
        ("sampling.rate", "0.50000000000000000000"),
        ("sampling.rate", "05"),
        ("parties.leader.signing_key", "AAAA"),
        ("parties.leader.url", "http://leader example"),
        ("question.encoder", {"kind": "buckets", "edges": [1]}),
        ("question.encoder", {"kind": "guess"}),
        ("question.round_input", None),
        ("series", None),
        ("surprise", 1),
    ],
)
def test_what_the_schema_refuses_the_reader_refuses_too(path: str, value: Any) -> None:
    body = KIT.recipe().body()
    *parents, last = path.split(".")
    at = body
    for parent in parents:
        at = at[parent]
    at[last] = value
    with pytest.raises(ValidationError):
        validator("recipe").validate(body)
    with pytest.raises(DecodeError):
        Recipe.from_body(body)


def test_leaves_heads_pages_and_hashes_of_a_log_fit_their_schemas() -> None:
    recipe, series = KIT.recipe(), KIT.series()
    leaves = {
        "series": KIT.series_leaf(series),
        "leaf-issuer-directory": KIT.directory_leaf(),
        "leaf-ohttp-config": KIT.ohttp_leaf(),
        "recipe": KIT.recipe_leaf(recipe),
        "leaf-opt-in": KIT.opt_in_leaf(recipe, "leader"),
        "leaf-void": KIT.void_leaf(recipe, "helper"),
        "leaf-census-share": KIT.census_share_leaf(KIT.census(), "leader", 300, [9]),
    }
    for name, leaf in leaves.items():
        document = json.loads(leaf.encode())
        validator("leaf").validate(document)
        validator(name).validate(document["body"])
    tree = MemoryTree(leaf.encode() for leaf in leaves.values())
    bundle = signed_bundle(tree, 0, KIT.keys["log"])
    head = paged(tree, bundle, "/v1/bundle") or b""
    page = json.loads(head)["pages"][0]
    for name, path in (
        ("bundle-head", "/v1/bundle"),
        ("bundle-page", f"/v1/bundle/{page}"),
        ("hashes", f"/v1/hashes/{tree.size}/0"),
        ("key-sets", "/v1/key-sets"),
    ):
        validator(name).validate(json.loads(paged(tree, bundle, path) or b""))
    assert Head.decode(head).pages


def test_the_schema_of_a_policy_takes_what_the_reader_takes() -> None:
    check = validator("policy")
    check.validate(KIT.policy.model_dump(mode="json"))
    check.validate({"max_epsilon_aggregator_with_relay": None})
    for wrong in ({"min_batch_size": 0}, {"colour": 1}, {"witnesses": {"keys": [], "k": 1}}):
        with pytest.raises(ValidationError):
            check.validate(wrong)
        with pytest.raises(UsageError):
            parse_policy(json.dumps(wrong).encode(), "policy.json")


def test_a_member_is_described_by_the_words_below_it() -> None:
    assert member_notes(Policy)["min_batch_size"] == "The smallest minimum batch size B that a recipe may have."
    assert (
        schema_of("policy")["properties"]["min_batch_size"]["description"]
        == "The smallest minimum batch size B that a recipe may have."
    )


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    folder = tmp_path_factory.mktemp("documents") / "stack"
    return create_layout(folder, StackOptions(witnesses=1), OsEntropy(), SystemClock().now())


def test_every_configuration_and_secret_of_a_stack_fits_its_schema(layout: Layout) -> None:
    (agent,) = provision_agents(layout, 1, SeededEntropy(1), SystemClock().now())
    files = {f"config-{name.replace('_', '-')}": path for name, path in layout.configs.items() if name[-1].isalpha()}
    files |= {
        "config-witness": layout.configs[witness_name(1)],
        "config-agent": agent,
        "policy": layout.policy_path,
        "peer-file": layout.state_dir / "leader" / "peer.json",
        "hpke-key-file": layout.state_dir / "helper" / "hpke.key",
    }
    assert {name for name in SCHEMAS if name.startswith("config-")} <= set(files)
    for name, path in files.items():
        error = best_match(validator(name).iter_errors(json.loads(path.read_bytes())))
        assert error is None, (name, error)


def test_every_resource_of_every_service_is_listed_with_who_asks_for_it(layout: Layout) -> None:
    served = set()
    for name, path in layout.configs.items():
        kind = kind_of(name)
        module = importlib.import_module(f"{MODULES[kind][0]}.app")
        app = module.create_app(load_config(path, configurations()[kind]), SERVICE_ENV)
        found = {(kind, one.method, one.resource.canonical) for one in app.router.routes() if one.method != "HEAD"}
        served |= {one for one in found if one[2] not in {"/healthz", "/readyz"}}
    assert {(one.service, one.method, one.path) for one in RESOURCES} == {one for one in served if one[0] != "admin"}
    asked = {(caller, one.service) for one in RESOURCES for caller in one.callers if caller not in PEOPLE}
    assert asked == set(SERVICE_CALLS)


def test_what_the_attester_is_asked_and_answers_fits_its_schemas() -> None:
    request = TokenRequest(7, bytes(256))
    validator("attester-request").validate(json.loads(token_request_body(Evidence("x", b"y"), bytes(32), request)))
    validator("attester-challenge").validate({"challenge": b64url(bytes(32))})
    with pytest.raises(ValidationError):
        validator("attester-challenge").validate({"challenge": b64url(bytes(31))})


def test_a_problem_document_and_a_result_fit_their_schemas() -> None:
    abort = DapAbort(DapProblem.BATCH_INVALID, "why", task_id=b64url(bytes(32)))
    for problem in (abort, own_fault("test", SERVICE_ENV, ValueError())):
        body = problem_response(problem).body
        assert isinstance(body, bytes)
        validator("problem").validate(json.loads(body))
    counts = tuple([30] * 10 + [0] * 6)
    result = SecureAggregationCollector().release(
        KIT.recipe(), "", 0, AggregateResult(300, Interval(28_800_060, 60), counts), NOW
    )
    validator("result").validate(json.loads(json.dumps(result)))
