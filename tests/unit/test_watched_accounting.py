"""What watched events cost and how exact they are: the tables of the privacy mathematics, and tiny populations whose
every outcome, from the stream of events to what a server decrypts, is compared with the claim."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction

import pytest

from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.recipes import changed
from infra.lab.kit.watched import ONE, TWO, WatchingKit
from tacit.dp.claim import Claim
from tacit.dp.gaussian import sigma_gaussian
from tacit.dp.rr_exact import epsilon_two_cells, rappor_flip
from tacit.errors import UsageError
from tacit.methods.base.design import SampleDesign
from tacit.methods.base.draws import ONE as CERTAIN
from tacit.methods.base.draws import keep_threshold
from tacit.methods.estimators.registry import estimator_of
from tacit.methods.flips import Flips
from tacit.panprivate.discrete_logarithm import DiscreteLogarithm
from tacit.panprivate.elgamal import Ciphertext, PrivateKey
from tacit.panprivate.single_server import NonZero, Occurrences
from tacit.panprivate.two_servers import SharedNonZero, Sharing, opened_share, sealed_shares
from tacit.recipe.claims import claim_of
from tacit.recipe.derive import randomizer_of
from tacit.recipe.model import Recipe
from tacit.vdaf.count_vec import Prio3CountVec

KIT = WatchingKit()
DRAW = SeededEntropy(b"watched accounting")
KEY = PrivateKey.generate(DRAW)
EVERYBODY = SampleDesign(1.0)
DELTA = "0.00000001"
Outcomes = Mapping[tuple[int, ...], Fraction]
"""What a server decrypts, with its probability."""
Found = defaultdict[tuple[int, ...], Fraction]

COUNTS = [
    (10_000, 1, 96.0, 0.0564, 0.0470, 197.9, 0.0311),
    (10_000, 2, 42.5, 0.1460, 0.1127, 96.0, 0.0665),
    (10_000, 4, 13.8, 0.5145, 0.4043, 42.5, 0.1560),
    (100_000, 1, 303.4, 0.0169, 0.0139, 625.9, 0.0093),
    (100_000, 2, 134.5, 0.0437, 0.0328, 303.4, 0.0199),
    (100_000, 4, 43.6, 0.1507, 0.1097, 134.5, 0.0467),
]
"""n, epsilon0; a count's standard error, its epsilon by shuffling and exactly; a histogram cell's error and epsilon.
The claim's exact numbers are the worst over what the others hold, which is up to 3 % above the table's: there a
histogram's others hold neither category, and of a count none or half of them a 1."""


def asked(model: str, statistic: str, n: int, epsilon0: int) -> Recipe:
    """Of n devices that all take part, with B = n."""
    recipe = KIT.watched_recipe(
        model, statistic, population=n, rate=Decimal(1), min_batch_size=n, delta=Decimal(DELTA), epsilon=Decimal(1)
    )
    return changed(recipe, "randomizer.epsilon0", str(epsilon0))


@pytest.mark.parametrize(("n", "epsilon0", "count", "shuffled", "exact", "cell", "joint"), COUNTS)
def test_errors_and_epsilons_are_those_of_the_table(
    n: int, epsilon0: int, count: float, shuffled: float, exact: float, cell: float, joint: float
) -> None:
    for statistic, stderr, epsilon in (("count", count, exact), ("histogram", cell, joint)):
        one = asked(ONE, statistic, n, epsilon0)
        method = randomizer_of(one)
        truth = [n / 4] if statistic == "count" else [n / 4, n / 2, n / 4, 0, 0]
        assert estimator_of(method).expected_stderrs(truth, n, EVERYBODY)[0] == pytest.approx(stderr, abs=0.06)
        claim = claim_of(one)
        assert claim["analyzer"] == epsilon0
        assert epsilon - 6e-5 <= claim["release"] <= 1.03 * epsilon + 6e-5
        assert claim_of(asked(TWO, statistic, n, epsilon0))["aggregator"] == claim["release"]
    assert randomizer_of(asked(ONE, "count", n, epsilon0)).reports_epsilon(n, float(DELTA)) == pytest.approx(
        shuffled, abs=1e-4
    )
    neither = epsilon_two_cells(rappor_flip(epsilon0), n, float(DELTA), others_hold_neither=True)
    assert neither == pytest.approx(joint, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon0", "exact", "joint"), [(1, 0.0041, 0.0027), (2, 0.0097, 0.0059), (4, 0.0320, 0.0139)]
)
def test_so_they_are_for_a_million_devices(epsilon0: int, exact: float, joint: float) -> None:
    for statistic, epsilon in (("count", exact), ("histogram", joint)):
        release = claim_of(asked(ONE, statistic, 1_000_000, epsilon0))["release"]
        assert epsilon - 6e-5 <= release <= 1.03 * epsilon + 6e-5


