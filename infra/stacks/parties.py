"""The parties of a local stack: their key files, and their entries in recipes of each model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.stacks.options import OPERATORS
from tacit.aggregator.keys import (
    generate_hpke_key,
    generate_peer_secrets,
    state_key_text,
    write_hpke_key,
    write_peer_file,
)
from tacit.codec import b64url
from tacit.errors import UsageError
from tacit.extension_points import STATE_KEYS
from tacit.models.forms import FORMS, form_of
from tacit.models.one_server import ANALYZER
from tacit.models.parties import SHUFFLER, Parties
from tacit.models.secure_aggregation.form import SecureAggregation, SecureAggregationParties
from tacit.ports import Entropy

AGGREGATORS = ("leader", "helper")
SERVER_CONFIG_IDS = {ANALYZER: 4, SHUFFLER: 5}


@dataclass(frozen=True)
class StackParties:
    """``base``: the parties of model ``secure-aggregation``; ``others``: those of each other model, by its name."""

    base: SecureAggregationParties
    others: Mapping[str, Parties]

    def of(self, model: str) -> Parties:
        """Return the parties of recipes of ``model``, with the stack's shuffler where such a recipe may name one.
        Raises ``UsageError`` if the stack has none."""
        found = self.base if model == SecureAggregation.name else self.others.get(model)
        if found is None:
            raise UsageError(f"this stack has no parties of model {model}; start one in another --state-dir")
        shufflers = filter(None, (parties.server(SHUFFLER) for parties in self.others.values()))
        shuffler = next(shufflers, None)
        if shuffler is None or not form_of(model).may_mix:
            return found
        return found.model_copy(update={SHUFFLER: shuffler})

    def members(self) -> dict[str, Any]:
        """The members ``parties`` and ``parties_of`` (by model) of the stack's index."""
        others = {model: parties.model_dump(mode="json") for model, parties in self.others.items()}
        return {"parties": self.base.model_dump(mode="json"), "parties_of": others}

    @classmethod
    def read(cls, index: Mapping[str, Any]) -> StackParties:
        """Inverse of ``members``. Stacks from before there were other models have no ``parties_of``. Raises
        ``KeyError`` and ``ValueError``."""
        others = index.get("parties_of", {})
        return cls(
            SecureAggregationParties.model_validate(index["parties"]),
            {model: form_of(model).parties.model_validate(body) for model, body in others.items()},
        )


def make_parties(folder: Path, urls: Mapping[str, str], signing: Mapping[str, str], entropy: Entropy) -> StackParties:
    """Make the key files of all servers below ``folder``, and return the parties. ``urls`` and ``signing`` (public
    signing keys in base64url) have service names as keys."""
    base = _base(urls, signing, _hpke_keys(folder, entropy))
    peers = generate_peer_secrets("seed-1", entropy)
    for name in AGGREGATORS:
        write_peer_file(folder / name / "peer.json", peers)
    document = base.model_dump(mode="json")
    state_keys = {name: _state_key(folder / name, entropy) for name in AGGREGATORS}
    for name, number in SERVER_CONFIG_IDS.items():
        document[name] = _server(folder / name, urls[name], signing[name], number, entropy)
    state_keys[ANALYZER] = _state_key(folder / ANALYZER, entropy)
    others = {model: form.parties for model, form in FORMS.items() if model != SecureAggregation.name}
    return StackParties(base, {model: _parties_of(kind, document, state_keys) for model, kind in others.items()})


def _parties_of(kind: type[Parties], every: Mapping[str, Any], state_keys: Mapping[str, str]) -> Parties:
    """Those of ``every`` that a model's parties must have, with ``state_keys`` where the model's servers have some."""
    roles = {role: field.annotation for role, field in kind.model_fields.items() if field.is_required()}
    keyed = {role for role, part in roles.items() if "state_key" in getattr(part, "model_fields", ())}
    with_key = {role: {**every[role], "state_key": state_keys[role]} for role in keyed}
    return kind.model_validate({role: every[role] for role in roles} | with_key)


def _server(folder: Path, url: str, signing_key: str, config_id: int, entropy: Entropy) -> dict[str, str]:
    return {
        "operator": OPERATORS[folder.name],
        "url": url,
        "hpke_config": _hpke_key(folder, config_id, entropy),
        "signing_key": signing_key,
    }


def _state_key(folder: Path, entropy: Entropy) -> str:
    key = STATE_KEYS["generate-state-key"](entropy)
    STATE_KEYS["write-state-key"](folder / "state.key", key)
    return state_key_text(key)


def _hpke_keys(folder: Path, entropy: Entropy) -> dict[str, str]:
    named = enumerate((*AGGREGATORS, "collector"), start=1)
    return {name: _hpke_key(folder / name, number, entropy) for number, name in named}


def _hpke_key(folder: Path, config_id: int, entropy: Entropy) -> str:
    key = generate_hpke_key(config_id, entropy)
    write_hpke_key(folder / "hpke.key", key)
    return b64url(key.config.encode())


def _base(urls: Mapping[str, str], signing: Mapping[str, str], hpke: Mapping[str, str]) -> SecureAggregationParties:
    def operator(name: str) -> dict[str, str]:
        return {"operator": OPERATORS[name]}

    aggregators = {
        name: {**operator(name), "url": urls[name], "hpke_config": hpke[name], "signing_key": signing[name]}
        for name in AGGREGATORS
    }
    return SecureAggregationParties.model_validate(
        {
            "analyst": {"operator": OPERATORS["recipe_server"], "signing_key": signing["analyst"]},
            **aggregators,
            "collector": {**operator("collector"), "hpke_config": hpke["collector"]},
            "relay": {**operator("relay"), "url": urls["relay"]},
            "gateway": {**operator("gateway"), "signing_key": signing["gateway"]},
            "attester": operator("attester"),
            "issuer": {**operator("issuer"), "name": OPERATORS["issuer"], "signing_key": signing["issuer"]},
        }
    )
