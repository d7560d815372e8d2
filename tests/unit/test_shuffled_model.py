"""Model ``shuffled``: what a recipe claims, what is refused, what a bundle holds, and what the servers do with it."""

from __future__ import annotations

import io
import itertools
import math
from array import array
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.recipes import NOW
from infra.lab.kit.reports import issuer_key
from infra.lab.kit.shuffled import CATEGORIES, Bundler, ShuffledKit
from infra.views.recipe_view import show_recipe
from services.analyzer.chunks import read_tally, tally_bytes
from tacit.aggregator.one_server.records import pack
from tacit.dap_errors import ReportRejected
from tacit.dp.shuffled_counts import epsilon_hist, epsilon_zsum, lambda_hist
from tacit.errors import DecodeError, FieldError
from tacit.messages.chunk import MessageChunk
from tacit.methods.base.draws import permutation
from tacit.methods.base.estimate import Estimate
from tacit.methods.estimators.registry import estimator_of
from tacit.methods.estimators.shuffled import shuffled_estimator_of
from tacit.methods.figures import rest_words
from tacit.methods.result import Buckets
from tacit.models.collectors import collector_side
from tacit.models.servers import server_side, shuffler_side
from tacit.models.shuffled.task import counts_of
from tacit.recipe.claims import claim_of
from tacit.recipe.context import Context, Stage
from tacit.recipe.derive import design_of, randomizer_of
from tacit.recipe.model import Recipe
from tacit.recipe.writing.survey import Survey
from tacit.roles.analyzer import AnalyzerParty, Counted, open_reports
from tacit.roles.collector import AggregateResult
from tacit.roles.shuffled import MessageCounter, Tally, Total, shuffle
from tacit.rules.table import check
from tacit.task.shuffled import message_size, split
from tacit.tokens.slots import TokenVerifier

MESSAGE_SIZE = message_size(4)
KIT = ShuffledKit()
SPKI = issuer_key().token_key.spki


def refused(found: Recipe) -> list[str]:
    return [one.rule for one in check(found, KIT.policy, Context(now=NOW, stage=Stage.DRAFT))]


def counter_of(recipe: Recipe) -> MessageCounter:
    bundling = server_side("shuffled").bundling(recipe, SPKI)
    assert bundling is not None
    return MessageCounter(bundling, KIT.hpke_key.key_pair)


def tallied(numbers: Sequence[int], fillers: int, malformed: int = 0) -> Tally:
    return Tally(len(numbers), {cell: count for cell, count in enumerate(numbers) if count}, fillers, malformed)


def bundler(seed: int = 0, **members: Any) -> Bundler:
    return Bundler(KIT.proposed(**members), SeededEntropy(seed), KIT)


@pytest.mark.parametrize("randomizer", ["zsum", "unbiased"])
@pytest.mark.parametrize("encoder", [CATEGORIES, {"kind": "boolean"}])
def test_a_proposed_recipe_passes_every_rule_and_claims_what_the_totals_tell(
    randomizer: str, encoder: dict[str, Any]
) -> None:
    found = KIT.proposed(randomizer=randomizer, encoder=encoder)
    assert refused(found) == []
    assert (found.randomizer.name, found.vdaf, found.privacy.epsilon0) == (randomizer, None, "unbounded")
    size, claim = found.batch.min_batch_size, claim_of(found)
    noise = size * float(counts_of(found).noise_rate)
    exact = (epsilon_zsum if encoder["kind"] == "boolean" else epsilon_hist)(size, noise, 1e-6)
    assert 0.999 < exact <= claim["analyzer_of_shuffled"] <= 1
    assert claim["analyzer_of_shuffled_with_relay"] == claim["release_of_shuffled"] == claim["analyzer_of_shuffled"]
    assert claim["shuffler"] == 0
    assert math.isinf(claim["shuffler_with_analyzer"])


