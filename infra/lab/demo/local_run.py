"""The demo of the local model: which texts of a large domain are frequent, from reports that each hide their text.

Every party and every device is as in ``infra.lab.demo.run``; one server, the analyzer, takes the reports, and searches
them once the interval is over.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from statistics import NormalDist
from typing import Any, ClassVar

from infra.lab.demo.results.result import DemoResult
from infra.lab.demo.results.texts_result import TextsResult
from infra.lab.demo.results.view import Stages
from infra.lab.demo.run import rate_of
from infra.lab.demo.staging import MAIN_SLOT
from infra.lab.demo.texts_run import Expected, TextsRun
from infra.lab.demo.words import Texts
from tacit.methods.planners.registry import planner_of
from tacit.methods.registry import METHODS, method_named
from tacit.models.local.form import Local
from tacit.models.one_server import ANALYZER
from tacit.recipe.derive import design_of, randomizer_of
from tacit.recipe.model import Recipe
from tacit.succinct.engines import engine_of


@dataclass(frozen=True, kw_only=True)
class LocalResult(TextsResult):
    """The whole run, and what searched its reports."""

    @property
    def flags(self) -> str:
        return f"--model {self.recipe['model']} "

    @property
    def report_bits(self) -> int:
        """Bits of one answer: its categories are a power of two."""
        return int(self.recipe["randomizer"]["categories"]).bit_length() - 1

    @property
    def engine(self) -> str | None:
        """Name of the engine with which the reports were searched; None where there is none."""
        return method_named(self.recipe["randomizer"]["name"]).ENGINE

    def document(self) -> dict[str, Any]:
        """That of every demo that looks for texts, and of what its reports consist."""
        epsilon0 = self.recipe["randomizer"]["epsilon0"]
        return {**super().document(), "epsilon0": epsilon0, "engine": self.engine, "report_bits": self.report_bits}


MOST_CONTRIBUTIONS = 15_000
"""At most about so many devices take part: the more devices, the lower the sampling rate."""


class LocalRun(TextsRun):
    """One run, stage by stage; ``run`` returns everything that there is to show."""

    MODEL: ClassVar[str] = Local.name
    ROBBED: ClassVar[int] = 3
    RESULT: ClassVar[type[DemoResult]] = LocalResult

    def __init__(self, texts: Texts, epsilon: Decimal, top: int, engine: str, state_dir: Path, stages: Stages) -> None:
        self._method = next(one for one in METHODS.values() if engine == one.ENGINE)
        # few devices hide little in each other: a release may tell as much as the analyzer learns anyway
        self._release_cap = f"{max(epsilon, Decimal(1)):f}"
        super().__init__(texts, epsilon, top, state_dir, stages, (ANALYZER,))
        self._require_enough(self._expected)

    # Pieces

    def _expected(self, number: int, most: float) -> Expected | None:
        recipe = self._planned(number)
        engine = engine_of(randomizer_of(recipe))
        if engine is None:
            return None
        listed_from, stderr = engine.expected(number * float(recipe.rate), design_of(recipe))
        return Expected(listed_from, NormalDist().cdf((most - listed_from) / stderr))

    def _main_recipe(self) -> Recipe:
        return self._planned(len(self._texts.values))

    def _planned(self, number: int) -> Recipe:
        """The recipe for a population of ``number``, of which no more are sampled than the planner allows."""
        most = min(MOST_CONTRIBUTIONS, planner_of(self._method).MOST_PLANNED)
        return self._proposed(
            name="demo",
            text=self._dataset.question.text,
            metric=self._texts.metric,
            encoder=self._texts.encoder,
            population=number,
            slot=MAIN_SLOT,
            rate=rate_of(number, most, Decimal(1)),
            randomizer=self._method.NAME,
            epsilon=self._epsilon,
        )

    def _drill_members(self) -> dict[str, Any]:
        return {**super()._drill_members(), "epsilon": min(self._epsilon, Decimal(1))}
