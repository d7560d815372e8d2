"""Describes in sentences what a recipe will cost and yield (``tacit.operations.outlook``)."""

from __future__ import annotations

from infra.views.influence_words import influence_words
from infra.views.terminal import notes
from tacit.extension_points import OUTLOOK_LINES
from tacit.operations.outlook import Hiding, Outlook, SharesOutlook, outlook
from tacit.recipe.asking import DECIDING_SHARE, asked_until
from tacit.recipe.claims import sample_of
from tacit.recipe.model import Interval, Recipe
from tacit.time_format import format_utc


def tell_warnings(recipe: Recipe) -> None:
    """Print what an analyst should know before ``recipe`` is published: a unit that is coarse for its range, and noise
    that hides most answers."""
    for words in outlook(recipe).warnings:
        notes().print(f"warning: {words}", style="yellow")


def asked_words(interval: Interval, now: float) -> str:
    """Return a sentence on until when devices are asked to answer in ``interval``, and on what to do at ``now`` (POSIX
    seconds)."""
    until, share = asked_until(interval), f"first {DECIDING_SHARE:.0%} of its interval"
    if now > until:
        return (
            f"nobody has been asked since {format_utc(until)}: devices that had not read it and fetched a token in the "
            f"{share} take no part; ask again with a later --start"
        )
    return (
        f"asks devices that have read it and hold a token by {format_utc(until)}, in the {share} or before; "
        "later ones take "
        "no part, so publish it, and have the agents running, well before"
    )


def outlook_lines(recipe: Recipe, found: Outlook) -> list[str]:
    """What is to be expected of ``recipe``, in sentences; nothing on what ``found`` does not have."""
    lines = [] if found.shares is None else _share_lines(recipe, found.shares)
    for name, one in found.of_features.items():
        lines += OUTLOOK_LINES[name](recipe, one)
    lines += [] if found.rounding.words is None else [found.rounding.words]
    return lines if found.hiding is None else [*lines, *_hiding_lines(recipe, found.hiding)]


def _hiding_lines(recipe: Recipe, found: Hiding) -> list[str]:
    count, dummies, part = found.count_epsilon, found.dummies_epsilon, found.part_epsilon
    epsilon = "without bound" if count is None else f"{count:.4f} before sampling"
    lines = [f"the number of messages adds epsilon {epsilon}, counted in the claim against one aggregator"]
    if part:
        devices = sample_of(recipe).attested
        few = "one device" if devices == 1 else f"{devices:,} devices, as a census attests"
        unfilled = found.unfilled_epsilon
        alone = "everything" if unfilled is None else f"epsilon {unfilled:.4f}"
        lines.append(f"if a batch does not fill, it tells {alone}, counted on {few}; that is never refunded")
    if recipe.sampling.dummies is not None:
        known = "nothing hides it" if dummies is None else f"epsilon {dummies:.4f}"
        lines.append(f"whether a device sent, against somebody who knows which others took part: {known}")
    if part:
        lines.append(f"the relay sees who sends: epsilon {part:.4f} about the answer, whatever the noise is")
    return lines


def _share_lines(recipe: Recipe, found: SharesOutlook) -> list[str]:
    epsilon, what = found.epsilon, "each number" if recipe.randomizer.categories > 1 else "the result"
    half = recipe.batch.min_batch_size // 2
    lines = [
        f"each device sends {found.scale} times its value plus {found.flips} coin flips: "
        f"{found.measurement_bits} bits, {found.leader_share_bytes:,} bytes with their proof",
        f"epsilon {epsilon['aggregator']:.4f} against one aggregator, {epsilon['aggregator_with_relay']:.4f} with the "
        f"relay too, {found.epsilon_half:.4f} if only {half} of them are honest; unbounded against both aggregators",
        f"a dishonest device can {influence_words(recipe)}",
    ]
    errors = f"{found.noise_stderr:,.4g} from noise, at most {found.sampling_stderr:,.4g} from sampling"
    return [*lines, f"expected standard error of {what}: {errors}"]
