"""Each file of official test vectors is opened by a test, or a reason is given why it is not."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.vectors.test_privacy_pass import CHALLENGES, HEADERS, ISSUANCE
from tests.vectors.test_vdaf import FILES

pytestmark = pytest.mark.vectors

HERE = Path(__file__).parent
BY_LIST = {
    **{f"vdaf/vdaf/{name}.json": "test_vdaf.py" for name in FILES},
    **{f"privacypass/{name}": "test_privacy_pass.py" for name in (*ISSUANCE, *CHALLENGES, *HEADERS)},
}
"""Files that a test module opens by a list of names, and the module."""
UNUSED = {
    "chunked-ohttp/*": "messages are small, so OHTTP is not chunked (RFC 9458 alone)",
    "dap-janus/dap09_*": "DAP-09 is not spoken",
    "dap-janus/dap15_*": "DAP-15 is not spoken",
    "key-blinding/*": "tokens are limited by slots (P8), not by blinded keys",
    "pine/*": "PINE is not built; these vectors are of an FLP from before VDAF-12",
    "privacypass-batched/*": "one token is asked for at a time, so that a batch says nothing about slots",
    "privacypass/rfc9578_type1_*": "token type 1 can be verified by its issuer alone",
    "privacypass/type1-*": "token type 1 can be verified by its issuer alone",
    "rate-limit-tokens/*": "tokens are limited by slots (P8), not by rate-limited issuance",
    "vdaf/IdpfBBCGGI21_0.json": "Poplar1 is not built: texts are found by prefix rounds over Prio3",
    "vdaf/XofFixedKeyAes128.json": "Poplar1 alone uses this XOF",
    "vdaf/vdaf/Poplar1_*": "Poplar1 is not built: texts are found by prefix rounds over Prio3",
}
"""Patterns of files that nothing here implements."""


def names_in(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*.json")}


def opened(name: str) -> bool:
    """Whether a test module of this folder names the file."""
    if name in BY_LIST:
        return True
    own = Path(__file__).name
    return any(name in path.read_text() for path in HERE.glob("test_*.py") if path.name != own)


def test_each_file_is_opened_by_a_test_or_has_a_reason_why_not(vectors: Path) -> None:
    found = names_in(vectors)
    assert len(found) > 60
    unused = {name for name in found if any(fnmatch(name, pattern) for pattern in UNUSED)}
    assert {name for name in found - unused if not opened(name)} == set()
    assert {name for name in unused if opened(name)} == set()


def test_each_reason_is_given_for_a_file_that_is_there(vectors: Path) -> None:
    found = names_in(vectors)
    assert [pattern for pattern in UNUSED if not any(fnmatch(name, pattern) for name in found)] == []
