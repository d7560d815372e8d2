"""Attacks on a training run: updates that must not count, rounds that nobody accepts, histories that nobody follows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infra.lab.demo.attacks.common import Attempt
from infra.lab.demo.attacks.series import BadRound
from infra.lab.demo.results.result import StagedRefusal
from infra.lab.kit import spoiled
from infra.lab.kit.reports import BoundToken
from tacit.errors import Abort, Refusal, UsageError
from tacit.learning import model_file
from tacit.messages import REPORT_ID_SIZE, ReportMetadata, Role, UploadRequest
from tacit.models.secure_aggregation.device import DapChannel
from tacit.operations.learning.rounds import NextRound
from tacit.operations.publishing import send_model
from tacit.operations.series_rounds import Asked
from tacit.ports import Entropy, Transport
from tacit.recipe.model import Recipe
from tacit.recipe.quantity import PositiveQuantity
from tacit.recipe.series import Series
from tacit.recipe.training import FILE_ENTRY, RoundModel
from tacit.roles.client import bound_report
from tacit.task import Task
from tacit.vdaf.field import Field128
from tacit.vdaf.flp import FlpBBCGGI19
from tacit.vdaf.l2_bound_sum import L2BoundSum, Prio3L2BoundSum

TWICE = "a device twice in one round, with one token"
TOO_LONG = "an update beyond the norm"
FOLLOWERS = "everybody who follows the run"
Follow = Callable[[Sequence[Asked]], object]
"""Works out a run from its published rounds."""


@dataclass(frozen=True)
class Poisoner:
    """Makes reports of a round that must not count, and the worst that does."""

    channel: DapChannel
    entropy: Entropy

    def again(self, measurement: Any, spent: BoundToken) -> Attempt:
        """A second report with the token of another one."""
        body = self.channel.submission(measurement, spent.token, spent.preimages, self.entropy).body
        return Attempt(TWICE, "token-spent", "the token's nullifier is bound to another report", body)

    def too_long(self, token: BoundToken) -> Attempt:
        """The longest update whose entries are in range, with a proof that states the largest length allowed."""
        task = self.channel.task
        vdaf, metadata = _boasting(task), ReportMetadata(self.entropy(REPORT_ID_SIZE), task.interval.start)
        bounds = vdaf.bounds
        measurement = [bounds.max_value] * bounds.length + [0] * (bounds.numbers - bounds.length)
        rand = self.entropy(vdaf.RAND_SIZE)
        public_share, shares = vdaf.shard(task.ctx, measurement, metadata.report_id, rand)
        leader, helper = map(vdaf.encode_input_share, shares)
        sharing = vdaf.encode_public_share(public_share), {Role.LEADER: leader, Role.HELPER: helper}
        report = bound_report(task, sharing, token.token, token.preimages, metadata, self.entropy)
        times = (bounds.square(measurement[: bounds.length]) / bounds.max_square) ** 0.5
        reason = f"it is {times:.0f} times too long, and its proof does not verify"
        return Attempt(TOO_LONG, "proof", reason, UploadRequest((report,)).encode())

    def longest(self, direction: Sequence[float], token: BoundToken) -> bytes:
        """A submission that counts: the longest vector, noise included, in a ``direction`` of length 1."""
        measurement = longest_measurement(_proved(self.channel.task), direction)
        return self.channel.submission(measurement, token.token, token.preimages, self.entropy).body


def longest_measurement(vdaf: Prio3L2BoundSum, direction: Sequence[float]) -> list[int]:
    """The longest vector that the proof lets through, in a ``direction`` of length 1, as far as the range of entries
    allows: rounded towards nothing, and then entries one larger, those first that lost most, up to the length."""
    bounds, length = vdaf.bounds, math.sqrt(vdaf.bounds.max_square)
    most = min(bounds.centre, bounds.max_value - bounds.centre)
    entries = [max(-most, min(most, int(length * part))) for part in direction]
    left = bounds.max_square - sum(one * one for one in entries)
    for at in sorted(range(len(entries)), key=lambda at: abs(entries[at]) - length * abs(direction[at])):
        more = 2 * abs(entries[at]) + 1
        if more <= left and abs(entries[at]) < min(most, length * abs(direction[at])):
            entries[at] += 1 if direction[at] > 0 else -1
            left -= more
    return [bounds.centre + one for one in entries]


class _Boasting(L2BoundSum):
    """Encodes a vector of any length as if it had the largest one allowed."""

    def encode(self, measurement: Sequence[int]) -> list[int]:
        short = [self.bounds.centre] * self.OUTPUT_LEN
        values, noises = measurement[: self.OUTPUT_LEN], measurement[self.OUTPUT_LEN :]
        honest = super().encode([*short, *noises])[self._noise_at : self._square_at]
        bits = [bit for value in values for bit in self.integers.encode(value)]
        return [*bits, *honest, *self.square.encode(self.bounds.max_square)]


def _proved(task: Task) -> Prio3L2BoundSum:
    if not isinstance(task.vdaf, Prio3L2BoundSum):
        raise Refusal("demo-staged", "the rounds do not ask for a proof of the norm")
    return task.vdaf


def _boasting(task: Task) -> Prio3L2BoundSum:
    own = _proved(task)
    vdaf = Prio3L2BoundSum(own.SHARES, own.bounds, own.chunk_length)
    vdaf.flp = FlpBBCGGI19(_Boasting(Field128, own.bounds, own.chunk_length))
    return vdaf


async def refused_file(transport: Transport, server: str, stated: RoundModel, file: bytes) -> StagedRefusal:
    """Put another file than the log names in the place of a round's model ``file``. Refusal ``demo-staged`` where the
    recipe server takes it."""
    what = "another file in the place of the model that the log names"
    try:
        await send_model(transport, server, stated, _another(file))
    except Abort as problem:
        return StagedRefusal(what, "recipe server", str(problem))
    raise Refusal("demo-staged", f"nobody refused {what}")


def bad_models(series: Series, before: Recipe, following: NextRound, clip: PositiveQuantity) -> Iterator[BadRound]:
    """Recipes that an analyst may not publish after the round ``before``, in place of the ``following`` one."""
    stated, recipe = _stating(clip, following.model), following.recipe
    if before.series is None or recipe.series is None:
        raise Refusal("demo-staged", "a recipe is no round")
    second = series.round(before.series.index, before.interval, stated.text())
    yield BadRound("another model for a round that was asked", "series-round", second)
    longer = stated.model_copy(update={"bytes": stated.bytes + FILE_ENTRY})
    other = series.round(recipe.series.index, recipe.interval, longer.text())
    yield BadRound("a round with a model of another size", "round-model", other)


def refused_histories(
    follow: Follow, series: Series, asked: Sequence[Asked], following: NextRound, clip: PositiveQuantity
) -> list[StagedRefusal]:
    """What ``follow`` says of a log with a round that trains another model than follows from the releases, and of one
    whose last release is played again in the round ``following``. Raises ``Refusal`` where it accepts one."""
    (before, documents), recipe = asked[-1], following.recipe
    if recipe.series is None:
        raise Refusal("demo-staged", "the recipe is no round")
    stated = _stating(clip, _another(following.model))
    strange = series.round(recipe.series.index, recipe.interval, stated.text())
    tried: Mapping[str, Asked] = {
        "a round that trains another model than follows from the log": (strange, ()),
        f"the release of {before.name}, replayed in {recipe.name}": (recipe, documents),
    }
    return [StagedRefusal(what, FOLLOWERS, _said(follow, [*asked, last], what)) for what, last in tried.items()]


def _said(follow: Follow, history: Sequence[Asked], what: str) -> str:
    try:
        follow(history)
    except UsageError as error:
        return str(error)
    raise Refusal("demo-staged", f"nobody refused {what}")


def _stating(clip: PositiveQuantity, file: bytes) -> RoundModel:
    return RoundModel(bytes=len(file), clip=clip, model=model_file.name_of(file))


def _another(file: bytes) -> bytes:
    """A file of the same length with another parameter."""
    return spoiled.flip(file, len(file) - FILE_ENTRY)