def test_half_of_the_devices_make_half_of_the_noise_and_more_than_b_claim_no_less_noise_than_b() -> None:
    found = KIT.proposed()
    size, rate = found.batch.min_batch_size, float(counts_of(found).noise_rate)
    half = claim_of(found, size // 2)["analyzer_of_shuffled"]
    assert half == pytest.approx(epsilon_hist(size // 2, size // 2 * rate, 1e-6))
    assert half > claim_of(found)["analyzer_of_shuffled"]
    assert claim_of(found, 3 * size)["analyzer_of_shuffled"] == claim_of(found)["analyzer_of_shuffled"]


def test_sampling_is_counted_against_nobody_and_the_noise_is_that_of_b() -> None:
    found = KIT.proposed(rate="0.5", min_batch_size=800)
    assert claim_of(found)["analyzer_of_shuffled"] > 0.999
    exact = lambda_hist(1.0, 1e-6, 800)
    assert exact <= 800 * float(counts_of(found).noise_rate) <= exact * (1 + 1e-6)


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"encoder": {"kind": "number", "low": 0, "high": 9}, "statistic": "sum"}, "model"),
        ({"encoder": CATEGORIES, "randomizer": "krr"}, "randomizer"),
        ({"encoder": CATEGORIES, "model": "local", "randomizer": "zsum"}, "randomizer"),
        ({"encoder": CATEGORIES, "dummies": "5"}, "dummies"),
        ({"encoder": CATEGORIES, "close": "at_B"}, "close"),
    ],
)
def test_a_survey_that_the_model_does_not_answer_names_the_member(members: dict[str, Any], field: str) -> None:
    with pytest.raises(FieldError) as raised:
        Survey.from_body({"model": "shuffled", "name": "words", "metric": "word", "population": 2_000, **members})
    assert raised.value.field == field


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"noise_rate": "0.001"}, "claim-understated"),
        ({"noise_rate": "0.6"}, "randomizer-parameters"),
        ({"noise_rate": "0"}, "randomizer-parameters"),
        ({"categories": 7}, "encoder-mismatch"),
        ({"epsilon0": "1"}, "randomizer-parameters"),
        ({"name": "krr"}, "randomizer-parameters"),
    ],
)
def test_a_recipe_that_was_changed_is_refused(change: dict[str, Any], rule: str) -> None:
    body = KIT.proposed().body()
    body["randomizer"] |= change
    assert rule in refused(Recipe.from_body(body))


@pytest.mark.parametrize("others", ["analyzer", "analyst", "relay", "gateway"])
def test_the_shuffler_has_an_operator_of_its_own(others: str) -> None:
    body = KIT.proposed().body()
    body["parties"]["shuffler"]["operator"] = body["parties"][others]["operator"]
    assert "operators-equal" in refused(Recipe.from_body(body))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 2), min_size=4, max_size=4).filter(lambda counts: sum(counts) <= 5), st.integers(0, 99))
def test_a_bundle_has_one_size_and_the_analyzer_counts_exactly_its_messages(counts: list[int], seed: int) -> None:
    devices = FOUR
    bundle = devices.channel.payload(counts, SeededEntropy(seed))
    counter = counter_of(devices.recipe)
    assert len(bundle) == 5 * MESSAGE_SIZE == devices.channel.task.payload_size
    assert counter.count(bundle) == tallied(counts, 5 - sum(counts))
    assert len(set(split(bundle, MESSAGE_SIZE))) == 5


FOUR = bundler(encoder={"kind": "categories", "categories": list("abcd")}, missing="ignore")


