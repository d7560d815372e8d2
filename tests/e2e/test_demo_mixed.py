"""The demo whose reports pass a shuffler before leader and helper."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path

import pytest
from rich.console import Console

from infra.lab.demo.dataset import load_randhie
from infra.lab.demo.results.view import Stages
from infra.lab.demo.run import DemoRun

DEVICES = 200


@pytest.mark.slow
def test_every_report_that_the_shuffler_took_is_counted_and_leader_and_helper_cannot_tell_which_it_was(
    tmp_path: Path,
) -> None:
    stages = Stages(Console(file=io.StringIO()))
    result = asyncio.run(DemoRun(load_randhie(DEVICES), tmp_path / "stack", stages, through="shuffler").run())
    assert (result.accepted, result.rejected) == (result.sampled, 0)
    saw = {one.party: one.read for one in result.sightings}
    assert saw["shuffler"]["sealed_reports"] == 1
    assert not {"leader", "helper"} & saw.keys(), "the report that is followed has another id there"
    refused = next(one for one in result.refusals if one.attempt.startswith("a recipe that understates"))
    assert "shuffler" in refused.refused_by
