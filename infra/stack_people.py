"""What the admin service of a local stack has in its folder beside its configuration, and the keys of its first people.

Four different persons: who writes a question, who approves it, and two who give keys, for a change of an approver
needs both. Each key lies in a 0600 file of the
operator's folder; the service has the digests alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from infra.stack_options import PEOPLE
from infra.stack_parties import StackParties
from tacit.codec import b64url
from tacit.models.forms.secure_aggregation import SecureAggregation
from tacit.service.auth import token_digest
from tacit.service.config import write_secret
from tacit.service.keys import write_signing_key
from tacit.signing import SigningKey

ADMIN = "admin"
PARTIES = "parties.json"


def make_people(folder: Path, keys_in: Path, new_key: Callable[[], bytes]) -> Mapping[str, Path]:
    """The first people of the admin service in ``folder``; the files of their keys, in ``keys_in``, by name."""
    listed, files = [], {}
    for name, role in PEOPLE.items():
        text = new_key()
        files[name] = keys_in / f"{name}.key"
        write_secret(files[name], text)
        listed.append({"name": name, "role": role, "key_sha256": b64url(token_digest(text))})
    write_secret(folder / "people.json", json.dumps({"people": listed}).encode())
    return files


def write_admin_files(folder: Path, parties: StackParties, analyst_key: SigningKey) -> None:
    """The parties by model, and a copy of the key that signs recipes."""
    write_signing_key(folder / "analyst.key", analyst_key)
    by_model = {SecureAggregation.name: parties.base, **parties.others}
    body = {model: one.model_dump(mode="json", exclude_none=True) for model, one in by_model.items()}
    (folder / PARTIES).write_text(json.dumps(body, indent=1))
