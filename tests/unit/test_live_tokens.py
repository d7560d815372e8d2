"""Bearer tokens that are read again when their files change."""

from __future__ import annotations

import errno
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tacit.service.http.live_tokens as module
from tacit.aggregator.keys import PeerSecrets, read_peer_tokens, write_peer_file
from tacit.errors import UsageError
from tacit.service.http.auth import token_digest
from tacit.service.http.live_tokens import NO_TOKEN, AcceptedTokens, ShownToken
from tacit.service.http.token_files import MOST_BYTES, MOST_TOKENS, first_token, read_tokens
from tests.kit.tokens import put_tokens

OLD, NEW = "tacit-the-old-one", "tacit-the-new-one"
KEPT = "bearer tokens: the new content of a file cannot be used, the old one stays in use: "


def digests(*tokens: str) -> tuple[bytes, ...]:
    return tuple(map(token_digest, tokens))


def test_a_file_holds_a_token_a_line_of_which_the_called_takes_each_and_the_caller_shows_the_first(
    tmp_path: Path,
) -> None:
    path = tmp_path / "token"
    put_tokens(path, OLD)
    accepted, shown = AcceptedTokens(path), ShownToken(path)
    assert (accepted.digests(), shown.headers()) == (digests(OLD), {"Authorization": f"Bearer {OLD}"})
    path.write_bytes(f"{NEW}\r\n\n  {OLD}".encode())
    assert (accepted.digests(), shown.text(), first_token(path)) == (digests(NEW, OLD), NEW, NEW)
    put_tokens(path, NEW)
    assert (accepted.digests(), shown.text()) == (digests(NEW), NEW)
    assert (NO_TOKEN.text(), NO_TOKEN.headers(), NO_TOKEN.trouble()) == ("", {}, "")


WRONG = {
    "empty": b"",
    "blank": b" \n\n",
    "not ASCII": b"tacit-\xc3\xa9\n",
    "a space in it": b"tacit one\n",
    "a tab in it": b"tacit\x0bone\n",
    "a NUL in it": b"tacit\0one\n",
    "too many": b"a\n" * (MOST_TOKENS + 1),
    "too large": b"a" * (MOST_BYTES + 1),
}
"""What no file of tokens holds."""


@pytest.mark.parametrize("content", WRONG.values(), ids=WRONG)
def test_a_file_that_cannot_be_used_leaves_the_tokens_in_force_and_is_told_once(
    tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "token"
    put_tokens(path, OLD)
    accepted, shown = AcceptedTokens(path), ShownToken(path)
    path.write_bytes(content)
    for _ in range(3):
        assert (accepted.digests(), shown.text()) == (digests(OLD), OLD)
        assert accepted.trouble().startswith(f"{KEPT}{path}: ")
    told = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["event"], line["level"]) for line in told] == [("files", "warning")] * 2
    with pytest.raises(UsageError):
        AcceptedTokens(path)
    put_tokens(path, NEW)
    assert (accepted.trouble(), accepted.digests(), shown.text()) == ("", digests(NEW), NEW)


def test_a_file_that_is_gone_or_open_to_others_changes_nothing_until_it_is_mended(tmp_path: Path) -> None:
    path = tmp_path / "token"
    put_tokens(path, OLD)
    accepted = AcceptedTokens(path)
    path.unlink()
    assert (accepted.digests(), accepted.trouble()) == (digests(OLD), f"{KEPT}{path}: No such file or directory")
    put_tokens(path, NEW)
    path.chmod(0o644)
    assert accepted.digests() == digests(OLD)
    assert "chmod 600" in accepted.trouble()
    path.chmod(0o600)
    assert (accepted.digests(), accepted.trouble()) == (digests(NEW), "")


def test_what_kept_a_new_file_from_being_read_may_pass_without_another_change_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "token"
    put_tokens(path, OLD)
    accepted = AcceptedTokens(path)
    put_tokens(path, NEW)
    hours_later(monkeypatch)

    def exhausted(*_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))

    for name in ("open", "fstat"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, exhausted)
            assert accepted.digests() == digests(OLD)
            assert accepted.trouble() == f"{KEPT}{path}: Too many open files"
    assert (accepted.digests(), accepted.trouble()) == (digests(NEW), "")


def hours_later(patch: pytest.MonkeyPatch) -> None:
    """Have every file be an old one."""
    later = time.time_ns() + 3600 * 10**9
    patch.setattr(time, "time_ns", lambda: later)


