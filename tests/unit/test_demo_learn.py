"""What the demo of a training run plans, refuses and shows, without running it."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from rich.console import Console

from infra.cli import run
from infra.lab.commands.demo_learn import DEFAULT_DEVICES, DEFAULT_ROUNDS, demo_plan
from infra.lab.demo.attacks.learning import longest_measurement
from infra.lab.demo.results.learn_result import CENTRAL, HONEST, NONE, LearnResult, Lies, Line, Step
from infra.lab.demo.results.report import page, write_report
from infra.lab.demo.results.result import StagedRefusal
from infra.lab.demo.results.view import show
from infra.lab.learning.bench import own_noise
from infra.lab.learning.learners import Learners, people_of
from infra.lab.learning.population import EXAMPLES
from tacit.errors import UsageError
from tacit.learning import model_file
from tacit.learning.architectures import architecture_of
from tacit.learning.local import examples_of
from tacit.methods.randomisers.registry import device_randomiser_of
from tacit.operations.learning.plans import flips_of, unplaced_series
from tacit.recipe.encoder_specs import Update
from tacit.recipe.quantity import exact
from tacit.vdaf.l2_bound_sum import Prio3L2BoundSum
from tacit.vdaf.registry import prio3_named

NUMBER = {"type": "number"}
COUNT = {"type": "integer", "minimum": 0}
SHARE = {"type": "number", "minimum": 0, "maximum": 1}
ROUND = {"round": COUNT, "contributions": COUNT, "loss": NUMBER, "accuracy": SHARE}
MEMBERS = {
    "devices": COUNT,
    "rounds": {
        "type": "array",
        "minItems": 1,
        "items": {"type": "object", "properties": ROUND, "required": [*ROUND], "additionalProperties": False},
    },
    "accuracy": SHARE,
    "central_accuracy": SHARE,
    "honest_accuracy": {"anyOf": [SHARE, {"type": "null"}]},
    "liars": COUNT,
    "private": {"type": "boolean"},
    "epsilon": {"type": "object", "additionalProperties": {"type": ["number", "string"]}, "required": ["aggregator"]},
    "delta": NUMBER,
    "clip": NUMBER,
    "seconds": NUMBER,
}
SCHEMA = {"type": "object", "properties": MEMBERS, "required": [*MEMBERS], "additionalProperties": False}
"""What a program may rely on in the document of ``--json``; the end-to-end tests check real ones against it."""


def result() -> LearnResult:
    claim = {"aggregator": 1.5, "aggregator_with_relay": 3.0, "both_aggregators": "unbounded"}
    privacy = {"mechanism": "m", "relation": "replacement", "n": 90, "delta": 1e-6, "epsilon": 1.5, "epsilon0": 1.0}
    return LearnResult(
        source="digits",
        question="Which [b]changes[/b]?",
        recipe={"name": "digits", "hash": "h", "model": "secure-aggregation"},
        devices=1000,
        staged=1,
        sampled=200,
        accepted=199,
        rejected=2,
        rejected_by_cause={"token-spent": 1, "proof": 1},
        privacy={**privacy, "by_adversary": claim},
        buckets=(),
        sightings=(),
        refusals=(StagedRefusal("an update", "leader, helper", "proof: [/i]no"),),
        seconds=1.234,
        steps=(Step(101, 2.1, 0.31, 1.1), Step(98, 1.4, 0.75, 1.5)),
        beside=(Line(CENTRAL, (2.0, 1.2), 0.8, 1.5), Line(NONE, (2.0, 1.1), 0.82, None)),
        clip=1.0,
    )


def test_the_document_has_what_programs_rely_on_and_nothing_else() -> None:
    document = json.loads(json.dumps(result().document()))
    Draft202012Validator(SCHEMA).validate(document)
    assert document["rounds"][1] == {"round": 2, "contributions": 98, "loss": 1.4, "accuracy": 0.75}
    assert (document["accuracy"], document["central_accuracy"], document["private"]) == (0.75, 0.8, True)
    assert document["epsilon"]["both_aggregators"] == "unbounded"


def test_a_run_with_liars_tells_how_many_what_they_add_and_what_it_is_without_them(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    honest = Line(HONEST, (2.1, 1.3), 0.79, 1.5)
    lying = replace(result(), lies=Lies(2, 7.04), beside=(*result().beside, honest))
    document = lying.document()
    Draft202012Validator(SCHEMA).validate(document)
    assert (document["liars"], document["accuracy"], document["honest_accuracy"]) == (2, 0.75, 0.79)
    assert "2 devices lie, in every round: 2.0% of its contributions. Each adds 7.0 clips" in lying.found_words
    assert (result().document()["liars"], result().document()["honest_accuracy"]) == (0, None)
    assert "lie" not in result().found_words
    shown = io.StringIO()
    show(lying, Console(file=shown, width=120), [])
    assert "without liars, in memory" in " ".join(shown.getvalue().split())
    write_report(lying, tmp_path)
    assert "without liars, in memory" in page(lying, b"")


@pytest.mark.parametrize("entries", [16, 100, 650])
def test_a_liar_adds_what_a_plan_says_that_one_device_adds_at_most_and_counts(entries: int) -> None:
    """In whole units; the length of 201 of them is lost by less than one."""
    plan = demo_plan(DEFAULT_DEVICES, DEFAULT_ROUNDS, Decimal(2))
    method = flips_of(unplaced_series(plan))
    vdaf = prio3_named(method.proof.name, method.proof.length, method.proof.chunk_length, **method.proof.bounds)
    assert isinstance(vdaf, Prio3L2BoundSum)
    direction = [1 / entries**0.5] * entries + [0.0] * (method.cells - entries)
    measurement = longest_measurement(vdaf, direction)
    assert max(longest_measurement(vdaf, [1.0] + [0.0] * (method.cells - 1))) == vdaf.bounds.max_value
    nonce, key, context = bytes(16), bytes(32), b"a round"
    public_share, shares = vdaf.shard(context, measurement, nonce, bytes(vdaf.RAND_SIZE))
    states, verifiers = zip(
        *(vdaf.verify_init(key, context, at, None, nonce, public_share, share) for at, share in enumerate(shares)),
        strict=True,
    )
    message = vdaf.verifier_shares_to_message(context, None, verifiers)
    outputs = [vdaf.verify_next(context, state, message) for state in states]
    added = np.array(vdaf.unshard(None, outputs, 1), float) - vdaf.bounds.centre
    clips = float(np.linalg.norm(added)) / method.scale * float(method.unit) / float(exact(plan.encoder.norm))
    assert 0.99 * own_noise(plan).longest <= clips <= own_noise(plan).longest + 1e-9


def test_liars_go_with_learn_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "--liars", "2"]) != 0
    assert "--liars goes with --learn" in capsys.readouterr().err


def test_a_run_that_promises_nothing_against_an_aggregator_is_not_private() -> None:
    open_ = replace(result(), privacy={**result().privacy, "epsilon": "unbounded"})
    assert open_.document()["private"] is False


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_a_terminal_shows_the_losses_and_the_epsilon_of_each_round(width: int) -> None:
    shown = io.StringIO()
    show(result(), Console(file=shown, width=width), [])
    text = " ".join(shown.getvalue().replace("│", " ").split())
    assert "2 98 1.400 75.0% 1.50" in text
    assert "no privacy: 82.0% right in the end" in text
    assert "Which [b]changes[/b]?" in text, "what is shown is text, not markup"
    assert "2.10 ┤" in shown.getvalue()
    assert max(map(len, shown.getvalue().splitlines())) <= width


def test_the_report_has_the_losses_as_a_picture_and_the_rounds_as_a_table(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    written = write_report(result(), tmp_path)
    assert (tmp_path / "result.png").read_bytes().startswith(b"\x89PNG")
    assert len(written) == 3
    text = page(result(), b"")
    assert "Loss per round" in text
    assert "75.0%" in text
    assert "<td>Answer" not in text


def test_the_usual_demo_keeps_its_epsilon_and_rarely_has_too_few_contributions() -> None:
    plan = demo_plan(DEFAULT_DEVICES, DEFAULT_ROUNDS, Decimal(2))
    claim = unplaced_series(plan).claim.epsilon.root
    assert 1.9 < float(claim["aggregator"]) <= 2
    expected = float(plan.expected_contributions)
    deviation = (expected * (1 - float(plan.rate))) ** 0.5
    assert plan.min_batch_size <= expected - 4.5 * deviation


def test_an_epsilon_that_no_noise_keeps_is_refused_with_one_that_can_be_kept() -> None:
    with pytest.raises(UsageError, match=r"--epsilon 0\.1: .* or an epsilon of \S+ would do"):
        demo_plan(500, 10, Decimal("0.1"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--learn", "--devices", "499"], "--learn takes 500 to 10,000 devices"),
        (["--learn", "--rounds", "1"], "--rounds"),
        (["--learn", "--epsilon", "17"], "--epsilon takes a number from 0.1 to 16"),
        (["--learn", "--column", "x"], "leave out --input and --column"),
        (["--learn", "--top", "3"], "--top goes with --heavy-hitters or --model local"),
        (["--learn", "--model", "local"], "give either --model or --learn"),
        (["--learn", "--heavy-hitters"], "give either --heavy-hitters or --learn"),
        (["--rounds", "3"], "--rounds goes with --learn"),
    ],
)
def test_flags_that_do_not_fit_are_one_line_that_says_what_to_do(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["demo", "--out", str(tmp_path / "out"), *arguments]) in (1, 2)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err
    assert not (tmp_path / "out").exists()


def test_simulated_devices_send_what_the_recipe_takes_and_each_its_own() -> None:
    plan = demo_plan(500, 2, Decimal(4))
    file = model_file.encode(architecture_of(plan.training.architecture).initial(0))
    spec, method = plan.encoder, flips_of(unplaced_series(plan))
    learners = Learners(spec, plan.clip, file, 500, 1)
    answers = learners.answers(learners.of(7, 30, np.random.default_rng(0)))
    assert isinstance(spec, Update)
    assert len({answer for answer in answers if isinstance(answer, tuple)}) == 30
    for answer in answers:
        assert isinstance(answer, tuple)
        sent = device_randomiser_of(method).randomise(answer, bytes_of)
        assert isinstance(sent, list)
        assert len(sent) == spec.length
        assert sum((entry - method.neutral) ** 2 for entry in answer) <= spec.radius**2
    assert learners.answers(learners.of(0, 0, np.random.default_rng(0))) == []


def test_the_text_of_a_device_holds_its_examples_exactly() -> None:
    people, plan = people_of(500, 1), demo_plan(500, 2, Decimal(4))
    found = examples_of(plan.training.architecture, [float(part) for part in people.text(3).split(",")])
    assert len(found) == EXAMPLES
    features, labels = people.examples(np.array([3]))
    assert np.array_equal(found.features, features[0])
    assert np.array_equal(found.labels, labels[0])


def bytes_of(size: int) -> bytes:
    return bytes(size)
