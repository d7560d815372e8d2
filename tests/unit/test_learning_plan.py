"""Plans of training runs: what does not fit is refused with what would, and what a run costs is told beforehand."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from infra.cli import FAILED, OK, run
from tacit.errors import DecodeError, FieldError
from tacit.learning.plan import EXAMPLE, SMALL, Plan
from tacit.methods.estimators.registry import estimator_of
from tacit.methods.flips import Flips
from tacit.operations.design_rounds import nobody
from tacit.operations.learning.plans import flips_of, forecast, planned_series, unplaced_series
from tacit.recipe.derive import design_of, randomizer_of, vdaf_of
from tacit.recipe.model import TokenSlot
from tacit.recipe.policy import Policy, upload_limits
from tacit.vdaf.l2_bound_sum import Prio3L2BoundSum

TRAINING: dict[str, Any] = EXAMPLE["training"]  # type: ignore[assignment]
LARGE = {"kind": "two-layer", "inputs": 64, "hidden": 50, "classes": 10}
ADAPTIVE = {**TRAINING, "quantile": {"weight": "0.1"}}
TOKEN = TokenSlot(issuer="nobody", epoch=0, slot=0)


def plan_of(**changes: Any) -> Plan:
    return Plan.read(json.dumps({**EXAMPLE, **changes}).encode(), "plan")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"min_batch_size": 501}, "min_batch_size: must be at most 500"),
        ({"unit": "0.03"}, "unit: must divide 1"),
        ({"rounds": 7000}, "rounds: .* 6588 would fit"),
        ({"rate": 1}, "rate: must be above 0 and below 1"),
        ({"server": {"kind": "sgd"}}, "server.kind: must be one of 'fedavg', 'fedadam'"),
        ({"clip": 2_000_000}, "clip: must be at most 1000000"),
        ({"training": {**TRAINING, "quantile": {"weight": "0.1"}}}, "adaptive: and training.quantile belong together"),
        ({"adaptive": {}}, "adaptive: and training.quantile belong together"),
        ({"training": ADAPTIVE, "adaptive": {"rate": 11}}, "adaptive.rate: must be at most 10"),
        ({"training": {**TRAINING, "architecture": {**LARGE, "hidden": 219}}}, "at most 16,384 fit"),
        ({"device": 1}, "device: is not known"),
    ],
)
def test_members_that_do_not_fit_together_are_refused_with_what_would_fit(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(FieldError, match=said):
        plan_of(**changes)


@pytest.mark.parametrize("data", [b"[]", b"{", b" " * 9])
def test_a_file_that_is_no_plan_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError, match="digits"):
        Plan.read(data, "digits.json")


@pytest.mark.slow
def test_a_total_that_no_noise_keeps_is_refused_with_plans_that_have_one() -> None:
    with pytest.raises(FieldError, match="no noise share keeps 2 over 30 rounds") as refused:
        planned_series(plan_of(min_batch_size=20), nobody(), 0, TOKEN)
    words = refused.value.reason.split()
    batch_size = int(words[words.index("min_batch_size") + 2].replace(",", ""))
    assert 20 < batch_size < 60
    assert planned_series(plan_of(min_batch_size=batch_size), nobody(), 0, TOKEN).rounds == 30


@pytest.mark.slow
def test_contributions_over_the_largest_upload_are_refused_with_the_entries_that_fit() -> None:
    with pytest.raises(FieldError, match="sends 16,360 entries") as refused:
        forecast(
            plan_of(
                training={**TRAINING, "architecture": {**LARGE, "hidden": 218}},
                unit="0.001",
                devices=20_000,
                min_batch_size=800,
            )
        )
    words = refused.value.reason.split()
    entries = int(words[words.index("would") - 2].replace(",", ""))
    classes = 13
    fitting = {"kind": "softmax", "inputs": entries // classes - 1, "classes": classes}
    fits = forecast(
        plan_of(training={**TRAINING, "architecture": fitting}, unit="0.001", devices=20_000, min_batch_size=800)
    )
    assert 4_000_000 < fits.contribution_bytes <= (4 << 20) - 4096


@pytest.mark.parametrize(("hidden", "flag"), [(30, "--max-upload 1048576"), (133, "--max-upload 4194304")])
def test_a_plan_of_long_vectors_says_how_large_the_uploads_of_its_stack_are(hidden: int, flag: str) -> None:
    training = {**TRAINING, "architecture": {**LARGE, "hidden": hidden}}
    found = forecast(plan_of(training=training, delta="0.000001"))
    assert flag in " ".join(found.stack)
    assert "vdaf-parameters" in dict(found.refusals), "a device of the usual policy refuses it"
    accepting = forecast(plan_of(training=training, delta="0.000001"), Policy.model_validate(upload_limits(4 << 20)))
    assert "vdaf-parameters" not in dict(accepting.refusals)


def test_the_forecast_is_that_of_the_series() -> None:
    plan = plan_of()
    series, found = planned_series(plan, nobody(), 0, TOKEN), forecast(plan)
    assert found.epsilon == series.claim.epsilon.root
    assert 1.9 < float(found.epsilon["aggregator"]) <= 2
    assert (series.claim.delta, series.rounds, series.round_seconds) == (found.delta, 30, 4800)
    assert isinstance(vdaf_of(series.probe), Prio3L2BoundSum)
    method = randomizer_of(series.probe)
    assert isinstance(method, Flips)
    (stderr, *_) = estimator_of(method).expected_stderrs(
        [0.0] * 650, 10_000, design_of(series.probe), squares=[1e-300] * 650
    )
    assert found.noise_entry == pytest.approx(stderr / 10_000)
    assert found.signal_to_noise == pytest.approx(1 / (found.noise_entry * math.sqrt(650)))


def test_the_example_works_as_it_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["learn", "plan", "--example"]) == OK
    file = tmp_path / "digits.json"
    file.write_text(capsys.readouterr().out)
    assert run(["learn", "plan", str(file)]) == OK
    shown = capsys.readouterr().out
    assert "500 expected, released from 400 on" in shown
    assert "(claim-half-batch)" in shown, "the usual policy; a stack's may say otherwise"
    assert "a stack that runs this plan: tacit up --agents 10000 --batch-floor 400" in shown
    assert "adds 4.8 clips at most, and so moves the mean update by 0.0096" in shown
    assert run(["learn", "plan", str(file), "--json"]) == OK
    document = json.loads(capsys.readouterr().out)
    assert document["plan"] == {**EXAMPLE, "epsilon": "2"}
    assert document["forecast"]["model_bytes"] == 12 + 4 * 650
    assert document["forecast"]["influence_clips"] == pytest.approx(4.80, abs=0.01)


def test_without_a_proof_of_the_norm_a_plan_says_that_one_device_chooses_its_noise() -> None:
    found = {proof: forecast(plan_of(proof=proof)).influence_clips for proof in ("norm", "range")}
    method = flips_of(unplaced_series(plan_of(proof="range")))
    assert found["range"] == pytest.approx(math.sqrt(method.cells) * (100 + method.flips / 2 / method.scale) / 100)
    assert found["range"] > 15 * found["norm"]


def test_a_plan_for_one_machine_is_shown_with_the_commands_that_make_its_stack(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "small.json"
    file.write_text(json.dumps(SMALL))
    assert run(["learn", "plan", str(file)]) == OK
    *_, stack, other = capsys.readouterr().out.splitlines()
    assert stack.startswith("a stack that runs this plan: tacit up --agents 60 ")
    assert stack.endswith(" --allow-unbounded-local --release-cap 5 --examples digits.csv")
    assert other == "or, with its devices at work: tacit staging up, with the same options"
    file.write_text(json.dumps({**SMALL, "devices": 20_000}))
    assert run(["learn", "plan", str(file)]) == OK
    shown = capsys.readouterr().out
    assert shown.splitlines()[-1].startswith("no stack of tacit up runs this plan: ")
    assert "staging" not in shown


def test_without_a_plan_and_with_a_wrong_one_the_command_says_so_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({**EXAMPLE, "unit": "0.03"}))
    for arguments in ([], [str(file)], [str(file), "--example"]):
        assert run(["learn", "plan", *arguments]) == FAILED
        assert len(capsys.readouterr().err.splitlines()) == 1
