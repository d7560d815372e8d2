"""The plan of a training run and its forecast as pairs of a label and a value, for readers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from tacit.learning.plan import Plan

Facts = list[tuple[str, str]]


def plan_facts(plan: Plan) -> Facts:
    """(label, value) of what a plan of training says, for readers."""
    training, server = plan.training, plan.server
    local = f"{training.steps:,} of rate {training.learning_rate}, with {training.batch_size or 'all'} examples each"
    facts = [
        ("Metric", plan.metric),
        ("Architecture", f"{training.architecture.kind}, {training.parameters:,} parameters"),
        ("Local steps", local),
        ("Clip", f"{plan.clip}{', adaptive' if plan.adaptive else ''}; entries in steps of {plan.unit} clips"),
        ("Server", f"{server.kind}, rate {server.learning_rate}"),
        ("Devices", f"{plan.devices:,}, each with probability {plan.rate} in each round"),
        ("Minimum batch B", f"{plan.min_batch_size:,} of about {plan.expected_contributions:,.0f} contributions"),
        ("Rounds", f"{plan.rounds:,}, one every {timedelta(seconds=plan.period)}"),
        ("Asked for", f"\u03b5 {plan.epsilon} at \u03b4 {plan.delta}, of all rounds together"),
        ("Proof", plan.proof),
    ]
    if training.sent != training.parameters:
        facts.insert(2, ("Numbers sent", f"{training.sent:,}"))
    return facts


def forecast_facts(found: Mapping[str, Any]) -> Facts:
    """What a ``forecast`` says beside the claim, and what a device of this organisation's policy refuses."""
    facts = [
        ("Length of the run", str(timedelta(seconds=found["seconds"]))),
        ("Noise of a round", f"{found['noise_length']:.3g} long, where the mean update has at most {found['clip']:g}"),
        ("Noise of an entry", f"{found['noise_entry']:.3g}"),
        ("A dishonest device", f"adds at most {found['influence_clips']:.3g} clips"),
        ("Contribution", f"{found['contribution_bytes']:,} bytes"),
        ("Model file", f"{found['model_bytes']:,} bytes"),
    ]
    if found["projection_error"]:
        facts.insert(2, ("Error of the projection", f"{found['projection_error']:.3g} mean updates long"))
    return facts + [(f"Refused ({one['rule']})", one["detail"]) for one in found["refusals"]]
