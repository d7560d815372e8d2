"""Signed notes, checkpoints and the tile layout of C2SP."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import CryptoError, DecodeError
from tacit.signing import signing_key_from_private
from tacit.tlog.checkpoint import (
    COSIGNATURE,
    Checkpoint,
    LogPolicy,
    Note,
    NoteKey,
    NoteSignature,
    sign_checkpoint,
)
from tacit.tlog.log import MemoryTree
from tacit.tlog.merkle import leaf_hash
from tacit.tlog.tiles import Tile, decode_bundle, decode_index, encode_bundle, encode_index, tile_bytes, tiles_of
from tests.kit.foreign import split_tile

KEY = signing_key_from_private(bytes(range(32)))
NOTE_KEY = NoteKey("log.example/tacit", KEY.public)
POLICY = LogPolicy(NOTE_KEY)
CHECKPOINT = Checkpoint("log.example/tacit", 7, bytes(range(32)))

names = st.text(st.characters(exclude_categories=["Z", "C"], exclude_characters="+"), min_size=1, max_size=20)
texts = st.text(st.characters(exclude_categories=["C"]) | st.just("\n"), max_size=60).map(lambda text: text + "\n")


def test_the_published_example_note_of_the_go_implementation_verifies() -> None:
    key = NoteKey.decode("PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW")
    note = Note.decode(
        "If you think cryptography is the answer to your problem,\n"
        "then you don't know what your problem is.\n\n"
        "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6Ry"
        "yBwJnAM=\n".encode()
    )
    note.verify(key)
    with pytest.raises(CryptoError):
        dataclasses.replace(note, text=note.text.replace("problem", "question")).verify(key)


def test_a_checkpoint_is_three_lines_and_opens_under_its_own_key_only() -> None:
    note = sign_checkpoint(CHECKPOINT, KEY)
    assert note.decode().startswith("log.example/tacit\n7\n" + "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n\n— ")
    assert POLICY.open(note) == CHECKPOINT
    other = signing_key_from_private(bytes(32))
    with pytest.raises(CryptoError, match="not signed by the required key"):
        LogPolicy(NoteKey(NOTE_KEY.name, other.public)).open(note)
    with pytest.raises(CryptoError, match="not signed by the required key"):
        LogPolicy(NoteKey("another.example", KEY.public)).open(note)


def test_a_checkpoint_of_another_origin_under_our_key_is_refused() -> None:
    text = dataclasses.replace(CHECKPOINT, origin="other.example").body()
    line = NoteSignature(NOTE_KEY.name, NOTE_KEY.key_id, KEY.sign(b"", text.encode()))
    with pytest.raises(CryptoError, match="another log"):
        POLICY.open(Note(text, (line,)).encode())


def test_cosignatures_beside_the_logs_line_are_kept_and_not_asked_for() -> None:
    note = Note.decode(sign_checkpoint(CHECKPOINT, KEY))
    witness = NoteKey("witness.example", KEY.public, COSIGNATURE)
    line = NoteSignature(witness.name, witness.key_id, bytes(72))
    both = dataclasses.replace(note, signatures=(line, *note.signatures))
    assert POLICY.open(both.encode()) == CHECKPOINT
    assert Note.decode(both.encode()) == both


def test_every_line_of_the_logs_key_must_verify() -> None:
    note = Note.decode(sign_checkpoint(CHECKPOINT, KEY))
    bad = NoteSignature(NOTE_KEY.name, NOTE_KEY.key_id, bytes(64))
    with pytest.raises(CryptoError):
        POLICY.open(dataclasses.replace(note, signatures=(*note.signatures, bad)).encode())


@pytest.mark.parametrize(
    "text",
    [
        "log.example/tacit\n7\n",
        "log.example/tacit\n07\nAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n",
        "log.example/tacit\n-7\nAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n",
        "log.example/tacit\n9999999999999999999\nAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n",
        "log.example/tacit\n7\nAAEC\n",
        "log.example/tacit\n7\nAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8\n",
        "log.example/tacit\n7\n!\n",
        "log.example/tacit\n7\nAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\nextension\n",
        "\n7\nAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n",
    ],
)
def test_malformed_checkpoints_are_refused(text: str) -> None:
    with pytest.raises(DecodeError):
        Checkpoint.parse(text)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"text\n",
        b"text\n\n",
        "text\n\n— a AAAAAAA=".encode(),
        "text\n\n— a AAAA\n".encode(),
        "text\n\n— a\n".encode(),
        b"text\n\n- a AAAAAAA=\n",
        "text\n\n— a+b AAAAAAA=\n".encode(),
        "text\r\n\n— a AAAAAAA=\n".encode(),
        b"\xff\n\n",
        b"x" * (1 << 16) + b"\n\n",
        ("text\n\n" + "— a AAAAAAA=\n" * 65).encode(),
    ],
)
def test_malformed_notes_are_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        Note.decode(data)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "name",
        "name+00000000+AAAA",
        NOTE_KEY.encode().replace("+", " ", 1),
        NOTE_KEY.encode()[:-4] + "AAA=",
        NOTE_KEY.encode().replace(NOTE_KEY.key_id.hex(), "00000000"),
        "name+00000000+é",
    ],
)
def test_malformed_note_keys_are_refused(text: str) -> None:
    with pytest.raises(DecodeError):
        NoteKey.decode(text)


def test_note_keys_round_trip_and_check_their_parts() -> None:
    assert NoteKey.decode(NOTE_KEY.encode()) == NOTE_KEY
    with pytest.raises(DecodeError):
        NoteKey("has space", KEY.public)
    with pytest.raises(DecodeError):
        NoteKey("short", b"")


@given(
    texts,
    st.lists(
        st.tuples(names, st.binary(min_size=4, max_size=4), st.binary(min_size=1, max_size=80)), min_size=1, max_size=4
    ),
)
def test_notes_round_trip(text: str, lines: list[tuple[str, bytes, bytes]]) -> None:
    note = Note(text, tuple(NoteSignature(*line) for line in lines))
    assert Note.decode(note.encode()) == note


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_a_note_or_a_decode_error(data: bytes) -> None:
    try:
        note = Note.decode(data)
    except DecodeError:
        return
    assert note.encode() == data


@given(names, st.integers(0, (1 << 63) - 1), st.binary(min_size=32, max_size=32))
def test_checkpoints_round_trip(origin: str, size: int, root: bytes) -> None:
    checkpoint = Checkpoint(origin, size, root)
    assert Checkpoint.parse(checkpoint.body()) == checkpoint


def test_tile_indices_have_the_spelling_of_the_specification() -> None:
    assert encode_index(1234067) == "x001/x234/067"
    assert encode_index(0) == "000"
    assert encode_index(1000) == "x001/000"
    for wrong in ("x000/001", "1", "x1/000", "001/000", "x001/x000", "abc", ""):
        with pytest.raises(DecodeError):
            decode_index(wrong)
    with pytest.raises(ValueError, match="must not be negative"):
        encode_index(-1)


@given(st.integers(0, 1 << 60))
def test_tile_indices_round_trip(index: int) -> None:
    assert decode_index(encode_index(index)) == index


@given(st.none() | st.integers(0, 63), st.integers(0, 1 << 40), st.integers(1, 256))
def test_tile_paths_round_trip(level: int | None, index: int, width: int) -> None:
    tile = Tile(level, index, width)
    assert Tile.parse(tile.path()) == tile


@pytest.mark.parametrize(
    "path",
    [
        "tile/64/000",
        "tile/00/000",
        "tile/0/000.p/0",
        "tile/0/000.p/256",
        "tile/0/000.p/01",
        "tile/x/000",
        "tile/0/00",
        "tile/0",
        "/tile/0/000",
    ],
)
def test_malformed_tile_paths_are_refused(path: str) -> None:
    with pytest.raises(DecodeError):
        Tile.parse(path)


def test_the_tiles_of_70000_entries_are_those_of_the_specification() -> None:
    tiles = tiles_of(70_000)
    by_level = {level: [tile for tile in tiles if tile.level == level] for level in range(3)}
    assert len(by_level[0]) == 274
    assert by_level[0][-1] == Tile(0, 273, 112)
    assert by_level[1] == [Tile(1, 0), Tile(1, 1, 17)]
    assert by_level[2] == [Tile(2, 0, 1)]
    assert tiles_of(256) == [Tile(0, 0), Tile(1, 0, 1)]
    assert all(tile.exists_at(70_000) for tile in tiles)
    assert not Tile(0, 273, 113).exists_at(70_000)
    assert not Tile(1, 0, 1).exists_at(255)


def test_tiles_hold_the_hashes_of_the_tree() -> None:
    entries = [bytes([number % 251]) * 3 for number in range(600)]
    tree = MemoryTree(entries)
    assert tile_bytes(Tile(0, 2, 88), tree.read) == b"".join(leaf_hash(entry) for entry in entries[512:])
    level_one = split_tile(tile_bytes(Tile(1, 0, 2), tree.read), 2)
    assert level_one == [MemoryTree(entries[:256]).root(), MemoryTree(entries[256:512]).root()]
    with pytest.raises(ValueError, match="entry bundle"):
        tile_bytes(Tile(None, 0), tree.read)


@given(st.lists(st.binary(max_size=50), max_size=5))
def test_entry_bundles_round_trip(entries: list[bytes]) -> None:
    assert decode_bundle(encode_bundle(entries)) == entries


def test_a_truncated_entry_bundle_is_refused() -> None:
    with pytest.raises(DecodeError):
        decode_bundle(encode_bundle([b"entry"])[:-1])
