"""The parties of the test vectors, with published keys drawn from one published seed."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import Any

import gmpy2

from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.recipes import NOW, RecipeKit
from tacit import ohttp
from tacit.hpke import KeyPair
from tacit.methods.one_bit import OneBit
from tacit.methods.rappor import Rappor
from tacit.recipe.derive import slot_of, task_of
from tacit.recipe.model import Question, Recipe
from tacit.signing import SigningKey, generate_signing_key
from tacit.task import Task
from tacit.tokens.attestation import SoftwareDevice
from tacit.tokens.blind_rsa import PUBLIC_EXPONENT
from tacit.tokens.issuer_key import IssuerKey
from tacit.tokens.slots import Slot
from tacit.tokens.software_root import SoftwareRoot

SEED = b"tacit test vectors v1"
PRIME_BITS = 1024


@dataclass
class Draws:
    """Entropy that remembers the bytes that it returned, in order."""

    entropy: SeededEntropy

    def __post_init__(self) -> None:
        self.given: list[bytes] = []

    def __call__(self, length: int, /) -> bytes:
        """``length`` bytes, which are also appended to ``given``."""
        self.given.append(self.entropy(length))
        return self.given[-1]

    def hex(self) -> list[str]:
        """Return the bytes drawn since the last call of ``hex``, in hex."""
        given, self.given = self.given, []
        return [one.hex() for one in given]


def _question(text: str, metric: str, statistic: str, **encoder: Any) -> Question:
    body = {"text": text, "metric": metric, "encoder": encoder, "statistic": statistic}
    return Question.model_validate(body)


_UPDATE = _question("Which way?", "update", "vector-sum", kind="vector", length=3, low=-10, high=10, norm=12)
ASKED: dict[str, dict[str, Any]] = {
    "doctor-visits": {},
    "crashed": {"question": _question("Did the app crash?", "crashed", "count", kind="boolean")},
    "languages": {
        "question": _question(
            "Which language?",
            "language",
            "histogram",
            kind="categories",
            categories=["de", "en", "fr", "it"],
            other="another",
            missing="none",
        ),
        "randomizer": Rappor.NAME,
    },
    "spent": {"question": _question("How much?", "spent", "sum", kind="number", low=-20, high=100, unit=5)},
    "update": {"question": _UPDATE},
    "rare-visits": {
        "population": 20_000,
        "default": 0,
        "default_rate": Decimal("0.05"),
        "non_default_share": Decimal("0.1"),
        "devices": 20_000,
        "dummies": Decimal(200),
    },
    "idle": {"question": _question("Idle share of time?", "idle", "mean", kind="number", low=0, high=1, unit="0.01")},
    "signal": {
        "question": _question("How good?", "signal", "histogram", kind="buckets", edges=["-0.5", 0, "0.3", "0.75"])
    },
    "update-proved": {"question": _UPDATE, "proof": "norm"},
    "start": {
        "question": _question(
            "How long does a start take?", "start", "mean", kind="number", low=-2, high=10, unit="0.5"
        ),
        "randomizer": OneBit.NAME,
    },
}
"""Name of a recipe -> how it differs from ``RecipeKit.recipe``. Together they cover every randomizer, rare answers with
dummies, and fractions. A recipe's position is its slot, so new ones come last."""


class Cast:
    """Every party of the vectors. All keys follow from ``SEED``, so they are the same in every run."""

    def __init__(self) -> None:
        self.entropy = SeededEntropy(SEED)
        self.kit = RecipeKit(SEED)
        self.now = NOW

    def draws(self, label: str) -> Draws:
        """Return randomness for one part of the vectors, independent of what other parts draw."""
        return Draws(self.entropy.child(label))

    @cached_property
    def issuer(self) -> IssuerKey:
        """The one RSA key of all slots, from primes that follow from ``SEED``."""
        return IssuerKey.from_primes(self._prime("p"), self._prime("q"))

    def _prime(self, name: str) -> int:
        start = int.from_bytes(hashlib.shake_256(SEED + b" " + name.encode()).digest(PRIME_BITS // 8), "big")
        prime = gmpy2.next_prime(start | 3 << (PRIME_BITS - 2))
        while prime % PUBLIC_EXPONENT == 1:
            prime = gmpy2.next_prime(prime)
        return int(prime)

    @cached_property
    def gateway(self) -> tuple[ohttp.KeyConfig, KeyPair]:
        """The gateway's OHTTP key, with id 7: what clients see, and the pair."""
        return ohttp.generate_key_config(7, self.entropy.child("gateway"))

    @cached_property
    def witness(self) -> SigningKey:
        return generate_signing_key(self.entropy.child("witness"))

    @cached_property
    def device(self) -> SoftwareDevice:
        """The only device, certified by a software root of its own."""
        draw = self.entropy.child("device")
        return SoftwareRoot.create(draw, self.now).issue("device-1", draw, self.now)

    @cached_property
    def recipes(self) -> dict[str, Recipe]:
        """The recipes of ``ASKED`` by name, each with a token slot of its own in that order."""
        return {
            name: self.kit.recipe(**{"name": name, "slot": slot, **asked})
            for slot, (name, asked) in enumerate(ASKED.items())
        }

    def task(self, name: str) -> Task:
        return task_of(self.recipes[name], self.issuer.token_key.spki)

    def slot(self, name: str) -> Slot:
        return slot_of(self.recipes[name])


@lru_cache(maxsize=1)
def cast() -> Cast:
    """Return the parties, the same at each call; finding the primes takes a second."""
    return Cast()
