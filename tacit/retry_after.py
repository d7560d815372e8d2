"""For how long an answer asks its reader to be left alone: every sender asks here.

``Retry-After`` (RFC 9110 section 10.2.3) is honoured in both of its forms and up to ``LONGEST_RETRY_AFTER``;
``tacit.backoff.Backoff`` adds what is random. An error carries it on to where the next attempt is planned
(``make_unanswered``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tacit.ports import TransportError
from tacit.time_format import read_date_field

LONGEST_RETRY_AFTER: Final = 3600.0
"""Seconds up to which a peer is left alone: longer ones are a mistake, or an attempt to silence the sender."""
_LONGEST_FIELD = 64


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float:
    """For how many seconds, 0 to ``LONGEST_RETRY_AFTER``, an answer asks to be left alone; 0 where it does not say, or
    not so that it can be read. A date counts from the answer's own ``Date``, or else from ``now``, which is that of
    another clock. ``headers``: by lower-case name."""
    said = headers.get("retry-after", "").strip()[:_LONGEST_FIELD]
    if said.isascii() and said.isdigit():
        return min(float(said), LONGEST_RETRY_AFTER)
    until = read_date_field(said)
    if until is None:
        return 0.0
    sent = read_date_field(headers.get("date", "").strip()[:_LONGEST_FIELD])
    begun = now if sent is None else sent
    return 0.0 if begun is None else min(max(until - begun, 0.0), LONGEST_RETRY_AFTER)


def make_unanswered(words: str, headers: Mapping[str, str], now: float | None = None) -> TransportError:
    """An error for an answer that is none, in ``words``, with the pause that its ``headers`` ask for."""
    return TransportError(words, retry_after=retry_after(headers, now))
