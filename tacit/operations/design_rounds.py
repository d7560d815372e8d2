"""The search for frequent texts in rounds of a series, made before there are parties, time or tokens for it.

The series is that of ``tacit recipe new --prefixes`` and ``tacit series new``, made by the same functions: which
parties take part, when, and with which tokens enters none of its numbers, so that names and keys of nobody stand in for
them here. It is never written anywhere.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any, Final

from tacit.codec import b64url
from tacit.errors import FieldError, UsageError
from tacit.methods.base.method import Method, plain
from tacit.models.parties import Parties
from tacit.models.secure_aggregation.form import SecureAggregation
from tacit.operations.prefix_rounds import Level, level_of, search_encoder
from tacit.recipe.candidates import Candidates, extensions, most_candidates
from tacit.recipe.derive import design_of, randomizer_of
from tacit.recipe.encoder_specs import Domain, Prefixes, PrefixSearch
from tacit.recipe.policy import Policy
from tacit.recipe.series import Donation, Series
from tacit.recipe.writing.builder import propose
from tacit.recipe.writing.series_builder import (
    Shape,
    expected_contributions,
    propose_series,
    share_taking_part,
    slot_batch,
    slot_rate,
)
from tacit.recipe.writing.survey import Survey
from tacit.rules import series_table

WINDOW_SECONDS: Final = 3600
"""Length of a round where a survey has no ``duration``; it enters no number."""
_PLACED: Final = {"start": 0, "epoch": 0, "slot": 0}
OF_NUMBERS: Final = frozenset(
    {
        "randomizer-not-allowed", "rejection-too-likely", "vdaf-parameters", "sampling-cap", "batch-floor",
        "batch-too-large", "interval-too-long", "delta-cap", "claim-cap", "claim-half-batch", "series-claim",
    }
)  # fmt: skip
"""Rules that neither the parties nor the time decide."""


@dataclass(frozen=True, slots=True)
class RoundsPlan:
    """A series that can be made. ``levels``: bits of the prefixes of each round; ``slots`` (m of SA2's Appendix A): a
    device takes part in the first of so many rounds for which its coin says yes; ``window_seconds`` (K): how long a
    round lasts (None: it was not asked for), ``pause_seconds``: between two. ``epsilon0`` and ``min_batch_size`` (B)
    are those of each round; ``contributions``: expected in each; ``taking_part``: the share of devices that ever
    answer. ``epsilon``: the claim of all rounds together at ``delta``, by adversary, as the series states it; ``asked``
    is the ``--epsilon`` of its recipe. Numbers of recipes are decimal text."""

    levels: tuple[int, ...]
    slots: int
    window_seconds: int | None
    pause_seconds: int
    randomizer: str
    epsilon0: str
    min_batch_size: int
    contributions: tuple[int, ...]
    taking_part: float
    asked: str
    delta: str
    epsilon: dict[str, str]

    def document(self) -> dict[str, Any]:
        """The members, as JSON documents state them."""
        return asdict(self)


def rounds_survey(survey: Survey, method: type[Method]) -> Survey:
    """The survey that asks for prefixes of the texts of ``survey``, of every device, at the B of the series' last
    round: a recipe for a larger batch would have a smaller epsilon than was asked for, and so would its series. Raises
    ``FieldError``."""
    found = survey.encoder
    if not isinstance(found, Domain):
        raise FieldError("encoder", "must be `strings` or `prefixes`")
    given = {name: getattr(survey, name) or usual for name, usual in (("name", "search"), ("metric", "text"))}
    asked = survey.having(
        **given,
        model=SecureAggregation.name,
        statistic=None,
        encoder=found if isinstance(found, PrefixSearch) else _searching(found),
        rate=Decimal(1),
        randomizer=method.NAME,
    )
    rounds = len(_spec(asked).levels)
    batch_size = slot_batch(survey.given("population"), slot_rate(asked.rate, rounds), rounds)
    return asked if batch_size < 1 else asked.having(min_batch_size=batch_size)


def _searching(texts: Domain) -> dict[str, Any]:
    body = {"kind": "prefixes", "length": texts.length, "alphabet": texts.alphabet}
    return {name: value for name, value in body.items() if value is not None}


def _spec(survey: Survey) -> Prefixes:
    spec = survey.question().encoder
    if not isinstance(spec, Prefixes):
        raise FieldError("encoder", "must be `prefixes`")
    return spec


def rounds_series(survey: Survey, pause: int = 0, policy: Policy | None = None) -> Series:
    """The series of a ``rounds_survey``, with a round for each level and as many donation slots, each lasting the
    survey's ``duration``, ``pause`` seconds apart. Raises ``FieldError``, ``UsageError`` or ``Refusal`` where there is
    none, or ``policy`` refuses it."""
    seconds, rounds = survey.duration or WINDOW_SECONDS, len(_spec(survey).levels)
    shape = Shape(rounds, rounds, _PLACED["start"], seconds, rounds, pause)
    if survey.min_batch_size is None:
        raise UsageError(f"{survey.given('population'):,} devices are too few for {rounds} rounds")
    series = propose_series(propose(survey.having(**_PLACED, duration=seconds), nobody()), shape)
    search_encoder(series)
    for refusal in [] if policy is None else series_table.check(series, policy, 0.0):
        if refusal.rule in OF_NUMBERS:
            raise refusal
    return series


def nobody() -> Parties:
    """Parties of the right form that nobody is, for numbers that do not depend on them."""
    key, url = b64url(bytes(32)), "https://nobody.invalid"
    aggregator = {"url": url, "hpke_config": key, "signing_key": key}
    members: dict[str, dict[str, str]] = {
        "analyst": {"signing_key": key},
        "leader": aggregator,
        "helper": aggregator,
        "collector": {"hpke_config": key},
        "relay": {"url": url},
        "gateway": {"signing_key": key},
        "attester": {},
        "issuer": {"name": "nobody", "signing_key": key},
    }
    stated = {role: {"operator": role, **body} for role, body in members.items()}
    return SecureAggregation.parties.model_validate(stated)


def plan_of_rounds(series: Series, survey: Survey) -> RoundsPlan:
    """What a person who chooses has to know of the series of ``survey``, a ``rounds_survey``."""
    probe, donation = series.probe, series.donation or Donation(slots=series.rounds, window_seconds=1)
    return RoundsPlan(
        search_encoder(series).levels,
        donation.slots,
        survey.duration,
        donation.pause,
        probe.randomizer.name,
        str(probe.randomizer.epsilon0),
        probe.batch.min_batch_size,
        tuple(expected_contributions(series, survey.given("population"))),
        share_taking_part(series),
        plain(survey.epsilon),
        series.claim.delta,
        dict(series.claim.epsilon.root),
    )


def expected_levels(series: Series, population: int) -> list[Level]:
    """The rounds as they are expected from so many devices, none of which has a text of the domain."""
    spec, probe, found = search_encoder(series), series.probe, list[Level]()
    method, design = randomizer_of(probe), design_of(probe)
    for bits, reports in zip(spec.levels, expected_contributions(series, population), strict=True):
        room = most_candidates(spec, bits)
        every = None if found else extensions(spec, 0, 0, bits, room)
        candidates = Candidates(bits, tuple(range(room) if every is None else every))
        found.append(level_of(candidates, (0,) * len(candidates.prefixes), max(1, reports), method, design))
    return found
