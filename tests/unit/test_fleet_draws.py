"""Which round of a series the devices of a fleet take part in: drawn once, and kept between runs."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from infra.lab.devices.decisions import decide
from infra.lab.devices.population import DrawnCategories
from infra.lab.devices.series_draws import NO_ROUND, drawn_rounds
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.recipes import RecipeKit
from tacit.dp.donation import slot_share, yield_of
from tacit.errors import UsageError

KIT = RecipeKit()
SERIES = KIT.series()
DEVICES = 6_000


def draws(folder: Path, index: int = 0, seed: int = 1) -> Counter[int]:
    found = drawn_rounds(folder, SERIES, DEVICES, index, SeededEntropy(seed).child("draws"))
    assert found is not None
    return Counter(found.tolist())


@pytest.mark.false_alarm(1e-7, "chi-square")
def test_the_devices_of_a_fleet_draw_as_devices_do(tmp_path: Path) -> None:
    found, rate = draws(tmp_path), float(SERIES.probe.rate)
    seen = [*(found[at] for at in range(3)), found[NO_ROUND]]
    expected = [*(DEVICES * slot_share(rate, at) for at in range(3)), DEVICES * (1 - yield_of(rate, 3))]
    assert sum(seen) == DEVICES
    assert stats.chisquare(seen, expected).pvalue > 1e-7


def test_a_draw_is_kept_for_every_later_run_with_as_many_devices(tmp_path: Path) -> None:
    entropy = SeededEntropy(2).child("draws")
    first, later = (drawn_rounds(tmp_path, SERIES, DEVICES, index, entropy) for index in (0, 2))
    assert first is not None
    assert np.array_equal(first, later)  # type: ignore[arg-type]
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(UsageError, match="one draw for each of 6000 devices"):
        drawn_rounds(tmp_path, SERIES, DEVICES, 1, entropy)
    other = drawn_rounds(tmp_path, SERIES, DEVICES + 1, 1, entropy)
    assert other is not None
    assert set(other.tolist()) == {NO_ROUND}, "the window of round 1 begins after the last round"


def test_rounds_with_coins_of_their_own_have_no_draw(tmp_path: Path) -> None:
    series = KIT.series(donation_slots=None)
    assert drawn_rounds(tmp_path, series, DEVICES, 0, SeededEntropy(3)) is None
    assert list(tmp_path.iterdir()) == []


def test_the_chosen_devices_take_part_and_no_others() -> None:
    sampling = KIT.recipe(rate=Decimal("0.5")).sampling
    population, entropy = DrawnCategories("uniform", (0.5, 0.5)), SeededEntropy(4).child("coins")
    chosen = np.arange(100) % 7 == 3
    decided = decide(sampling, population, 40, 100, entropy, np.random.default_rng(1), chosen=chosen)
    sampled = [device for chunk in decided for device in chunk.sampled.tolist()]
    assert sampled == [40 + at for at in range(100) if at % 7 == 3]
