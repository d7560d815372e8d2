"""Privacy claims as text: who an adversary is, an epsilon and a delta."""

from __future__ import annotations

from tacit.dp.claim import UNBOUNDED
from tacit.methods.figures import delta_form
from tacit.models.forms import adversary


def adversary_text(name: str, n: int) -> str:
    """Return who the adversary ``name`` of a claim at ``n`` reports is, and on what condition the claim holds."""
    found = adversary(name)
    return name if found is None else found.words.format(n=n)


def is_conditional(name: str) -> bool:
    """Whether the claim against this adversary rests on a condition that nobody enforces."""
    found = adversary(name)
    return found is not None and found.condition is not None


def epsilon_text(value: float | str, places: int = 4) -> str:
    """Return an epsilon with ``places`` decimals; a word such as ``unbounded`` is unchanged."""
    return value if isinstance(value, str) and not value[:1].isdigit() else f"{float(value):.{places}f}"


def delta_text(name: str, epsilon: float | str, delta: float | str) -> str:
    """Return the delta beside an epsilon: empty if nothing is guaranteed, 0 for the local guarantee."""
    if epsilon == UNBOUNDED:
        return ""
    found = adversary(name)
    return "0" if found is not None and found.pure else delta_form(delta)
