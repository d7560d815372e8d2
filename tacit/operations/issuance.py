"""Checks whether attester, issuer and aggregators report consistent counts for the tokens of a slot (P15).

All counts only grow, and each is durable before what it counts can have an effect elsewhere:

    contributions <= devices <= requested,   answered <= issued <= requested,   contributions <= issued

The attester counts a device and its request in the transaction that precedes the request, and an answer after it
arrived; the issuer counts a signature before sending it. So only these differences are legitimate:

* ``requested`` above ``issued``: requests that never reached the issuer, or that it refused;
* ``issued`` above ``answered``: answers that were lost, or that the attester had not recorded when it crashed;
* ``requested`` above ``devices``: a device that lost its answer asked again with the same blinded message (one token);
* ``devices`` above ``contributions``: devices that were not sampled, did not answer, or were rejected.

The left side of an inequality is read before the right side, so that requests which arrive in between do not look like
a mismatch. An attacker who signs or attests fewer tokens than there were failed requests stays within these
differences; the rate rule still bounds the content of the batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tacit.errors import DecodeError
from tacit.operations.calls import list_pages
from tacit.ports import Transport

Place = tuple[int, int]
"""An epoch and a slot within it."""

Counts = Mapping[Place, Mapping[str, int]]
_PATH = "/v1/issuance"
_PLACE = ("epoch", "slot")


@dataclass(frozen=True)
class SlotIssuance:
    """The counts of one slot: tokens that the issuer signed (``issued``); devices that the attester admitted, requests
    that it passed on and answers that it got (``devices``, ``requested``, ``answered``); and ``contributions`` that
    leader and helper accepted (the larger count of both). ``recipe``: the name of the slot's recipe, or empty."""

    epoch: int
    slot: int
    recipe: str
    issued: int
    devices: int
    requested: int
    answered: int
    contributions: int

    @property
    def mismatches(self) -> list[str]:
        """One line per inequality that does not hold, with both numbers."""
        checks = (
            (self.issued, "the issuer signed", self.requested, "requests that the attester released"),
            (self.answered, "the attester passed on", self.issued, "tokens that the issuer signed"),
            (self.contributions, "the aggregators accepted", self.issued, "tokens that the issuer signed"),
            (self.contributions, "the aggregators accepted", self.devices, "devices that the attester let in"),
        )
        return [
            f"{what} {count:,}, more than the {bound:,} {which}"
            for count, what, bound, which in checks
            if count > bound
        ]


@dataclass(frozen=True)
class Accepted:
    """The distinct contributions to a recipe in its slot."""

    place: Place
    recipe: str
    contributions: int


async def read_counts(transport: Transport, service: str, url: str, bearer: str) -> Counts:
    """Read the counts of the attester or the issuer at ``url`` with its operator's token ``bearer``. Raises
    ``TacitError`` and ``TransportError``."""
    slots = await list_pages(transport, url + _PATH, "slots", bearer=bearer)
    try:
        return {(row["epoch"], row["slot"]): {k: int(v) for k, v in row.items() if k not in _PLACE} for row in slots}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DecodeError(f"{service}: the issuance counts are malformed") from error


def compare(before: Counts, accepted: Iterable[Accepted], issued: Counts, after: Counts) -> list[SlotIssuance]:
    """Compare the counts of every slot, in order. The arguments must be read in this order: the attester's page, the
    aggregators', the issuer's, the attester's again."""
    owners = {one.place: one for one in accepted}
    slots = []
    for place in sorted({*before, *owners, *issued, *after}):
        first, signed, last = (page.get(place, {}) for page in (before, issued, after))
        owner = owners.get(place, Accepted(place, "", 0))
        slots.append(
            SlotIssuance(
                *place,
                owner.recipe,
                issued=signed.get("issued", 0),
                devices=last.get("devices", 0),
                requested=last.get("requested", 0),
                answered=first.get("answered", 0),
                contributions=owner.contributions,
            )
        )
    return slots


def warn(slots: Iterable[SlotIssuance]) -> None:
    """Log each mismatch with its counts."""
    wrong = [one for one in slots if one.mismatches]
    if wrong:
        from tacit.service.base.log import get_logger

        log = get_logger("status")
        for one in wrong:
            log.warning("issuance_mismatch", **{**vars(one), "mismatches": one.mismatches})
