"""What a recipe will cost and give, before any device is asked: noise shares (claim, expected error, report size), and
what hides who sends under importance sampling and dummies."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from infra.terminal import notes
from tacit.dp.hidden_claim import dummies_cost, unfilled_cost
from tacit.methods.flips import Flips
from tacit.models.forms.registry import form_of
from tacit.moments import when
from tacit.recipe.asking import DECIDING_SHARE, asked_until
from tacit.recipe.claims import claim_of, count_cost_of, sample_of
from tacit.recipe.derive import design_of, randomizer_of, vdaf_of
from tacit.recipe.model import Interval, Recipe
from tacit.recipe.rounding import coarse_words, rounding_words


def outlook(recipe: Recipe) -> dict[str, Any]:
    """``{outlook: {...}}`` for noise shares, ``{hiding: {...}}`` for importance sampling and dummies, ``{rounding:
    ...}`` where values are rounded, and ``{warnings: [...]}`` where that is coarse; nothing for other recipes.

    Errors are in units of the result at the expected contributions: ``noise_stderr`` per number, ``sampling_stderr`` at
    most that of the sample; in importance sampling they are those of a number whose holders take part at the higher
    rate, at as many contributions. ``epsilon_half`` is claim (b) with half of B honest; sizes are those of one device's
    measurement and of the leader's input share. ``one_device`` is how far a dishonest device can move a total within
    what is proved. ``hiding`` is described at ``hiding``.
    """
    shares = randomizer_of(recipe)
    noise = {"outlook": _shares(recipe, shares)} if isinstance(shares, Flips) else {}
    return {**noise, **hiding(recipe), **rounding(recipe)}


def rounding(recipe: Recipe) -> dict[str, Any]:
    """``{rounding: ..., warnings: [...]}``, each where there is something to say."""
    words, coarse = rounding_words(recipe.question), coarse_words(recipe)
    return {**({"rounding": words} if words else {}), **({"warnings": [coarse]} if coarse else {})}


def tell_coarse(recipe: Recipe) -> None:
    """Warn of a unit that is coarse for its range."""
    coarse = coarse_words(recipe)
    if coarse is not None:
        notes().print(f"warning: {coarse}", style="yellow")


def asked_words(interval: Interval, now: float) -> str:
    """Until when devices are asked to answer in ``interval``, and what follows from that ``now`` (POSIX seconds)."""
    until, share = asked_until(interval), f"first {DECIDING_SHARE:.0%} of its interval"
    if now > until:
        return (
            f"nobody is asked any more since {when(until)}: devices that had not read it and fetched a token in the "
            f"{share} take no part; ask again with a later --start"
        )
    return (
        f"asks devices that have read it and hold a token by {when(until)}, in the {share} or before; later ones take "
        "no part, so publish it, and have the agents running, well before"
    )


def hiding(recipe: Recipe) -> dict[str, Any]:
    """``{hiding: {...}}`` where there is importance sampling or dummies. ``count_epsilon``: what the number of messages
    adds to claim (a) before sampling; ``unfilled_epsilon``: what it tells alone of a batch that need not fill;
    ``dummies_epsilon``: whether a device sent, against somebody who knows which
    others took part (None: not hidden); ``part_epsilon``: what it tells the relay about an answer that its device sent,
    or did not."""
    sampling = recipe.sampling
    if sampling.importance is None and sampling.dummies is None:
        return {}
    reports, sample = randomizer_of(recipe), sample_of(recipe)
    alone = dummies_cost(reports, sample, n=sample.batch, delta=float(recipe.delta))
    counted = count_cost_of(recipe)
    unfilled = unfilled_cost(reports, sample, n=sample.batch, delta=float(recipe.delta))
    return {
        "hiding": {
            "count_epsilon": counted if math.isfinite(counted) else None,
            "unfilled_epsilon": unfilled if math.isfinite(unfilled) else None,
            "dummies_epsilon": alone if math.isfinite(alone) else None,
            "part_epsilon": sample.turnout(reports).part_epsilon(),
        }
    }


def _shares(recipe: Recipe, shares: Flips) -> dict[str, Any]:
    vdaf = vdaf_of(recipe)
    half = max(1, recipe.batch.min_batch_size // 2)
    return {
        "scale": shares.scale,
        "flips": shares.flips,
        "epsilon": claim_of(recipe).stated(),
        "epsilon_half": claim_of(recipe, half)[form_of(recipe.model).charged_with_relay],
        **_errors(recipe, shares),
        "one_device": float(shares.unit * shares.largest / shares.scale),
        "measurement_bits": shares.cells * shares.largest.bit_length(),
        "leader_share_bytes": (vdaf.flp.MEAS_LEN + vdaf.flp.PROOF_LEN * vdaf.PROOFS) * vdaf.field.ENCODED_SIZE,
    }


def _errors(recipe: Recipe, shares: Flips) -> dict[str, float]:
    design = replace(design_of(recipe), default=None, default_rate=None)
    reports = recipe.batch.expected_contributions
    population = reports / design.sends(design.rate)
    low, high = shares.low, shares.low + shares.unit * shares.maximum
    worst = float((low + high) / 2 if shares.statistic == "mean" else population * (low if -low > high else high))
    noise = shares.noise_stderr(reports, design)
    (total,) = shares.expected_stderrs([worst], round(population), design)[:1]
    return {"noise_stderr": noise, "sampling_stderr": max(0.0, total**2 - noise**2) ** 0.5}


def outlook_lines(recipe: Recipe) -> list[str]:
    """The same in sentences."""
    document = outlook(recipe)
    lines = _share_lines(recipe, document["outlook"]) if "outlook" in document else []
    lines += [document["rounding"]] if "rounding" in document else []
    return [*lines, *(_hiding_lines(recipe, document["hiding"]) if "hiding" in document else [])]


def _hiding_lines(recipe: Recipe, found: dict[str, Any]) -> list[str]:
    count, dummies, part = found["count_epsilon"], found["dummies_epsilon"], found["part_epsilon"]
    told = "all there is to tell" if count is None else f"{count:.4f} before sampling"
    lines = [f"the number of messages adds epsilon {told}, counted in the claim against one aggregator"]
    if part:
        devices = sample_of(recipe).attested
        few = "one device" if devices == 1 else f"{devices:,} devices, as a census attests"
        unfilled = found["unfilled_epsilon"]
        alone = "all there is to tell" if unfilled is None else f"epsilon {unfilled:.4f}"
        lines.append(f"of a batch that does not fill it tells {alone}, counted on {few}; that is never given back")
    if recipe.sampling.dummies is not None:
        known = "nothing hides it" if dummies is None else f"epsilon {dummies:.4f}"
        lines.append(f"whether a device sent, against somebody who knows which others took part: {known}")
    if part:
        lines.append(f"the relay sees who sends: epsilon {part:.4f} about the answer, whatever the noise is")
    return lines


def _share_lines(recipe: Recipe, found: dict[str, Any]) -> list[str]:
    epsilon, what = found["epsilon"], "each number" if recipe.randomizer.categories > 1 else "the result"
    half = recipe.batch.min_batch_size // 2
    lines = [
        f"each device sends {found['scale']} times its value plus {found['flips']} coin flips: "
        f"{found['measurement_bits']} bits, {found['leader_share_bytes']:,} bytes with their proof",
        f"epsilon {epsilon['aggregator']:.4f} against one aggregator, {epsilon['aggregator_with_relay']:.4f} with the "
        f"relay too, {found['epsilon_half']:.4f} if only {half} of them are honest; unbounded against both aggregators",
        f"a dishonest device can move a total by at most {found['one_device']:,.4g} before the division by q",
    ]
    errors = f"{found['noise_stderr']:,.4g} from noise, at most {found['sampling_stderr']:,.4g} from sampling"
    return [*lines, f"expected standard error of {what}: {errors}"]
