"""What a run of the pan-private models must not write into any log, gathered while it runs, and where it stands."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tacit.models.interfaces.one_server import AnalyzerChannel
from tacit.models.secure_aggregation.device import DapChannel
from tacit.panprivate.stored import OneServer, TwoServers
from tacit.vdaf.count_vec import Prio3CountVec

MEMBERS: Mapping[str, frozenset[str]] = {
    name: frozenset(members.split())
    for name, members in {
        "epoch_made": "epoch slots",
        "directory_published": "epoch in_time",
        "issued": "count epoch slot",
        "leaf_published": "index type",
        "model_stored": "bytes model",
        "witness_failed": "failures why witness",
        "traffic": "bucket_seconds bucket_start counts",
        "recipe": "recipe rule state why",
        "released": "recipe report_count",
        "not_released": "recipe rule",
        "shuffled": "chunks recipe rule",
        "not_forwarded": "recipe why",
        "collection_refused": "collection rule why",
        "result_published": "recipe",
    }.items()
}
"""What each line may say: counts of many, public names and the log's own. A line of another kind is for a person to
look at first."""
ALWAYS = frozenset({"event", "level", "request_id", "service", "timestamp"})
_WINDOW = 15
"""Bytes: whatever a log holds of a secret is found by so many in a row, in hex, base64 (of any alignment) or text."""
_TEXT = re.compile(r"[A-Za-z0-9_+/=-]{32,}")


class Secrets:
    """States, shares, tokens, randomised answers as they are sent, and keys."""

    def __init__(self) -> None:
        self.kinds: dict[str, set[bytes]] = {}

    def note(self, kind: str, *found: bytes) -> None:
        """Record a value that must not be found."""
        self.kinds.setdefault(kind, set()).update(one for one in found if len(one) >= _WINDOW)

    def spy(self, patch: pytest.MonkeyPatch) -> None:
        """Record all secrets that are made from now on."""
        for kept in (OneServer, TwoServers):
            for name in ("initial", "step"):
                self._results(patch, kept, name, "state")
        self._results(patch, Prio3CountVec, "shard_cell", "share")
        for channel in (AnalyzerChannel, DapChannel):
            self._submissions(patch, channel)

    def _results(self, patch: pytest.MonkeyPatch, owner: type, name: str, kind: str) -> None:
        real = getattr(owner, name)

        def spied(*args: Any) -> Any:
            made = real(*args)
            self.note(kind, *([made] if isinstance(made, bytes) else made))
            return made

        patch.setattr(owner, name, spied)

    def _submissions(self, patch: pytest.MonkeyPatch, channel: type) -> None:
        real: Any = channel.submission  # type: ignore[attr-defined]

        def spied(own: Any, measurement: Any, token: bytes, preimages: Any, entropy: Any) -> Any:
            self.note("token", token, *_bytes_of(preimages))
            made = real(own, measurement, token, preimages, entropy)
            self.note("report", made.body)
            return made

        patch.setattr(channel, "submission", spied)

    def read_files(self, folder: Path) -> None:
        """Note what the key and token files of a stack hold."""
        for path in folder.rglob("*"):
            if path.suffix in {".key", ".token"} or path.name == "peer.json":
                self.note("key file", *_private_parts(path))

    def found_in(self, text: str) -> list[str]:
        """The kinds of secrets of which one is in ``text``."""
        return [kind for kind, secrets in self.kinds.items() if any(_stands(one, text) for one in secrets)]


def members_beyond(lines: Iterable[str]) -> list[str]:
    """Lines that say more than their kind may, or are no JSON."""
    found = []
    for line in lines:
        page = json.loads(line) if line.startswith("{") else {}
        if MEMBERS.get(page.get("event", "")) != frozenset(page) - ALWAYS:
            found.append(line)
    return found


def _private_parts(path: Path) -> list[bytes]:
    """What a file holds that is nobody else's: of a key pair not the public half; as text and as the bytes it means."""
    data = path.read_bytes()
    try:
        text = data.decode("ascii")
    except UnicodeDecodeError:
        return [data]
    if text.startswith("{"):
        members = json.loads(text)
        text = " ".join(str(value) for name, value in members.items() if "private" in name or path.suffix != ".key")
    found = _TEXT.findall(text)
    return [part for one in found for part in (one.encode(), _meant(one))]


def _meant(text: str) -> bytes:
    """The bytes of unpadded base64url, and of what a bearer token has behind its first word."""
    bare = text.rpartition("+")[2].rstrip("=")
    return base64.urlsafe_b64decode(bare[: len(bare) // 4 * 4])


def _bytes_of(structure: Any) -> list[bytes]:
    values = [getattr(structure, field.name) for field in dataclasses.fields(structure)]
    return [value for value in values if isinstance(value, bytes)]


def _stands(secret: bytes, text: str) -> bool:
    starts = [secret[at : at + _WINDOW] for at in (0, 1, 2, len(secret) // 2, len(secret) - _WINDOW)]
    for part in starts:
        plain = base64.b64encode(part).decode()
        url_safe = plain.translate(str.maketrans("+/", "-_"))
        forms = (part.hex(), plain, url_safe, repr(part)[2:-1], part.decode("latin-1"))
        if any(form in text for form in forms):
            return True
    return False
