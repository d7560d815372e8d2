"""What a recipe of noise shares will cost and give, before any device is asked: claim, expected error, report size."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tacit.randomizers.flips import Flips
from tacit.recipe.claims import claim_of
from tacit.recipe.derive import design_of, randomizer_of, vdaf_of
from tacit.recipe.model import Recipe


def outlook(recipe: Recipe) -> dict[str, Any]:
    """``{outlook: {...}}`` for noise shares, nothing for other recipes. Errors are in units of the result at the
    expected contributions: ``noise_stderr`` per number, ``sampling_stderr`` at most that of the sample.
    ``epsilon_half`` is claim (b) with half of B honest; sizes are those of one device's measurement and of the
    leader's input share. ``one_device`` is how far a dishonest device can move a total within what is proved. In
    importance sampling the errors are those of a number whose holders take part at the higher rate.
    """
    shares = randomizer_of(recipe)
    if not isinstance(shares, Flips):
        return {}
    batch, design = recipe.batch, replace(design_of(recipe), default=None, default_rate=None)
    reports = batch.expected_contributions
    population = reports / design.sends(design.rate)
    low, high = shares.low, shares.low + shares.unit * shares.maximum
    worst = (low + high) / 2 if shares.statistic == "mean" else population * (low if -low > high else high)
    noise = shares.noise_stderr(reports, design)
    (total,) = shares.expected_stderrs([worst], round(population), design)[:1]
    vdaf = vdaf_of(recipe)
    field_size = vdaf.field.ENCODED_SIZE
    return {
        "outlook": {
            "scale": shares.scale,
            "flips": shares.flips,
            "epsilon": claim_of(recipe).stated(),
            "epsilon_half": claim_of(recipe, max(1, batch.min_batch_size // 2)).aggregator_with_relay,
            "noise_stderr": noise,
            "sampling_stderr": max(0.0, total**2 - noise**2) ** 0.5,
            "one_device": shares.unit * shares.largest / shares.scale,
            "measurement_bits": shares.cells * shares.largest.bit_length(),
            "leader_share_bytes": (vdaf.flp.MEAS_LEN + vdaf.flp.PROOF_LEN * vdaf.PROOFS) * field_size,
        }
    }


def outlook_lines(recipe: Recipe) -> list[str]:
    """The same in sentences."""
    found = outlook(recipe).get("outlook")
    if found is None:
        return []
    epsilon, what = found["epsilon"], "each number" if recipe.randomizer.categories > 1 else "the result"
    half = recipe.batch.min_batch_size // 2
    return [
        f"each device sends {found['scale']} times its value plus {found['flips']} coin flips: "
        f"{found['measurement_bits']} bits, {found['leader_share_bytes']:,} bytes with their proof",
        f"epsilon {epsilon['aggregator']:.4f} against one aggregator, {epsilon['aggregator_with_relay']:.4f} with the "
        f"relay too, {found['epsilon_half']:.4f} if only {half} of them are honest; unbounded against both aggregators",
        f"a dishonest device can move a total by at most {found['one_device']:,.4g} before the division by q",
        f"expected standard error of {what}: {found['noise_stderr']:,.4g} from noise, "
        f"at most {found['sampling_stderr']:,.4g} from sampling",
    ]
