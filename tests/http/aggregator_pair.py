"""Leader and helper as they are deployed, in one network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from infra.lab.kit.aggregators import AggregatorPair
from infra.lab.kit.reports import TaskKit
from services.helper.app import create_app as create_helper
from services.helper.config import HelperConfig
from services.leader.app import create_app as create_leader
from services.leader.config import LeaderConfig
from tacit.messages import Report


def both_aggregators(kit: TaskKit, folder: Path, **options: Any) -> AggregatorPair:
    """Both applications with their state in ``folder``. ``options``: those of ``AggregatorPair``."""
    return AggregatorPair(
        kit,
        folder,
        lambda settings, deps: create_leader(LeaderConfig.model_validate(settings), deps),
        lambda settings, deps: create_helper(HelperConfig.model_validate(settings), deps),
        **options,
    )


def reports_of(kit: TaskKit) -> list[Report]:
    """Seven good reports (3, 2, 1, 1), one with a bad proof, and one with another's token."""
    factory = kit.reports(1)
    token = factory.token()
    good = [factory.valid(value) for value in (0, 0, 1, 1, 2, 3)]
    return [factory.bad_proof(2), *good, factory.valid(0, token=token), factory.valid(0, token=token)]