@pytest.mark.parametrize(("k", "more"), [(1, 0.06), (4, 0.005), (16, 0.0005)])
@pytest.mark.parametrize("n", [10_000, 100_000])
def test_the_noise_of_a_mean_is_k_times_a_gaussians_and_a_little_more(k: int, more: float, n: int) -> None:
    """Variance k^2 sigma^2 for each device at (1, 10^-6), sigma = 4.2247: k = 4 and n = 10^4 make 1690 in the sum. The
    few coin flips of a small k have another tail than a Gaussian: 6 % more error at k = 1, 0.5 % at 4, 0.05 % at 16."""
    recipe = KIT.watched_recipe(ONE, "mean", encoder=encoder(k), population=n, rate=Decimal(1))
    method = randomizer_of(recipe)
    assert isinstance(method, Flips)
    assert claim_of(recipe)["analyzer"] <= 1
    gaussian = k * sigma_gaussian(1.0, 1e-6) * math.sqrt(n)
    assert gaussian == pytest.approx(k * 4.2247 * math.sqrt(n), rel=1e-4)
    summed = n * estimator_of(method).expected_stderrs([k / 2], n, EVERYBODY)[0]
    assert gaussian <= summed <= (1 + more) * gaussian


def test_so_many_flips_that_they_cannot_all_be_summed_are_claimed_for_fewer_devices() -> None:
    """At k = 16 a device flips 18,285 coins: 10^9 of them are those of 54,689 devices."""
    few = KIT.watched_recipe(
        ONE, "mean", encoder=encoder(16), population=54_689, rate=Decimal(1), min_batch_size=54_689
    )
    many = changed(few, "batch.min_batch_size", 1_000_000)
    assert claim_of(many)["release"] == claim_of(few)["release"] < claim_of(few, 20_000)["release"]


def encoder(k: int) -> dict[str, object]:
    spec = KIT.watched_survey(ONE, "mean").encoder
    assert spec is not None
    return {**dict(spec), "most": k}


def test_a_device_adds_65536_flips_at_most_so_that_far_counts_need_more_epsilon() -> None:
    with pytest.raises(UsageError, match="count fewer, or allow more epsilon"):
        KIT.watched_recipe(ONE, "mean", encoder=encoder(64))
    assert claim_of(KIT.watched_recipe(ONE, "mean", encoder=encoder(64), epsilon=Decimal(4)))["analyzer"] <= 4


# Tiny populations, outcome by outcome


def scripted(draws: list[bytes]) -> Callable[[int], bytes]:
    """The given draws where their size is asked for, in their order; all others are of no consequence."""
    left = list(draws)

    def entropy(size: int) -> bytes:
        return left.pop(0) if left and len(left[0]) == size else DRAW(size)

    return entropy


def classes(keep: int) -> Iterator[tuple[Fraction, list[bytes]]]:
    """The draws of one cell: kept or replaced, and the coin, with their probabilities."""
    edge = 2 * keep - CERTAIN
    for low, high in ((0, edge), (edge, CERTAIN)):
        for coin in (0, 1):
            yield Fraction(high - low, 2 * CERTAIN), [low.to_bytes(16, "big"), bytes([coin])]


def bits(cells: tuple[Ciphertext, ...]) -> tuple[int, ...]:
    return tuple(KEY.open_bit(cell.encode()) for cell in cells)


def streams(steps: int = 3) -> list[tuple[int, ...]]:
    """One stream of steps for each number of events, the events last."""
    return [tuple(int(step >= steps - events) for step in range(steps)) for events in range(steps + 1)]


def added(first: Outcomes, second: Outcomes) -> Outcomes:
    """The outcomes of the sum of two devices' numbers."""
    total: Found = defaultdict(Fraction)
    for (one, p), (other, q) in itertools.product(first.items(), second.items()):
        total[tuple(map(sum, zip(one, other, strict=True)))] += p * q
    return total


def delta_of(first: Outcomes, second: Outcomes, epsilon: float) -> float:
    """The hockey stick between two distributions."""
    growth = Fraction(math.exp(epsilon))
    return float(
        sum(
            (max(Fraction(0), p - growth * second.get(one, Fraction(0))) for one, p in first.items()), start=Fraction(0)
        )
    )


def check(devices: list[Outcomes], claim: Claim, alone: str, summed: str, delta: float) -> None:
    """No two streams of one device can be told apart by more than the claim says: by its own report against ``alone``,
    by the sum with one other device's, whatever that one's stream, against ``summed`` (at n = 2), which is reached."""
    assert all(sum(one.values()) == 1 for one in devices)
    worst = 0.0
    for one, other in itertools.permutations(devices, 2):
        assert delta_of(one, other, claim[alone] * (1 + 1e-9)) <= delta * (1 + 1e-6)
        for beside in devices:
            found = delta_of(added(one, beside), added(other, beside), claim[summed])
            assert found <= delta * (1 + 1e-6)
            worst = max(worst, delta_of(added(one, beside), added(other, beside), 0.98 * claim[summed]))
    assert worst > delta


