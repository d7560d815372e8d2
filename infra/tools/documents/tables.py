"""Pages of tables: the rules with what each demands, the methods, and the members of recipes, series and policies."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from client_agent import device_rules
from infra.tools.documents.schemas import SCHEMAS, schema_of
from infra.tools.documents.words import MADE, page, prose, table, type_in_words, value
from tacit.methods.base.statistics import STATISTICS, Shape
from tacit.methods.planners.registry import planner_of
from tacit.methods.randomisers.registry import RANDOMISERS
from tacit.methods.registry import METHODS
from tacit.monitor.findings import KINDS
from tacit.recipe.context import Stage
from tacit.rules.table import RULES

STAGES = {
    Stage.DRAFT: "a draft",
    Stage.PUBLISH: "publishing",
    Stage.LOGGED: "the log",
    Stage.ACTIVE: "both opt-ins",
}
MEMBERS_OF = ("recipe", "survey", "series", "policy", "config-agent")
_CELLS, _REPORTS, _DELTA = 16, 1000, 1e-6
"""Parameters of the questions for which methods name their proofs."""


PAGES = {
    "configuration.md": "every key of every configuration",
    "deletions.md": "everything that is deleted or expires: when, and who vouches for the time",
    "findings.md": "what a monitor of the log may find",
    "gets.md": "what every GET answers at most, and what that costs",
    "members.md": "recipe, survey, series, policy and a device's configuration as tables",
    "methods.md": "what each method draws",
    "metrics.md": "every metric",
    "problems.md": "every refusal over HTTP",
    "resources.md": "every resource of the services: who asks for it, request and answer",
    "rules.md": "what a recipe has to pass",
    "states.md": "the states of stored objects, drawn",
    "tables.md": "every table of every database: what it holds, and for how long",
}
"""The pages beside the schemas, and what each shows."""


def readme() -> str:
    """The page that lists the schemas."""
    return page(
        "# JSON Schemas and reference tables",
        MADE,
        table(("page", "what it shows"), [(f"[{name}]({name})", about) for name, about in PAGES.items()]),
        "The schemas (draft 2020-12) are of every document that Tacit reads or writes as JSON. A schema says which "
        "documents are well formed; its descriptions say what a schema cannot express, and the rules say which recipes "
        "are acceptable. Documents that are signed are written in RFC 8785 form: no floats, no duplicate members, and "
        "an absent member is left out, never null. Configurations may be TOML as well.",
        table(("schema", "document"), [(f"[{name}]({name}.json)", entry.about) for name, entry in SCHEMAS.items()]),
    )


def rules_page() -> str:
    """The page ``rules.md``: every rule with the stage from which it applies, and what devices check in addition."""
    rows = [(f"`{rule.name}`", STAGES[rule.stage], _first_words(rule.check)) for rule in RULES]
    own = [(f"`{name}`", _first_words(check)) for name, check in device_rules.RULES.items()]
    return page(
        "# Rules",
        f"{MADE} Each party applies the rules of `tacit/rules/table.py`, in this order, under its own policy. "
        "Journals, statuses and problem types name the first rule that refuses. `from` is the stage from which a rule "
        "applies; devices and serving aggregators look only at recipes with both opt-ins in the log, so they apply all "
        "rules.",
        table(("rule", "from", "condition"), rows),
        "## What a device checks in addition",
        "A device also checks a recipe against its own pins, tokens and ledger (`client_agent/device_rules.py`). It "
        "has no ledger of the whole log, so it applies `budget-spent` as below, not as above.",
        table(("rule", "condition"), own),
    )


def findings_page() -> str:
    """The page ``findings.md``: every kind of finding of a monitor."""
    return page(
        "# Findings of a monitor",
        f"{MADE} `tacit log monitor` and `tacit log verify` print the kind of each finding, and its words.",
        table(("kind", "meaning"), [(f"`{kind}`", about) for kind, about in KINDS.items()]),
    )


def methods_page() -> str:
    """The page of methods: what is drawn, what a recipe states, and what proves the claim."""
    described = {name: one.DRAWS for name, one in RANDOMISERS.items()}
    draws = [(f"`{name}`", one.answer, one.missing, one.dummy) for name, one in described.items()]
    noted: dict[str, list[str]] = {}
    for name, one in described.items():
        noted.setdefault(one.note, []).append(f"`{name}`")
    return page(
        "# Methods",
        f"{MADE} Each method is a class of `tacit/methods`. d, d1 and d_i are draws, T is a threshold: see "
        '"Randomizers" in `docs/device.md`. *Missing* is what a device sends if it takes part and has no answer.',
        table(("name", "answer v", "missing", "dummy"), draws),
        *(f"{', '.join(names)}: {note}" for note, names in noted.items() if note),
        "What a recipe states for each method besides `categories`, and what proves it. Any other member is refused.",
        table(("name", "statistics", "members", "VDAF", "its bounds"), list(_proofs())),
    )


def _proofs() -> Iterable[tuple[str, ...]]:
    """A row for each method and VDAF."""
    for method in METHODS.values():
        by_vdaf: dict[str, list[str]] = {}
        for name in method.STATISTICS:
            cells = 1 if STATISTICS[name].is_scalar else _CELLS
            proof = planner_of(method).tuned(Shape(STATISTICS[name], cells, norm=1), Decimal(1), _REPORTS, _DELTA).proof
            length = "1" if proof is None or proof.length == 1 else "`categories`"
            by_vdaf.setdefault("none" if proof is None else f"{proof.name} of length {length}", []).append(name)
        members = ", ".join(f"`{name}`" for name in method.MEMBERS)
        for vdaf, statistics in by_vdaf.items():
            yield f"`{method.NAME}`", ", ".join(statistics), members, vdaf, RANDOMISERS[method.NAME].DRAWS.bounds


def members_page() -> str:
    """The page ``members.md``: the members of each of ``MEMBERS_OF``, with type and default."""
    parts = [
        "# Members",
        f"{MADE} A member is required unless its row says otherwise. *base64url* has no padding; *decimal* is text "
        "such as `0.5`: digits without a leading zero, and up to 18 places; *fraction* is text such as `-0.25`: at "
        "most 9 digits before the point and 9 behind it, the last one not 0. Integers reach 2^53 - 1.",
    ]
    for name in MEMBERS_OF:
        parts += _document(name)
    return page(*parts)


def _document(name: str) -> Iterable[str]:
    schema = schema_of(name)
    yield f"## {name}"
    yield f"{prose(schema)} Schema: [{name}.json]({name}.json)."
    yield _members(schema)
    for part, content in schema.get("$defs", {}).items():
        if "properties" in content:
            yield f"### {name}: {part}"
            yield prose(content)
            yield _members(content)


def _members(schema: Mapping[str, Any]) -> str:
    rows = []
    for member, content in schema["properties"].items():
        optional = member not in schema.get("required", ())
        default = content.get("default")
        given = f" (default {value(default)})" if optional and default not in (None, {}, []) else ""
        notes = [type_in_words(content), f"optional{given}" if optional else "", prose(content)]
        rows.append((f"`{member}`", "; ".join(note for note in notes if note)))
    return table(("member", "holds"), rows) if rows else "No members."


def _first_words(function: object) -> str:
    return " ".join((inspect.getdoc(function) or "").split()).replace("``", "`").replace("|", "\\|")
