"""The curves of the SA2 paper's figures against reference values, and the files that are drawn from them."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from infra.lab.measure.curves import Budget, Point, dense, sparse
from infra.lab.measure.figures import Figure, Panel, message_grid, write

BUDGET = Budget()
N = 100_000_000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cells", "tasks", "messages", "sigma_agg", "sigma_samp", "agg", "sampagg"),
    [
        (1000, 1, 10_000, 4.2247, 0.3562, 2.7848e-4, 1.0127e-4),
        (1000, 1, 1_000_000, 4.2247, 0.7764, 1.0178e-6, 1.0006e-6),
        (1000, 1000, 1_000_000, 13.3596, 1.5627, 1.1785e-6, 1.0024e-6),
        (100_000, 1, 10_000, 4.2247, 0.3562, 1.7948e-2, 2.2686e-4),
        (100_000, 1000, 1_000_000, 13.3596, 1.5627, 1.8848e-5, 1.2442e-6),
    ],
)
def test_dense_histograms_have_the_reference_error(
    cells: int, tasks: int, messages: int, sigma_agg: float, sigma_samp: float, agg: float, sampagg: float
) -> None:
    point = dense(BUDGET, N, cells, tasks, messages)
    assert point.sigma_agg == pytest.approx(sigma_agg, rel=1e-4)
    assert point.sigma_samp == pytest.approx(sigma_samp, rel=2e-3)
    assert point.agg == pytest.approx(agg, rel=1e-3)
    assert point.sampagg == pytest.approx(sampagg, rel=4e-3)
    assert point.nonpriv_unif == pytest.approx(1 / messages)


@pytest.mark.parametrize(
    ("gamma", "tasks", "messages", "rate", "unif", "imp", "agg", "sampagg"),
    [
        (0.1, 1, 100_000, 0.005, 1e-6, 2e-7, 2.785e-6, 2.018e-7),
        (0.01, 1, 10_000, 0.005, 1e-6, 2e-8, 1.795e-4, 2.182e-8),
        (0.01, 1000, 1_000_000, 0.5, 1e-8, 2e-10, 1.885e-7, 1.986e-9),
        (0.001, 1000, 1_000_000, 1, 1e-9, 1e-11, 1.795e-7, 1.795e-9),
    ],
)
def test_sparse_histograms_have_the_reference_error(
    gamma: float, tasks: int, messages: int, rate: float, unif: float, imp: float, agg: float, sampagg: float
) -> None:
    point = sparse(BUDGET, N, 1000, gamma, tasks, messages)
    found = [point.rate, point.nonpriv_unif, point.nonpriv_imp, point.agg, point.sampagg]
    assert found == pytest.approx([rate, unif, imp, agg, sampagg], rel=4e-3)


@pytest.mark.parametrize(("population", "messages"), [(1000, 1001), (0, 0), (10, -1)])
def test_impossible_tasks_are_refused(population: int, messages: int) -> None:
    with pytest.raises(ValueError, match="messages"):
        dense(BUDGET, population, 10, 1, messages)


def test_messages_are_spread_evenly_over_the_decades() -> None:
    assert message_grid(1_000_000) == [1000, 3162, 10_000, 31_623, 100_000]


def test_a_figure_comes_as_pictures_and_as_numbers(tmp_path: Path) -> None:
    points = tuple(sparse(BUDGET, 1_000_000, 100, 0.1, 1, messages) for messages in (1000, 10_000))
    png, svg, table = write(Figure(3, "Sparse", 1, (Panel("T = 1", points),)), BUDGET, tmp_path)
    assert png.read_bytes().startswith(b"\x89PNG")
    assert "N = 1,000,000" in svg.read_text()
    with table.open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["messages"]) for row in rows] == [1000, 10_000]
    assert float(rows[0]["sampagg"]) == points[0].sampagg
    assert set(rows[0]) == {*Point.__dataclass_fields__, "agg_over_sampagg"}
