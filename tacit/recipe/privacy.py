"""What a recipe claims to cost a device in privacy: its member ``privacy``."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, GetJsonSchemaHandler, RootModel
from pydantic_core import CoreSchema

from tacit.dp.claim import UNBOUNDED
from tacit.models.form import Form
from tacit.models.forms import FORMS
from tacit.models.parties import Operator, Part
from tacit.recipe.member_types import DecimalText, Positive

EpsilonText = DecimalText | Literal["unbounded"]


def epsilon_of(text: str) -> Decimal:
    """A stated epsilon as a number: ``unbounded`` is infinite."""
    return Decimal("Infinity") if text == UNBOUNDED else Decimal(text)


class Epsilons(RootModel[dict[str, EpsilonText]]):
    """The claim per adversary (P16): one number for each adversary of the recipe's model."""

    model_config = ConfigDict(defer_build=True, frozen=True, strict=True)

    def __getitem__(self, adversary: str) -> str:
        """The epsilon stated against ``adversary``. Raises ``KeyError`` if there is none."""
        return self.root[adversary]

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """An object for each known model."""
        value = handler(schema)
        shapes = [_epsilon_schema(form, value) for form in FORMS.values()]
        return shapes[0] if len(shapes) == 1 else {"anyOf": shapes}


def _epsilon_schema(form: Form, epsilons: dict[str, Any]) -> dict[str, Any]:
    """The JSON Schema of a model's epsilons, derived from the schema for any epsilons."""
    either = epsilons["additionalProperties"]
    number, _ = either["anyOf"]
    return {
        "additionalProperties": False,
        "description": epsilons["description"],
        "properties": {one.name: either if one.unbounded else number for one in form.adversaries},
        "required": list(form.names),
        "type": "object",
    }


class Privacy(Part):
    """The privacy claim, at n reports, and the account that it is charged to."""

    delta: DecimalText
    relation: Literal["replacement"]
    mechanism: Annotated[str, Field(pattern=r"^[a-z0-9+-]{1,64}$")]
    n: Positive
    epsilon0: EpsilonText
    account: Operator
    epsilon: Epsilons