@pytest.mark.parametrize("counts", [[2, 2, 2, 0], [1, 1, 1], [0, 0, 0, -1], [0, 0, 0, 0, 1]])
def test_counts_that_no_device_sends_are_not_sealed(counts: list[int]) -> None:
    with pytest.raises(ValueError, match="4 numbers of messages, at most 5 together"):
        FOUR.channel.payload(counts, SeededEntropy(1))


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=4 * MESSAGE_SIZE), st.integers(0, 4 * MESSAGE_SIZE - 1))
def test_bytes_that_are_no_messages_are_counted_as_malformed_or_refused(data: bytes, at: int) -> None:
    counter = counter_of(FOUR.recipe)
    if len(data) % MESSAGE_SIZE:
        with pytest.raises(ValueError, match="50 bytes each"):
            counter.count(data)
    elif data:
        assert counter.count(data) == tallied([0] * 4, 0, len(data) // MESSAGE_SIZE)
    flipped = bytearray(FOUR.channel.payload([1, 0, 0, 2], SeededEntropy(at))[: 4 * MESSAGE_SIZE])
    flipped[at] ^= 1
    assert counter.count(bytes(flipped)).malformed == 1


def test_a_message_of_another_recipe_or_role_or_number_does_not_count() -> None:
    counter = counter_of(FOUR.recipe)
    other = bundler(name="others", encoder={"kind": "categories", "categories": list("abcd")}, missing="ignore")
    assert counter.count(other.channel.payload([1, 0, 0, 0], SeededEntropy(1))).malformed == 5
    assert counter.count(FOUR.channel.bundling._seal(5, SeededEntropy(1))).malformed == 1
    assert counter.count(FOUR.channel.bundling._seal(4, SeededEntropy(1))).fillers == 1


def test_the_shuffler_opens_a_report_to_the_messages_it_cannot_open() -> None:
    side, devices = shuffler_side("shuffled"), bundler()
    task = side.task(devices.recipe, SPKI)
    reading = side.reading(devices.recipe, None)
    closes = float(task.end_seconds)
    party = AnalyzerParty(task, KIT.shuffler_key.key_pair, TokenVerifier(SPKI, task.slot), reading, closes)
    (body,) = devices.reports("a")
    (found,) = open_reports(party, [task.report_in(body)])
    assert isinstance(found, Counted)
    assert (found.numbers, len(found.record)) == ((1,), reading.record_size)
    counter = MessageCounter(counter_of(devices.recipe).bundling, KIT.shuffler_key.key_pair)
    assert counter.count(found.record).malformed == counts_of(devices.recipe).messages


def test_the_analyzer_takes_no_report_by_itself() -> None:
    with pytest.raises(ReportRejected):
        server_side("shuffled").reading(FOUR.recipe, None).read(bytes(16), b"")


def test_shuffled_messages_are_those_of_all_bundles_and_every_order_is_equally_likely() -> None:
    """Of 4,000 orders of three, each of the six comes up 667 times in expectation; with chi-square below 30.9 for five
    degrees of freedom a fair permutation fails once in 100,000 runs."""
    bundles = [bytes([one]) * MESSAGE_SIZE for one in range(3)]
    entropy, seen = SeededEntropy(b"order"), Counter[bytes]()
    for _ in range(4_000):
        (mixed,) = shuffle(b"".join(bundles), MESSAGE_SIZE, 3, entropy)
        assert sorted(split(mixed, MESSAGE_SIZE)) == bundles
        seen[mixed] += 1
    assert len(seen) == 6
    assert sum((count - 4_000 / 6) ** 2 / (4_000 / 6) for count in seen.values()) < 30.9
    for most, sizes in ((1, [1, 1, 1]), (2, [2, 1]), (5, [3])):
        groups = list(shuffle(b"".join(bundles), MESSAGE_SIZE, most, entropy))
        assert [len(one) // MESSAGE_SIZE for one in groups] == sizes
        assert sorted(split(b"".join(groups), MESSAGE_SIZE)) == bundles
    assert list(permutation(0, entropy)) == []
    with pytest.raises(ValueError, match=f"{MESSAGE_SIZE} bytes each"):
        shuffle(bytes(MESSAGE_SIZE + 1), MESSAGE_SIZE, 3, entropy)


def test_a_word_that_would_favour_a_number_is_drawn_again() -> None:
    """2^64 is one more than a multiple of three: of all words only the greatest would favour 0."""
    drawn: list[int] = []

    def orders(*words: int) -> list[int]:
        given = iter(words)

        def entropy(size: int) -> bytes:
            drawn.append(size // 8)
            return array("Q", itertools.islice(given, size // 8)).tobytes()

        return list(permutation(3, entropy))

    assert orders(2**64 - 1, 1, 0) == orders(1, 0) == [2, 0, 1]
    assert drawn == [2, 1, 2], "one block where nothing is drawn again"
    last_of_three, first_of_two = 2**64 - 2, 2**64 - 1
    assert orders(last_of_three, first_of_two) == [0, 1, 2]
    everything = [tuple(orders(one, other)) for one in range(3) for other in range(2)]
    assert len(set(everything)) == 6, "each pair of places has an order of its own"


def test_chunks_that_hold_no_whole_bundles_are_refused() -> None:
    total = Total(2)
    for one in (tallied([1, 2], 3), tallied([0, 1], 0, 1)):
        total.add(one)
    assert (total.numbers, total.messages, total.bundles(4)) == ((1, 3), 8, 2)
    with pytest.raises(ValueError, match="8 messages are not whole bundles of 3"):
        total.bundles(3)
    with pytest.raises(ValueError, match="another number of cells"):
        total.add(tallied([1, 0, 0], 0))


@pytest.mark.parametrize("held", [{}, {1: 3}, {0: 1, 1: 2**40, 2: 5, 3: 7}])
@pytest.mark.parametrize("cells", [4, 70_000])
def test_a_tally_is_stored_in_the_shorter_of_two_forms(held: dict[int, int], cells: int) -> None:
    tally = Tally(cells, held, 9, 2)
    data = tally_bytes(tally)
    assert read_tally(data, cells) == tally
    assert len(data) == min(8 * (cells + 2), 17 + 12 * len(held))
    assert read_tally(pack((*tally.numbers, 9, 2)), cells) == tally, "as it was stored before"


def result_of(recipe: Recipe, counts: tuple[int, ...], n: int) -> Buckets:
    found = collector_side("shuffled").result(recipe, AggregateResult(n, None, counts))  # type: ignore[arg-type]
    assert isinstance(found, Buckets)
    return found


def test_a_total_that_noise_alone_can_make_is_zero_and_the_result_says_what_that_means() -> None:
    recipe = KIT.proposed()
    found = result_of(recipe, (2_000, 2_001, 2_500, 0), 2_000)
    rate = float(counts_of(recipe).noise_rate)
    assert found.estimate.values[0] == found.estimate.values[3] == 0
    assert found.estimate.values[1] == pytest.approx(1 + 2_000 * rate)
    assert found.estimate.values[2] == pytest.approx(500 + 2_000 * rate)
    assert found.estimate.stderrs[2] == pytest.approx(math.sqrt(2_000 * rate * (1 - rate)))
    cut = shuffled_estimator_of(counts_of(recipe)).zeros_below(2_000, 1.0, 0.025)
    assert cut is not None
    assert found.estimate.stderrs[0] == pytest.approx(cut / 1.96, rel=1e-4)
    assert found.zeros is not None
    assert 2_000 * rate < found.zeros.below < 2_000 * rate + 4 * math.sqrt(2_000 * rate)
    assert found.members()["zeros"] == {"below": found.zeros.below, "probability": 0.95, "false_positive_rate": 0}
    words = rest_words(found.members())
    assert words is not None
    assert words.startswith(f"0 means: fewer than {math.ceil(found.zeros.below)} devices")
    plain = result_of(KIT.proposed(randomizer="unbiased"), (0, 100, 30, 2_000), 2_000)
    assert plain.zeros is None
    assert "zeros" not in plain.members()
    assert min(plain.estimate.values) < 0
    assert isinstance(plain.estimate, Estimate)


@pytest.mark.parametrize(
    ("randomizer", "words"),
    [("zsum", "with probability 1 - 0.02"), ("unbiased", "(at most 4 of them); hidden among others once shuffled")],
)
def test_a_person_reads_how_devices_make_noise_and_who_may_read_what(randomizer: str, words: str) -> None:
    shown = io.StringIO()
    show_recipe(KIT.proposed(randomizer=randomizer), {"state": "active"}, Console(file=shown, width=240))
    assert words in shown.getvalue()
    assert "the shuffler, which sees sealed messages and no result" in shown.getvalue()


def test_the_number_below_which_a_count_may_be_cut_holds_with_its_probability() -> None:
    method = counts_of(KIT.proposed())
    n, rate = 300, float(Decimal(method.noise_rate))
    for chance in (0.05, 0.001):
        below = shuffled_estimator_of(method).zeros_below(n, 1.0, chance)
        assert below is not None
        cut = [math.comb(n, k) * rate**k * (1 - rate) ** (n - k) for k in range(n + 1)]
        assert sum(cut[int(below) :]) <= chance < sum(cut[int(below) - 1 :])
        sampled = shuffled_estimator_of(method).zeros_below(n, 0.5, chance)
        assert sampled is not None
        assert sampled > 2 * below


@given(st.integers(1, 1 << 20), st.data())
def test_a_chunk_is_read_as_it_was_written(total: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, total - 1))
    chunk = MessageChunk(index, total, data.draw(st.binary(min_size=1, max_size=200)))
    assert MessageChunk.decode(chunk.encode()) == chunk
    assert MessageChunk.decode(MessageChunk(0, 0, b"").encode()) == MessageChunk(0, 0, b"")


@given(st.binary(max_size=40))
def test_bytes_are_a_chunk_or_refused(data: bytes) -> None:
    try:
        chunk = MessageChunk.decode(data)
    except DecodeError:
        return
    assert chunk.encode() == data
    assert chunk.index < max(1, chunk.total)
    assert bool(chunk.messages) is bool(chunk.total)


@pytest.mark.parametrize("chunk", [(1, 1, b"m"), (0, 0, b"m"), (0, 1, b""), (0, (1 << 20) + 1, b"m"), (1, 0, b"")])
def test_a_chunk_whose_numbers_do_not_fit_is_refused(chunk: tuple[int, int, bytes]) -> None:
    with pytest.raises(DecodeError, match="index below its total"):
        MessageChunk.decode(MessageChunk(*chunk).encode())


def test_totals_that_so_many_devices_cannot_send_together_are_refused() -> None:
    method, design = randomizer_of(FOUR.recipe), design_of(FOUR.recipe)
    assert sum(estimator_of(method).estimate([50, 0, 0, 0], 10, design).values) > 0
    with pytest.raises(ValueError, match="4 totals of at most 50 together"):
        estimator_of(method).estimate([50, 1, 0, 0], 10, design)


def test_a_device_sends_no_more_messages_than_its_policy_allows() -> None:
    recipe = KIT.stated({"name": "zsum", "categories": 4, "noise_rate": "0.1"})
    assert "result-size" not in [one.rule for one in check(recipe, KIT.policy, Context(Stage.DRAFT, NOW))]
    strict = KIT.policy.model_copy(update={"max_messages": 4})
    (refusal,) = [one for one in check(recipe, strict, Context(Stage.DRAFT, NOW)) if one.rule == "result-size"]
    assert "a device would send 5 messages, but the limit is 4" in refusal.detail
