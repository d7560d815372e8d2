"""The ways to ask through a shuffler: by methods of shuffled counts, and for comparison by local reports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal

from tacit.accounting.alternatives import FILL, RATES, SHUFFLED, everyone, half_cap
from tacit.accounting.model_ways import ModelWays
from tacit.accounting.requirements import SHUFFLER, Alternative, Requirements
from tacit.dp.amplification import epsilon_fmt22
from tacit.methods.base.design import SampleDesign
from tacit.methods.base.method import Method
from tacit.methods.estimators.shuffled import shuffled_estimator_of
from tacit.methods.planners.shuffled import shuffled_planner_of
from tacit.methods.registry import methods_for
from tacit.methods.shuffled import ShuffledCounts
from tacit.models.shuffled.form import Shuffled
from tacit.task.shuffled import message_size


class ShuffledWays(ModelWays):
    """The ways of model ``shuffled``."""

    def compared(self, needs: Requirements) -> Iterator[Iterable[Alternative]]:
        """By each method that runs, or by local reports where there is none."""
        methods: list[type[Method] | None] = [method for method in methods_for(needs.shape) if method.IS_SHUFFLED]
        for method in methods or [None]:
            yield ways_to_shuffle(needs, method)

    def stated(
        self, needs: Requirements, made: Method, design: SampleDesign, batch: int, contributions: int
    ) -> Alternative:
        """``shuffled_counts``, for ``needs.epsilon``. Raises ``TypeError`` for a method of another kind."""
        if not isinstance(made, ShuffledCounts):
            raise TypeError(f"{made.NAME} is no method of shuffled counts")
        return shuffled_counts(needs, made, design, batch, contributions, needs.epsilon)


def ways_to_shuffle(needs: Requirements, method: type[Method] | None) -> Iterator[Alternative]:
    """All devices send through a shuffler to one server, without proofs. By ``method``, for counts, at every rate that
    fills a batch: noise of all devices together, so that half of them cost more (P17), and sampling is not counted.
    None: the amplification of local reports, which is compared only. Vectors are not supported."""
    if needs.kind.is_vector:
        return
    if method is None:
        yield from _ways_to_amplify(needs)
        return
    for rate in RATES:
        batch = int(FILL * int(rate * needs.population))
        found = _way_to_count(needs, method, rate, batch) if batch >= 2 else None
        if found is not None:
            yield found


def _ways_to_amplify(needs: Requirements) -> Iterator[Alternative]:
    low, high = needs.epsilon, needs.max_epsilon0
    for _ in range(40):
        middle = (low + high) / 2
        fits = epsilon_fmt22(middle, needs.population, needs.delta) <= needs.epsilon
        low, high = (middle, high) if fits else (low, middle)
    yield next(everyone(needs, SHUFFLED, low))


def _way_to_count(needs: Requirements, method: type[Method], rate: float, batch: int) -> Alternative | None:
    if not issubclass(method, ShuffledCounts):
        return None
    try:
        planner = shuffled_planner_of(method)
        kept = planner.epsilon_kept(needs.shape, batch, needs.delta, half_cap(needs, 1.0, batch))
        inner = min(needs.epsilon, needs.max_with_relay, kept)
        made = planner.tuned(needs.shape, Decimal(repr(inner)), batch, needs.delta)
    except ValueError:
        return None
    return shuffled_counts(needs, made, SampleDesign(rate), batch, int(rate * needs.population), inner)


def shuffled_counts(
    needs: Requirements, made: ShuffledCounts, design: SampleDesign, batch: int, contributions: int, inner: float
) -> Alternative:
    """The way to count behind a shuffler that ``made`` is. Its error is at least that of an answer that is not cut to
    0, even where an even spread leaves all of them to be cut."""
    estimator = shuffled_estimator_of(made)
    (shown,) = estimator.expected_stderrs([needs.holders], needs.population, design)
    error = max(shown, estimator.expected_error(needs.holders, needs.population, design))
    allowed = (
        batch >= needs.min_batch_size
        and made.messages <= needs.max_messages
        and inner <= needs.max_with_relay
        and made.aggregate_epsilon(max(1, batch // 2), needs.delta) <= half_cap(needs, 1.0, batch)
    )
    return Alternative(
        SHUFFLED, made.NAME, design.rate, batch, contributions, error, method=made, inner=inner,
        upload_bytes=made.messages * message_size(made.cells), available=allowed and needs.model == Shuffled.name,
        form=Shuffled.name, allowed=allowed, trust=SHUFFLER, messages=made.messages,
    )  # fmt: skip
