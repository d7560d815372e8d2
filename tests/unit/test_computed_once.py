"""What is a function of bytes alone is computed once for the same bytes, and never for others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from infra.lab.demo.shared_clock import SharedClock
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.recipes import RecipeKit
from tacit import signing
from tacit.errors import CryptoError
from tacit.recipe import claims, derive
from tacit.recipe.claims import claim_of
from tacit.recipe.derive import randomizer_of
from tacit.signing import generate_signing_key, verify

KEY = generate_signing_key(SeededEntropy(b"computed once"))


class Counted:
    """Counts the real verifications."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self.made = 0

    def from_public_bytes(self, public: bytes) -> Any:
        self.made += 1
        return self._real.from_public_bytes(public)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    found = Counted(Ed25519PublicKey)
    monkeypatch.setattr(signing, "Ed25519PublicKey", found)
    monkeypatch.setattr(signing, "_verified", {})
    return found


def test_a_signature_that_verified_is_not_verified_again(counted: Counted) -> None:
    signature = KEY.sign(b"label\0", b"data")
    for _ in range(3):
        verify(KEY.public, signature, b"data", label=b"label\0")
    assert counted.made == 1


def test_nothing_but_the_same_key_signature_label_and_message_passes_by_it(counted: Counted) -> None:
    signature = KEY.sign(b"label\0", b"data")
    verify(KEY.public, signature, b"data", label=b"label\0")
    other = generate_signing_key(SeededEntropy(b"other")).public
    broken = bytes([signature[0] ^ 1]) + signature[1:]
    for public, signed, data, label in (
        (other, signature, b"data", b"label\0"),
        (KEY.public, broken, b"data", b"label\0"),
        (KEY.public, signature, b"datum", b"label\0"),
        (KEY.public, signature, b"data", b"lapel\0"),
    ):
        for _ in range(2):
            with pytest.raises(CryptoError):
                verify(public, signed, data, label=label)
    assert counted.made == 9, "a failure is never remembered"


def test_what_is_remembered_is_bounded_and_the_oldest_goes_first(
    counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signing, "VERIFIED_KEPT", 2)
    for data in (b"1", b"2", b"3", b"3", b"2", b"1"):
        verify(KEY.public, KEY.sign(b"", data), data)
    assert counted.made == 4
    assert len(signing._verified) == 2


def test_claim_and_randomizer_of_a_recipe_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = RecipeKit().recipe()
    first = claim_of(recipe), claim_of(recipe, recipe.batch.min_batch_size // 2), randomizer_of(recipe)

    def again(*_arguments: Any) -> Any:
        pytest.fail("it was computed already")

    monkeypatch.setattr(claims, "_compute", again)
    monkeypatch.setattr(derive, "_randomizer_of", again)
    assert (claim_of(recipe), claim_of(recipe, recipe.batch.min_batch_size // 2), randomizer_of(recipe)) == first


def test_whoever_moves_the_clock_of_a_run_moves_it_for_all_its_processes(tmp_path: Path) -> None:
    clock = SharedClock.begin(tmp_path / "clock", 5_000_000.0)
    other = SharedClock(tmp_path / "clock")
    assert other.now() == pytest.approx(5_000_000, abs=600)
    clock.jump(86_400)
    assert other.now() == pytest.approx(5_086_400, abs=600)
    assert (tmp_path / "clock").stat().st_mode & 0o777 == 0o600
    with pytest.raises(ValueError, match="backwards"):
        clock.jump(-1)
