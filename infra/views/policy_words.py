"""What people who may write policies are told of a refusal beside its own words."""

from __future__ import annotations

LOCAL_GUARANTEE = "policy accepts nothing without a local guarantee"
"""As ``tacit.rules.privacy`` says it, which takes long to import."""
UNBOUNDED_KEY = "its allow_unbounded_local is false; tacit up --allow-unbounded-local starts a stack that accepts it"


def for_authors(detail: str) -> str:
    """Return a refusal's ``detail`` with the policy key behind it and the flag of a stack that sets it, for people who
    may write policies. What has them already stays as it is."""
    if LOCAL_GUARANTEE not in detail or UNBOUNDED_KEY in detail:
        return detail
    return detail.replace(LOCAL_GUARANTEE, f"{LOCAL_GUARANTEE} ({UNBOUNDED_KEY})")
