"""Notes what each party could read, while one contribution is followed through the system."""

from __future__ import annotations

from collections.abc import Mapping

from infra.lab.demo.results.result import Sighting
from infra.stacks.options import OPERATORS

NEVER = {
    "attester": "recipe, token, report",
    "issuer": "device, token, recipe",
    "relay": "contents, recipe",
    "gateway": "client address",
    "leader": "the answer, the device",
    "helper": "the answer, the device",
    "shuffler": "message contents, the device",
    "analyzer": "the true answer, the device",
}


class FollowingObserver:
    """Keeps what the services report while a device is followed, and drops everything else.

    Who will take part is not known before the coins are tossed, so several candidates are followed through the
    token phase, each under its own number, and one of them is picked later. Of tokens only those of one slot count.
    """

    def __init__(self) -> None:
        self._candidate: int | None = None
        self._report_id: str | None = None
        self._seen: dict[tuple[int, str | int | None], dict[str, Mapping[str, str | int]]] = {}
        self._aggregators: dict[str, Mapping[str, str | int]] = {}

    def saw(self, party: str, what: Mapping[str, str | int]) -> None:
        """Note what ``party`` could read of the device that acts alone. Aggregators work in batches, so theirs are told
        apart by report id."""
        if "report_id" in what:
            if what["report_id"] == self._report_id:
                self._aggregators[party] = what
        elif self._candidate is not None:
            self._seen.setdefault((self._candidate, what.get("slot")), {})[party] = what

    def follow(self, candidate: int | None) -> None:
        """From now on the device with this number acts alone; None: nobody does."""
        self._candidate = candidate

    def follow_report(self, report_id: str) -> None:
        """From now on keep what the aggregators say of this report."""
        self._report_id = report_id

    def sightings(self, candidate: int, slot: int) -> tuple[Sighting, ...]:
        """What was seen of the candidate and its token of ``slot``, in the order of a contribution's way."""
        own, token = (self._seen.get((candidate, known), {}) for known in (None, slot))
        seen = {**own, **token, **self._aggregators}
        return tuple(
            Sighting(party, OPERATORS[party], seen[party], never) for party, never in NEVER.items() if party in seen
        )