def tiny(model: str, statistic: str, delta: str, randomizer: dict[str, object]) -> Claim:
    """The claim of such a recipe with k = 2 and B = 2."""
    recipe = KIT.watched_recipe(model, statistic, **({} if statistic == "count" else {"encoder": encoder(2)}))
    for path, value in (("batch.min_batch_size", 2), ("privacy.delta", delta), ("sampling.rate", "1")):
        recipe = changed(recipe, path, value)
    body = recipe.body()
    return claim_of(changed(recipe, "randomizer", {**body["randomizer"], **randomizer}))


def test_every_outcome_of_a_count_with_one_server_keeps_the_claim() -> None:
    machine, epsilon0, devices = NonZero(KEY.public_key()), Decimal("1.5"), list[Outcomes]()
    for stream in streams():
        state = machine.initial(DRAW)
        for event in stream:
            state = machine.step(event, state, DRAW)
        found: Found = defaultdict(Fraction)
        for weight, draws in classes(keep_threshold(epsilon0, 1)):
            found[bits(machine.answer(state, epsilon0, scripted(draws)))] += weight
        devices.append(found)
    claim = tiny(ONE, "count", "0.05", {"epsilon0": "1.5"})
    check(devices, claim, "analyzer", "release", 0.05)
    assert delta_of(devices[0], devices[1], 1.5 * (1 + 1e-12)) == pytest.approx(0, abs=1e-12)
    assert delta_of(devices[0], devices[1], 1.49) > 0


def test_every_outcome_of_a_histogram_with_one_server_keeps_the_claim() -> None:
    machine, epsilon0, devices = Occurrences(KEY.public_key(), 2), Decimal("1.5"), list[Outcomes]()
    each = list(classes(keep_threshold(epsilon0 / 2, 1)))
    for stream in streams():
        state = machine.initial(DRAW)
        for event in stream:
            state = machine.step(event, state, DRAW)
        found: Found = defaultdict(Fraction)
        for cells in itertools.product(each, repeat=3):
            draws = [one for _, part in cells for one in (*part, DRAW(64))]
            weight = math.prod((part for part, _ in cells), start=Fraction(1))
            found[bits(machine.histogram(state, epsilon0, scripted(draws)))] += weight
        devices.append(found)
    claim = tiny(ONE, "histogram", "0.05", {"epsilon0": "1.5", "categories": 3, "max_weight": 3})
    check(devices, claim, "analyzer", "release", 0.05)


def test_every_outcome_of_a_mean_keeps_the_claim_although_a_device_is_alone() -> None:
    machine, scale, flips, devices = Occurrences(KEY.public_key(), 2), 1, 7, list[Outcomes]()
    decode = DiscreteLogarithm(0, 2 * scale + flips)
    for stream in streams():
        state = machine.initial(DRAW)
        for event in stream:
            state = machine.step(event, state, DRAW)
        found: Found = defaultdict(Fraction)
        for drawn in range(1 << flips):
            sent = machine.mean(state, scale, flips, scripted([bytes([drawn])]))
            found[(decode.of(KEY.decrypt(sent)),)] += Fraction(1, 1 << flips)
        devices.append(found)
    claim = tiny(ONE, "mean", "0.1", {"scale": scale, "flips": flips, "maximum": 2})
    assert math.isfinite(claim["analyzer"])
    check(devices, claim, "analyzer", "release", 0.1)


def test_every_outcome_of_a_count_with_two_servers_keeps_the_claim() -> None:
    keys = (PrivateKey.generate(DRAW), PrivateKey.generate(DRAW))
    machine = SharedNonZero(Sharing(keys[0].public_key(), keys[1].public_key(), b"a task"))
    vdaf, devices = Prio3CountVec(2, 1), list[Outcomes]()
    for stream in streams():
        state = machine.initial(DRAW)
        for event in stream:
            state = machine.step(event, state, DRAW)
        found: Found = defaultdict(Fraction)
        for weight, draws in classes(keep_threshold(Decimal("1.5"), 1)):
            answer = machine.answer(state, Decimal("1.5"), scripted(draws))
            opened = (
                vdaf.decode_input_share(role, opened_share(keys[role], role, 1, sealed))
                for role, sealed in enumerate(sealed_shares(answer))
            )
            pairs = [
                vdaf.verify_init(bytes(32), b"a task", role, None, bytes(16), None, share)
                for role, share in enumerate(opened)
            ]
            message = vdaf.verifier_shares_to_message(b"a task", None, [verifier for _, verifier in pairs])
            outs = [vdaf.verify_next(b"a task", kept, message) for kept, _ in pairs]
            found[tuple(map(int, vdaf.unshard(None, outs, 1)))] += weight
        devices.append(found)
    claim = tiny(TWO, "count", "0.05", {"epsilon0": "1.5"})
    check(devices, claim, "both_aggregators_with_relay", "aggregator", 0.05)