def test_a_change_that_a_file_systems_clock_does_not_tell_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "token"
    put_tokens(path, OLD)
    coarse = module._state_of(path)
    monkeypatch.setattr(module, "_state_of", lambda _path: coarse)
    accepted = AcceptedTokens(path)
    put_tokens(path, NEW)
    assert accepted.digests() == digests(NEW)


def test_a_file_that_stays_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "token"
    put_tokens(path, OLD)
    hours_later(monkeypatch)
    reads: list[Path] = []

    def read(file: Path) -> tuple[str, ...]:
        reads.append(file)
        return read_tokens(file)

    accepted = AcceptedTokens(path, read)
    assert [accepted.digests() for _ in range(5)] == [digests(OLD)] * 5
    assert reads == [path]


TOKEN = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=8)
CONTENT = st.one_of(
    st.lists(TOKEN, min_size=1, max_size=MOST_TOKENS).map(tuple), st.sampled_from([*WRONG.values(), None])
)
STEP = st.tuples(CONTENT, st.sampled_from([0o600, 0o600, 0o640]), st.booleans(), st.booleans())


def put(path: Path, content: bytes | None, mode: int, *, at_once: bool) -> None:
    """Have ``path`` hold ``content`` (None: be gone), by another file in its place or by writing into it."""
    if content is None:
        path.unlink(missing_ok=True)
        return
    written = path.with_name("draft") if at_once else path
    written.write_bytes(content)
    written.chmod(mode)
    written.replace(path)


@given(st.lists(STEP, max_size=12))
def test_whatever_files_follow_each_other_the_tokens_are_those_of_the_last_that_was_seen_and_could_be_used(
    steps: list[tuple[tuple[str, ...] | bytes | None, int, bool, bool]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "token"
        put_tokens(path, OLD)
        accepted, shown = AcceptedTokens(path), ShownToken(path)
        expected: tuple[str, ...] = (OLD,)
        for content, mode, at_once, looked in steps:
            usable = isinstance(content, tuple) and mode == 0o600
            data = "\n".join(content).encode() if isinstance(content, tuple) else content
            put(path, data, mode, at_once=at_once)
            if not looked:
                continue
            if usable and isinstance(content, tuple):
                expected = content
            assert accepted.digests() == digests(*expected)
            assert shown.text() == expected[0]
            assert bool(accepted.trouble()) is bool(shown.trouble()) is not usable


def test_the_peer_files_tokens_follow_its_member_and_nothing_else_of_it(tmp_path: Path) -> None:
    path = tmp_path / "peer.json"
    write_peer_file(path, PeerSecrets("seed-1", bytes(32), OLD))
    assert json.loads(path.read_bytes())["credentials"] == OLD
    accepted, shown = AcceptedTokens(path, read_peer_tokens), ShownToken(path, read_peer_tokens)
    write_peer_file(path, PeerSecrets("seed-1", bytes(32), NEW, (OLD,)))
    assert (accepted.digests(), shown.text()) == (digests(NEW, OLD), NEW)
    whole = json.loads(path.read_bytes())
    wrong_ones: list[object] = [[], [OLD] * 5, ["two words"], [1], None, {}, f"{NEW}\n{OLD}", [""]]
    for wrong in wrong_ones:
        path.write_text(json.dumps({**whole, "credentials": wrong}))
        assert (accepted.digests(), shown.text()) == (digests(NEW, OLD), NEW)
        assert accepted.trouble().startswith(f"{KEPT}{path}: ")
    for text in ("[" * 60_000, "{", json.dumps({"credentials": NEW})):
        path.write_text(text)
        assert accepted.digests() == digests(NEW, OLD)
        assert accepted.trouble().startswith(f"{KEPT}{path}: ")


SHOWN: list[Callable[[AcceptedTokens, ShownToken], str]] = [
    lambda accepted, shown: repr(accepted) + repr(shown),
    lambda accepted, shown: accepted.trouble() + shown.trouble(),
]


def test_nothing_of_a_token_is_in_a_log_a_name_or_what_is_told_of_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "token"
    put_tokens(path, OLD)
    accepted, shown = AcceptedTokens(path), ShownToken(path)
    told = ""
    for content in (f"{NEW}\n{OLD}\n", f"{NEW} {OLD}", f"{NEW}\n" * 5, f"{OLD}\n"):
        path.write_text(content)
        told += "".join(show(accepted, shown) for show in SHOWN)
    told += capsys.readouterr().err
    assert "the new content is in use" in told
    assert OLD not in told
    assert NEW not in told
    assert OLD.encode() not in b"".join(accepted.digests())
