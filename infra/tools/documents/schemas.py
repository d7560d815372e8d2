"""JSON Schemas (draft 2020-12) of every document, from the models that read them."""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from attester.config import AttesterConfig
from attester.handlers import TokenRequestBody
from client_agent.config import AgentConfig
from infra.tools.documents.json_models import ChallengeBody, HpkeKeyFile, PeerFile, Problem, ResultDocument
from infra.views.terminal import json_text
from recipe_server.config import RecipeServerConfig
from relay.config import RelayConfig
from services.admin.base.config import AdminConfig
from services.analyzer.config import AnalyzerConfig
from services.collector.config import CollectorConfig
from services.gateway.config import GatewayConfig
from services.helper.config import HelperConfig
from services.issuer.config import IssuerConfig
from services.leader.config import LeaderConfig
from services.shuffler.config import ShufflerConfig
from services.witness.config import WitnessConfig
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.recipe.series import Series
from tacit.recipe.writing.survey import Survey
from tacit.tlog.hashes import HashesBody
from tacit.tlog.key_sets import KeySetsBody, OhttpConfig
from tacit.tlog.leaves import Envelope
from tacit.tlog.pages import HeadBody, PageBody
from tacit.tlog.statements import CensusShare, OptIn, SeriesEnd, Void
from tacit.tlog.token_directories import IssuerDirectory

DIALECT = "https://json-schema.org/draft/2020-12/schema"
ID_PREFIX = "urn:tacit:schema:"


@dataclass(frozen=True)
class Entry:
    """One schema: the document's model, a description, and whether an absent member may be written as null."""

    model: type[BaseModel]
    about: str
    nulls: bool = False


SCHEMAS = {
    "recipe": Entry(Recipe, "a recipe; body of a leaf `recipe`"),
    "survey": Entry(Survey, "what an analyst wants to know, as `tacit recipe new --file` reads it", nulls=True),
    "series": Entry(Series, "a series; body of a leaf `series`"),
    "leaf": Entry(Envelope, "an entry of the log"),
    "leaf-opt-in": Entry(OptIn, "body of a leaf `opt-in`"),
    "leaf-issuer-directory": Entry(IssuerDirectory, "body of a leaf `issuer-directory`"),
    "leaf-ohttp-config": Entry(OhttpConfig, "body of a leaf `ohttp-config`"),
    "leaf-series-end": Entry(SeriesEnd, "body of a leaf `series-end`"),
    "leaf-void": Entry(Void, "body of a leaf `void`"),
    "leaf-census-share": Entry(CensusShare, "body of a leaf `census-share`"),
    "bundle-head": Entry(HeadBody, "`GET /v1/bundle` of the log"),
    "bundle-page": Entry(PageBody, "`GET /v1/bundle/<digest>` of the log"),
    "hashes": Entry(HashesBody, "`GET /v1/hashes/<size>/<block>` of the log"),
    "key-sets": Entry(KeySetsBody, "`GET /key-sets` of the relay, `GET /v1/key-sets` of the log"),
    "attester-challenge": Entry(ChallengeBody, "answer to `POST /v1/challenge` of the attester"),
    "attester-request": Entry(TokenRequestBody, "body of `POST /v1/token-requests` of the attester"),
    "problem": Entry(Problem, "a refusal over HTTP (RFC 9457)", nulls=True),
    "result": Entry(ResultDocument, "a released result"),
    "policy": Entry(Policy, "a party's policy", nulls=True),
    "peer-file": Entry(PeerFile, "the secrets that leader and helper share"),
    "hpke-key-file": Entry(HpkeKeyFile, "an HPKE key of leader, helper or collector"),
    "config-agent": Entry(AgentConfig, "configuration of a device", nulls=True),
    "config-recipe-server": Entry(RecipeServerConfig, "configuration of the recipe server", nulls=True),
    "config-issuer": Entry(IssuerConfig, "configuration of the issuer", nulls=True),
    "config-attester": Entry(AttesterConfig, "configuration of the attester", nulls=True),
    "config-gateway": Entry(GatewayConfig, "configuration of the gateway", nulls=True),
    "config-relay": Entry(RelayConfig, "configuration of the relay", nulls=True),
    "config-leader": Entry(LeaderConfig, "configuration of the leader", nulls=True),
    "config-helper": Entry(HelperConfig, "configuration of the helper", nulls=True),
    "config-analyzer": Entry(AnalyzerConfig, "configuration of the analyzer", nulls=True),
    "config-shuffler": Entry(ShufflerConfig, "configuration of the shuffler", nulls=True),
    "config-collector": Entry(CollectorConfig, "configuration of the collector", nulls=True),
    "config-admin": Entry(AdminConfig, "configuration of the admin service", nulls=True),
    "config-witness": Entry(WitnessConfig, "configuration of a witness", nulls=True),
}
"""Name of the schema -> what it describes."""


class WithNotes(GenerateJsonSchema):
    """Adds to each member the description that follows it in the source, and leaves out titles, which only repeat
    names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """No member has a title."""
        del schema
        return False

    def enum_schema(self, schema: core_schema.EnumSchema) -> JsonSchemaValue:
        """The schema of an enumeration."""
        return _described(super().enum_schema(schema))

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """The schema of a model or of one nested in it; a member's note in a subclass replaces that in its base."""
        found = _described(super().model_schema(schema))
        model = schema["cls"]
        for cls in reversed(model.__mro__):
            if not isinstance(cls, type) or not issubclass(cls, BaseModel) or cls is BaseModel:
                continue
            for member, note in member_notes(cls).items():
                if member in found.get("properties", {}):
                    found["properties"][member]["description"] = note
        return found


class WithoutNulls(WithNotes):
    """For documents that are signed or hashed: an absent member is left out, never null."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        """The schema without null: an absent member is left out."""
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        found = super().default_schema(schema)
        return {name: value for name, value in found.items() if (name, value) != ("default", None)}


def schema_of(name: str) -> dict[str, Any]:
    """The schema called ``name`` with dialect, id and title. Raises ``KeyError`` for a name that ``SCHEMAS`` does not
    have."""
    entry = SCHEMAS[name]
    found = schema_of_model(entry.model, nulls=entry.nulls)
    return {"$schema": DIALECT, "$id": ID_PREFIX + name, "title": name, **found}


def schema_of_model(model: type[BaseModel], *, nulls: bool = True) -> dict[str, Any]:
    """The schema of what ``model`` reads; ``nulls``: an absent member may be written as null."""
    return model.model_json_schema(schema_generator=WithNotes if nulls else WithoutNulls)


def encode_schema(schema: dict[str, Any]) -> bytes:
    return json_text(schema).encode()


@functools.cache
def member_notes(model: type[BaseModel]) -> Mapping[str, str]:
    """The description below each member in the model's source; empty for a model without source."""
    try:
        (body,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    except OSError:
        return {}
    notes: dict[str, str] = {}
    statements = body.body if isinstance(body, ast.ClassDef) else []
    for one, after in itertools.pairwise(statements):
        target = one.target if isinstance(one, ast.AnnAssign) else None
        text = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else None
        if isinstance(target, ast.Name) and isinstance(text, str):
            notes[target.id] = " ".join(text.split())
    return notes


def _described(schema: JsonSchemaValue) -> JsonSchemaValue:
    """The schema without its title, and with its description on one line."""
    words = {"description": " ".join(schema["description"].split())} if "description" in schema else {}
    return {name: content for name, content in schema.items() if name != "title"} | words
