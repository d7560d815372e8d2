"""A leader's grace for stuck jobs ends well before their recipe may become void."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from infra.lab.kit.aggregators import settings_of
from infra.lab.kit.reports import make_task_kit
from services.helper.config import HelperConfig
from services.leader.config import RELEASE_SECONDS, LeaderConfig
from tacit.messages import Role

DAY = 86400.0
KIT = make_task_kit()


def leader(folder: Path, **settings: Any) -> LeaderConfig:
    return LeaderConfig.model_validate({**settings_of(folder, KIT, Role.LEADER), **settings})


def test_by_default_what_counts_has_days_to_be_released_at_both_aggregators(tmp_path: Path) -> None:
    config = leader(tmp_path / "leader")
    helper = HelperConfig.model_validate(settings_of(tmp_path / "helper", KIT, Role.HELPER))
    least = min(config.void_after, config.void_seconds, helper.void_seconds, config.retention)
    assert least >= config.limits.collection_grace + 3 * DAY


@pytest.mark.parametrize("grace", [7 * DAY, 20 * DAY])
def test_longer_grace_puts_off_the_void(tmp_path: Path, grace: float) -> None:
    config = leader(tmp_path, limits={"collection_grace": grace})
    assert config.void_after == grace + RELEASE_SECONDS > config.void_seconds


def test_tables_outlast_grace_and_release(tmp_path: Path) -> None:
    limits = {"collection_grace": 3 * DAY}
    assert leader(tmp_path / "one", retention=4 * DAY, limits=limits).void_after == 7 * DAY
    with pytest.raises(ValidationError, match="retention must be a day longer"):
        leader(tmp_path / "two", retention=4 * DAY - 1, limits=limits)
