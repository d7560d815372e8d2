"""One stack for all simulations, made once and copied: RSA keys are the slow part."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from tacit.recipe.model import Recipe
from tests.kit.simulation import Simulation, Template

NewSimulation = Callable[..., Simulation]


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """A stack with keys and directories and no recipe."""
    return asyncio.run(Template.make(tmp_path_factory.mktemp("simulation") / "bare"))


def _two(simulation: Simulation) -> Iterable[Recipe]:
    yield simulation.recipe()
    yield simulation.recipe(name="batches", token=simulation.slot(1), min_batch_size=3, close="at_B")


@pytest.fixture(scope="session")
def template(bare: Template, tmp_path_factory: pytest.TempPathFactory) -> Template:
    """The same with two active recipes: ``four`` is released at its interval's end, ``batches`` at B = 3."""
    folder = bare.copy(tmp_path_factory.mktemp("simulation") / "two")
    return asyncio.run(Template.extend(folder, _two))


@pytest.fixture
def new_simulation(bare: Template, tmp_path: Path) -> NewSimulation:
    """Make simulations on copies of ``bare``; arguments are those of ``Simulation``."""
    made: list[Path] = []

    def make(**options: Any) -> Simulation:
        folder = bare.copy(tmp_path / f"stack-{len(made)}")
        made.append(folder)
        return Simulation(folder, **options)

    return make


@pytest.fixture(scope="session")
def asked(bare: Template, tmp_path_factory: pytest.TempPathFactory) -> Template:
    """A stack in which the usual recipe is active, and nothing else."""
    folder = bare.copy(tmp_path_factory.mktemp("simulation") / "asked")
    return asyncio.run(Template.extend(folder, lambda simulation: [simulation.recipe()]))


@pytest.fixture
def simulation(asked: Template, tmp_path: Path) -> Simulation:
    """One on a copy of ``asked``."""
    return Simulation(asked.copy(tmp_path / "asked"))
