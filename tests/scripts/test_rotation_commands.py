"""The commands of docs/operations.md by which a bearer token is replaced, given as they stand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tacit.service.base.secret_files import write_secret
from tacit.service.http.auth import token_digest
from tacit.service.http.live_tokens import AcceptedTokens
from tacit.service.http.token_files import first_token

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "operations.md").read_text()
TACIT = f'tacit() {{ {sys.executable} -P -m infra.cli "$@"; }}\n'
OLD = "tacit-the-old-one"


def test_the_page_puts_a_new_token_beside_the_old_one_and_takes_the_old_one_away(tmp_path: Path) -> None:
    both, alone = (text.partition("```")[0] for text in PAGE.split("```sh\n") if "issuer/next.token" in text)
    path = tmp_path / "issuer" / "attester.token"
    write_secret(path, OLD.encode())
    accepted = AcceptedTokens(path)
    give(TACIT + both, tmp_path)
    new = first_token(tmp_path / "issuer" / "next.token")
    assert accepted.digests() == (token_digest(OLD), token_digest(new))
    give(alone, tmp_path)
    assert accepted.digests() == (token_digest(new),)
    assert [one.name for one in path.parent.iterdir()] == ["attester.token"]


def give(commands: str, folder: Path) -> None:
    subprocess.run(["/bin/sh", "-ec", f"umask 022\n{commands}"], cwd=folder, check=True, capture_output=True)
