"""What an answer that is no success means for whoever sent the request: over for good, or to be sent again, and when.

Every sender asks here. Between two parties stand proxies and load balancers, whose pages say nothing about a request:
they limit its rate, are out of turns, lost their server, or do not know its path. So only the peer's own word ends a
request (``is_final``): a problem document of DAP or of a rule of Tacit, with a status that is about the request.
Anything else is sent again, the same bytes (P11, P14).

``Retry-After`` (RFC 9110 section 10.2.3) is honoured by all of them, in both of its forms and up to
``LONGEST_RETRY_AFTER``; ``tacit.backoff.Backoff`` adds what is random. An error carries it on to where the next attempt
is planned (``unanswered``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tacit.errors import DAP_ERROR_PREFIX, REFUSAL_PREFIX
from tacit.ports import TransportError
from tacit.problem import problem_type
from tacit.time_format import read_date_field

PASSING_STATUSES: Final = frozenset({408, 421, 425, 429})
"""Those of 400 to 499 that are about the moment or the connection, not about the request."""
PERMANENT_STATUSES: Final = frozenset({501, 505})
"""Those from 500 on after which the same request gets the same answer."""
PASSING_RULE_ENDS: Final = ("-early", "-room", "-missing")
"""How the names of rules end that refuse a request for now: a clock that is behind, a place that is full, a leaf that
others still have to send."""
LONGEST_RETRY_AFTER: Final = 3600.0
"""Seconds up to which a peer is left alone: longer ones are a mistake, or an attempt to silence the sender."""
_UNRECOGNIZED_TASK = DAP_ERROR_PREFIX + "unrecognizedTask"
_LONGEST_FIELD = 64


def may_pass(status: int) -> bool:
    """Whether the same request may get another answer later, by the status alone: what a person's program repeats."""
    return status in PASSING_STATUSES or (status >= 500 and status not in PERMANENT_STATUSES)


def is_final(status: int, body: bytes) -> bool:
    """Whether the peer itself refuses the request for good: true for an error of DAP, except for a task that it does
    not know yet, and for a refusal by a rule, except for those that pass. Never for what a proxy says."""
    if not 400 <= status < 500 or status in PASSING_STATUSES:
        return False
    kind = problem_type(body)
    if kind.startswith(DAP_ERROR_PREFIX):
        return kind != _UNRECOGNIZED_TASK
    return kind.startswith(REFUSAL_PREFIX) and not kind.endswith(PASSING_RULE_ENDS)


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


def unanswered(words: str, headers: Mapping[str, str], now: float | None = None) -> TransportError:
    """An error for an answer that is none, in ``words``, with the pause that its ``headers`` ask for."""
    return TransportError(words, retry_after=retry_after(headers, now))
