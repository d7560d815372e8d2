"""What a demo of the local model produced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from infra.lab.demo.results.texts_result import TextsResult
from tacit.methods.registry import method_named


@dataclass(frozen=True, kw_only=True)
class LocalResult(TextsResult):
    """The whole run, and what searched its reports."""

    @property
    def flags(self) -> str:
        return f"--model {self.recipe['model']} "

    @property
    def report_bits(self) -> int:
        """Bits of a report's answer."""
        return int(self.recipe["randomizer"]["categories"]).bit_length() - 1

    @property
    def engine(self) -> str | None:
        """What searched the reports."""
        return method_named(self.recipe["randomizer"]["name"]).ENGINE

    def document(self) -> dict[str, Any]:
        """That of every demo that looks for texts, and of what its reports consist."""
        epsilon0 = self.recipe["randomizer"]["epsilon0"]
        return {**super().document(), "epsilon0": epsilon0, "engine": self.engine, "report_bits": self.report_bits}
