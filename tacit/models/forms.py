"""The models that this version knows, by their names in recipes."""

from __future__ import annotations

from tacit.errors import Refusal
from tacit.extension_points import FORMS as PLACES
from tacit.extension_points import ByName
from tacit.models.form import Adversary, Form

FORMS: ByName[Form] = ByName(PLACES, lambda form: form())


def find_form(model: str) -> Form | None:
    """The form of ``model``; None if this version does not know it."""
    return FORMS.get(model)


def form_of(model: str) -> Form:
    """The form of ``model``. Raises refusal ``model-unsupported``."""
    found = FORMS.get(model)
    if found is None:
        raise Refusal("model-unsupported", unsupported(model))
    return found


def adversary(name: str) -> Adversary | None:
    """The adversary of this name, of whichever model: documents refer to adversaries by name, and a name means the same
    adversary in every model."""
    found = (form.adversary(name) for form in FORMS.values())
    return next((one for one in found if one is not None), None)


def unsupported(model: str) -> str:
    """The text of a refusal for a model that this version does not know."""
    *others, last = FORMS
    known_ones = f"{', '.join(others)} and {last} are" if others else f"{last} is"
    return f"model {model} is not supported; {known_ones}"
