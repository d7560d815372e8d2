"""The keys of a party that takes reports, by their names in recipes and opt-ins."""

from __future__ import annotations

from collections.abc import Sequence

from tacit.aggregator.keys import HpkeKey
from tacit.aggregator.state_keys import state_key_text
from tacit.codec import b64url
from tacit.panprivate.elgamal import PrivateKey
from tacit.service.operated import HeldKey, signing_key
from tacit.signing import SigningKey


def report_keys(hpke_keys: Sequence[HpkeKey]) -> tuple[HeldKey, ...]:
    """The keys to which reports or aggregate shares are sealed. Recipes name them, so each is needed until no recipe
    names it."""
    configs = [one.config for one in hpke_keys]
    return tuple(HeldKey("hpke", f"{one.id}:{b64url(one.public_key)}") for one in configs)


def held_keys(
    signing: SigningKey, hpke_keys: Sequence[HpkeKey], state_keys: Sequence[PrivateKey]
) -> tuple[HeldKey, ...]:
    """All keys of an aggregator, or of the analyzer."""
    states = (HeldKey("state", state_key_text(one)) for one in state_keys)
    return (signing_key("opt-ins", signing), *report_keys(hpke_keys), *states)
