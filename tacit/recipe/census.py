"""What a census attests: how many devices, at least, meet a recipe's criteria (SA2 5.5).

A census is an ordinary recipe whose question is the device's own attributes. Once its one batch is released, leader and
helper each publish their aggregate share in the log; every reader of the log adds the two up and computes the estimate
itself, so no analyst has to be trusted. The sum is the randomised histogram that the recipe releases anyway, and one
share alone is a uniformly random number: nothing more is revealed. As with every result, both aggregators have to be
trusted: either one could move counts from cell to cell by what it adds to its share.

The floor. A conjunction over some of a census's attributes is the sum of its cells, estimated by the sum of their
estimates. Between two cells the covariance is never positive, whatever the randomizer: with y the randomised one-hot
vector of one device, of which cell j is one with probability p1 for its own category and p0 for another, and I its
sampling coin, what the device adds to cell j is I (y_j - p0), and its expectation over y is zero in all cells but one,
so that the product of two expectations is zero and the covariance is q E[(y_j - p0)(y_l - p0)]. In krr only one cell is
one, which makes that at most 0; the bits of rappor are independent given the answer (the weight bound makes them only
more exclusive), as are the coin flips of noise shares. The sum of the cells' variances is therefore an upper bound of
the sum's, and ``STDERRS`` standard errors are subtracted from the estimate: a floor is higher than the truth with
probability 3e-5 (the normal approximation's tail at 4).

Devices that lack an attribute, or have another value of it, take part like all others (P27). Where the census names a
category for them (``Attributes.missing``), they are counted there. Where it does not, each adds ``missing_adds`` to
every cell, which with krr cannot be told apart from devices with that attribute; so the floor is lowered by what it
would be if no device had any of the attributes: with krr, little is attested without the category.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tacit.codec import unb64url
from tacit.errors import DecodeError, Refusal
from tacit.models.forms import form_of
from tacit.recipe.derive import design_of, randomizer_of, vdaf_of
from tacit.recipe.encoder_specs import Attributes
from tacit.recipe.model import Recipe
from tacit.tlog.statements import CensusShare
from tacit.vdaf.release import added_up

STDERRS = 4.0
"""Number of standard errors between the estimate and the floor."""


@dataclass(frozen=True, slots=True)
class Census:
    """A census for which the log shows all ``shares`` (by role), each signed by its aggregator and for the recipe's own
    task. ``index``: the index of the last share's leaf."""

    recipe: Recipe
    shares: Mapping[str, CensusShare]
    index: int

    @property
    def ordered(self) -> tuple[CensusShare, ...]:
        """The shares in the order of the model's roles."""
        return tuple(self.shares[role] for role in form_of(self.recipe.model).opts_in)

    @property
    def report_count(self) -> int:
        """How many reports the first share sums."""
        return self.ordered[0].report_count

    def asks(self, recipe: Recipe) -> bool:
        """Whether the census counted what ``recipe`` targets: every attribute value of the criteria, in the same
        population, of devices that both can reach, by the recipe's own leader and helper."""
        spec = self.recipe.question.encoder
        return (
            isinstance(spec, Attributes)
            and self.recipe.audience.population == recipe.audience.population
            and all(value in spec.attributes.get(name, ()) for name, value in recipe.criteria.items())
            and _reach(self.recipe) == _reach(recipe)
        )


@dataclass(frozen=True, slots=True)
class Attested:
    """How many devices meet a conjunction: the estimate, its standard error (an upper bound), how much of it may be
    devices without the attributes, and the whole number that counts as attested."""

    estimate: float
    stderr: float
    missing: float = 0.0

    @property
    def floor(self) -> int:
        """The estimate minus ``STDERRS`` standard errors and the devices that may lack the attributes; never
        negative."""
        return max(0, math.floor(self.estimate - STDERRS * self.stderr - self.missing))


def census_for(recipe: Recipe, censuses: Sequence[Census], index: int | None, since: float) -> Census | None:
    """The newest census that asks for the criteria of ``recipe``, was complete in the log before the recipe (whose
    index is ``index``; None: it is not in the log), and whose interval ended after ``since`` (POSIX seconds). Every
    reader of one log finds the same one, whatever is counted later."""
    fitting = (
        census
        for census in censuses
        if (index is None or census.index < index) and census.recipe.interval.end > since and census.asks(recipe)
    )
    return max(fitting, key=lambda census: (census.recipe.interval.end, census.index), default=None)


def counts_of(census: Census) -> tuple[int, ...]:
    """The randomised count of every cell. Raises refusal ``audience-floor`` for two shares that are not from one batch
    of at least B reports, or whose sum is not a valid aggregate."""
    recipe, counted = census.recipe, [share.report_count for share in census.ordered]
    reports = counted[0]
    if set(counted) != {reports}:
        who = " and ".join(form_of(recipe.model).opts_in)
        raise _unusable(census, f"{who} counted {' and '.join(map(str, counted))} reports")
    if reports < recipe.batch.min_batch_size:
        raise _unusable(census, f"{reports} reports are fewer than its B = {recipe.batch.min_batch_size}")
    vdaf = vdaf_of(recipe)
    try:
        shares = [vdaf.decode_agg_share(unb64url(one.aggregate_share)) for one in census.ordered]
        return added_up(vdaf, shares, reports, recipe.aggregator_flips)
    except (DecodeError, ValueError) as error:
        raise _unusable(census, str(error)) from error


def attest(census: Census, criteria: Mapping[str, str]) -> Attested:
    """How many devices have every attribute value of ``criteria``; at most the number that the census counts altogether
    (a device that does not randomise correctly counts more than once). Raises refusal ``audience-floor`` where the
    census cannot say."""
    # the only rule that estimates: whoever checks no recipe of a census loads no estimator
    from tacit.methods.estimators.registry import estimator_of

    recipe, spec = census.recipe, census.recipe.question.encoder
    if not isinstance(spec, Attributes):
        raise _unusable(census, "its question is not that of a census")
    counts = counts_of(census)
    estimator, design = estimator_of(randomizer_of(recipe)), design_of(recipe)
    try:
        estimate = estimator.estimate(counts, census.report_count, design)
    except ValueError as error:
        raise _unusable(census, str(error)) from error
    cells = [number for number, cell in enumerate(spec.cells) if criteria.items() <= cell.items()]
    everybody = census.report_count / float(recipe.rate)
    adds = estimator.missing_adds(design) if spec.missing is None else ()
    return Attested(
        min(everybody, math.fsum(estimate.values[cell] for cell in cells)),
        math.sqrt(math.fsum(estimate.stderrs[cell] ** 2 for cell in cells)),
        everybody * math.fsum(adds[cell] for cell in cells if adds),
    )


def _reach(recipe: Recipe) -> tuple[tuple[str, ...], ...]:
    """Which devices a recipe can reach: those that use this relay and gateway and hold this issuer's tokens. Among the
    devices of another issuer, however many were counted, a recipe may reach few."""
    parties = recipe.parties
    return (
        *((one.operator, one.signing_key) for one in parties.servers().values()),
        (parties.gateway.operator, parties.gateway.signing_key),
        (parties.relay.url,),
        (parties.attester.operator,),
        (parties.issuer.name, parties.issuer.signing_key),
    )


def _unusable(census: Census, why: str) -> Refusal:
    return Refusal("audience-floor", f"census {census.recipe.name} attests nothing: {why}")
