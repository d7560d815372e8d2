"""Writes the files of a local stack's admin service other than its configuration, and the keys of its first people.

There are four people: one who writes questions, one who approves them, and two administrators who give out keys,
because a change of an approver needs both. Each key is in a file (0600) in the operator's folder; the service has only
digests.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from infra.stacks.options import PEOPLE
from infra.stacks.parties import StackParties
from tacit.adapters.disk.files import replace_file
from tacit.codec import b64url
from tacit.models.secure_aggregation.form import SecureAggregation
from tacit.service.base.keys import write_signing_key
from tacit.service.base.secret_files import write_secret
from tacit.service.http.auth import token_digest
from tacit.signing import SigningKey

ADMIN = "admin"
PARTIES = "parties.json"


def make_people(folder: Path, keys_in: Path, new_key: Callable[[], bytes]) -> Mapping[str, Path]:
    """Write the first people of the admin service into ``folder`` and their keys into ``keys_in``; return the key files
    by name."""
    listed, files = [], {}
    for name, role in PEOPLE.items():
        text = new_key()
        files[name] = keys_in / f"{name}.key"
        write_secret(files[name], text)
        listed.append({"name": name, "role": role, "key_sha256": b64url(token_digest(text))})
    write_secret(folder / "people.json", json.dumps({"people": listed}).encode())
    return files


def write_admin_files(folder: Path, parties: StackParties, analyst_key: SigningKey) -> None:
    """Write the parties by model, and a copy of the key that signs recipes, into ``folder``."""
    write_signing_key(folder / "analyst.key", analyst_key)
    by_model = {model: parties.of(model) for model in (SecureAggregation.name, *parties.others)}
    body = {model: one.model_dump(mode="json", exclude_none=True) for model, one in by_model.items()}
    replace_file(folder / PARTIES, json.dumps(body, indent=1).encode())
